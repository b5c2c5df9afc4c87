"""``drl doctor``, ``drl envs``, ``drl env check`` and ``--plan`` at the command line: output, JSON keys, exit codes."""

import json

import pytest

from drl_cli import cli
from drl_cli.checks import doctor, env_catalogue, env_check, run_plan
from drl_cli.checks.findings import Finding
from drl_cli.experiments import tuned_files
from drl_cli.runtime import machine

FOUND = [Finding("Python", "ok", "3.12"), Finding("open files", "warn", "256 " * 30, "ulimit -n 4096")]
BROKEN = [*FOUND, Finding("Ray", "fail", "cannot be used", "pip install ray")]


@pytest.fixture
def drl(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words):
        code = cli.main(list(words))
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_doctor_prints_findings_with_commands_that_are_never_wrapped(drl, monkeypatch):
    monkeypatch.setattr(doctor, "examine", lambda *_: FOUND)
    code, out, _ = drl("doctor")
    assert code == 0 and out.startswith("ok    Python")
    assert "\n                  $ ulimit -n 4096\n" in out and max(len(line) for line in out.splitlines()) <= 80
    assert out.splitlines()[-1] == "Nothing is broken, 1 to look at."


def test_doctor_ends_with_1_where_something_is_broken(drl, monkeypatch):
    monkeypatch.setattr(doctor, "examine", lambda *_: BROKEN)
    code, out, _ = drl("doctor", "-q")
    assert code == 1 and "Python" not in out and out.splitlines()[-1] == "1 broken, 1 to look at."


def test_doctor_json_has_the_documented_keys(drl, monkeypatch):
    monkeypatch.setattr(doctor, "examine", lambda *_: BROKEN)
    code, out, err = drl("doctor", "--json")
    told = json.loads(out)
    assert (code, told["ok"], err) == (1, False, "")
    assert told["findings"][2] == {"what": "Ray", "state": "fail", "text": "cannot be used", "mend": "pip install ray"}


LOOKED_AT = [
    {
        "id": "Pendulum-v1", "fits": ["SAC", "TD3"], "max_episode_steps": 200, "reward_threshold": None,
        "spaces": {"obs": {"kind": "Box", "shape": [3]}, "action": {"kind": "Box", "shape": [1]}},
    },
    {"id": "Ant-v5", "error": "needs a package"},
    {"id": "Hopper-v5", "error": "needs a package"},
]  # fmt: skip


def test_envs_lists_what_works_and_groups_what_does_not(drl, monkeypatch):
    monkeypatch.setattr(env_catalogue, "matching", lambda *_: (["a", "b", "c"], ["an old id"]))
    monkeypatch.setattr(env_catalogue, "looked_at", lambda *_: iter(LOOKED_AT))
    code, out, err = drl("envs")
    assert (code, err) == (0, "an old id\n")
    assert out.splitlines() == [
        "environment  observes  actions  steps  goal  fits",
        "Pendulum-v1  Box 3     Box 1      200     -  A",
        "",
        "A   SAC, TD3",
        "",
        "Cannot be made: Ant-v5, Hopper-v5",
        "    needs a package",
    ]


def test_envs_ids_makes_nothing(drl, monkeypatch):
    monkeypatch.setattr(env_catalogue, "looked_at", lambda *_: pytest.fail("made something"))
    code, out, _ = drl("envs", "lunarlander", "--ids")
    assert (code, out) == (0, "LunarLander-v3\nLunarLanderContinuous-v3\n")


def test_envs_json_has_the_documented_keys(drl, monkeypatch):
    monkeypatch.setattr(env_catalogue, "looked_at", lambda *_: iter(LOOKED_AT))
    told = json.loads(drl("envs", "LunarLander-v2", "--json")[1])
    assert told["notices"] == ["LunarLander-v2 is retired and runs as LunarLander-v3."]
    assert told["environments"][1] == {"id": "Ant-v5", "error": "needs a package"}


PLAYED = {"rewards": [1.0, 2.0, 3.0], "lengths": [5, 5, 5], "steps_per_s": 9.0, "reset_s": 0.1, "make_s": 0.1}


def reported(*findings):
    text = {"obs": "Box(8)", "action": "Discrete(4)"}
    return {
        "id": "X-v0",
        "findings": list(findings),
        "random_policy": dict(PLAYED),
        "spaces": {},
        "fits": [],
        "text": text,
    }


def test_env_check_prints_findings_and_a_score_with_its_interval(drl, monkeypatch):
    monkeypatch.setattr(env_check, "check", lambda *_: reported(Finding("numbers", "ok", "finite")))
    code, out, err = drl("env", "check", "CartPole-v1")
    assert (code, err) == (0, "")
    assert "random  policy: 2.0 ± 0.816 over 3 episodes, IQM 2.0 [" in out
    assert out.splitlines()[-1] == "X-v0: nothing broken."


def test_env_check_ends_with_1_where_something_is_broken(drl, monkeypatch):
    monkeypatch.setattr(env_check, "check", lambda *_: reported(Finding("numbers", "fail", "nan")))
    code, out, _ = drl("env", "check", "CartPole-v1", "--json")
    told = json.loads(out)
    assert (code, told["ok"], told["asked"]) == (1, False, "CartPole-v1")
    assert told["random_policy"]["score"]["mean"] == 2.0


def test_env_check_of_an_unknown_id_is_bad_input(drl):
    code, out, err = drl("env", "check", "CartPol-v1")
    assert (code, out) == (2, "") and "Did you mean 'CartPole-v1'" in err


def planned(monkeypatch, **over):
    real = run_plan.plan
    monkeypatch.setattr(
        run_plan, "plan", lambda spec, progress, trials, scale: {**real(spec, False, trials=trials), **over}
    )


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (
            '{"env_wrappers": ["TimeAwareObservation"]}',
            "'env_wrappers' has no part in this check, which takes env_config alone.",
        ),
        ('{"env_confg": {"g": 5}}', "Did you mean 'env_config'?"),
    ],
)
def test_env_check_refuses_keys_that_it_does_not_read(drl, config, text):
    code, out, err = drl("env", "check", "Pendulum-v1", "--config", config)
    assert (code, out) == (2, "") and text in err and "register_env" in err and len(err.splitlines()) == 1


def test_plan_shows_config_memory_and_what_was_measured(drl, monkeypatch, tmp_path):
    planned(monkeypatch)
    code, out, _ = drl("train", "-f", "pendulum-sac", "--plan", "-s", "num_workers=0", "--local-dir", str(tmp_path))
    took = f"median {tuned_files.find('pendulum-sac').median_s} s"
    assert code == 0 and "training_intensity=64" in out and f"\nmeasured   pendulum-sac: {took}" in out
    lines = out.replace(str(tmp_path), "").splitlines()  # a path is one word, as long as it is
    assert lines[-1] == "It fits." and max(len(line) for line in lines) <= 80
    assert list(tmp_path.iterdir()) == []


def test_plan_of_several_agents_says_which_policy_acts_for_whom(drl, monkeypatch, tmp_path):
    planned(monkeypatch)
    words = (
        "--run",
        "PPO",
        "--env",
        "drl/MultiAgentCartPole-v1",
        "-s",
        "num_workers=0",
        "-s",
        'multiagent.policies=["0", "1"]',
    )
    code, out, _ = drl("train", *words, "--plan", "--local-dir", str(tmp_path))
    assert code == 0 and "\npolicies   0 acts for 0; 1 acts for 1; 18,310 weights\n" in out


def test_plan_of_a_search_shows_its_largest_trial_and_how_many_run_side_by_side(drl, monkeypatch, tmp_path):
    planned(monkeypatch)
    monkeypatch.setattr(machine, "cores", lambda: 2)
    words = (
        "--run",
        "SAC",
        "--env",
        "Pendulum-v1",
        "-s",
        "num_workers=0",
        "-s",
        "buffer_size={grid_search: [5000, 9000]}",
    )
    code, out, _ = drl("train", *words, "--num-samples", "3", "--plan", "--local-dir", str(tmp_path))
    assert code == 0 and "A search of 6 trials; here is the largest of them, trial 1:" in out
    assert (
        "buffer_size=9000" in out
        and "6 trials, 2 in parallel, on 2 cores" in out
        and out.splitlines()[-1] == "It fits."
    )


def test_plan_that_does_not_fit_ends_with_5(drl, monkeypatch, tmp_path):
    planned(monkeypatch, fits=False)
    code, out, _ = drl("train", "-f", "cartpole-ars", "--plan", "--local-dir", str(tmp_path))
    assert code == 5 and out.splitlines()[-1] == "It does not fit."


SCALED = {
    "cluster": {"workers": 64, "nodes": 4, "cores": 16, "gbit": 10.0, "gib": 64.0},
    "parts": [
        {"part": "learner", "env_steps_per_s": 164_000.0, "workers": 2.9, "why": "205 updates/s"},
        {"part": "fragments", "env_steps_per_s": None, "workers": None, "why": "30 bytes"},
    ],
    "env_steps_per_s": 164_000.0,
    "first": "learner",
    "measured": {"push_s": 0.0034},
}


def test_plan_of_a_cluster_says_what_each_part_carries(drl, monkeypatch, tmp_path):
    planned(monkeypatch, scale=SCALED)
    words = ("--plan", "--scale", "64,nodes=4", "--local-dir", str(tmp_path))
    code, out, _ = drl("train", "-f", "cartpole-impala", *words)
    assert code == 0 and "cluster 64 workers on 4 nodes of 16 cores and 64 GiB, 10 Gbit/s: about 164k env" in " ".join(
        out.split()
    )
    assert "\nlearner    164k env steps/s: 205 updates/s\n" in out and "\nfragments  no bound: 30 bytes\n" in out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--scale", "64"), "--scale is for a plan: add --plan"),
        (("--plan", "--scale", "64,node=4"), "Did you mean 'nodes'?"),
        (("--plan", "--scale", "many"), "'many' is not a whole number"),
        (("--plan", "--scale", "64,gib=much"), "'much' is not a number"),
        (("--plan", "--scale", "nodes=4"), "names no number of workers"),
        (("--plan", "--scale", "8", "-s", "lr={grid_search: [0.1, 0.2]}"), "this is a search"),
    ],
)
def test_scale_that_is_wrong_is_refused_in_a_line(drl, words, text):
    code, _, err = drl("train", "-f", "cartpole-impala", *words)
    assert code == 2 and text in err


def test_plan_json_has_the_documented_keys(drl, monkeypatch, tmp_path):
    planned(monkeypatch)
    told = json.loads(drl("train", "-f", "cartpole-ars", "--plan", "--json", "--local-dir", str(tmp_path))[1])
    assert set(told) == {
        "run",
        "env",
        "experiment",
        "stop",
        "config",
        "weights",
        "policies",
        "processes",
        "trials",
        "memory",
        "disk",
        "probe",
        "time",
        "scale",
        "findings",
        "fits",
        "changed",
        "measured",
    }


def test_replay_that_cannot_fit_is_refused_before_anything_starts(drl, tmp_path):
    words = ["--run", "DQN", "--env", "CarRacing-v3", "--stop", "{}", "-s", "buffer_size=1000000000"]
    code, _, err = drl("train", "--run", "SAC", *words[2:], "--local-dir", str(tmp_path))
    assert code == 5 and "buffer_size 1,000,000,000 does not fit into memory" in err
    assert list(tmp_path.iterdir()) == []
