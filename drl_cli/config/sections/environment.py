"""Keys of the environment and of what passes between it and the policy.

Mixed into the config of every algorithm. Key names and meanings are RLlib's (COMMON_CONFIG, 1.0.1).
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from drl_cli.config.schema import PlainMapping, Range, Section, Whole, key
from drl_cli.config.sections.multi_agent import MultiAgentConfig


def _ordered(pair: tuple[float, float]) -> tuple[float, float]:
    if max(map(abs, pair)) > 1e9:
        raise ValueError("beyond ±1e9")
    if pair[0] >= pair[1]:
        raise ValueError("the first number must be the lower one")
    return pair


ClipRewards = bool | Annotated[float, Field(gt=0, le=1e9)] | Annotated[Range, AfterValidator(_ordered)] | None


class EnvironmentKeys(Section):
    """Which environment, and what happens to rewards and actions on the way."""

    env: str | None = key(
        None,
        "The gymnasium id of the environment; the same as --env.",
        allowed="a gymnasium id",
        min_length=1,
        max_length=200,
    )
    env_config: PlainMapping = key({}, "Keyword arguments of gymnasium.make for this environment, plain data.")
    fresh_envs: bool = key(
        False,
        "Make a new environment for every episode, of training and of evaluations; false resets the one that there is with a "
        "seed, so that statistics of wrappers and curricula live on. Runs can then be resumed bit for bit also where a reset "
        "with a seed does not forget all that was before (drl env check says so), for the price of a constructor an episode.",
    )
    gamma: float = key(0.99, "Discount of the reward per env step.", ge=0, le=1)
    horizon: Whole | None = key(
        None,
        "Cut episodes (truncated, not terminated) after this many steps; null leaves it to the environment's own limit.",
        "env steps",
        ge=1,
    )
    normalize_actions: bool = key(
        True,
        "The policy acts in [-1, 1] and its actions are stretched to the bounds of the action space.",
        rllib=False,
        why="a policy whose actions start near 0, with a deviation near 1, covers any action space; as in RLlib 1.13",
    )
    clip_actions: bool = key(True, "Clip actions to the bounds of the action space before they reach the environment.")
    clip_rewards: ClipRewards = key(
        None,
        "Limit rewards before they are learnt from: true to their sign, x to [-x, x], or [low, high], false never; null "
        "is true for Atari games with preprocessor_pref deepmind, else false. Reported rewards stay as they were.",
        allowed="true, false, null, a number in (0, 1e9], or [low, high]",
    )
    reward_scaling: bool = key(
        False,
        "Divide the rewards that are learnt from by the running deviation of the discounted return, so that returns are of "
        "the order of 1 whatever the environment's units. Behind clip_rewards; reported rewards stay as they were.",
    )
    preprocessor_pref: Literal["deepmind", "rllib"] | None = key(
        "deepmind",
        "How Atari games are made ready, and nothing else: deepmind starts them with up to 30 no-ops and with FIRE where "
        "they wait for it, skips four frames where the game does not, ends training episodes when a life is lost, and "
        "gives 84x84 grays in stacks of four; rllib only resizes to 84x84; null leaves them as they are. The keys of "
        "model change size, colour and stacks.",
    )
    multiagent: MultiAgentConfig = key(MultiAgentConfig(), "The policies of an environment with several agents.")
