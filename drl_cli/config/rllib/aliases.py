"""Other spellings of keys: those of RLlib's older and newer versions, read as the keys of this program with a notice.

Used by ``config.parse``. Only spellings with the same meaning are here; ``config.rllib.refused_keys`` refuses the others.
Source: RLlib 0.6 to 2.x.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from drl_cli.config.key_description import fields_of, section_of
from drl_cli.config.origins import Path, Where
from drl_cli.config.plain_data import has_path
from drl_cli.config.rllib import old_versions, refused_keys
from drl_cli.config.rllib.common_defaults import (
    EMPTY,
    SEVERAL,
    UNREAD,
    clashes,
    class_name,
    is_of_maddpg,
    mapped_by_number,
)
from drl_cli.config.rllib.ignored_keys import ANYWAY, IDLE, IN_EVOLUTION, Idle, asks_for_nothing, fits, taken
from drl_cli.config.rllib.other_libraries import RLLIB_2
from drl_cli.config.schema import Section
from drl_cli.config.sections.multi_agent import TUPLE
from drl_cli.errors import shown

_EXPLORATION = ("exploration_config",)
_OPTIMIZATION = ("optimization",)
_BUFFER = ("replay_buffer_config",)
_Q_NET, _POLICY_NET = ("Q_model",), ("policy_model",)

ALIASES: dict[Path, Path] = {
    ("sample_batch_size",): ("rollout_fragment_length",),
    ("metrics_num_episodes_for_smoothing",): ("metrics_smoothing_episodes",),
    ("min_time_s_per_reporting",): ("min_iter_time_s",),
    ("min_time_s_per_iteration",): ("min_iter_time_s",),
    ("min_sample_timesteps_per_reporting",): ("timesteps_per_iteration",),
    ("min_sample_timesteps_per_iteration",): ("timesteps_per_iteration",),
    ("min_train_timesteps_per_reporting",): ("min_train_timesteps_per_iteration",),
    ("evaluation_duration",): ("evaluation_num_episodes",),
    ("monitor",): ("record_env",),
    ("q_model_config",): ("Q_model",),
    ("policy_model_config",): ("policy_model",),
    ("num_rollout_workers",): ("num_workers",),
    ("num_env_runners",): ("num_workers",),
    ("max_requests_in_flight_per_sampler_worker",): ("max_sample_requests_in_flight_per_worker",),
    ("input_config", "path"): ("input_config", "paths"),
    ("num_envs_per_env_runner",): ("num_envs_per_worker",),
    ("num_steps_sampled_before_learning_starts",): ("learning_starts",),
    ("evaluation_num_env_runners",): ("evaluation_num_workers",),
    ("num_cpus_for_local_worker",): ("num_cpus_for_driver",),
    ("grad_norm_clipping",): ("grad_clip",),
    (*_BUFFER, "min_size_for_sampling"): ("learning_starts",),
    (*_BUFFER, "replay_burn_in"): ("burn_in",),
    (*_BUFFER, "replay_sequence_length"): ("replay_sequence_length",),
    (*_BUFFER, "zero_init_states"): ("zero_init_states",),
    (*_Q_NET, "hidden_activation"): (*_Q_NET, "fcnet_activation"),
    (*_Q_NET, "hidden_layer_sizes"): (*_Q_NET, "fcnet_hiddens"),
    (*_POLICY_NET, "hidden_activation"): (*_POLICY_NET, "fcnet_activation"),
    (*_POLICY_NET, "hidden_layer_sizes"): (*_POLICY_NET, "fcnet_hiddens"),
    ("exploration_enabled",): ("explore",),
    ("exploration",): ("exploration_config",),
    (*_BUFFER, "capacity"): ("buffer_size",),
    (*_BUFFER, "learning_starts"): ("learning_starts",),
    (*_BUFFER, "prioritized_replay"): ("prioritized_replay",),
    (*_BUFFER, "prioritized_replay_alpha"): ("prioritized_replay_alpha",),
    (*_BUFFER, "prioritized_replay_beta"): ("prioritized_replay_beta",),
    (*_BUFFER, "prioritized_replay_eps"): ("prioritized_replay_eps",),
    (*_BUFFER, "alpha"): ("prioritized_replay_alpha",),
    (*_BUFFER, "beta"): ("prioritized_replay_beta",),
    (*_BUFFER, "worker_side_prioritization"): ("worker_side_prioritization",),
    ("optimizer", "num_replay_buffer_shards"): ("num_replay_shards",),
    ("num_replay_buffer_shards",): ("num_replay_shards",),
    ("off_policy_estimation_methods",): ("input_evaluation",),
    ("lr_schedule",): ("lr",),
    ("entropy_coeff_schedule",): ("entropy_coeff",),
    ("replay_mode",): ("multiagent", "replay_mode"),
    (*_BUFFER, "replay_mode"): ("multiagent", "replay_mode"),
    ("model", "vf_share_layers"): ("vf_share_layers",),
    ("model", "custom_options"): ("model", "custom_model_config"),
    ("actor_lr",): (*_OPTIMIZATION, "actor_learning_rate"),
    ("critic_lr",): (*_OPTIMIZATION, "critic_learning_rate"),
    ("alpha_lr",): (*_OPTIMIZATION, "entropy_learning_rate"),
    ("exploration_initial_eps",): (*_EXPLORATION, "initial_epsilon"),
    ("exploration_final_eps",): (*_EXPLORATION, "final_epsilon"),
    ("softmax_temp",): (*_EXPLORATION, "temperature"),
    ("pure_exploration_steps",): (*_EXPLORATION, "random_timesteps"),
    ("exploration_theta",): (*_EXPLORATION, "ou_theta"),
    ("exploration_ou_theta",): (*_EXPLORATION, "ou_theta"),
    ("exploration_sigma",): (*_EXPLORATION, "ou_sigma"),
    ("exploration_ou_sigma",): (*_EXPLORATION, "ou_sigma"),
    ("noise_scale",): (*_EXPLORATION, "ou_base_scale"),
    ("exploration_ou_noise_scale",): (*_EXPLORATION, "ou_base_scale"),
    ("exploration_gaussian_sigma",): (*_EXPLORATION, "stddev"),
    **{(old,): (new,) for old, new in RLLIB_2.items()},
}
"""Spelling → key. It is read where the algorithm has the key and does not have the spelling as a key of its own."""

SCHEDULES = (("lr_schedule",), ("entropy_coeff_schedule",))
"""Spellings that RLlib has beside the key: where both are given, it goes by the schedule."""

_UNIFORM = ("prioritized_replay", False)
_PRIORITIZED = ("prioritized_replay", True)

VALUES: dict[Path, dict[str, tuple[str, Any]]] = {
    (*_BUFFER, "type"): {
        "ReplayBuffer": _UNIFORM,
        "MultiAgentReplayBuffer": _UNIFORM,
        "EpisodeReplayBuffer": _UNIFORM,
        "PrioritizedReplayBuffer": _PRIORITIZED,
        "MultiAgentPrioritizedReplayBuffer": _PRIORITIZED,
        "PrioritizedEpisodeReplayBuffer": _PRIORITIZED,
    },
}
"""Spelling with a certain value → (key, its value)."""

LAID_OVER = {"local_tf_session_args": "tf_session_args"}
"""Section → the section that it is laid over."""

OTHER_WORDS = {"observation_filter": {"ConcurrentMeanStdFilter": "MeanStdFilter"}}
"""Key → other words for its values: RLlib's filter with a lock, for a thread that samples inside a worker."""

CLASSES: tuple[Path, ...] = (("exploration_config", "type"), (*_BUFFER, "type"), ("callbacks",), ("sample_collector",))
"""Keys whose value may be the full path of a class of RLlib's, which stands for its name."""

DONE = ("is what drl does anyway", "ask for what drl does anyway")
CONFIG_ALONE = (
    "is read for its config: the class is the algorithm's, the spaces are those of its agents",
    "are read for their configs: the class is the algorithm's, the spaces are those of their agents",
)
MANY = 3  # keys that ask for what happens anyway, from which one line names them all


def renamed(
    mapping: Mapping[str, Any], where: Where, schema: type[Section]
) -> tuple[dict[str, Any], dict[Path, Path], list[str], list[str]]:
    """Return (mapping under the keys of ``schema``, {new path: old path}, problems, notices); ``where``: a Where."""
    reading = _Reading(mapping, where, schema)
    for key in CLASSES:
        reading.shorten(key)
    reading.drop_clashes()
    reading.drop_empty_multiagent()
    reading.say_how_policies_are_read()
    reading.drop_fake_gpus()
    instead = IN_EVOLUTION if "noise_stdev" in fields_of(schema) else {}
    for old, values in {**ANYWAY, **instead}.items():
        reading.drop(old, values)
    for old, idle in IDLE.items():
        if old not in instead:
            reading.leave_out(old, idle)
    for old, values in OTHER_WORDS.items():
        reading.reword(old, values)
    for old, values in VALUES.items():
        reading.translate(old, values)
    for old, new in ALIASES.items():
        reading.move(old, new)
    for old, new in SEVERAL.items():
        reading.spread(old, new)
    for old, value in UNREAD.items():
        reading.leave_unread(old, value)
    for old, new in LAID_OVER.items():
        reading.lay_over(old, new)
    for section in ("replay_buffer_config", "optimizer", "multiagent"):
        if reading.mapping.get(section) == {}:
            del reading.mapping[section]
    old_versions.settle(reading, schema, where)
    return reading.mapping, reading.moved, reading.problems, reading.all_notices()


class _Reading:
    """A copy of a mapping whose spellings are replaced one by one."""

    def __init__(self, mapping: Mapping[str, Any], where: Where, schema: type[Section]) -> None:
        self.mapping = {name: dict(value) if isinstance(value, dict) else value for name, value in mapping.items()}
        self.moved: dict[Path, Path] = {}
        self.problems: list[str] = []
        self.notices: list[str] = []
        self._alike: dict[
            tuple[str, str, int], list[str]
        ] = {}  # notice of one key, of many, how many → keys and values
        self._where, self._schema = where, schema

    def all_notices(self) -> list[str]:
        """Return all notices, those first that say the same of one key or of many."""
        found: list[str] = []
        for (of_one, of_many, many), keys in self._alike.items():
            found += [f"{', '.join(keys)} {of_many}."] if len(keys) > many else [f"{key} {of_one}." for key in keys]
        return found + self.notices

    def _say_alike(self, key: str, of_one: str, of_many: str, many: int = MANY) -> None:
        self._alike.setdefault((of_one, of_many, many), []).append(key)

    def shorten(self, old: Path) -> None:
        """Put the name of a class in the place of its full path."""
        parent = self.mapping if len(old) == 1 else self.mapping.get(old[0])
        if not isinstance(parent, dict):
            return
        name = class_name(parent.get(old[-1]))
        if name == "DefaultCallbacks" or (old == ("callbacks",) and parent.get("callbacks") == {}):
            parent[old[-1]] = None
        elif name:
            self.notices.append(f"{'.'.join(old)} {parent[old[-1]]}{self._at(old)} is read as {name}.")
            parent[old[-1]] = name

    def drop_clashes(self) -> None:
        """Take away the defaults of RLlib's common config that the algorithm could not run with."""
        for path, why in clashes(self.mapping, self._schema):
            parent = self.mapping if len(path) == 1 else self.mapping[path[0]]
            self._say_unread(path, parent.pop(path[-1]), why)

    def _say_unread(self, path: Path, value: Any, why: str | None) -> None:
        because = f": {why}" if why else ""
        of_one = f"is RLlib's common default, which is not read here{because}"
        of_many = f"are RLlib's common defaults, which are not read here{because}"
        self._say_alike(f"{'.'.join(path)} {shown(value)}", of_one, of_many, many=1)

    def drop_empty_multiagent(self) -> None:
        """Take away a ``multiagent`` block that names no policies, or one for each agent of MADDPG."""
        given = self.mapping.get("multiagent")
        if isinstance(given, dict) and given:
            is_empty = all(asks_for_nothing(EMPTY.get(k, ()), v) for k, v in given.items())
            if is_empty or is_of_maddpg(given):
                self.mapping.pop("multiagent")
                what = "without policies" if is_empty else "with a policy for each agent"
                self._say_alike(f"multiagent {what}", *DONE)

    def say_how_policies_are_read(self) -> None:
        """Say that of RLlib's (class, spaces, config) the config alone is read, and who acts for whom by its example."""
        given = self.mapping.get("multiagent")
        policies = given.get("policies") if isinstance(given, dict) else None
        if given and mapped_by_number(given):
            said = ", ".join(f"{agent}: {name}" for agent, name in given["policy_mapping"].items())
            self.notices.append(f"multiagent.policy_mapping_fn PolicyMappingFn is read as policy_mapping {{{said}}}.")
        for name, own in policies.items() if isinstance(policies, dict) else ():
            if isinstance(own, (list, tuple)) and len(own) == TUPLE and any(part is not None for part in own[:-1]):
                self._say_alike(f"multiagent.policies.{name}", *CONFIG_ALONE)

    def drop_fake_gpus(self) -> None:
        """Take away GPUs that are only tried on the CPU, where a batch is split over none."""
        fields, given = fields_of(self._schema), self.mapping.get("num_gpus", 0)
        has_towers = "_fake_gpus" in fields and "vtrace" not in fields  # a stream's batches are not split
        if self.mapping.get("_fake_gpus") is not True or has_towers or not isinstance(given, (int, float)):
            return
        del self.mapping["_fake_gpus"]
        self.mapping["num_gpus"] = 0
        self.notices.append(
            f"_fake_gpus true{self._at(('_fake_gpus',))} is read as num_gpus 0 in place of {shown(given)}: no batch is split "
            "here, and the mean over its parts has the gradient of the whole."
        )

    def drop(self, old: Path, values: Iterable[Any]) -> None:
        """Take away ``old`` if it has one of ``values``."""
        parent = self._holder(old)
        if parent is not None and asks_for_nothing(values, parent[old[-1]]):
            self._say_alike(f"{'.'.join(old)} {shown(parent.pop(old[-1]))}", *DONE)

    def leave_out(self, old: Path, idle: Idle) -> None:
        """Take away ``old``, whose values all come to the same, unless its value is none that it takes."""
        parent = self._holder(old)
        if parent is None or (old in ALIASES and _has(self._schema, ALIASES[old])):
            return
        value, name = parent.pop(old[-1]), ".".join(old)
        if fits(idle, value):
            self._say_alike(f"{name} {shown(value)}", f"has no effect: {idle.why}", f"have no effect: {idle.why}")
        else:
            self.problems.append(f"{name}: {shown(value)} is not allowed; it takes {taken(idle)}{self._at(old)}.")

    def leave_unread(self, old: Path, default: Any) -> None:
        """Take away ``old``, which the algorithm does not read, where its value is RLlib's ``default``."""
        parent = self._holder(old)
        if parent is None or parent[old[-1]] != default:
            return
        self._say_unread(old, parent.pop(old[-1]), refused_keys.instead(old[-1], self._schema))

    def spread(self, name: str, targets: Iterable[Path]) -> None:
        """Set all of ``targets`` that the algorithm has to the value of ``name``, or of its schedule."""
        targets = [path for path in targets if _has(self._schema, path)]
        given = [one for one in (f"{name}_schedule", name) if self._holder((one,)) is not None]
        if not targets or not given or any(not isinstance(self.mapping.get(p[0], {}), dict) for p in targets if p[1:]):
            return
        value = self.mapping[given[0]]
        text = f"{given[0]} {shown(value)}{self._at((given[0],))} sets"
        free = [path for path in targets if not has_path(self.mapping, path)]
        kept = [path for path in targets if path not in free]
        for path in free:
            home: Any = self.mapping
            for part in path[:-1]:
                home[part] = home = dict(home.get(part, {}))
            home[path[-1]] = value
            self.moved[path] = (given[0],)
        for one in given:
            del self.mapping[one]
        beside = f"; {_listed(kept)} {'are' if len(kept) > 1 else 'is'} given beside it" if kept else ""
        self.notices.append(f"{text} {_listed(free) or 'nothing'}{beside}.")

    def reword(self, key: str, values: Mapping[str, str]) -> None:
        """Put another word for one of the values of ``key`` in its place."""
        given = self.mapping.get(key)
        if _has(self._schema, (key,)) and isinstance(given, str) and given in values:
            self.mapping[key] = values[given]
            self.notices.append(f"{key} {given}{self._at((key,))} is read as {values[given]}.")

    def translate(self, old: Path, values: Mapping[str, tuple[str, Any]]) -> None:
        """Put (key, value) in the place of ``old`` if ``values`` has an entry for what it holds."""
        parent = self._holder(old)
        given = parent[old[-1]] if parent is not None else None
        if parent is None or not isinstance(given, str) or given not in values:
            return
        name, value = values[given]
        del parent[old[-1]]
        text = f"{'.'.join(old)} {given}{self._at(old)}"
        if self.mapping.get(name, value) != value:
            place = self._at((name,))
            self.problems.append(f"{text}: it means {name} {shown(value)}, and another value is given{place}.")
            return
        if name not in self.mapping:
            self.moved[(name,)] = old
        self.mapping[name] = value
        self.notices.append(f"{text} is read as {name}: {shown(value)}.")

    def move(self, old: Path, new: Path) -> None:
        """Put what ``old`` holds under ``new``."""
        parent = self._holder(old)
        if parent is None or not _has(self._schema, new):
            return
        home: Any = self.mapping
        for name in new[:-1]:
            home = home.setdefault(name, {}) if isinstance(home, dict) else None
        if not isinstance(home, dict):
            return  # a section that is no mapping is refused as such
        value = parent.pop(old[-1])
        text, key = f"{'.'.join(old)}{self._at(old)}", ".".join(new)
        if new[-1] in home and old in SCHEDULES and isinstance(home[new[-1]], (int, float)):
            self.notices.append(f"{text} takes the place of {key} {shown(home[new[-1]])}.")
        elif new[-1] in home and home[new[-1]] == value:
            self.notices.append(f"{text} is another name of {key}, which has the same value.")
        elif new[-1] in home:
            place = self._at(self.moved.get(new, new))
            self.problems.append(f"{text}: another name of {key}, which is given as well{place}.")
            return
        else:
            self.notices.append(f"{text} is read as {key}.")
        home[new[-1]] = value
        self.moved[new] = self._written(old)

    def lay_over(self, old: str, new: str) -> None:
        """Lay the section ``old`` over the section ``new``: where both have a key, ``old`` counts."""
        over, under = self.mapping.get(old), self.mapping.get(new, {})
        if not isinstance(over, dict) or not isinstance(under, dict) or not _has(self._schema, (new,)):
            return
        del self.mapping[old]
        if not over:
            return
        for name, value in over.items():
            inner = under.get(name)
            under = {
                **under,
                name: {**inner, **value} if isinstance(inner, dict) and isinstance(value, dict) else value,
            }
            self.moved[(new, name)] = (old, name)
        self.mapping[new] = under
        self.notices.append(f"{old}{self._at((old,))} is read as {new}: the session is the learner's.")

    def _holder(self, old: Path) -> dict[str, Any] | None:
        """Return the mapping in which ``old`` is given, None where it is not, or is a key of the schema."""
        parent = self.mapping if len(old) == 1 else self.mapping.get(old[0])
        if not isinstance(parent, dict) or old[-1] not in parent or _has(self._schema, old):
            return None
        return parent

    def _at(self, path: Path) -> str:
        return f" ({self._where.place(self._written(path))})"

    def _written(self, path: Path) -> Path:
        """Return ``path`` as it stands in what was given: its section may have moved."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.moved:
                return self.moved[path[:length]] + path[length:]
        return path


def _listed(paths: Sequence[Path]) -> str:
    """Return dotted keys as ``a, b and c``."""
    names = [".".join(path) for path in paths]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def _has(schema: type[Section], path: Path) -> bool:
    """Return whether ``path`` is a key of ``schema``, or one of its sections."""
    section: type[Section] | None = schema
    for name in path:
        fields = fields_of(section) if section else {}
        if name not in fields:
            return False
        section = section_of(fields[name])
    return True
