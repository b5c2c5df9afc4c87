"""A run over Ray: one cluster of our own, shared by the tests of this file, in which short runs live side by side.

The tests run in the order of the file: the last one closes the cluster.
"""

import functools
import ipaddress
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import psutil
import pytest
from experience_files import random_set
from process_family import asked, children
from runtime_runs import env_facts, small_config
from watched_callbacks import Failing, Noting

from drl_cli import checkpoints, cli, events, plugins
from drl_cli.algorithms import table
from drl_cli.envs.callbacks import Callbacks, register_callbacks
from drl_cli.errors import ClusterUnavailable, DrlError, PluginFailed, RunFailed
from drl_cli.evolution.keys import ESConfig
from drl_cli.experience.recorded.pieces import layout_of
from drl_cli.experience.recorded.read import Source
from drl_cli.experiments import env_facts as agents_facts
from drl_cli.extras import load
from drl_cli.policies.custom_models import register_model
from drl_cli.runtime import pool as pool_module
from drl_cli.runtime.driver import Driver

pytestmark = pytest.mark.ray

QUICK = {
    "num_workers": 2,
    "num_envs_per_worker": 2,
    "learning_starts": 400,
    "timesteps_per_iteration": 400,
    "min_iter_time_s": 0,
    "evaluation_interval": None,
    "buffer_size": 100_000,
}


POLICY_TOKEN = "of a policy server's clients"


@pytest.fixture(scope="module")
def first():
    """The run that starts Ray."""
    trainer = Driver("SAC", small_config(**QUICK, num_cpus_per_worker=1), env_facts("Pendulum-v1"))
    with pytest.MonkeyPatch.context() as patch:
        here = os.path.dirname(__file__)
        patch.setenv("PYTHONPATH", here, prepend=os.pathsep)  # for runtime_envs
        patch.setenv("PYTHONPATH", os.path.dirname(here), prepend=os.pathsep)  # for watched_callbacks
        patch.setenv("DRL_POLICY_TOKEN", POLICY_TOKEN)  # Ray's processes inherit it
        trainer.start()
        until_learning(trainer)
        yield trainer
    trainer.close()


def begun(trainers, row="SAC", restore=None, env=None, **over):
    """Start a run in the Ray that is there, which takes no CPUs of Ray's count, and append it to ``trainers``."""
    keys = QUICK | {"num_cpus_per_worker": 0} | over
    if row == "SAC":
        trainer = Driver(row, small_config(**keys), env or env_facts("Pendulum-v1"))
    else:
        schema = load(table.find(row).config)
        own = {name: value for name, value in keys.items() if name in schema.model_fields or name not in QUICK}
        trainer = Driver(row, schema.model_validate(own), env or env_facts("CartPole-v1"))
    trainers.append(trainer)
    if restore:
        trainer.restore(*restore)
    trainer.start()
    return trainer


@pytest.fixture
def beside(first):
    """Function as ``begun`` for a run of this test."""
    trainers = []
    yield functools.partial(begun, trainers)
    for trainer in trainers:
        trainer.close()


@pytest.fixture(scope="module")
def apart(first):
    """A run whose learner, replay and one worker are actors.

    It has a custom model, evaluations, and callbacks.
    """
    trainers = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins.MODELS, "_things", {})
        register_model("mine", model_of_no_module(forward=lambda self, w, x: np.tanh(x @ w["kernel"])))
        own = plugins.registered() | {"class of callbacks": {"noting": Noting}}
        keys = {"num_workers": 1, "learner_actor": True, "num_replay_shards": 1, "horizon": 50, "callbacks": "noting"}
        keys |= {"evaluation_interval": 1, "evaluation_num_episodes": 2, "evaluation_config": {"horizon": 20}}
        env = env_facts("Pendulum-v1") | {"plugins": own}
        yield begun(trainers, env=env, model={"custom_model": "mine"}, **keys)
    for trainer in trainers:
        trainer.close()


def until_learning(trainer, iterations=200):
    for _ in range(iterations):
        result = trainer.train()
        if result["info"]["num_updates"] > 0:
            return result
    raise AssertionError("no update was made")


def model_of_no_module(**methods):
    """A custom model that no process can import: the class itself has to travel."""

    def describe(self, shape):
        self.features, self.variables = 4, {"kernel": (*shape, 4)}

    parts = {"__init__": describe, "graph": lambda self, tf, w, x: tf.tanh(tf.matmul(x, w["kernel"]))}
    return type("Mine", (), parts | methods)


def is_loopback(text):
    address = ipaddress.ip_address(text)
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def pid_of(trainer, index):
    return trainer.parts.pool.handles()[index].ready().result()


def test_every_listening_socket_is_on_loopback(first):
    ours = [psutil.Process(), *children()]
    assert {"raylet", "gcs_server"} <= {name for _, name in asked(ours, lambda process: process.name())}
    sockets = asked(ours, lambda process: process.net_connections("inet"))
    listening = [c for _, connections in sockets for c in connections if c.status == psutil.CONN_LISTEN]
    assert len(listening) >= 5
    assert [c.laddr for c in listening if not is_loopback(c.laddr.ip)] == []


def test_tokens_of_ray_and_of_clients_are_in_no_command_line_and_no_log(first):
    tokens = (os.environ["RAY_AUTH_TOKEN"], POLICY_TOKEN)
    assert len(tokens[0]) == 64
    commands = asked([psutil.Process(), *children()], lambda process: process.cmdline())
    assert len(commands) >= 4
    assert [process for process, words in commands if any(token in word for word in words for token in tokens)] == []
    folders = [path.parent for path in Path(f"/tmp/drl-{os.getuid()}").glob("*/owner")]
    (mine,) = [path for path in folders if (path / "owner").read_text() == str(os.getpid())]
    assert mine.parent.stat().st_mode & 0o777 == 0o700
    held = [path for path in mine.rglob("*") if path.is_file() and path.stat().st_size < 2**24]
    assert len(held) > 10
    assert [path for path in held if any(token.encode() in path.read_bytes() for token in tokens)] == []


OTHER_USER = """
import os, sys
from ray._raylet import GcsClient  # what the other user may not read is loaded before
folder, pid, gcs = sys.argv[1:]
os.setgroups([]); os.setgid(65534); os.setuid(65534)

def tried(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "reached"

for call in (lambda: os.listdir(folder), lambda: open(f"/proc/{pid}/environ").read(), lambda: GcsClient(address=gcs)):
    print(tried(call))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_of_the_machine_reaches_neither_the_folder_nor_the_token_nor_the_gcs(first):
    (server,) = [process for process, name in asked(children(), lambda process: process.name()) if name == "gcs_server"]
    (port,) = {at.laddr.port for at in server.net_connections("inet") if at.status == psutil.CONN_LISTEN}
    words = [sys.executable, "-c", OTHER_USER, f"/tmp/drl-{os.getuid()}", str(os.getpid()), f"127.0.0.1:{port}"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["PermissionError", "PermissionError", "AuthenticationError"], done.stderr


def test_weights_move_through_ray_s_tensorflow_variables(first):
    learner = first.parts.learner.part
    made = type(learner._trained._published._variables)
    assert (made.__module__, made.__name__) == ("ray.rllib.utils.tf_utils", "TensorFlowVariables")
    weights, version = first.parts.server.call("state").result()
    assert version > 1
    before = first.loop.ledger.version
    until = first.loop.ledger.updates + 20
    while first.loop.ledger.updates < until:
        first.train()
    assert first.loop.ledger.version > before
    published = learner._trained._published.get()
    assert sorted(f"default_policy/{name}" for name in weights["default_policy"]) == sorted(published)


def test_a_learner_that_dies_is_started_again_and_the_run_goes_on(first, beside):
    seen = []
    stop = events.subscribe(lambda kind, fields: seen.append(fields["text"]) if kind == "warning" else None)
    keys = {"seed": 7, "train_batch_size": 128, "sgd_minibatch_size": 32, "rollout_fragment_length": 32, "xla": False}
    trainer = beside("PPO", num_workers=1, num_learners=2, num_cpus_per_learner=0, timesteps_per_iteration=128, **keys)
    try:
        until_learning(trainer)
        (other,) = trainer.parts.learner.part._replicas._handles
        process = psutil.Process(other.ready().result())
        process.kill()
        process.wait(30)
        until = trainer.loop.ledger.updates + 40
        while trainer.loop.ledger.updates < until:
            trainer.train()
        assert other.ready().result() != process.pid
    finally:
        stop()
    assert [text for text in seen if text.startswith("learner 1 was lost and has been started again")] == [
        "learner 1 was lost and has been started again; nothing was lost with it."
    ]


def test_aggregators_join_what_the_learner_learns_from_and_one_that_dies_is_started_again(first, beside):
    keys = {"seed": 7, "train_batch_size": 256, "rollout_fragment_length": 32, "xla": False, "num_envs_per_worker": 2}
    trainer = beside("IMPALA", num_workers=1, num_aggregation_workers=2, timesteps_per_iteration=512, **keys)
    until_learning(trainer)
    aggregators = trainer.loop._aggregators
    process = psutil.Process(aggregators[0].ready().result())
    process.kill()
    process.wait(30)
    until = trainer.loop.ledger.updates + 20
    while trainer.loop.ledger.updates < until:
        result = trainer.train()
    assert aggregators[0].ready().result() != process.pid
    assert result["info"]["aggregate_s"] > 0
    info = result["info"]
    held = 4 * info["batches_joined"] + info["queue_size"] + trainer.parts.pool.outstanding + 4  # 4: being learnt from
    assert info["fragments_requested"] - info["fragments_learnt"] <= held
    assert info["fragments_lost"] == 0


def test_ctrl_c_in_the_terminal_does_not_reach_the_actors(first):
    pids = [pid_of(first, 0), pid_of(first, 1), first.parts.server.ready().result()]
    asked(
        children(), lambda child: child.send_signal(signal.SIGINT)
    )  # as a terminal does, to every process of the group
    sampled = first.loop.sampled
    result = first.train()
    assert result["timesteps_total"] >= sampled + 400
    assert (result["num_restarts"], result["num_healthy_workers"]) == (0, 2)
    assert [pid_of(first, 0), pid_of(first, 1), first.parts.server.ready().result()] == pids


def test_killed_worker_is_replaced_and_its_streams_are_cut(first, reports, monkeypatch):
    replay, cut = first.parts.replay.handles[0].part, []
    original = replay.cut
    monkeypatch.setattr(replay, "cut", lambda worker: cut.append(worker) or original(worker))
    os.kill(pid_of(first, 0), signal.SIGKILL)
    result = first.train()
    while result["num_healthy_workers"] < 2 or replay._seen[0][0] == 0:
        result = first.train()
    assert result["num_restarts"] == 1
    assert cut == [0]
    assert replay._seen[0][0] == 1  # fragments of the next incarnation come
    assert result["transitions_lost"] in (20, 40)  # what was in flight: one or two fragments of 2 · 10 steps
    lost = [(f["worker"], f["incarnation"]) for kind, f in reports if kind == "worker_lost"]
    assert lost == [(0, 0)]


def test_stopped_worker_is_killed_and_replaced(first, monkeypatch):
    restarts, incarnation = first.parts.pool.restarts, first.parts.pool.incarnations()[1]
    stopped = psutil.Process(pid_of(first, 1))
    stopped.suspend()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(pool_module, "SILENCE_S", 1.0)
            patch.setattr(first.parts.pool._members[1], "slowest", 0.01)
            for _ in range(500):
                if first.train()["num_restarts"] > restarts:
                    break
        assert first.parts.pool.restarts == restarts + 1
        assert psutil.wait_procs([stopped], timeout=30)[1] == []
    finally:
        if stopped.is_running():
            stopped.kill()
    while first.parts.replay.handles[0].part._seen[1][0] == incarnation or first.parts.pool.healthy < 2:
        first.train()


def test_run_that_is_saved_goes_on_in_another_trainer(first, beside, tmp_path):
    path = first.save(tmp_path)
    saved, found = first.counters(), checkpoints.load(path)
    seen = dict(first.parts.replay.handles[0].part._seen)
    assert first.train()["timesteps_total"] > saved["timesteps_total"]  # saving does not end the run

    other = beside(restore=(found, True))
    assert other.parts.pool.incarnations() == first.parts.pool.incarnations()
    assert other.counters() == saved
    assert other.parts.replay.handles[0].part._seen == seen
    size = other.parts.replay.handles[0].part.size()
    result = until_learning(other)
    while result["info"]["num_updates"] == saved["num_updates"]:
        result = other.train()
    assert result["training_iteration"] > saved["training_iteration"]
    grown = result["timesteps_total"] - saved["timesteps_total"]
    assert grown >= 400
    # Every step is there once: a row for each, and one for every episode that ended meanwhile.
    ended = result["episodes_total"] - saved["episodes_total"]
    assert other.parts.replay.handles[0].part.size() - size == grown + ended
    assert all(other.parts.replay.handles[0].part._seen[worker] > seen[worker] for worker in (0, 1))


def test_save_survives_a_worker_that_has_just_died(first, beside, quick_learner, tmp_path):
    first.loop.quiesce()
    pid, before = pid_of(first, 1), first.parts.pool.incarnations()
    os.kill(pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=60)
    found = checkpoints.load(first.save(tmp_path))
    state = found.json("state")
    assert (sorted(state["workers"]), state["exact"]) == (["0"], False)
    other = beside(restore=(found, True))
    assert other.parts.pool.incarnations() == {worker: number + 1 for worker, number in before.items()}
    assert other.train()["timesteps_total"] >= found.facts["counters"]["timesteps_total"] + 400
    while first.train()["num_healthy_workers"] < 2:
        continue


def test_best_checkpoint_holds_the_updates_that_its_counters_say(apart, tmp_path):
    until_learning(apart)
    while apart.scoring.newest is None:
        apart.train()
    apart.train()
    found = checkpoints.load(apart.save_evaluated(tmp_path))
    weights = found.arrays("weights")
    assert found.facts["counters"]["num_updates"] == int(weights["default_policy/num_updates"]) > 0
    assert found.json("state")["loop"]["updates"] == found.facts["counters"]["num_updates"]
    assert found.json("state")["loop"]["meters"]["episodes"] == found.facts["counters"]["episodes_total"]


def test_learner_and_replay_train_as_actors_too(apart, tmp_path):
    trainer = apart
    result = until_learning(trainer)
    while result["info"]["num_updates"] < 50:
        result = trainer.train()
    assert result["info"]["replay_size"] >= 400
    pids = {
        part.ready().result() for part in (trainer.parts.learner, trainer.parts.replay.handles[0], trainer.parts.server)
    }
    assert len(pids | {os.getpid()}) == 4
    found = checkpoints.load(trainer.save(tmp_path))
    updates = found.facts["counters"]["num_updates"]
    assert found.has("replay")
    assert int(found.arrays("weights")["default_policy/num_updates"]) == updates


def test_apex_over_two_shards_survives_a_killed_worker_and_goes_on_with_the_priorities_it_had(
    beside, quick_learner, tmp_path, reports
):
    keys = {"num_replay_shards": 2, "hiddens": [16], "model": {"fcnet_hiddens": [16]}, "train_batch_size": 32}
    keys |= {"training_intensity": 8.0, "updates_per_call": 20, "publish_every": 10, "xla": False, "seed": 7}
    run = beside(row="APEX", **keys, learning_starts=4000)
    while max(run.parts.replay.state()["stored"]) < 600:
        assert run.train()["info"]["num_updates"] == 0
    stored = run.parts.replay.state()["stored"]
    # Workers alone have judged these steps, all but their first, which came before any weights.
    masses = checkpoints.load(run.save(tmp_path)).arrays(f"replay-{stored.index(max(stored))}")["priority"]
    assert len(np.unique(masses)) > 0.7 * np.count_nonzero(masses) > 400
    until_learning(run)
    shards = [handle.call("facts") for handle in run.parts.replay.handles]
    assert [sorted(worker for worker, *_ in shard.result()["seen"]) for shard in shards] == [[0], [1]]
    os.kill(pid_of(run, 1), signal.SIGKILL)
    result = run.train()
    while result["num_restarts"] == 0 or run.parts.replay.handles[1].call("facts").result()["seen"][0][1] == 0:
        result = run.train()
    assert (result["num_healthy_workers"], result["info"]["replay_shards"]) == (2, 2)
    until = run.loop.ledger.updates + 200
    while result["info"]["num_updates"] < until:
        result = run.train()
    assert result["info"]["training_intensity_asked"] == 8.0
    assert 6.0 < result["info"]["training_intensity_got"] < 9.0

    found = checkpoints.load(run.save(tmp_path))
    facts = found.json("state")["replay"]
    for shard in range(2):
        masses = found.arrays(f"replay-{shard}")["priority"]
        assert len(np.unique(masses)) > 0.8 * np.count_nonzero(masses) > 300
        assert facts[shard]["priorities"]["largest"] > 1.0
    other = beside(row="APEX", restore=(found, True), **keys, learning_starts=4000)
    for shard, handle in enumerate(other.parts.replay.handles):
        restored = handle.call("facts").result()
        assert restored == {name: facts[shard][name] for name in restored}
    result = other.train()
    while result["info"]["num_updates"] <= found.facts["counters"]["num_updates"]:
        result = other.train()
    assert 6.0 < result["info"]["training_intensity_got"] < 9.0

    lone = beside(row="APEX", restore=(found, False), **keys, num_workers=0)  # whose replay is one shard
    assert len(lone.parts.replay.handles) == 1
    (said,) = [fields["text"] for kind, fields in reports if kind == "notice"]
    assert said.endswith("holds its replay in 2 shards, this run's is in 1: it fills anew before learning goes on")
    result, size = lone.train(), lone.parts.replay.size()
    assert result["timesteps_total"] >= found.facts["counters"]["timesteps_total"] + 400
    assert 400 <= size <= 1200 and result["num_healthy_workers"] == 1


def test_killed_worker_does_not_stop_the_stream_of_impala(beside):
    keys = {"seed": 7, "rollout_fragment_length": 20, "train_batch_size": 120, "xla": False}
    trainer = beside(row="IMPALA", **keys)
    before = until_learning(trainer)
    os.kill(pid_of(trainer, 1), signal.SIGKILL)
    acted = set()
    took = trainer.loop._plan.took
    trainer.loop._plan.took = lambda token, columns: acted.add(token.meta[:2]) or took(token, columns)
    for _ in range(300):
        result = trainer.train()
        if {(0, 0), (1, 1)} <= acted:
            break
    assert {(0, 0), (1, 1)} <= acted  # the other went on, and its successor has joined it
    assert result["num_restarts"] == 1
    info = result["info"]
    assert info["num_updates"] > before["info"]["num_updates"] and info["num_target_updates"] == 0
    # Every batch was whole: three fragments of 40 steps, one update each.
    assert info["num_steps_trained"] == 120 * info["num_updates"]
    assert 0 <= info["weight_lag_mean"] <= info["weight_lag_max"]
    assert "replay_size" not in info and info["queue_capacity"] == 6


def noting_who_acts(trainer):
    """Return a set that grows by (worker, incarnation) of every fragment from here on."""
    acted, meters = set(), trainer.loop.ledger.meters
    sampled = meters.sampled
    meters.sampled = lambda token, *counts: acted.add(token.meta[:2]) or sampled(token, *counts)
    return acted


def test_killed_worker_makes_no_batch_of_ppo_smaller_and_what_is_saved_is_played(beside, tmp_path, capsys):
    """A recurrent policy behind a filter, whose state and statistics travel."""
    model = {"fcnet_hiddens": [8], "use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 5}
    keys = {
        "seed": 7,
        "rollout_fragment_length": 20,
        "train_batch_size": 160,
        "sgd_minibatch_size": 160,
        "num_sgd_iter": 1,
    }
    trainer = beside(row="PPO", **keys, model=model, observation_filter="MeanStdFilter", horizon=50, xla=False)
    until_learning(trainer)
    os.kill(pid_of(trainer, 1), signal.SIGKILL)
    acted = noting_who_acts(trainer)
    for _ in range(300):
        result = trainer.train()
        if {(0, 0), (1, 1)} <= acted:
            break
    assert {(0, 0), (1, 1)} <= acted
    info = result["info"]
    assert (result["num_restarts"], info["weight_lag_mean"]) == (1, 0)
    # Every batch was whole, one update each, and of one version; nothing was sampled in vain but what died.
    assert info["num_steps_trained"] == 160 * info["num_updates"] > 160
    assert 0 <= info["num_steps_sampled"] - info["num_steps_trained"] <= 160  # the batch that is being learnt from

    path = trainer.save(tmp_path)
    capsys.readouterr()  # Ray says that a worker died
    weights = checkpoints.load(path).arrays("weights")
    assert weights["default_policy/filter/count"] >= info["num_steps_trained"]
    assert cli.main(["rollout", str(path), "--episodes", "2", "--seed", "1"]) == 0
    said = [line.partition(": reward: ")[2] for line in capsys.readouterr().out.splitlines() if "Episode #" in line]
    played = [float(reward) for reward in said]
    assert cli.main(["evaluate", str(path), "--episodes", "2", "--seed", "1", "--json"]) == 0
    (scored,) = json.loads(capsys.readouterr().out.splitlines()[-1])["checkpoints"]
    assert scored["greedy"]["mean"] == pytest.approx(sum(played) / 2, abs=0.01)


def test_killed_worker_does_not_stop_the_gradients_of_a3c(beside):
    trainer = beside(row="A3C", seed=7, rollout_fragment_length=20, xla=False)
    before = until_learning(trainer)
    os.kill(pid_of(trainer, 0), signal.SIGKILL)
    acted = noting_who_acts(trainer)
    for _ in range(300):
        result = trainer.train()
        if {(1, 0), (0, 1)} <= acted:
            break
    assert {(1, 0), (0, 1)} <= acted
    info = result["info"]
    assert result["num_restarts"] == 1 and info["num_updates"] > before["info"]["num_updates"]
    assert info["num_steps_trained"] == 40 * info["num_updates"]
    assert 0 <= info["weight_lag_mean"] <= info["weight_lag_max"]


def test_workers_of_ddppo_cut_off_one_that_is_slow_and_go_on_without_one_that_is_killed(beside, tmp_path):
    """One worker cannot end its fragment before the gate is opened, which is when the other one has ended its own."""
    os.mkfifo(tmp_path / "gate")
    env = env_facts("CartPole-v1") | {
        "id": "Gated-v0",
        "env_config": {"folder": str(tmp_path)},
        "imports": ("runtime_envs",),
    }
    keys = {"seed": 7, "rollout_fragment_length": 30, "sgd_minibatch_size": 20, "num_sgd_iter": 2, "xla": False}
    trainer = beside(row="DDPPO", env=env, **keys, straggler_cutoff=0.5, model={"fcnet_hiddens": [8]})
    loop, pool = trainer.loop, trainer.parts.pool
    while not loop.info()["fragments_cut_short"]:
        loop.step()
    loop.step(0.2)  # the slow one may look again by now
    assert loop.sampled == 60 and loop.trained() == 0
    (tmp_path / "gate").write_text("open")
    while not loop.ledger.updates:
        loop.step()
    loop.quiesce()
    assert 60 + 2 * 3 <= loop.trained() < 120 and loop.trained() == loop.sampled  # of two environments
    assert (loop.ledger.updates, loop.ledger.fragments) == (2 * 3, 2)  # passes over 3 minibatches of up to 20 steps

    result = trainer.train()
    loop.quiesce()
    states = [handle.call("trained").result() for handle in pool.handles().values()]
    assert len(states) == 2 and states[0].keys() == states[1].keys()
    assert [name for name in states[0] if states[0][name].tobytes() != states[1][name].tobytes()] == []
    assert result["info"]["workers_unequal"] == 0 and result["info"]["num_updates"] > 6

    os.kill(pid_of(trainer, 0), signal.SIGKILL)
    before, began = loop.ledger.updates, loop.trained()
    while loop.ledger.updates < before + 12:
        loop.step()
    assert loop.ledger.version == trainer.parts.learner.call("push").result()
    path = trainer.save(tmp_path)
    assert pool.fragments_lost >= 1 and pool.outstanding == 0
    assert pool.requested == loop.ledger.fragments + pool.fragments_lost
    assert loop.trained() > began and trainer.state()["incarnations"]["0"] == 1
    held = checkpoints.load(path).arrays("weights")
    own = pool.handles()[1].call("trained").result()
    assert [name for name in own if own[name].tobytes() != held[name].tobytes()] == []


def test_environment_that_raises_in_the_worker_ends_in_one_clear_error(beside, quick_learner):
    env = env_facts("Pendulum-v1") | {"id": "RaisesInConstructor-v0", "imports": ("runtime_envs",)}
    with pytest.raises(DrlError) as caught:
        beside(env=env, num_workers=1).train()
    assert "no licence for the simulator" in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_worker_that_cannot_be_made_ends_in_one_clear_error(beside, quick_learner):
    env = env_facts("Pendulum-v1") | {"imports": ("no_such_module_anywhere",)}
    with pytest.raises(DrlError) as caught:
        beside(env=env, num_workers=1).train()
    assert "no_such_module_anywhere" in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_more_workers_than_can_be_placed_are_refused_with_figures(beside, quick_learner, reports, monkeypatch):
    monkeypatch.setattr(pool_module, "PLACEMENT_NOTE_S", 0.2)
    monkeypatch.setattr(pool_module, "PLACEMENT_S", 2.4)
    trainer = beside(num_workers=3, num_cpus_per_worker=2)
    with pytest.raises(ClusterUnavailable) as caught:
        for _ in range(1000):
            trainer.loop.step()
    assert caught.value.exit_code == 75
    # One of them fits beside the first run's two; on a busy machine its process may still be starting.
    figures = r"waiting for [23] of 3 workers to be placed; the cluster has 4 CPUs, 0 of them free"
    assert re.search(rf"^After [2-9] s still {figures}\. Lower num_workers", str(caught.value))
    warned = [fields["text"] for kind, fields in reports if kind == "warning"]
    assert len([text for text in warned if re.fullmatch(figures, text)]) >= 2


def test_workers_read_their_files_between_them_and_a_dead_one_s_successor_reads_the_rest(
    beside, quick_learner, tmp_path
):
    for number in range(4):
        random_set(tmp_path / f"{number}.json", "CartPole-v1", episodes=80, seed=number)
    keys = {"input": str(tmp_path), "num_envs_per_worker": 1, "rollout_fragment_length": 10, "xla": False}
    keys |= {"train_batch_size": 16, "timesteps_per_iteration": 2000, "seed": 7}
    trainer = beside(row="BC", **keys)
    while not trainer.loop.pace.tally.steps:
        trainer.loop.step()
    os.kill(pid_of(trainer, 0), signal.SIGKILL)
    result = until_learning(trainer)
    alone = Source(str(tmp_path), layout_of(env_facts("CartPole-v1")["spaces"], (500,)), passes=1)
    pieces = list(alone)
    assert result["num_restarts"] == 1 and trainer.loop.pace.is_whole
    info = result["info"]
    assert (info["num_steps_read"], info["num_episodes_read"]) == (sum(p.steps for p in pieces), 320)
    assert result["info"]["replay_size"] == info["num_steps_read"] + 320


def test_mix_of_workers_that_sample_and_read_keeps_its_shares(beside, quick_learner, tmp_path):
    path = random_set(tmp_path / "a.json", "Pendulum-v1", episodes=40)
    trainer = beside(input={"sampler": 0.5, path: 0.5}, num_workers=1)
    until_learning(trainer)
    info = trainer.train()["info"]
    assert info["num_steps_read"] / info["num_steps_sampled"] == pytest.approx(0.5, abs=0.15)


def assert_model_travelled(trainer, workers):
    acted = noting_who_acts(trainer)
    until_learning(trainer)
    for _ in range(300):
        result = trainer.train()
        if acted == workers and trainer.scored_result() is not None:
            break
    assert acted == workers and result["num_restarts"] == 0
    assert trainer.scored_result()["episodes_this_iter"] > 0
    weights, _ = trainer.parts.server.call("state").result()
    assert weights["default_policy"]["policy/custom/kernel"].shape == (3, 4)


@pytest.mark.slow
def test_a_custom_model_that_only_tensorflow_computes_travels_to_the_workers(beside, monkeypatch):
    monkeypatch.setattr(plugins.MODELS, "_things", {})
    register_model("mine", model_of_no_module())
    env = env_facts("Pendulum-v1") | {"plugins": plugins.registered()}
    trainer = beside(env=env, model={"custom_model": "mine"}, evaluation_interval=1)
    assert_model_travelled(trainer, {(0, 0), (1, 0)})


def test_a_custom_model_travels_to_a_worker_and_to_a_learner_elsewhere(apart):
    assert_model_travelled(apart, {(0, 0)})


def test_callbacks_of_workers_and_tester_report_their_metrics(apart):
    result = until_learning(apart)
    while not result["evaluation"]:
        result = apart.train()
    assert -17 < result["custom_metrics"]["last_min"] <= result["custom_metrics"]["last_mean"] <= 0
    assert set(result["hist_stats"]["lengths"][::2]) == {50.0}
    assert result["evaluation"]["hist_stats"]["lengths"][::2] == [20.0, 20.0]
    assert apart.parts.pool.restarts == 0


def test_lost_learner_ends_the_run_with_one_clear_error(apart):
    os.kill(apart.parts.learner.ready().result(), signal.SIGKILL)
    with pytest.raises(DrlError, match="^learner was lost: ") as caught:
        for _ in range(50):
            apart.train()
    assert caught.value.exit_code == 3


def test_a_hook_that_raises_in_a_worker_ends_the_run_and_restarts_nobody(beside, quick_learner):
    env = env_facts("Pendulum-v1") | {"plugins": {"class of callbacks": {"failing": Failing}}}
    trainer = beside(env=env, callbacks="failing", num_workers=1)
    with pytest.raises(PluginFailed, match=r"on_episode_step failed: KeyError: 'motor' \(.*watched_callbacks.py:\d+\)"):
        until_learning(trainer)
    assert trainer.parts.pool.restarts == 0


def test_what_cannot_be_imported_in_rays_processes_ends_the_run_at_once(beside, quick_learner, monkeypatch):
    module = ModuleType("only_here")
    module.Looking = type("Looking", (Callbacks,), {"__module__": "only_here"})
    monkeypatch.setitem(sys.modules, "only_here", module)
    register_callbacks("looking", module.Looking)
    env = env_facts("Pendulum-v1") | {"plugins": {"class of callbacks": {"looking": module.Looking}}}
    trainer = beside(env=env, callbacks="looking", num_workers=1)
    with pytest.raises(
        RunFailed, match="worker . cannot be started in a process of Ray's: ModuleNotFoundError: .*only_here"
    ):
        until_learning(trainer)
    plugins.CALLBACKS._things.pop("looking")  # the runs of other tests shall not carry it


def test_two_policies_of_several_agents_learn_and_are_scored_by_name(beside):
    mapping = {"0": "first", "*": "others"}
    agents = {"copies": 3, "policies": {"first": {}, "others": {"lr": 0.002}}, "policy_mapping": mapping}
    row = table.find("DQN")
    config = load(row.config).model_validate({"multiagent": agents})
    facts = agents_facts.found(row, config, "CartPole-v1").facts
    trainer = beside(
        env=facts | {"asked": "CartPole-v1", "imports": ()},
        row="DQN",
        num_workers=1,
        multiagent=agents,
        xla=False,
        seed=5,
    )
    result = until_learning(trainer)
    assert set(result["policy_reward_mean"]) == set(result["info"]["learner"]) == {"first", "others"}
    both = sum(count * result["policy_reward_mean"][name] for name, count in (("first", 1), ("others", 2)))
    assert both == pytest.approx(result["episode_reward_mean"])
    assert all(np.isfinite(own["loss"]) for own in result["info"]["learner"].values())


ES_KEYS = {
    "seed": 7,
    "num_envs_per_worker": 8,
    "episodes_per_batch": 32,
    "timesteps_per_iteration": 500,
    "min_iter_time_s": 0,
    "evaluation_interval": None,
    "noise_size": 100_000,
    "num_cpus_per_worker": 0,
}


def es_run(workers):
    trainer = Driver("ES", ESConfig(num_workers=workers, **ES_KEYS), env_facts("CartPole-v1"))
    trainer.start()
    return trainer


def noise_tables_of(pid):
    """The files of noise that a process has mapped: {(inode, permissions)}."""
    lines = [line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if "noise-7-100000" in line]
    return {(words[4], words[1]) for words in lines}


def es_state(trainer):
    return trainer.parts.learner.call("state").result()


def test_es_with_a_killed_worker_equals_the_run_in_one_process(first):
    remote = es_run(2)
    try:
        remote.train()
        pids = [handle.ready().result() for handle in remote.parts.pool.handles().values()]
        (mapped,) = noise_tables_of(os.getpid())  # the learner's
        assert mapped[1].startswith("r--") and all(noise_tables_of(pid) == {mapped} for pid in pids)
        os.kill(pids[0], signal.SIGKILL)
        result = remote.train()
        while remote.parts.pool.restarts == 0 or result["num_healthy_workers"] < 2 or remote.loop.ledger.updates < 5:
            result = remote.train()
        remote.loop.quiesce()
        expected, rounds = es_state(remote), remote.loop.ledger.updates
        assert (result["num_restarts"], result["num_healthy_workers"]) == (1, 2)
        assert remote.loop.trained() == expected["default_policy/filter/count"]  # every round whole, nothing twice
    finally:
        remote.close()
    inline = es_run(0)
    try:
        while inline.loop.ledger.updates < rounds:
            inline.loop.step()
        found = es_state(inline)
    finally:
        inline.close()
    assert inline.loop.ledger.updates == rounds == expected["default_policy/num_updates"] > 3
    assert [name for name in expected if not np.array_equal(expected[name], found[name])] == []


def test_close_leaves_no_process_and_no_folder(first):
    folder = first._cluster._folder
    assert os.path.isdir(folder)
    assert os.stat(os.path.dirname(folder)).st_mode & 0o077 == 0  # Ray opens its own folder to everybody
    ours = children()
    assert len(ours) >= 4
    first.close()
    _, alive = psutil.wait_procs(ours, timeout=60)
    assert [words for _, words in asked(alive, lambda process: process.cmdline())] == []
    assert not os.path.exists(folder)
    first.close()  # again, without harm
