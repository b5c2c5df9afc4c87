"""Keys of exploration: how training actions differ from greedy ones, for each kind of policy.

Used by the configs of algorithms (``exploration_config``); ``config.sections.exploration_settings`` resolves them. Types,
keys and class defaults are RLlib's (1.0.1).

Deviations:
- A key that the chosen type does not use is refused; RLlib ignores it.
- ``random_timesteps``: null is ``learning_starts``. RLlib has 0, 1000 or 10000, and lets untrained nets fill the replay.
- Noise is a share of half the action range; RLlib's is in the environment's units.
- RND (Burda et al. 2018, arXiv:1810.12894) has the key names of RLlib's Curiosity.
- ``hold_steps``, ``sde_sample_freq`` and StateDependentNoise (Raffin et al. 2021, arXiv:2005.05719) are additions.

A registered type (``policies.exploration.custom_exploration``) brings a schema of its own keys, which stand beside ``type`` as
the others do; their values are held as extra fields.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_serializer,
    field_validator,
    model_validator,
)
from typing_extensions import Self

from drl_cli import plugins
from drl_cli.config.schema import MisfitError, PlainMapping, Section, SectionType, Whole, key, rising
from drl_cli.errors import nearest

_RANDOM = {"random_timesteps": None, "hold_steps": 1}
_SCALE = {"initial_scale": 1.0, "final_scale": 0.02, "scale_timesteps": 10_000, "scale_schedule": None}
_EPSILON = {"initial_epsilon": 1.0, "final_epsilon": 0.05, "epsilon_timesteps": 100_000, "epsilon_schedule": None}
_OU = {"ou_theta": 0.15, "ou_sigma": 0.2, "ou_base_scale": 0.1}

TYPES: dict[str, dict[str, Any]] = {
    "StochasticSampling": {**_RANDOM, "sde_sample_freq": 32},
    "Random": {"hold_steps": 1},
    "EpsilonGreedy": {**_EPSILON, **_RANDOM},
    "PerWorkerEpsilonGreedy": _RANDOM,
    "SoftQ": {"temperature": 1.0, **_RANDOM},
    "GaussianNoise": {"stddev": 0.1, **_SCALE, **_RANDOM},
    "PerWorkerGaussianNoise": {"stddev": 0.1, **_RANDOM},
    "OrnsteinUhlenbeckNoise": {**_OU, **_SCALE, **_RANDOM},
    "PerWorkerOrnsteinUhlenbeckNoise": {**_OU, **_RANDOM},
    "StateDependentNoise": {"stddev": 0.1, "sde_sample_freq": 32, **_SCALE, **_RANDOM},
    "ParameterNoise": {"initial_stddev": 1.0, "sub_exploration": None, **_RANDOM},
    "RND": {"eta": 1.0, "lr": 1e-4, "feature_dim": 64, "sub_exploration": None, **_RANDOM},
}
"""The keys that each type uses, with the value that null stands for where the algorithm has no default of its own.

A null ``random_timesteps`` stays for ``exploration_settings`` to resolve; a null schedule is none."""

_SCHEDULES = {
    "epsilon_schedule": ("initial_epsilon", "final_epsilon", "epsilon_timesteps"),
    "scale_schedule": ("initial_scale", "final_scale", "scale_timesteps"),
}

MEANT_FOR = {
    "StochasticSampling": "policies that draw their actions (SAC, TQC, CROSSQ)",
    "EpsilonGreedy": "algorithms that value each of a few actions (DQN and its kin)",
    "PerWorkerEpsilonGreedy": "algorithms that value each of a few actions (DQN and its kin)",
    "SoftQ": "algorithms that value each of a few actions (DQN and its kin)",
    "GaussianNoise": "Box actions",
    "PerWorkerGaussianNoise": "Box actions",
    "OrnsteinUhlenbeckNoise": "Box actions",
    "PerWorkerOrnsteinUhlenbeckNoise": "Box actions",
    "StateDependentNoise": "policies without noise of their own or an LSTM (DDPG and its kin); SAC and TQC have use_sde",
    "ParameterNoise": "policies without noise of their own or an LSTM (DDPG, DQN and their kin)",
}

TYPE = (
    "The class of exploration. Each uses some of the keys beside it and refuses the others; drl_cli.register_exploration "
    "adds more of them."
)

Schedule = Annotated[
    tuple[
        Annotated[tuple[Annotated[Whole, Field(ge=0)], Annotated[float, Field(ge=0, le=1000)]], Field(strict=False)],
        ...,
    ],
    Field(strict=False, min_length=1, max_length=1000),
    AfterValidator(rising),
]
_SCHEDULE_ALLOWED = "a list of [env_step, value] pairs whose steps rise and whose values are in [0, 1000], or null"
Share = Annotated[float, Field(ge=0, le=1)]
Scale = Annotated[float, Field(ge=0, le=1000)]


class OwnExplorationKeys(Section):
    """The keys that every registered exploration has, beside its own."""

    type: str = key("", TYPE)
    random_timesteps: Whole | None = key(None, "As for the other classes: env steps of uniformly random actions.", ge=0)
    hold_steps: Whole | None = key(
        None, "As for the other classes: steps for which each of these actions is repeated.", ge=1, le=1000
    )


class ExplorationConfig(Section):
    """How training actions differ from greedy ones; null takes the default of the type."""

    model_config = ConfigDict(extra="allow")  # the keys of a registered type, and no others

    type: Literal[
        "StochasticSampling",
        "Random",
        "EpsilonGreedy",
        "PerWorkerEpsilonGreedy",
        "SoftQ",
        "GaussianNoise",
        "PerWorkerGaussianNoise",
        "OrnsteinUhlenbeckNoise",
        "PerWorkerOrnsteinUhlenbeckNoise",
        "StateDependentNoise",
        "ParameterNoise",
        "RND",
    ] = key("StochasticSampling", TYPE)
    random_timesteps: Whole | None = key(
        None,
        "Env steps at the start of the run with uniformly random actions; null means learning_starts.",
        "env steps",
        ge=0,
    )
    hold_steps: Whole | None = key(
        None,
        "Steps for which an environment repeats each uniformly random action. Independent actions cancel out: on "
        "MountainCarContinuous 0.2 % of random episodes reach the flag, 59 % if actions are held for 8 steps.",
        "env steps",
        ge=1,
        le=1000,
    )
    initial_epsilon: Share | None = key(None, "Share of random actions at the start.", "share of actions")
    final_epsilon: Share | None = key(None, "Share of random actions after epsilon_timesteps.", "share of actions")
    epsilon_timesteps: Whole | None = key(
        None, "Env steps over which epsilon falls from its initial to its final value.", "env steps", ge=1
    )
    epsilon_schedule: Schedule | None = key(
        None, "[[env_step, epsilon], …], piecewise linear; replaces the three keys above.", None, _SCHEDULE_ALLOWED
    )
    temperature: float | None = key(
        None, "Temperature of the softmax over action values from which actions are sampled.", gt=0, le=1e6
    )
    stddev: Scale | None = key(
        None,
        "Standard deviation of the noise before scaling.",
        "share of half the action range",
    )
    initial_scale: Scale | None = key(None, "Scale of the noise after the random phase.", "factor")
    final_scale: Scale | None = key(None, "Scale of the noise after scale_timesteps.", "factor")
    scale_timesteps: Whole | None = key(
        None, "Env steps after the random phase over which the scale reaches its final value.", "env steps", ge=1
    )
    scale_schedule: Schedule | None = key(
        None, "[[env_step, factor], …], piecewise linear; replaces the three keys above.", None, _SCHEDULE_ALLOWED
    )
    ou_theta: Share | None = key(
        None, "Mean reversion of the Ornstein-Uhlenbeck process per step.", "share per env step"
    )
    ou_sigma: Scale | None = key(None, "Standard deviation of the process's increments.")
    ou_base_scale: Scale | None = key(None, "Scale of the process as noise, times the width of the action range.")
    initial_stddev: Scale | None = key(
        None, "Initial standard deviation of the parameter noise; it is then adapted to its effect on actions."
    )
    sub_exploration: PlainMapping | None = key(
        None,
        "Exploration applied to the actions of the perturbed network, or with RND to those of the policy; null means, "
        "with ParameterNoise, epsilon 0.01 for Discrete actions and Ornstein-Uhlenbeck noise for Box actions, with RND the "
        "algorithm's own default.",
        allowed="a mapping with type and keys of that type, or null",
    )
    eta: Scale | None = key(
        None,
        "Weight of the intrinsic reward of random network distillation (RND), which is added to the rewards that are "
        "learnt from. It is scaled to returns with a standard deviation of about 1.",
        "factor",
    )
    lr: float | None = key(None, "Step size of the predictor network of RND.", gt=0, le=1)
    feature_dim: Whole | None = key(None, "Outputs of the two networks of RND.", "units", ge=1, le=4096)
    sde_sample_freq: Whole | None = key(
        None,
        "Steps of an environment between resamplings of the matrix of state-dependent noise, which is also "
        "resampled at the start of every episode.",
        "env steps",
        ge=1,
        le=1_000_000,
    )

    @classmethod
    def schema_for(cls, mapping: Mapping[str, Any]) -> SectionType:
        """See Section: a registered type has keys of its own."""
        own = _registered(mapping.get("type"))
        return own.schema if own else cls

    @field_validator("type", mode="wrap")
    @classmethod
    def _is_meant_for_it(cls, value: Any, handler: Callable[[Any], Any]) -> Any:
        if isinstance(value, str) and value in MEANT_FOR and value not in types_of(cls):
            raise ValueError(f"that is for {MEANT_FOR[value]}")
        if not isinstance(value, str) or value in TYPES:
            return handler(value)
        if _registered(value) is None:
            broken = "".join(f" {text}" for text in plugins.failures())
            close = nearest(value, [*types_of(cls), *plugins.EXPLORATIONS.known()], count=1)
            hint = f"but {close[0]} is known" if close else "which takes --import MODULE"
            raise ValueError(f"no exploration is registered as that, {hint}{broken}")
        if set(types_of(cls)) == {"StochasticSampling", "RND"}:
            raise ValueError("actions that the policy did not draw cannot be learnt from")
        return value

    @field_serializer("type")
    def _as_it_is(self, value: str) -> str:
        return value

    @model_validator(mode="before")
    @classmethod
    def _of_its_type(cls, data: Any) -> Any:
        """Leave the algorithm's defaults to its own type, and those that a schedule replaces to none."""
        if not isinstance(data, dict):
            return data
        own = _registered(data.get("type"))
        if own:
            data = {**own.defaults(), **data}
        dropped: set[str] = set()
        if data.get("type", _type(cls)) != _type(cls):
            dropped.update(name for name in cls.model_fields if name != "type")
        for schedule, replaced in _SCHEDULES.items():
            if data.get(schedule) is not None:
                dropped.update(replaced)
        return {**dict.fromkeys(dropped - set(data)), **data}

    @model_validator(mode="after")
    def _takes_what_is_given(self) -> Self:
        uses = uses_of(self.type)
        extra = [name for name in self.model_extra or () if name not in uses]
        if extra:
            raise MisfitError(extra[0], f"{self.type} has no such key; it takes {', '.join(uses)}")
        if self.type not in TYPES:
            self._fits_its_own_schema(uses)
        for name in type(self).model_fields:
            if name != "type" and name not in uses and getattr(self, name) is not None:
                raise MisfitError(name, f"{self.type} does not use it; it takes {', '.join(uses)}")
        for schedule, replaced in _SCHEDULES.items():
            both = [name for name in replaced if getattr(self, name) is not None]
            if getattr(self, schedule) is not None and both:
                raise MisfitError(
                    schedule, f"it takes the place of {both[0]}, which is given as well; keep one of them"
                )
        if self.sub_exploration is not None:
            self._laid_over(self.sub_exploration)
        return self

    def _fits_its_own_schema(self, uses: Iterable[str]) -> None:
        try:
            _registered(self.type).schema.model_validate({name: value_of(self, name) for name in uses})
        except ValidationError as error:
            raise MisfitError(*_first_of(error)) from error

    def _laid_over(self, given: dict[str, Any]) -> None:
        """Refuse a ``sub_exploration`` that cannot be laid over noisy weights, or over another of its kind."""
        others = ("RND",) if self.type == "RND" else ("RND", "ParameterNoise", "StateDependentNoise")
        fits = [name for name in types_of(type(self)) if name not in others]
        if given.get("type") not in fits:
            raise MisfitError("sub_exploration", f"its type is one of {', '.join(fits)}")
        if "random_timesteps" in given:
            raise MisfitError("sub_exploration", f"random_timesteps: the random phase is that of {self.type}")
        try:
            type(self).model_validate(given)
        except ValidationError as error:
            name, text = _first_of(error)
            raise MisfitError("sub_exploration", f"{name}: {text}") from error


def _first_of(error: ValidationError) -> tuple[str, str]:
    """Return (key, what is wrong) of the first thing that ``error`` says."""
    item = error.errors()[0]
    cause = item.get("ctx", {}).get("error")
    name = cause.key if isinstance(cause, MisfitError) else ".".join(map(str, item["loc"][:1]))
    return name, str(cause or item["msg"])


def types_of(schema: type[Section]) -> tuple[str, ...]:
    """Return the types of exploration that a subclass of ExplorationConfig allows."""
    return get_args(schema.model_fields["type"].annotation)


def uses_of(name: str) -> dict[str, Any]:
    """Return {key: what null stands for} of the type ``name``, as ``TYPES``; of a registered one its own keys too.

    Raises InputError where there is no such type.
    """
    if name in TYPES:
        return TYPES[name]
    return {**_RANDOM, **plugins.EXPLORATIONS.find(name).defaults()}


def value_of(given: ExplorationConfig, name: str) -> Any:
    """Return what an ExplorationConfig holds for the key ``name``, None where nothing was given."""
    return getattr(given, name) if name in type(given).model_fields else (given.model_extra or {}).get(name)


def _registered(name: object) -> Any:
    """Return the registered exploration ``name``, None where there is none; installed plug-ins are loaded last."""
    if not isinstance(name, str) or name in TYPES:
        return None
    return plugins.EXPLORATIONS.known().get(name) or plugins.EXPLORATIONS.all().get(name)


def _type(schema: type[ExplorationConfig]) -> str:
    return schema.model_fields["type"].default


class DrawnExploration(ExplorationConfig):
    """Exploration of policies that draw their actions."""

    type: Literal[
        "StochasticSampling",
        "Random",
        "GaussianNoise",
        "OrnsteinUhlenbeckNoise",
        "PerWorkerGaussianNoise",
        "PerWorkerOrnsteinUhlenbeckNoise",
        "RND",
    ] = key("StochasticSampling", TYPE)


class NoiseExploration(ExplorationConfig):
    """Exploration of policies that name one action of a Box."""

    type: Literal[
        "OrnsteinUhlenbeckNoise",
        "GaussianNoise",
        "PerWorkerOrnsteinUhlenbeckNoise",
        "PerWorkerGaussianNoise",
        "StateDependentNoise",
        "ParameterNoise",
        "Random",
        "RND",
    ] = key("OrnsteinUhlenbeckNoise", TYPE)


class ValueExploration(ExplorationConfig):
    """Exploration of algorithms that value each of a few actions."""

    type: Literal["EpsilonGreedy", "PerWorkerEpsilonGreedy", "SoftQ", "ParameterNoise", "Random", "RND"] = key(
        "EpsilonGreedy", TYPE
    )
