"""Keys of off-policy evaluation: the return of the newest policy, estimated from the recorded episodes that are learnt from.

Mixed into the config of every algorithm that reads ``input``. Names and meanings are RLlib's (``input_evaluation``, 0.6 to 1.8;
``off_policy_estimation_methods`` since). Deviations: nothing is estimated unless asked for; estimates are made at every
evaluation, from whole episodes (``experience.off_policy_estimates``); "simulation" is what ``evaluation_interval`` does anyway.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator
from typing_extensions import Self

from drl_cli.config.schema import MisfitError, Section, Whole, key
from drl_cli.config.sections.evaluation import EvaluationKeys
from drl_cli.config.sections.offline import reads

METHODS = ("is", "wis")
_EPISODES = 200
_CLASSES = {"ImportanceSampling": "is", "WeightedImportanceSampling": "wis"}


def _listed(value: Any) -> Any:
    """Let a single name be a list of it, and RLlib 2's {name: {type: …}} the list of its types."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, dict) and all(isinstance(one, dict) and set(one) == {"type"} for one in value.values()):
        kinds = [one["type"] for one in value.values()]
        return tuple(_CLASSES.get(kind, kind) if isinstance(kind, str) else kind for kind in kinds)
    return value


_Methods = Annotated[
    tuple[Literal["is", "wis", "simulation"], ...], BeforeValidator(_listed), Field(strict=False, max_length=3)
]


class EstimateKeys(Section):
    """How the policy is scored while it learns from files."""

    input_evaluation: _Methods = key(
        (),
        "Off-policy evaluation. is, wis: estimate the return of the policy at every evaluation, by ordinary or "
        "weighted importance sampling, from recorded episodes with action probabilities (off_policy_estimator/ in "
        "the result). simulation: play in the environment, which evaluation_interval also enables.",
        allowed="a list of is, wis, simulation, or one of them",
        rllib="[is, wis] when reading files",
        why="most files hold no probabilities, and estimates are unreliable if the policies differ much",
    )
    input_evaluation_num_episodes: Whole = key(
        _EPISODES, "Recorded episodes used for estimates, sampled from all.", "episodes", ge=1, le=1_000_000
    )

    @model_validator(mode="after")
    def _has_what_it_judges_by(self) -> Self:
        given = self.input_evaluation
        if len(set(given)) < len(given):
            raise MisfitError("input_evaluation", "it names the same twice; leave one of them out")
        if methods(self) and not reads(self):
            raise MisfitError(
                "input_evaluation", f"{methods(self)[0]} estimates from recorded episodes, and input names none"
            )
        if given and isinstance(self, EvaluationKeys) and self.evaluation_interval is None:
            raise MisfitError("input_evaluation", f"{given[0]} comes with evaluations: set evaluation_interval")
        if self.input_evaluation_num_episodes != _EPISODES and not methods(self):
            raise MisfitError("input_evaluation_num_episodes", "it has no effect without input_evaluation: [is, wis]")
        return self


def methods(config: Section) -> tuple[str, ...]:
    """Return the estimates that a config asks for, a tuple of "is" and "wis"; none for configs without the key."""
    given = config.input_evaluation if isinstance(config, EstimateKeys) else ()
    return tuple(name for name in METHODS if name in given)
