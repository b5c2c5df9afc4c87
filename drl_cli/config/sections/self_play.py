"""Keys of self-play: the policy that learns plays against frozen copies of itself, and against opponents by name.

The section ``multiagent.self_play``; without opponents it does nothing. Sources: Silver et al. 2017 (arXiv 1712.01815: play against
oneself), Vinyals et al. 2019 (AlphaStar: prioritised fictitious self-play).
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from drl_cli.config.schema import MisfitError, Section, Whole, key

LEARNER = "main"  # id of the policy that learns; its copies are main_0, main_1, …

OpponentName = Annotated[str, Field(min_length=1, max_length=200)]
_Names = Annotated[tuple[OpponentName, ...], Field(strict=False, max_length=100)]
_Share = Annotated[float, Field(ge=0.0, le=1.0)]


class SelfPlayConfig(Section):
    """Opponents of a policy that plays against itself."""

    opponents: Annotated[Whole, Field(ge=0, le=100)] = key(
        0,
        "Frozen copies of the learner that are kept as opponents; when all places are taken, the oldest copy is replaced.",
    )
    scripted: _Names = key(
        (),
        "Opponents by name that take part in training: random (any legal action), those that come with drl, and those "
        "registered with drl_cli.register_opponent.",
        allowed="a list of names",
    )
    own_share: _Share = key(
        0.5, "Share of the episodes in which the learner plays all sides; the rest is played against opponents."
    )
    freeze_interval: Annotated[Whole, Field(ge=1)] | None = key(
        20_000, "A copy is frozen so long after the one before; null: not by time.", "steps"
    )
    freeze_win_rate: Annotated[float, Field(gt=0.0, le=1.0)] | None = key(
        None,
        "A copy is frozen as soon as the learner's win rate against the newest copy reaches this; null: not by it.",
    )
    choose: Literal["newest", "uniform", "prioritised"] = key(
        "uniform",
        "Which opponent is met: newest (the newest copy, and those by name), uniform (any), or prioritised (in proportion to "
        "the share of games that the learner does not win, to the power of priority_power).",
    )
    priority_power: Annotated[float, Field(gt=0.0, le=100.0)] = key(
        2.0, "Exponent p of (1 − win rate)^p where opponents are chosen as prioritised."
    )
    win_window: Annotated[Whole, Field(ge=1, le=100_000)] = key(
        100, "Win rates are over so many of the latest games against an opponent.", "games"
    )
    evaluate_against: Annotated[tuple[OpponentName, ...], Field(strict=False, min_length=1, max_length=100)] = key(
        ("random",),
        "Opponents by name in evaluations, in turn, with sides exchanged; the score is the learner's return.",
        allowed="a list of one name or more",
    )

    @property
    def is_on(self) -> bool:
        """Whether there is anybody to play against."""
        return bool(self.opponents or self.scripted)

    @model_validator(mode="after")
    def _freezes_somehow(self) -> Self:
        if self.opponents and self.freeze_interval is None and self.freeze_win_rate is None:
            raise MisfitError("freeze_interval", "no copy would ever be frozen; give it, or freeze_win_rate")
        return self
