"""docs/examples/external_simulator.py beside a run that serves it: learning, scores, Ctrl-C, resume, and where the token is."""

import contextlib
import importlib
import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path

import pytest

from drl_cli import cli

pytestmark = pytest.mark.process

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "docs" / "examples"
SPACES = {"observation_space": {"Box": {"shape": [2]}}, "action_space": {"Discrete": 2}}
QUICK = {"num_workers": 0, "xla": False, "timesteps_per_iteration": 300, "min_iter_time_s": 0, "seed": 1}
DQN = {"learning_starts": 100, "hiddens": [16], "evaluation_interval": 1, "evaluation_num_episodes": 1}


@pytest.fixture
def simulator(tmp_path, monkeypatch, capsys):
    """The module of the example, beside the client that ``drl new client`` writes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(EXAMPLES), *sys.path])
    assert cli.main(["new", "client"]) == 0
    assert "Wrote policy_client.py." in capsys.readouterr().err
    yield importlib.import_module("external_simulator")
    for name in ("external_simulator", "policy_client"):
        sys.modules.pop(name, None)


@pytest.fixture
def port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def train(run, port, stop, *words, **keys):
    served = {"input": "policy_server", "policy_server": {"port": port, "token_file": "token"}, "env_config": SPACES}
    config = json.dumps(served | QUICK | keys)
    asked = ["--run", run, "--env", "drl/External-v1", "--config", config, "--local-dir", "runs", "--stop", stop]
    return cli.main(["train", *asked, *words])


def beside(function, *args):
    """Start ``function`` in a thread; it ends with the run that it talks to."""
    thread = threading.Thread(target=function, args=args, daemon=True)
    thread.start()
    return thread


def expect_over(thread):
    """A client ends with its run."""
    thread.join(20)
    assert not thread.is_alive()


def rows(folder):
    return [json.loads(line) for line in (folder / "result.json").read_text().splitlines()]


def test_run_learns_from_a_simulator_is_interrupted_and_resumed(simulator, port, tmp_path, capsys):
    url, played = f"http://127.0.0.1:{port}", []
    (tmp_path / "token").touch(mode=0o600)
    (tmp_path / "token").write_text("a token of this test\n")

    def interrupting():
        client, rng = simulator.PolicyClient(url, token_file="token", timeout=60), simulator.random.Random(1)
        with contextlib.suppress(OSError, simulator.PolicyServerError):
            while True:
                played.append(simulator.play(client, rng, is_scored=len(played) % 2 == 0))
                if len(played) == 12:
                    os.kill(os.getpid(), signal.SIGINT)

    thread = beside(interrupting)
    assert train("DQN", port, '{"timesteps_total": 100000}', **DQN) == 130
    expect_over(thread)
    assert cli.main(["report", "runs", "-o", "report.html", "--local-dir", "runs"]) == 0
    said = "".join(capsys.readouterr())
    assert f"policy server: 127.0.0.1:{port}, up to 4 episodes at once" in said
    (folder,) = (path.parent for path in tmp_path.glob("runs/*/*/params.json"))
    before = rows(folder)[-1]
    assert before["timesteps_total"] >= 300 and before["episode_len_mean"] == 60.0
    scored, count = played[::2], before["evaluation"]["episodes_this_iter"]
    means = [sum(scored[first : first + count]) / count for first in range(len(scored))]
    assert min(abs(before["evaluation"]["episode_reward_mean"] - mean) for mean in means) < 1e-9
    thread = beside(simulator.main, url, "token")
    steps = before["timesteps_total"] + 400
    assert cli.main(["train", "--resume", str(folder), "--stop", json.dumps({"timesteps_total": steps})]) == 0
    expect_over(thread)
    said += (again := "".join(capsys.readouterr()))
    assert "Resumed, but not bit for bit: its simulators are elsewhere" in again
    assert rows(folder)[-1]["timesteps_total"] >= steps
    files = [tmp_path / "report.html", *(path for path in folder.rglob("*") if path.is_file())]
    assert len(files) > 9 and not any(b"a token of this test" in path.read_bytes() for path in files)
    assert "a token of this test" not in said


def test_ppo_learns_from_two_simulators(simulator, port, tmp_path):
    (tmp_path / "token").touch(mode=0o600)
    (tmp_path / "token").write_text("a token of this test\n")
    threads = [beside(simulator.main, f"http://127.0.0.1:{port}", "token", seed) for seed in (1, 2)]
    small = {"num_envs_per_worker": 2, "rollout_fragment_length": 32, "train_batch_size": 128, "sgd_minibatch_size": 64}
    assert train("PPO", port, '{"timesteps_total": 600}', **small) == 0
    for thread in threads:
        expect_over(thread)
    (folder,) = (path.parent for path in tmp_path.glob("runs/*/*/params.json"))
    last = rows(folder)[-1]
    assert last["timesteps_total"] == 768 and last["info"]["num_steps_trained"] == 768
    assert last["episodes_total"] >= 8


@pytest.mark.parametrize(
    ("run", "keys", "line"),
    [
        ("IMPALA", {}, "input: IMPALA does not learn from a policy server (--config). These do: "),
        (
            "DQN",
            {"horizon": 5},
            "horizon: clients end their episodes (--config). Leave it out with input policy_server.",
        ),
        ("DQN", {"output": "logdir"}, "output: steps of external simulators are not recorded (--config)."),
        ("DQN", {"input": ["policy_server"]}, "input: policy_server is not mixed with other inputs; give it alone"),
        ("DQN", {"policy_server": {"port": 9900}}, "policy_server: clients need a token. Set policy_server.token_file"),
        ("DQN", {"env_config": {}}, "env_config.observation_space: null is no space"),
        (
            "DQN",
            {"env_config": SPACES | {"action_space": {"Discret": 2}}},
            'env_config.action_space: {"Discret": 2} is no',
        ),
        (
            "SAC",
            {"env_config": SPACES | {"action_space": {"Box": {"shape": [1]}}}},
            "action 0 has the bounds [-infinity",
        ),
    ],
)
def test_what_does_not_go_with_clients_is_refused_in_a_line(run, keys, line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRL_POLICY_TOKEN", raising=False)
    assert train(run, 9900, "{}", **keys) == 2
    assert line in capsys.readouterr().err


def test_simulator_of_a_run_that_is_elsewhere_cannot_be_played(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    config = json.dumps({"env_config": SPACES})
    assert cli.main(["train", "--run", "DQN", "--env", "drl/External-v1", "--config", config]) == 2
    assert "drl/External-v1 has spaces and no simulator: it is for input policy_server" in capsys.readouterr().err
