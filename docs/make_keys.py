"""Writes docs/keys.rst: how drl treats every key and option of RLlib, generated from the program itself.

    python docs/make_keys.py > docs/keys.rst

A test compares the file with the output, so that it cannot become stale. Only the names that RLlib had (its COMMON_CONFIG,
MODEL_DEFAULTS and command line, 0.8 to 2.4) and their defaults in 1.0.1 are written here by hand.
"""

import json
import re
import textwrap

from drl_cli.algorithms import table
from drl_cli.cli import evaluate, rllib_options, rollout, train
from drl_cli.config import experiment_keys
from drl_cli.config.experiment_keys import ExperimentKeys
from drl_cli.config.key_description import fields_of, section_of
from drl_cli.config.rllib import aliases, experiment_aliases, ignored_keys, other_libraries, refused_keys
from drl_cli.extras import load

COMMON = """
num_workers=2 num_envs_per_worker=1 create_env_on_driver=false rollout_fragment_length=200 batch_mode=truncate_episodes
train_batch_size=200 num_gpus=0 model={…} optimizer={} env=null env_config={} gamma=0.99 horizon=null soft_horizon=false
no_done_at_end=false normalize_actions=false clip_actions=true clip_rewards=null preprocessor_pref=deepmind lr=0.0001
env_task_fn=null render_env=false record_env=false observation_space=null action_space=null disable_env_checking=false
monitor=false log_level=WARN callbacks={…} ignore_worker_failures=false recreate_failed_workers=false
restart_failed_sub_environments=false log_sys_usage=true fake_sampler=false framework=tf eager=false use_pytorch=false
eager_tracing=false no_eager_on_workers=false eager_max_retraces=20 tf_session_args={…} local_tf_session_args={…} seed=null
extra_python_environs_for_driver={} extra_python_environs_for_worker={} logger_config=null explore=true
exploration_config={…} evaluation_interval=null evaluation_num_episodes=10 evaluation_duration=10
evaluation_duration_unit=episodes evaluation_num_workers=0 evaluation_config={} custom_eval_function=null
in_evaluation=false evaluation_parallel_to_training=false always_attach_evaluation_results=false
keep_per_episode_custom_metrics=false sample_async=false sample_batch_size=200 _use_trajectory_view_api=true
sample_collector=null _disable_execution_plan_api=false _disable_preprocessor_api=false observation_filter=NoFilter
synchronize_filters=true compress_observations=false collect_metrics_timeout=180 metrics_episode_collection_timeout_s=180
metrics_smoothing_episodes=100 metrics_num_episodes_for_smoothing=100 remote_worker_envs=false remote_env_batch_wait_ms=0
min_iter_time_s=0 min_time_s_per_reporting=null min_time_s_per_iteration=null timesteps_per_iteration=0
min_sample_timesteps_per_reporting=null min_sample_timesteps_per_iteration=null min_train_timesteps_per_reporting=null
min_train_timesteps_per_iteration=0 num_cpus_per_worker=1 num_gpus_per_worker=0 custom_resources_per_worker={}
num_cpus_for_driver=1 memory=0 object_store_memory=0 memory_per_worker=0 object_store_memory_per_worker=0
placement_strategy=PACK _fake_gpus=false input=sampler input_config={} actions_in_input_normalized=false
input_evaluation=[is,wis] off_policy_estimation_methods={} postprocess_inputs=false shuffle_buffer_size=0 output=null
output_config={} output_compress_columns=[obs,new_obs] output_max_file_size=67108864 multiagent={…} replay_mode=independent
replay_sequence_length=1 simple_optimizer=false enable_connectors=false _enable_rl_module_api=false
_enable_learner_api=false num_learner_workers=0 num_gpus_per_learner_worker=0 num_cpus_per_learner_worker=1
"""
"""RLlib's common config: key=default."""

TITLE, SECTION = "=", "-"


def common():
    """Return {key: RLlib's default, as text}."""
    return dict(word.split("=", 1) for word in COMMON.split())


def answer(name):
    """Return (kind, text) for a key of the common config; kind: "works", "renamed", "idle" or "refused"."""
    schemas = {row.name: load(row.config) for row in table.built_in()}
    having = [row for row, schema in schemas.items() if name in fields_of(schema)]
    if having:
        return "works", _works(name, having, schemas)
    new = aliases.ALIASES.get((name,)) or aliases.LAID_OVER.get(name)
    if new:
        return "renamed", new if isinstance(new, str) else ".".join(new)
    if (name,) in ignored_keys.IDLE:
        return "idle", ignored_keys.IDLE[(name,)].why
    return "refused", refused_keys.refusal((name,), "SAC", schemas["SAC"], table.built_in()).rstrip(".")


def _works(name, having, schemas):
    field = fields_of(schemas[having[0]])[name]
    lacking = [row for row in schemas if row not in having]
    text = field.description
    if lacking:
        short = f"Not in {', '.join(lacking)}" if len(lacking) <= len(having) else f"In {', '.join(having)}"
        text += f" {short}."
    defaults = {_shown(fields_of(schemas[row])[name]) for row in having}
    if section_of(field):
        text += f" Keys: {', '.join(fields_of(section_of(field)))}."
    return text if len(defaults) > 1 else f"{text} Default: {defaults.pop()}."


def _shown(field):
    return "that of each key" if section_of(field) else _plain(field.default)


def _anyway(name):
    """Return the values with which a refused key is accepted, in words."""
    values = ignored_keys.ANYWAY.get((name,), ())
    return f" ({' or '.join(_plain(value) for value in values)} is accepted)" if values else ""


def _plain(value):
    return value if isinstance(value, str) else json.dumps(value)


def _heading(text, line):
    return [text, line * len(text), ""]


def _escaped(cell):
    """Return a cell so that it is shown as it is; one that is an inline literal is so already."""
    text = str(cell)
    return text if text.startswith("``") and text.endswith("``") else re.sub(r"[\\*`|]|_(?!\w)", r"\\\g<0>", text)


def _rows(header, rows, widths):
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
    for row in [header, *rows]:
        for index, cell in enumerate(row):
            wrapped = textwrap.wrap(_escaped(cell), 110, break_long_words=False, break_on_hyphens=False) or [""]
            lines += [f"   {'* - ' if index == 0 else '  - '}{wrapped[0]}", *(f"       {part}" for part in wrapped[1:])]
    return [*lines, ""]


def _code(text):
    return f"``{text}``"


def keys_part():
    """Return the lines about the keys of the common config, by what becomes of them."""
    found = {name: answer(name) for name in sorted(common(), key=str.casefold)}

    def of(kind):
        return [(name, text) for name, (its, text) in found.items() if its == kind]

    works = [(_code(name), _code(common()[name]), text) for name, text in of("works")]
    lines = _heading("Keys that work", SECTION)
    lines += _rows(("key", "RLlib's default", "meaning here"), works, "28 18 54")
    lines += _heading("Other names of keys", SECTION) + ["Read as the key in the second column, with a notice.", ""]
    lines += _rows(("name", "read as"), [(_code(name), _code(text)) for name, text in of("renamed")], "40 60")
    lines += _heading("Keys without effect", SECTION) + [
        "Accepted with any value that RLlib accepts, with a notice.",
        "",
    ]
    lines += _rows(("key", "why"), [(_code(name), text) for name, text in of("idle")], "30 70")
    lines += _heading("Keys that are refused", SECTION)
    refused = [(_code(name), text + _anyway(name)) for name, text in of("refused")]
    return lines + _rows(("key", "reason, and what to use instead"), refused, "30 70")


def elsewhere_part():
    """Return the lines about names of other libraries."""
    lines = _heading("Names in other libraries", SECTION) + [
        "These names are refused with a message that says what to use here, since the values of many have another unit;",
        "RLlib 2's names have the same meaning, and are accepted.",
        "",
    ]
    rows = [(_code(name), "RLlib 2", f"read as {new}") for name, new in sorted(other_libraries.RLLIB_2.items())]
    for name, told in sorted(other_libraries.KEYS.items(), key=lambda pair: pair[0].casefold()):
        here = "; or ".join(f"{key}{f' ({counts})' if counts else ''}" for key, counts in told.here)
        rows.append((_code(name), told.origin, here))
    lines += _rows(("key", "of", "here"), rows, "25 20 55")
    stops = [(_code(name), _code(new)) for name, new in sorted(other_libraries.STOPS.items())]
    lines += _rows(("stop field", "here"), stops, "50 50")
    lines += _rows(
        ("field of a file", "here"), [(_code(n), t) for n, t in sorted(other_libraries.FIELDS.items())], "30 70"
    )
    options = [(_code(f"--{name}"), text) for name, text in sorted(other_libraries.OPTIONS.items())]
    return lines + _rows(("option", "here"), options, "30 70")


def experiment_part():
    """Return the lines about the keys of an experiment in a file."""
    works = [(_code(name), field.description) for name, field in sorted(ExperimentKeys.model_fields.items())]
    unread = {
        name: one for name, one in experiment_aliases.IDLE_KEYS.items() if name not in ExperimentKeys.model_fields
    }
    idle = [(_code(name), f"No effect: {one.why}.") for name, one in unread.items()]
    idle += [(_code(name), "Read as storage_path.") for name in experiment_aliases.STORAGE]
    idle += [(_code(experiment_aliases.BUDGET), f"Read as a stop rule on {experiment_aliases.STOP_FIELD}.")]
    refused = [
        (_code(name), f"Refused: {text}" if text else "Refused.") for name, text in experiment_keys.NOT_YET.items()
    ]
    taken = {name for name, _ in idle}
    rows = works + idle + [row for row in refused if row[0] not in taken]
    return _heading("Keys of experiments in files", SECTION) + _rows(("key", "here"), rows, "30 70")


def options_part():
    """Return the lines about the options of ``rllib train``, ``rollout`` and ``evaluate``."""
    commands = {"train": train.train, "rollout": rollout.rollout, "evaluate": evaluate.evaluate}
    lines = _heading("Options", SECTION)
    lines += [
        "``drl COMMAND -h`` lists the options that work. RLlib's other options are accepted or refused as follows:",
        "",
    ]
    for command, old in rllib_options.TABLES.items():
        known = {name for option in commands[command].params for name in option.opts}
        rows = [
            (_code(f"drl {command} {name}"), _treated(one) + one.text) for name, one in old.items() if name in known
        ]
        lines += _rows(("option", "answer"), rows, "30 70")
    return lines


def _treated(old):
    if old.fits is None:
        return "Refused: "
    if old.is_answered:
        return f"Accepted with {' or '.join(old.fits)}: "
    return "Accepted: " if old.takes is None else f"Refused, but for {' or '.join(repr(value) for value in old.fits)}: "


def text():
    """Return the whole file."""
    lines = _heading("RLlib's keys and options in drl", TITLE)
    lines += [
        "This page is generated from the program, with ``python docs/make_keys.py > docs/keys.rst``.",
        "",
        "``drl algorithms NAME`` lists the keys of an algorithm with default, unit and bounds. If a key belongs to other",
        "algorithms only, the message names them; if it is misspelt, the message names the closest key.",
        "",
    ]
    lines += keys_part() + elsewhere_part() + experiment_part() + options_part()
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


if __name__ == "__main__":
    print(text(), end="")
