"""Keys of RLlib's other versions whose value here has to be computed, or depends on what is given beside them.

Used by ``config.rllib.aliases`` once all keys have the names that they have here. Sources: RLlib 0.8.0 (a schedule is a
share of ``schedule_max_timesteps``), 1.0.1 (its PerWorker classes leave the schedule of their base class alone), 2.4
(``rollout_fragment_length: auto``).
"""

import math
from collections.abc import Mapping
from typing import Any, Protocol, TypeGuard

from drl_cli.config.key_description import fields_of, section_of
from drl_cli.config.origins import Path, Where
from drl_cli.config.schema import Section
from drl_cli.config.sections.exploration import uses_of
from drl_cli.errors import InputError, shown

SPAN, SPAN_DEFAULT = "schedule_max_timesteps", 100_000
EXPLORED, EXPLORED_DEFAULT = "exploration_fraction", 0.1
ANNEALED, ANNEALED_DEFAULT = "beta_annealing_fraction", 0.2
FADES, FADED, FADED_DEFAULT = "exploration_should_anneal", "exploration_final_scale", 0.02
OF_THE_SPAN = (SPAN, EXPLORED, ANNEALED, FADES, FADED)
"""RLlib 0.8's keys of schedules; the defaults are those of its DQN and DDPG."""

LADDERS = ("initial_epsilon", "final_epsilon", "epsilon_timesteps", "initial_scale", "final_scale", "scale_timesteps")
"""Keys of a schedule that RLlib's PerWorker classes take, and go without as soon as there are workers."""

BETA = "prioritized_replay_beta_annealing_timesteps"


class RenamedKeys(Protocol):
    """A mapping whose spellings are replaced one by one, and what is to be said of that (of ``config.rllib.aliases``)."""

    mapping: dict[str, Any]
    moved: dict[Path, Path]  # new path → old path
    problems: list[str]
    notices: list[str]


def settle(reading: RenamedKeys, schema: type[Section], where: Where) -> None:
    """Replace such keys in ``reading``."""
    settling = _Settling(reading, schema, where)
    settling.switch_off_evaluations()
    settling.fit_fragments()
    if "buffer_size" in fields_of(schema):
        settling.multiply_shares()
    settling.leave_out_ladders()


class _Settling:
    """The mapping of a reading, and what is said of it."""

    def __init__(self, reading: RenamedKeys, schema: type[Section], where: Where) -> None:
        self._reading, self._mapping, self._schema, self._where = reading, reading.mapping, schema, where

    def switch_off_evaluations(self) -> None:
        """``evaluation_interval: 0`` is null."""
        given = self._mapping.get("evaluation_interval")
        if given == 0 and not isinstance(given, bool):
            self._mapping["evaluation_interval"] = None
            self._say(f"evaluation_interval 0{self._at('evaluation_interval')} is read as null: no evaluations.")

    def fit_fragments(self) -> None:
        """``rollout_fragment_length: auto`` is the length of which one round makes a train batch."""
        name = "rollout_fragment_length"
        if self._mapping.get(name) != "auto":
            return
        if "n_step" in fields_of(self._schema):
            self._mapping[name] = self._value("n_step")
            self._say(f"{name} auto{self._at(name)} is read as n_step, {shown(self._mapping[name])}.")
            return
        sizes = [self._value(key) for key in ("train_batch_size", "num_envs_per_worker", "num_workers")]
        if not all(_is_number(size) for size in sizes):
            del self._mapping[name]
            self._say(f"{name} auto{self._at(name)} is what drl does anyway.")
            return
        batch, envs, workers = sizes
        self._mapping[name] = max(1, math.ceil(batch / max(1, envs) / max(1, workers)))
        self._say(
            f"{name} auto{self._at(name)} is read as {self._mapping[name]}: one fragment of each environment is a batch."
        )

    def multiply_shares(self) -> None:
        """A schedule's env steps are its share of ``schedule_max_timesteps``."""
        given = {name: self._mapping.pop(name) for name in OF_THE_SPAN if name in self._mapping}
        wrong = [
            name for name, value in given.items() if not _is_number(value) or isinstance(value, bool) != (name == FADES)
        ]
        for name in wrong:
            takes = "true or false" if name == FADES else "a number ≥ 0"
            self._reading.problems.append(
                f"{name}: {shown(given[name])} is not allowed; it takes {takes}{self._at(name)}."
            )
        if wrong or not given:
            return
        used = self._set_exploration(given) + self._set_beta(given)
        for name in given:
            if name not in used:
                self._say(f"{name} {shown(given[name])}{self._at(name)} has no effect: {self._why_idle()}.")

    def _set_exploration(self, given: Mapping[str, Any]) -> list[str]:
        steps = max(1, round(given.get(EXPLORED, EXPLORED_DEFAULT) * given.get(SPAN, SPAN_DEFAULT)))
        uses = self._uses()
        if "epsilon_timesteps" in uses and (SPAN in given or EXPLORED in given):
            self._set(("exploration_config", "epsilon_timesteps"), steps, EXPLORED if EXPLORED in given else SPAN)
            return [SPAN, EXPLORED]
        if "scale_timesteps" in uses and given.get(FADES):
            self._set(("exploration_config", "scale_timesteps"), steps, FADES)
            faded, said_by = given.get(FADED, FADED_DEFAULT), FADED if FADED in given else FADES
            self._set(("exploration_config", "final_scale"), faded, said_by)
            return [SPAN, EXPLORED, FADES, FADED]
        return []

    def _set_beta(self, given: Mapping[str, Any]) -> list[str]:
        if ANNEALED not in given or BETA not in fields_of(self._schema):
            return []
        self._set((BETA,), max(1, round(given[ANNEALED] * given.get(SPAN, SPAN_DEFAULT))), ANNEALED)
        return [SPAN, ANNEALED]

    def _set(self, path: Path, value: Any, old: str) -> None:
        """Put ``value``, computed from the key ``old``, under ``path``."""
        name, home = ".".join(path), self._mapping
        for part in path[:-1]:
            home = home.setdefault(part, {})
        if not isinstance(home, dict):
            return  # refused as no mapping
        if path[-1] in home:
            self._reading.problems.append(f"{old}{self._at(old)}: it stands for {name}, which is given as well.")
            return
        home[path[-1]] = value
        self._reading.moved[path] = (old,)
        self._say(f"{old}{self._at(old)} is read as {name} {shown(value)}, as RLlib 0.8 computed it.")

    def leave_out_ladders(self) -> None:
        """A PerWorker exploration has no schedule."""
        given, kind = self._mapping.get("exploration_config"), self._type()
        if not isinstance(given, dict) or not isinstance(kind, str) or not kind.startswith("PerWorker"):
            return
        for name in LADDERS:
            if _is_number(given.get(name)):
                value, text = given.pop(name), f"exploration_config.{name}"
                self._say(
                    f"{text} {shown(value)} has no effect: {kind} gives each environment a fixed value of its own."
                )

    # -- what stands there ---------------------------------------------------------------------------------------

    def _value(self, name: str) -> Any:
        """Return what is given for a key, its default where nothing is, None where the schema has no such key."""
        field = fields_of(self._schema).get(name)
        return self._mapping.get(name, field.default) if field else None

    def _type(self) -> Any:
        """Return the type of exploration, None where the schema has none."""
        field = fields_of(self._schema).get("exploration_config")
        given = self._mapping.get("exploration_config")
        section = field and section_of(field)
        default = section.model_fields["type"].default if section else None
        return given.get("type", default) if isinstance(given, dict) else default

    def _uses(self) -> Mapping[str, Any]:
        kind = self._type()
        try:
            return uses_of(kind) if isinstance(kind, str) else {}
        except InputError:
            return {}  # refused as such

    def _why_idle(self) -> str:
        uses = self._uses()
        if "scale_timesteps" in uses:
            return f"{FADES} is false, so that the noise keeps its size"
        return "it is for noise" if "epsilon_timesteps" in uses else f"{self._type()} has no such schedule"

    def _say(self, text: str) -> None:
        self._reading.notices.append(text)

    def _at(self, name: str) -> str:
        return f" ({self._where.place(self._reading.moved.get((name,), (name,)))})"


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and 0 <= value < math.inf
