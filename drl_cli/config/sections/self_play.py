"""Keys of self-play: the trained policy plays against frozen copies of itself and scripted opponents.

The section ``multiagent.self_play``; self-play is off without opponents. Sources: Silver et al. 2017 (arXiv 1712.01815:
play against oneself), Vinyals et al. 2019 (AlphaStar: prioritised fictitious self-play).
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
        "Number of frozen copies of the learner kept as opponents; a new copy then replaces the oldest.",
    )
    scripted: _Names = key(
        (),
        "Scripted opponents in training: random (any legal action), those bundled with drl, and those "
        "registered with drl_cli.register_opponent.",
        allowed="a list of names",
    )
    own_share: _Share = key(
        0.5, "Fraction of episodes in which the learner plays all sides; the others are played against opponents."
    )
    freeze_interval: Annotated[Whole, Field(ge=1)] | None = key(
        20_000, "Interval at which a copy is frozen; null: not at intervals.", "steps"
    )
    freeze_win_rate: Annotated[float, Field(gt=0.0, le=1.0)] | None = key(
        None,
        "A copy is frozen as soon as the learner's win rate against the newest copy reaches this; null: not by win rate.",
    )
    choose: Literal["newest", "uniform", "prioritised"] = key(
        "uniform",
        "How opponents are sampled: newest (the newest copy and the scripted ones), uniform, or prioritised (in proportion to "
        "the share of games that the learner does not win, to the power of priority_power).",
    )
    priority_power: Annotated[float, Field(gt=0.0, le=100.0)] = key(
        2.0, "Exponent p of (1 − win rate)^p in prioritised sampling of opponents."
    )
    win_window: Annotated[Whole, Field(ge=1, le=100_000)] = key(
        100, "Number of latest games against an opponent over which its win rate is computed.", "games"
    )
    evaluate_against: Annotated[tuple[OpponentName, ...], Field(strict=False, min_length=1, max_length=100)] = key(
        ("random",),
        "Scripted opponents in evaluations, played in turn on every side; the score is the learner's return.",
        allowed="a list of one name or more",
    )

    @property
    def is_on(self) -> bool:
        """Whether any opponent is configured."""
        return bool(self.opponents or self.scripted)

    @model_validator(mode="after")
    def _freezes_somehow(self) -> Self:
        if self.opponents and self.freeze_interval is None and self.freeze_win_rate is None:
            raise MisfitError("freeze_interval", "no copy would ever be frozen; set it or freeze_win_rate")
        return self
