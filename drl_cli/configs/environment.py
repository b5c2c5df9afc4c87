"""Keys of the environment and of what passes between it and the policy.

Mixed into the config of every algorithm. Key names and meanings are RLlib's (COMMON_CONFIG, 1.0.1).
"""

from typing import Annotated

from pydantic import AfterValidator, Field

from drl_cli.configs.schema import PlainMapping, Range, Section, Whole, key


def _ordered(pair):
    if max(map(abs, pair)) > 1e9:
        raise ValueError("beyond ±1e9")
    if pair[0] >= pair[1]:
        raise ValueError("the first number must be the lower one")
    return pair


ClipRewards = bool | Annotated[float, Field(gt=0, le=1e9)] | Annotated[Range, AfterValidator(_ordered)] | None


class EnvironmentKeys(Section):
    """Which environment, and how rewards and actions pass."""

    env: str | None = key(
        None,
        "The gymnasium id of the environment; the same as --env.",
        allowed="a gymnasium id",
        min_length=1,
        max_length=200,
    )
    env_config: PlainMapping = key({}, "Keyword arguments of gymnasium.make for this environment, plain data.")
    gamma: float = key(0.99, "Discount of the reward per env step.", ge=0, le=1)
    horizon: Whole | None = key(
        None,
        "Cut episodes (truncated, not terminated) after this many steps; null leaves it to the environment's own "
        "limit.",
        "env steps",
        ge=1,
    )
    normalize_actions: bool = key(
        True,
        "The policy acts in [-1, 1] and its actions are stretched to the bounds of the action space.",
    )
    clip_actions: bool = key(True, "Clip actions to the bounds of the action space before they reach the environment.")
    clip_rewards: ClipRewards = key(
        None,
        "Limit rewards before they are learnt from: null or false never, true to their sign, x to [-x, x], or "
        "[low, high]. "
        "Reported rewards stay as they were.",
        allowed="true, false, null, a number in (0, 1e9], or [low, high]",
    )
