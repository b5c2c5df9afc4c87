"""From flags, files and recorded runs to experiments: overrides said, defaults filled in, problems told together."""

import json
import subprocess
import sys
from pathlib import Path

import odd_envs  # noqa: F401  registers environments
import pytest
from experiment_fakes import save_small

from drl_cli import events
from drl_cli.envs import make
from drl_cli.envs.preprocessors import NOTHING
from drl_cli.errors import ConfigError, DrlError, EnvError, RunFolderError
from drl_cli.experiments import experiment_files, spec, tuned_files

PENDULUM = {"run": "SAC", "env": "Pendulum-v1"}
TUNED = "tuned file: -f pendulum-sac"


@pytest.fixture(autouse=True)
def notices():
    """The texts of the notices that are reported during the test."""
    texts = []
    unsubscribe = events.subscribe(lambda kind, fields: texts.append(fields["text"]) if kind == "notice" else None)
    yield texts
    unsubscribe()


@pytest.fixture
def write(tmp_path):
    """Write a text to a file of the test's folder and return its path."""

    def write(text, name="my.yaml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    return write


def message(function, *arguments):
    with pytest.raises(DrlError) as caught:
        function(*arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("env", "words", "compiled"),
    [
        ("CartPole-v1", [], True),
        ("Odd-onechannel-v0", [], False),
        ("Odd-onechannel-v0", ["xla=true"], True),
        ("CartPole-v1", ["xla=false"], False),
    ],
)
def test_xla_is_off_for_images_and_on_for_vectors_unless_it_was_given(env, words, compiled):
    one = spec.from_flags({"run": "PPO", "env": env, "set": words, "stop": ["timesteps_total=100"]})
    assert one.config.xla is compiled


def test_bare_command_gets_sensible_defaults(notices, monkeypatch):
    monkeypatch.delenv("TUNE_RESULT_DIR", raising=False)
    one = spec.from_flags({"run": "SAC", "env": "LunarLanderContinuous-v2", "config": '<"num_workers":4>'})
    assert (one.name, one.run, one.env, one.env_asked) == (
        "default",
        "SAC",
        "LunarLanderContinuous-v3",
        "LunarLanderContinuous-v2",
    )
    assert one.config.num_workers == 4 and one.config.env == "LunarLanderContinuous-v3"
    assert one.stop == {"evaluation/episode_reward_mean": 200, "timesteps_total": 1_000_000}
    assert (one.checkpoint_freq, one.checkpoint_at_end, one.keep_checkpoints_num) == (0, True, None)
    assert one.local_dir == Path.home() / "ray_results"
    assert one.env_facts["preprocessing"] == NOTHING
    assert one.env_facts["spaces"]["action"]["shape"] == [2] and one.env_facts["asked"] == "LunarLanderContinuous-v2"
    assert notices == [
        "LunarLanderContinuous-v2 is retired and runs as LunarLanderContinuous-v3.",
        "tuned file: -f lunarlander-continuous-sac",
        "No --stop given: the run stops when evaluation/episode_reward_mean reaches 200, or after 1,000,000 env steps. "
        "Type --stop '{}' for an endless run.",
    ]


def test_default_stop_without_threshold_or_evaluation_is_a_limit(notices):
    assert spec.from_flags(PENDULUM).stop == {"timesteps_total": 1_000_000}
    flags = {"run": "SAC", "env": "LunarLanderContinuous-v3", "set": ["evaluation_interval=null"]}
    assert spec.from_flags(flags).stop == {"timesteps_total": 1_000_000}
    assert notices[:2] == [
        TUNED,
        "No --stop given: the run stops after 1,000,000 env steps. Type --stop '{}' for an endless run.",
    ]


def test_empty_stop_that_was_typed_is_endless(notices):
    assert spec.from_flags({**PENDULUM, "stop": ["{}"]}).stop == {}
    assert notices == [TUNED]


def test_seed_is_drawn_when_none_is_given_and_kept_when_one_is():
    drawn = [spec.from_flags(PENDULUM).seed for _ in range(3)]
    assert len(set(drawn)) == 3 and all(0 <= seed < 2**31 for seed in drawn)
    one = spec.from_flags({**PENDULUM, "set": ["seed=7"]})
    assert one.seed == one.config.seed == 7


def test_flags_fill_their_keys(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = spec.from_flags(
        {
            **PENDULUM,
            "experiment_name": "mine",
            "local_dir": "results",
            "checkpoint_freq": 5,
            "keep_checkpoints_num": 2,
            "checkpoint_at_end": False,
            "checkpoint_score_attr": "min-episode_len_mean",
            "restore": "ckpt",
            "verbose": 2,
            "set": ["Q_model.fcnet_hiddens=[8]", "env_config.g=9.5"],
            "stop": ["training_iteration=3", "time_total_s=1e3"],
            "ray_num_cpus": 2,
            "imports": ["json"],
            "command": ["drl", "train"],
        }
    )
    assert (one.name, one.local_dir, one.restore) == ("mine", tmp_path / "results", tmp_path / "ckpt")
    assert (one.checkpoint_freq, one.keep_checkpoints_num, one.checkpoint_at_end) == (5, 2, False)
    assert one.checkpoint_score_attr == "min-episode_len_mean"
    assert one.config.log_level == "DEBUG" and one.config.Q_model.fcnet_hiddens == (8,)
    assert one.env_facts["env_config"] == one.config.env_config == {"g": 9.5}
    assert one.stop == {"training_iteration": 3, "time_total_s": 1000.0}
    assert one.ray == {"address": None, "num_cpus": 2, "num_gpus": None, "object_store_memory": None}
    assert (one.imports, one.command) == (["json"], ["drl", "train"])


def test_results_folder_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path))
    assert spec.from_flags(PENDULUM).local_dir == tmp_path


def test_env_inside_config_is_the_env(notices):
    assert spec.from_flags({"run": "SAC", "config": '{"env": "Pendulum-v1"}', "stop": ["{}"]}).env == "Pendulum-v1"
    assert notices == [TUNED]


def test_last_flag_wins_and_says_so(notices):
    one = spec.from_flags({**PENDULUM, "stop": ["{}"], "config": '{"gamma": 0.8}', "set": ["gamma=0.9"]})
    assert one.config.gamma == 0.9
    assert notices == ["config.gamma: 0.9 (-s) replaces 0.8 (--config).", TUNED]


FILE = """\
lunar:
  run: SAC
  env: LunarLanderContinuous-v3
  stop: {evaluation/episode_reward_mean: 200, timesteps_total: 3e5}
  checkpoint_freq: 7
  config:
    num_workers: 2
    Q_model: {fcnet_hiddens: [32, 32]}
    optimization:
      actor_learning_rate: 1e-4
pendulum:
  run: SAC
  config: {env: Pendulum-v1, horizon: 100}
  stop: {timesteps_total: 1000}
  pass_criteria: {episode_reward_mean: -200, timesteps_total: 500}
  num_samples: 1
"""


def test_file_gives_its_experiments_in_order(write):
    first, second = spec.from_file(write(FILE), {})
    assert (first.name, first.env, first.checkpoint_freq) == ("lunar", "LunarLanderContinuous-v3", 7)
    assert first.stop == {"evaluation/episode_reward_mean": 200, "timesteps_total": 300000.0}
    assert first.config.optimization.actor_learning_rate == 1e-4 and first.config.Q_model.fcnet_hiddens == (32, 32)
    assert (second.name, second.env, second.config.horizon) == ("pendulum", "Pendulum-v1", 100)
    assert second.stop == {"episode_reward_mean": -200, "timesteps_total": 1000}
    assert second.pass_criteria == {"episode_reward_mean": -200, "timesteps_total": 500}


def test_flags_override_a_file_visibly(write, notices):
    path = write(FILE.partition("pendulum:")[0])
    flags = {"set": ["num_workers=0", "gamma=0.9"], "stop": ["timesteps_total=500"], "checkpoint_freq": 1}
    (one,) = spec.from_file(path, {**flags, "config": '{"Q_model": {"layer_norm": true}}', "experiment_name": "mine"})
    assert (one.name, one.config.num_workers, one.config.gamma, one.checkpoint_freq) == ("mine", 0, 0.9, 1)
    assert (one.config.Q_model.fcnet_hiddens, one.config.Q_model.layer_norm) == ((32, 32), True)
    assert one.stop == {"evaluation/episode_reward_mean": 200, "timesteps_total": 500}
    assert notices == [
        f"config.num_workers: 0 (-s) replaces 2 ({path}:7).",
        f"stop.timesteps_total: 500 (--stop) replaces 300000.0 ({path}:4).",
        f"checkpoint_freq: 1 (--checkpoint-freq) replaces 7 ({path}:5).",
    ]


def test_stop_object_replaces_the_rules_of_a_file(write, notices):
    path = write(FILE.partition("pendulum:")[0])
    (one,) = spec.from_file(path, {"stop": ['{"episode_reward_mean": 250}']})
    assert one.stop == {"episode_reward_mean": 250}
    assert notices == [
        'stop: {"episode_reward_mean": 250} (--stop) replaces {"evaluation/episode_reward_mean": 200, '
        '"timesteps_total"… '
        f"({path}:4)."
    ]


def test_everything_wrong_with_a_file_is_told_together(write):
    path = write(
        "a:\n  run: SAC\n  env: Pendulun-v1\n  stop: {timestep_total: 1, time_total_s: x}\n  configg: {}\n"
        "  trial_name_creator: mine\n  num_samples: 2\n  config:\n    num_wrkers: 2\n    evaluation_interval: null\n"
    )
    lines = message(
        spec.from_file, path, {"set": ["gmma=1"], "checkpoint_score_attr": "episode_reward_meen"}
    ).splitlines()
    assert lines == [
        f"8 problems in {path}:",
        f"  configg: unknown key ({path}:5). Did you mean 'config'?",
        "  trial_name_creator: not supported: it is a Python function. Runs are named by algorithm, environment and time "
        f"({path}:6).",
        f"  num_wrkers: unknown key ({path}:9). Did you mean 'num_workers'?",
        "  gmma: unknown key (-s). Did you mean 'gamma'?",
        f"  There is no environment 'Pendulun-v1'. Did you mean 'Pendulum-v1'? ({path}:3).",
        f"  stop: unknown result field 'timestep_total' ({path}:4). Did you mean 'timesteps_total'?",
        f'  stop: time_total_s: "x" is not allowed; it takes a number ({path}:4).',
        "  checkpoint_score_attr: unknown result field 'episode_reward_meen' (--checkpoint-score-attr). "
        "Did you mean "
        "'episode_reward_mean'?",
    ]


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({}, "run is missing (the command): which algorithm? Type --run SAC."),
        (
            {"run": "SACC", "env": "Pendulum-v1"},
            "Unknown algorithm 'SACC'. Did you mean 'SAC'? One that a module registers",
        ),
        ({"run": "CRR", "env": "Pendulum-v1"}, "CRR does not run here: another offline algorithm"),
        ({**PENDULUM, "set": ["num_atoms=51"]}, "num_atoms: a key of XQC, DQN, SimpleQ, APEX, not of SAC (-s)."),
        ({"run": "SAC", "env": "Pendulum-v0", "strict_env": True}, "Pendulum-v0 is retired"),
        ({**PENDULUM, "config": "num_workers=4"}, "--config: 'num_workers=4' is not an object."),
        ({**PENDULUM, "set": ["gamma"]}, "-s: 'gamma' is not an assignment. Write -s key=value"),
        ({**PENDULUM, "stop": ["timesteps_total"]}, "--stop: 'timesteps_total' is not an assignment."),
        (
            {**PENDULUM, "stop": ['{"timesteps_total": }']},
            "stop: timesteps_total: null is not allowed; it takes a number",
        ),
        ({**PENDULUM, "checkpoint_freq": -1}, "checkpoint_freq: -1 is not allowed; it takes a whole number ≥ 0"),
        ({**PENDULUM, "experiment_name": "../up"}, "'../up' is no name for an experiment"),
        ({**PENDULUM, "experiment_name": "a..b"}, "'a..b' is no name for an experiment"),
        ({**PENDULUM, "experiment_name": "_a"}, "'_a' is no name for an experiment"),
        (
            {**PENDULUM, "ray_address": "auto", "ray_num_cpus": 2},
            "--ray-num-cpus starts a Ray instance, --ray-address joins",
        ),
        ({**PENDULUM, "ray_num_cpus": -2}, "--ray-num-cpus: -2 is not a number ≥ 0."),
        (
            {**PENDULUM, "set": ["evaluation_interval=null"], "stop": ["evaluation/episode_reward_mean=1"]},
            "stop: evaluation/episode_reward_mean needs evaluations (--stop). Set evaluation_interval, or drop "
            "the rule.",
        ),
    ],
)
def test_wrong_command_is_refused(flags, text):
    assert text in message(spec.from_flags, flags)


def test_algorithm_is_named_as_the_table_spells_it(write):
    assert spec.from_flags({"run": "sac", "env": "Pendulum-v1", "stop": ["{}"]}).run == "SAC"
    assert spec.from_flags({"resume": str(record(write)), "run": "sac"}).run == "SAC"


def test_exploration_that_does_not_fit_the_actions_is_refused(monkeypatch):
    spaces = {"obs": {"shape": [4]}, "action": {"kind": "Discrete"}}
    monkeypatch.setattr(make, "check", lambda *arguments: spaces)
    flags = {"run": "SAC", "env": "CartPole-v1", "set": ["exploration_config.type=GaussianNoise"]}
    assert message(spec.from_flags, flags).startswith(
        "exploration_config.type: GaussianNoise is for Box actions, the environment's are Discrete. What fits: "
    )


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """Ship two tuned files, and one for an environment that is not installed."""
    for name, run, env in (
        ("pendulum-sac", "sac  # in small letters", "Pendulum-v0"),
        ("pendulum-sac-fast", "SAC", "Pendulum-v1"),
        ("moon-sac", "SAC", "Moon-v7"),
    ):
        (tmp_path / f"{name}.yaml").write_text(
            f"# goal\n{name}:\n  run: {run}\n  env: {env}\n  config:\n    gamma: 0.9\n"
        )
    monkeypatch.setattr(tuned_files, "shipped_folder", lambda: tmp_path)


@pytest.mark.parametrize("env", ["Pendulum-v1", "Pendulum-v0"])
def test_tuned_file_for_what_was_typed_is_said_and_not_used(env, shipped, notices):
    one = spec.from_flags({"run": "SAC", "env": env, "stop": ["{}"]})
    assert [text for text in notices if "tuned" in text] == ["tuned file: -f pendulum-sac"]
    assert one.name == "default"


def test_tuned_file_of_another_algorithm_environment_or_in_use_is_not_said(shipped, notices, write):
    spec.from_flags({"run": "SAC", "env": "MountainCarContinuous-v0", "stop": ["{}"]})
    spec.from_flags({"run": "TD3", "env": "Pendulum-v1", "stop": ["{}"]})
    spec.from_file("pendulum-sac-fast", {"stop": ["{}"], "config": '{"seed": 1}', "run": "SAC"})
    spec.from_flags({"resume": str(record(write))})
    assert [text for text in notices if "tuned" in text] == []


def test_space_that_does_not_fit_is_refused_as_an_environment():
    with pytest.raises(EnvError, match="TD3 needs"):
        spec.from_flags({"run": "TD3", "env": "CartPole-v1"})


def test_module_of_a_file_needs_the_command_line(write, tmp_path, monkeypatch):
    (tmp_path / "file_envs.py").write_text(
        "import gymnasium\ngymnasium.register('Filed-v0', entry_point='gymnasium.envs.classic_control:PendulumEnv')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = write("a: {run: SAC, env: 'file_envs:Filed-v0', stop: {}}")
    assert "asks to import the module 'file_envs', which only the command line may" in message(spec.from_file, path, {})
    assert spec.from_file(path, {"env": "file_envs:Filed-v0"})[0].env == "file_envs:Filed-v0"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty; a mapping of keys to values is needed."),
        ("a: 3", "a: 3 is not an experiment"),
        ("{}", "no experiment in it."),
        ("a: {run: SAC, env: Pendulum-v1, config: {env: CartPole-v1}}", "env: two environments, 'Pendulum-v1'"),
        ("a: {run: SAC, env: Pendulum-v1, config: [1]}", "config: [1] is not a"),
        ("a: {run: [SAC], env: Pendulum-v1}", 'run: ["SAC"] is not allowed; it takes the name of an algorithm'),
        ("a: {run: SAC, env: {grid_search: [a, b]}}", "values are searched over by drl train only"),
        ("'a/b': {run: SAC, env: Pendulum-v1}", "'a/b' is no name for an experiment"),
        ("a: {run: SAC, env: Pendulum-v1, stop: 5}", "stop: 5 is not allowed"),
    ],
)
def test_file_that_holds_no_experiment_is_refused(write, text, problem):
    assert problem in message(spec.from_file, write(text), {})


def test_shipped_file_is_found_by_name(tmp_path, monkeypatch, write):
    path = write(FILE, "lunar-sac.yaml")
    monkeypatch.setattr(tuned_files, "shipped_folder", lambda: tmp_path)
    assert str(experiment_files.find("lunar-sac")) == str(experiment_files.find("lunar-sac.yaml")) == path
    assert message(experiment_files.find, "lunar-sca") == (
        "lunar-sca: neither a file nor the name of a tuned file. Did you mean 'lunar-sac'?"
    )
    assert message(experiment_files.find, "./nowhere.yaml") == (
        "./nowhere.yaml: there is no such file. drl example list shows the tuned files."
    )


def test_file_and_resume_exclude_each_other(write):
    assert message(spec.from_file, write(FILE), {"resume": True}).startswith("--resume continues an existing run")


RECORDED = {
    "run": "SAC",
    "env": "Pendulum-v1",
    "env_asked": "Pendulum-v0",
    "config": {"env": "Pendulum-v1", "gamma": 0.9, "num_workers": 2, "seed": 11},
    "stop": {"timesteps_total": 1000},
    "seed": 11,
    "checkpoint_freq": 3,
    "checkpoint_at_end": True,
    "keep_checkpoints_num": None,
    "checkpoint_score_attr": None,
    "experiment": "old",
    "env_config": {},
}


def record(write, run="SAC_Pendulum_1", state="interrupted"):
    params = write(json.dumps(RECORDED), f"results/old/{run}/params.json")
    write(json.dumps({"state": state}), f"results/old/{run}/status.json")
    return Path(params).parent


def test_resumed_run_keeps_what_it_recorded(write, tmp_path, notices):
    folder = record(write)
    one = spec.from_flags({"resume": str(folder)})
    assert (one.resume, one.name, one.local_dir) == (folder, "old", tmp_path / "results")
    assert (one.env, one.env_asked, one.seed, one.stop) == ("Pendulum-v1", "Pendulum-v0", 11, {"timesteps_total": 1000})
    assert (one.config.gamma, one.config.num_workers, one.checkpoint_freq) == (0.9, 2, 3)
    assert notices == []


def test_resumed_run_may_change_stop_checkpoints_workers_and_log(write, notices):
    folder = record(write)
    flags = {"resume": str(folder), "stop": ["timesteps_total=9e3"], "set": ["num_workers=0"], "verbose": 1}
    one = spec.from_flags({**flags, "checkpoint_freq": 1, "env": "Pendulum-v0"})
    assert (one.stop, one.config.num_workers, one.config.log_level) == ({"timesteps_total": 9000.0}, 0, "INFO")
    assert one.checkpoint_freq == 1 and one.config.gamma == 0.9
    assert f"config.num_workers: 0 (-s) replaces 2 ({folder}/params.json:1)." in notices


def test_resumed_run_may_change_every_key_that_the_run_folder_allows(write):
    given = ["checkpoint_compress=false", "store_buffer_in_checkpoints=false", "num_cpus_per_worker=0.5"]
    one = spec.from_flags({"resume": str(record(write)), "set": given})
    assert (one.config.checkpoint_compress, one.config.store_buffer_in_checkpoints) == (False, False)
    assert one.config.num_cpus_per_worker == 0.5


def test_resumed_run_refuses_other_changes(write):
    folder = record(write)
    text = message(spec.from_flags, {"resume": str(folder), "set": ["gamma=0.5", "tau=0.1"], "run": "SAC"})
    assert "gamma: the run has 0.9, 0.5 is given (-s). A resumed run keeps its settings, except num_workers" in text
    assert "tau: the run has null, 0.1 is given (-s)." in text


def test_secret_that_was_not_recorded_is_asked_for_again(write):
    folder = record(write)
    recorded = {**RECORDED, "config": {**RECORDED["config"], "env_config": {"api_token": "***"}}}
    (folder / "params.json").write_text(json.dumps(recorded))
    assert message(spec.from_flags, {"resume": str(folder)}) == (
        f"env_config: a secret value was not recorded ({folder}/params.json:1). Type it again: -s env_config.KEY=VALUE"
    )
    flags = {"resume": str(folder), "set": ["env_config.api_token=abc", "gamma=0.5"]}
    assert message(spec.from_flags, flags).startswith("gamma: the run has 0.9, 0.5 is given")  # the token is accepted


def test_resume_alone_takes_the_newest_unfinished_run(write, tmp_path):
    record(write, "SAC_Pendulum-v1_00000_2026-01-03_00-00-00_0123abcd", "finished")
    wanted = record(write, "SAC_Pendulum-v1_00000_2026-01-02_00-00-00_0123abcd", "failed")
    record(write, "SAC_Pendulum-v1_00000_2026-01-01_00-00-00_0123abcd", "interrupted")
    save_small(wanted)
    flags = {"resume": True, "local_dir": str(tmp_path / "results"), "experiment_name": "old"}
    assert spec.from_flags(flags).resume == wanted


def test_resume_finds_a_run_by_its_checkpoint_or_name(write, tmp_path):
    folder = record(write)
    (folder / "checkpoint_000001").mkdir()
    assert spec.from_flags({"resume": str(folder / "checkpoint_000001")}).resume == folder
    flags = {"resume": folder.name, "local_dir": str(tmp_path / "results"), "experiment_name": "old"}
    assert spec.from_flags(flags).resume == folder


def test_resume_of_nothing_is_refused(write, tmp_path):
    home = {"local_dir": str(tmp_path / "results"), "experiment_name": "old"}
    with pytest.raises(RunFolderError, match="there is no unfinished run to resume"):
        spec.from_flags({"resume": True, **home})
    folder = record(write, "SAC_Pendulum-v1_00000_2026-01-01_00-00-00_0123abcd", "finished")
    with pytest.raises(RunFolderError, match="Found:\n  SAC_Pendulum-v1_.*: finished"):
        spec.from_flags({"resume": True, **home})
    with pytest.raises(RunFolderError, match=f"Did you mean '{folder.name}'"):
        spec.from_flags({"resume": folder.name + "x", **home})
    (folder / "params.json").write_text("{")
    with pytest.raises(ConfigError, match="not valid JSON"):
        spec.from_flags({"resume": str(folder)})


def test_spec_imports_neither_ray_nor_tensorflow():
    code = (
        "import sys; from drl_cli.experiments import spec\n"
        "spec.from_flags({'run': 'SAC', 'env': 'Pendulum-v1'})\n"
        "print([name for name in ('tensorflow', 'ray', 'click', 'rich') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_keys_that_only_searches_read_are_said_to_have_no_effect(write, notices):
    path = write("a: {run: SAC, env: Pendulum-v1, max_failures: 3, resources_per_trial: {cpu: 1}}")
    spec.from_file(path, {})
    assert any(text.startswith("max_failures restarts the trials of a search") for text in notices)
    assert "resources_per_trial is for the trials of a search; this is a single run." in notices


def test_local_mode_is_a_run_without_workers(write, notices):
    path = write("a: {run: SAC, env: Pendulum-v1, stop: {}, config: {num_workers: 2, learner_actor: true}}")
    (one,) = spec.from_file(path, {"local_mode": True})
    assert (one.config.num_workers, one.config.learner_actor) == (0, False)
    assert notices == [
        f"config.num_workers: 0 (--local-mode) replaces 2 ({path}:1).",
        f"config.learner_actor: false (--local-mode) replaces true ({path}:1).",
    ]
    assert spec.from_flags({"run": "ES", "env": "Pendulum-v1", "local_mode": True}).config.num_workers == 0


@pytest.mark.parametrize("flag", ["ray_address", "ray_num_cpus", "ray_object_store_memory"])
def test_local_mode_excludes_what_is_about_ray(flag):
    text = message(spec.from_flags, {**PENDULUM, "local_mode": True, flag: 3})
    assert text.startswith(f"--{flag.replace('_', '-')} is about Ray, and --local-mode runs everything in one process.")


def test_queue_trials_makes_ray_patient():
    assert "queue_trials" not in spec.from_flags(PENDULUM).ray
    assert spec.from_flags({**PENDULUM, "queue_trials": True}).ray["queue_trials"] is True


def test_demands_are_read_and_checked():
    one = spec.from_flags({**PENDULUM, "asserts": ["episode_reward_mean>=-200"]})
    assert [str(demand) for demand in one.demands] == ["episode_reward_mean >= -200"]
    text = message(spec.from_flags, {**PENDULUM, "asserts": ["episode_rewrd_mean>=-200"]})
    assert text == "assert: unknown result field 'episode_rewrd_mean' (--assert). Did you mean 'episode_reward_mean'?"
    flags = {**PENDULUM, "asserts": ["evaluation/episode_reward_mean>=-200"], "set": ["evaluation_interval=null"]}
    assert message(spec.from_flags, flags) == (
        "assert: evaluation/episode_reward_mean needs evaluations (--assert). Set evaluation_interval, or drop the rule."
    )


def test_environment_that_cannot_be_drawn_is_refused(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    text = message(spec.from_flags, {**PENDULUM, "set": ["render_env=true"]})
    assert text.startswith("render_env: no display")


@pytest.mark.parametrize("given", ["model,onnx", " savedmodel , onnx,checkpoint,model"])
def test_export_formats_are_those_of_drl_checkpoint_export(given):
    assert spec.from_flags({**PENDULUM, "export_formats": given}).export_formats == ("savedmodel", "onnx")


def test_export_formats_of_a_file_are_a_list(write):
    text = "a: {run: SAC, env: Pendulum-v1, export_formats: [tflite, checkpoint]}"
    assert spec.from_file(write(text), {})[0].export_formats == ("tflite",)


def test_export_format_that_is_unknown_is_refused_with_those_there_are():
    assert "it takes a list of checkpoint, model, savedmodel, onnx, tflite (--export-formats)" in message(
        spec.from_flags, {**PENDULUM, "export_formats": "h5"}
    )


def test_export_format_whose_package_is_missing_is_refused_before_the_run(monkeypatch):
    monkeypatch.setattr("drl_cli.config.experiment_keys.find_spec", lambda name: None)
    assert (
        "export_formats: onnx needs the package onnx, which is not installed (--export-formats). Run: pip install "
        "'drl-cli[onnx]'"
    ) in message(spec.from_flags, {**PENDULUM, "export_formats": "onnx"})


def test_loggers_are_those_of_the_flag_or_of_the_file(write, monkeypatch):
    monkeypatch.setattr("drl_cli.runs.loggers.custom_loggers.find_spec", lambda name: object())
    assert spec.from_flags(PENDULUM).loggers == ()
    assert spec.from_flags({**PENDULUM, "loggers": ["wandb", "aim", "wandb"]}).loggers == ("wandb", "aim")
    path = write("mine: {run: SAC, env: Pendulum-v1, loggers: [mlflow]}")
    assert spec.from_file(path, {})[0].loggers == ("mlflow",)
    assert spec.from_file(path, {"loggers": ["wandb"]})[0].loggers == ("wandb",)
    assert spec.from_file(path, {"loggers": ["wandb"], "defaults": ["loggers"]})[0].loggers == ("mlflow",)


def test_loggers_that_cannot_be_used_are_refused_with_their_place(monkeypatch):
    monkeypatch.setattr("drl_cli.runs.loggers.custom_loggers.find_spec", lambda name: None)
    said = message(spec.from_flags, {**PENDULUM, "loggers": ["wandb", "wand"]})
    assert "logger wandb: the package wandb is not installed. Run: pip install 'drl-cli[wandb]' (--logger)" in said
    assert "'wand' is neither aim, " in said and "Did you mean 'wandb'?" in said


def test_callbacks_that_nobody_registered_are_refused_before_anything_is_made():
    said = message(spec.from_flags, {**PENDULUM, "set": ["callbacks=nobodys", "custom_eval_function=nobodys"]})
    assert "callbacks: No class of callbacks is registered as 'nobodys'." in said
    assert "custom_eval_function: No evaluation is registered as 'nobodys'." in said


def test_metrics_of_callbacks_may_stop_a_run_and_rank_its_checkpoints():
    asked = {
        "stop": ["custom_metrics/angle_mean=3"],
        "checkpoint_score_attr": "min-evaluation/custom_metrics/angle_max",
    }
    one = spec.from_flags({**PENDULUM, **asked})
    assert one.stop == {"custom_metrics/angle_mean": 3}
    assert one.checkpoint_score_attr == "min-evaluation/custom_metrics/angle_max"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "one:\n  run: PPO\n  env: CartPole-v1\n  config:\n  lr: 0.1\n",
            "lr: a key of the config. Indent it under config:",
        ),
        ("one:\n  algo: PPO\n  enviroment: CartPole-v1\n", "enviroment: no field of an experiment. Write env: ID"),
        ("one:\n  run: PPO\n  algo: SAC\n  env: CartPole-v1\n", "algo: another name of run, which is given as well"),
    ],
)
def test_slip_in_a_file_gets_one_line(tmp_path, text, said):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        spec.from_file(str(path), {})
    assert str(caught.value).startswith(said) and len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("run", ["algo: PPO", "run: ray.rllib.agents.ppo.PPOTrainer", "run: PPO\n  algo: PPO"])
def test_algorithm_is_read_under_its_other_names(tmp_path, run):
    path = tmp_path / "mine.yaml"
    path.write_text(f"one:\n  {run}\n  env: CartPole-v1\n  config: {{lr: !!float 1e-3, num_workers: 0}}\n")
    (one,) = spec.from_file(str(path), {})
    assert (one.run, one.config.lr) == ("PPO", 0.001)
