"""Keys of the environment and of what passes between it and the policy.

Mixed into the config of every algorithm. Key names and meanings are RLlib's (COMMON_CONFIG, 1.0.1).
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from drl_cli.config.env_names import named_wrappers
from drl_cli.config.schema import PlainMapping, Range, Section, Whole, key
from drl_cli.config.sections.multi_agent import MultiAgentConfig


def _ordered(pair: tuple[float, float]) -> tuple[float, float]:
    if max(map(abs, pair)) > 1e9:
        raise ValueError("beyond ±1e9")
    if pair[0] >= pair[1]:
        raise ValueError("the first number must be the lower one")
    return pair


ClipRewards = bool | Annotated[float, Field(gt=0, le=1e9)] | Annotated[Range, AfterValidator(_ordered)] | None


def _named(value: tuple[Any, ...]) -> tuple[Any, ...]:
    named_wrappers(value)
    return value


Wrappers = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=200)] | PlainMapping, ...],
    Field(strict=False, max_length=32),
    AfterValidator(_named),
]


class EnvironmentKeys(Section):
    """Which environment, and what happens to rewards and actions on the way."""

    takes_scaled_rewards: ClassVar[bool] = True  # false: the algorithm refuses clip_rewards and reward_scaling

    env: str | None = key(
        None,
        "The gymnasium id of the environment; the same as --env.",
        allowed="a gymnasium id",
        min_length=1,
        max_length=200,
    )
    env_config: PlainMapping = key({}, "Keyword arguments of gymnasium.make for this environment, plain data.")
    env_wrappers: Wrappers = key(
        (),
        "Wrappers around each environment, the first innermost: names of gymnasium.wrappers (FrameStackObservation, "
        "StickyAction, TimeAwareObservation, …) and those that a module of --import, or an installed package, has registered "
        "(drl_cli.register_env_wrapper). Rewards and scores are those that the last one returns.",
        allowed="a list of names and of mappings {name: {keyword: value}}",
    )
    env_task_fn: str | None = key(
        None,
        "A curriculum: the name under which a module of --import, or an installed package, has registered a function "
        "(drl_cli.register_env_task_fn). It is called after every iteration, and the task that it returns is set on all "
        "environments (set_task or set_phase).",
        allowed="the name of a registered task function, or null",
        min_length=1,
        max_length=200,
    )
    fresh_envs: bool = key(
        False,
        "Construct a new environment for every training and evaluation episode; false resets the existing one with "
        "a seed, so that wrapper statistics and curricula persist. With true, runs resume bit for bit even if a "
        "seeded reset does not clear all state (see drl env check), at the cost of one constructor call per "
        "episode.",
    )
    gamma: float = key(0.99, "Discount factor per env step.", ge=0, le=1)
    horizon: Whole | None = key(
        None,
        "Truncate episodes after this many steps; null uses only the environment's own limit.",
        "env steps",
        ge=1,
    )
    env_timeout_s: float | None = key(
        300.0,
        "How long a reset, a step or a constructor of an environment may take. A longer one ends a run without workers (exit "
        "code 3, after saving what was learnt), and costs the episode of an environment in a process of its own "
        "(remote_worker_envs). A worker may take as long for its first fragment. null: without a limit.",
        "seconds",
        ge=1,
        le=1e6,
    )
    normalize_actions: bool = key(
        True,
        "The policy acts in [-1, 1] and its actions are rescaled to the bounds of the action space.",
        rllib=False,
        why=(
            "a policy whose actions start near 0 with a standard deviation near 1 covers any action space; as in "
            "RLlib 1.13"
        ),
    )
    clip_actions: bool = key(
        True, "Clip actions to the bounds of the action space before they are sent to the environment."
    )
    clip_rewards: ClipRewards = key(
        None,
        "Clip rewards for training: true to their sign, x to [-x, x], or [low, high]; false: no clipping; null: "
        "true for Atari games with preprocessor_pref deepmind, otherwise false. Reported rewards are not clipped.",
        allowed="true, false, null, a number in (0, 1e9], or [low, high]",
    )
    reward_scaling: bool = key(
        False,
        "Divide training rewards by the running standard deviation of the discounted return, so that returns are of "
        "the order of 1 whatever the environment's units. Applied after clip_rewards; reported rewards are not "
        "scaled.",
    )
    preprocessor_pref: Literal["deepmind", "rllib"] | None = key(
        "deepmind",
        "Preprocessing of Atari games: deepmind starts them with up to 30 no-ops and with FIRE where required, "
        "skips four frames unless the game does, ends training episodes on loss of a life, and returns 84x84 "
        "grayscale frames in stacks of four; rllib only resizes to 84x84; null does nothing. The keys of model "
        "change size, colour and stacks. No effect on other environments.",
    )
    multiagent: MultiAgentConfig = key(MultiAgentConfig(), "The policies of an environment with several agents.")
