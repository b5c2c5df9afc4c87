"""The commands as a user types them, in processes of their own: train, interrupt, resume, roll out, evaluate."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from process_family import asked, children

from drl_cli import cli, events

pytestmark = pytest.mark.process

DRL = [sys.executable, "-m", "drl_cli"]
SMALL = [
    "--run",
    "SAC",
    "--env",
    "Pendulum-v1",
    "--seed",
    "3",
    "-s",
    "learning_starts=200",
    "-s",
    "evaluation_num_episodes=2",
]
QUICK = [*SMALL, "-s", "timesteps_per_iteration=200", "-s", "evaluation_interval=2", "-s", "xla=false"]
ENDLESS = ["--stop", "{}"]
LIGHT = ["--run", "ARS", "--env", "CartPole-v1", "--seed", "3", "-s", "num_workers=0", "-s", "evaluation_interval=2"]
LIGHT += ["-s", "num_rollouts=2", "-s", "rollouts_used=1", "-s", "timesteps_per_iteration=200"]
"""A run that loads no TensorFlow, for what has nothing to do with what is learnt."""


def drl(*words, timeout=120, **options):
    return subprocess.run([*DRL, *map(str, words)], capture_output=True, text=True, timeout=timeout, **options)


def here(*words):
    """``drl`` in this process, without the seconds that another one needs to begin; returns the exit code."""
    return cli.main([str(word) for word in words])


def start(*words):
    return subprocess.Popen(
        [*DRL, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def until(process, word):
    """Read the run's plain lines until one holds ``word``; returns what was read."""
    seen = []
    for line in process.stderr:
        seen.append(line)
        if word in line:
            return "".join(seen)
    raise AssertionError(f"no {word!r} in:\n{''.join(seen)}")


def until_iteration(process, folder, number):
    """Wait until the run below ``folder`` has recorded ``number`` iterations: its plain lines leave most of them out."""
    while process.poll() is None:
        records = list(Path(folder).glob("*/*/result.json"))
        if records and records[0].read_bytes().count(b"\n") >= number:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
    raise AssertionError(f"the run has ended:\n{process.stderr.read()}")


def the_run(folder):
    (run,) = (path.parent for path in Path(folder).glob("*/*/params.json"))
    return run


def rows(run):
    return [json.loads(line) for line in (run / "result.json").read_text().splitlines()]


def processes_of(session):
    """Processes that belong to the session that ``start`` opened, Ray's included."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, ProcessLookupError):
            continue
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A whole run in a process of its own: (where, exit code and output, the names of the modules that it loaded)."""
    folder = tmp_path_factory.mktemp("trained")
    words = ["train", *QUICK, "--local-dir", str(folder), "--stop", "timesteps_total=1200", "--json"]
    code = (
        "import pathlib, sys; from drl_cli.cli import main; "
        f"code = main({words!r}); "
        f"pathlib.Path({str(folder / 'modules')!r}).write_text(chr(10).join(sys.modules)); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    return folder, done, (folder / "modules").read_text().split()


def test_run_leaves_files_behind_that_rollout_and_evaluate_play(trained, capsys):
    folder, done, _ = trained
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["training_iteration"] for line in lines[:-1]] == [1, 2, 3, 4, 5, 6]
    assert lines[-1]["finished"]["state"] == "finished"
    run = the_run(folder)
    made = {path.name for path in run.iterdir()}
    wanted = {"params.json", "result.json", "progress.csv", "versions.json", "drl.log", "events.jsonl", "best.json"}
    assert wanted <= made
    assert any(name.startswith("events.out.tfevents") for name in made)
    assert (run / "checkpoint_000006" / "COMMIT").is_file()
    params = json.loads((run / "params.json").read_text())
    assert (params["config"]["learning_starts"], params["config"]["gamma"], params["seed"]) == (200, 0.99, 3)

    played = drl("rollout", run, "--episodes", 2, "--seed", 7)
    assert played.returncode == 0, played.stderr
    assert [line.split(": reward:")[0] for line in played.stdout.splitlines()[:2]] == ["Episode #0", "Episode #1"]
    # The rest in this process: another one only takes longer.
    assert here("rollout", run / "checkpoint_000006" / "manifest.json", "--episodes", 2, "--seed", 7) == 0
    capsys.readouterr()
    assert here("evaluate", run, run / "checkpoint_000006", "--episodes", 3, "--json") == 0
    scored = json.loads(capsys.readouterr().out)
    assert [entry["greedy"]["episodes"] for entry in scored["checkpoints"]] == [3, 3]


def test_inline_run_imports_no_ray(trained):
    _, done, modules = trained
    assert (done.returncode, "ray" in modules, "tensorflow" in modules) == (0, False, True), done.stderr


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_saves_and_resume_joins_the_curves(tmp_path, capsys, sent, code):
    process = start("train", *QUICK, *ENDLESS, "--local-dir", tmp_path)
    until_iteration(process, tmp_path, 3)
    os.kill(process.pid, sent)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == code, errors
    run = the_run(tmp_path)
    last = rows(run)[-1]["training_iteration"]
    assert (run / f"checkpoint_{last:06d}" / "COMMIT").is_file()
    assert f"drl train --resume {run}" in output

    steps = 200 * (last + 3)
    assert cli.main(["train", "--resume", str(run), "--stop", f"timesteps_total={steps}"]) == 0
    assert [row["training_iteration"] for row in rows(run)] == list(range(1, last + 4))
    assert f"resuming {run.name}" in capsys.readouterr().err


def test_second_interrupt_quits_at_once_and_leaves_earlier_checkpoints_alone(tmp_path):
    process = start("train", *QUICK, *ENDLESS, "--local-dir", tmp_path, "--checkpoint-freq", "1")
    until_iteration(process, tmp_path, 3)
    os.kill(process.pid, signal.SIGSTOP)  # both signals arrive before the run can act on the first
    os.kill(process.pid, signal.SIGINT)
    os.kill(process.pid, signal.SIGCONT)
    until(process, "Stopping")
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=5)
    assert process.returncode == 130
    assert here("rollout", the_run(tmp_path), "--latest", "--episodes", 1) == 0


def test_second_run_on_a_folder_is_refused_and_names_the_holder(tmp_path, capsys):
    process = start("train", *LIGHT, *ENDLESS, "--local-dir", tmp_path)
    until(process, "iteration 1")
    code = here("train", "--resume", the_run(tmp_path))
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=30)
    refused = capsys.readouterr().err
    assert code == 2
    assert str(process.pid) in refused
    assert "Traceback" not in refused


def test_reader_of_stdout_that_leaves_does_not_stop_training(tmp_path):
    process = start("train", *LIGHT, "--local-dir", tmp_path, "--stop", "timesteps_total=1000", "--json")
    process.stdout.close()
    process.stdout = None
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert rows(the_run(tmp_path))[-1]["timesteps_total"] >= 1000


def test_resume_skips_a_damaged_checkpoint_and_an_explicit_one_is_refused(tmp_path, capsys):
    stop = ["--stop", "timesteps_total=1000", "--checkpoint-freq", "1"]
    assert here("train", *LIGHT, "--local-dir", tmp_path, *stop) == 0
    run = the_run(tmp_path)
    weights = max(run.glob("checkpoint_*")) / "weights.safetensors"
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    weights.write_bytes(data)
    capsys.readouterr()
    assert here("rollout", weights.parent, "--episodes", 1) == 2
    refused = capsys.readouterr().err
    assert "weights.safetensors" in refused
    assert "Traceback" not in refused


def test_environment_that_fails_in_reset_is_refused_before_anything_starts(tmp_path):
    (tmp_path / "broken_env.py").write_text(
        "import gymnasium\n"
        "from gymnasium.envs.classic_control.pendulum import PendulumEnv\n"
        "class Broken(PendulumEnv):\n"
        "    def reset(self, **options):\n"
        "        raise OSError('no such sensor')\n"
        "gymnasium.register('Broken-v0', entry_point=Broken)\n"
    )
    words = [
        "train",
        "--run",
        "SAC",
        "--env",
        "Broken-v0",
        "--import",
        "broken_env",
        "--local-dir",
        tmp_path / "results",
    ]
    done = drl(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert "no such sensor" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "results").exists()


def test_run_without_workers_opens_no_socket(tmp_path):
    found = []

    def look(kind, fields):
        if kind == "result":
            found.append(psutil.Process().net_connections("inet"))

    before, unsubscribe = psutil.Process().net_connections("inet"), events.subscribe(look)
    try:
        assert here("train", *LIGHT, "--stop", "training_iteration=2", "--local-dir", tmp_path) == 0
    finally:
        unsubscribe()
    assert [[socket for socket in sockets if socket not in before] for sockets in found] == [[], []]


TOKENS = {"RAY_AUTH_TOKEN": "0123456789abcdef" * 4, "DRL_POLICY_TOKEN": "a token of this run"}


@pytest.mark.ray
def test_run_over_ray_survives_a_killed_worker_saves_on_interrupt_and_leaves_no_process(tmp_path, monkeypatch):
    for name, token in TOKENS.items():
        monkeypatch.setenv(name, token)
    small = [*QUICK, *ENDLESS, "--local-dir", tmp_path, "-s", "num_workers=2", "-s", "min_iter_time_s=0.5"]
    process = start("train", *small)
    until_iteration(process, tmp_path, 2)
    commands = asked(children(process.pid), lambda child: " ".join(child.cmdline()))
    worker = next(child for child, words in commands if "Worker1" in words)
    worker.kill()
    until(process, "worker 1")
    until(process, "iteration")
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole process group
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    run = the_run(tmp_path)
    assert rows(run)[-1]["num_restarts"] == 1
    assert here("report", run, "-o", tmp_path / "report.html") == 0
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    seen = b"".join([*written, *(part.encode() for part in (*(words for _, words in commands), output, errors))])
    assert len(written) > 8 and not [name for name, token in TOKENS.items() if token.encode() in seen]
    assert f"drl train --resume {run}" in output + errors  # errors: where a busy machine leaves no time to come to rest
    until_gone = time.monotonic() + 5.0  # what was killed ends in a moment
    while (left := processes_of(process.pid)) and time.monotonic() < until_gone:
        psutil.wait_procs(left, timeout=0.1)
    assert left == []
