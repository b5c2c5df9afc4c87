"""The plan of a run: what fits, what it takes, how long from a probe's rates."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from drl_cli.algorithms import table
from drl_cli.algorithms.ddppo import DDPPOConfig
from drl_cli.algorithms.ppo import PPOConfig
from drl_cli.algorithms.sac import SACConfig
from drl_cli.checks import cluster_scale, run_plan, run_probe, run_time
from drl_cli.experiments import search_spec, spec
from drl_cli.runtime import footprint, machine
from drl_cli.runtime.driver import Driver

GB = 2**30
PROBE = {
    "start_s": 1.0,
    "seconds": 5.0,
    "whole_s": 9.0,
    "env_steps_per_s": 1000.0,
    "updates_per_s": 100.0,
    "updates_per_env_step": 0.05,
    "env_s_per_step": 0.001,
    "policy_s_per_call": 0.002,
    "episode_len_mean": 200.0,
}


def made(tmp_path, *words, stop='{"timesteps_total": 20000}'):
    flags = {"run": "SAC", "env": "Pendulum-v1", "set": list(words), "stop": [stop], "local_dir": str(tmp_path)}
    return spec.from_flags(flags)


@pytest.fixture
def roomy(monkeypatch):
    monkeypatch.setattr(machine, "memory_total", lambda: 16 * GB)
    monkeypatch.setattr(machine, "memory_free", lambda: 8 * GB)
    monkeypatch.setattr(machine, "disk_free", lambda path: 100 * GB)
    monkeypatch.setattr(machine, "shared_memory", lambda: (8 * GB, 8 * GB))
    monkeypatch.setattr(machine, "cores", lambda: 4)


def states(told):
    return {one["what"]: one["state"] for one in told["findings"]}


def test_plan_of_a_small_run_fits_and_tells_its_parts(roomy, tmp_path):
    told = run_plan.plan(made(tmp_path), probe=False)
    assert told["fits"] and states(told) == {"memory": "ok", "disk": "ok", "CPU": "ok"}
    assert told["memory"]["replay"] == 25 * 20_000 and told["memory"]["object_store"] == 0
    assert [one["what"] for one in told["processes"]] == ["the run: learner, sampling, evaluation"]
    assert told["config"]["gamma"] == 0.99 and told["stop"] == {"timesteps_total": 20000}
    assert told["disk"]["kept"] == 2 and told["time"] is None


def test_plan_that_needs_more_memory_than_there_is_does_not_fit(roomy, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "memory_total", lambda: GB)
    told = run_plan.plan(made(tmp_path, "num_workers=8"))
    assert not told["fits"] and states(told)["memory"] == "fail"
    assert "num_workers" in told["findings"][0]["mend"] and told["probe"] is None


def test_plan_that_needs_more_than_is_free_now_is_a_warning(roomy, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "memory_free", lambda: GB // 2)
    told = run_plan.plan(made(tmp_path), probe=False)
    assert told["fits"] and states(told)["memory"] == "warn"


def test_plan_whose_checkpoints_fill_the_disk_does_not_fit(roomy, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "disk_free", lambda path: 30 * 2**20)
    told = run_plan.plan(made(tmp_path), probe=False)
    assert not told["fits"] and states(told)["disk"] == "fail"


def test_periodic_checkpoints_are_counted_and_bounded(roomy, tmp_path):
    wanted = made(tmp_path)
    every = dataclasses.replace(wanted, checkpoint_freq=2)
    assert run_plan.plan(every, probe=False)["disk"]["kept"] == 2 + 10
    assert run_plan.plan(dataclasses.replace(every, keep_checkpoints_num=3), probe=False)["disk"]["kept"] == 5
    endless = run_plan.plan(dataclasses.replace(every, stop={}), probe=False)
    assert endless["disk"]["total"] is None and states(endless)["disk"] == "note"


def test_object_store_larger_than_shared_memory_is_told(roomy, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "shared_memory", lambda: (64 * 2**20, 64 * 2**20))
    told = run_plan.plan(made(tmp_path, "num_workers=2"), probe=False)
    assert states(told)["shared memory"] == "warn" and told["memory"]["object_store"] == 256 * 2**20


def test_fragments_that_fill_the_object_store_do_not_fit(roomy, tmp_path):
    told = run_plan.plan(
        made(tmp_path, "num_workers=4", "rollout_fragment_length=100000", "num_envs_per_worker=16"), probe=False
    )
    assert states(told)["shared memory"] == "fail" and not told["fits"]


def test_more_workers_than_cores_is_a_warning(roomy, tmp_path):
    assert states(run_plan.plan(made(tmp_path, "num_workers=6"), probe=False))["CPU"] == "warn"


def test_time_of_what_goes_side_by_side_is_that_of_the_slower():
    config = SACConfig(num_workers=2, evaluation_interval=None, learning_starts=0, training_intensity=12.8)
    told = run_time.expected(table.find("SAC"), config, {"timesteps_total": 10_000}, PROBE, cores=4)
    # 10 s of sampling by two workers; 1,000 updates of 10 ms; 4 + 1 s to start, 6 for Ray
    assert told["parts"]["sampling"] == 10.0 and told["parts"]["learning"] == 10.0
    assert told["seconds"] == pytest.approx(4 + 1 + 6 + 10)


def test_time_of_what_takes_turns_is_the_sum():
    config = PPOConfig(num_workers=2, evaluation_interval=None)
    told = run_time.expected(table.find("PPO"), config, {"timesteps_total": 10_000}, PROBE, cores=4)
    assert told["seconds"] == pytest.approx(4 + 1 + 6 + 10 / 2 + 10_000 * 0.05 / 100)


def test_time_of_workers_that_learn_is_that_of_each_ones_share():
    config = DDPPOConfig(num_workers=4, evaluation_interval=None)
    told = run_time.expected(table.find("DDPPO"), config, {"timesteps_total": 10_000}, PROBE, cores=4)
    assert told["seconds"] == pytest.approx(4 + 1 + 6 + (10 + 10_000 * 0.05 / 100) / 4)


def test_time_on_one_core_is_all_that_is_to_be_done():
    config = SACConfig(num_workers=2, evaluation_interval=None, learning_starts=0, training_intensity=12.8)
    told = run_time.expected(table.find("SAC"), config, {"timesteps_total": 10_000}, PROBE, cores=1)
    assert told["seconds"] == pytest.approx(4 + 1 + 6 + 20)


def test_evaluations_of_an_inline_run_are_added():
    config = PPOConfig(num_workers=0, evaluation_interval=5, timesteps_per_iteration=1000, evaluation_num_episodes=10)
    told = run_time.expected(table.find("PPO"), config, {"timesteps_total": 10_000}, PROBE, cores=4)
    assert told["parts"]["evaluating"] == pytest.approx(2 * (10 * 200 * 0.001 + 200 * 0.002))
    assert told["seconds"] == pytest.approx(4 + 1 + 10 + 5 + told["parts"]["evaluating"])


def test_time_is_bound_by_the_rule_that_is_sure_to_come_first():
    config = PPOConfig(timesteps_per_iteration=1000)
    row = table.find("PPO")
    told = run_time.expected(row, config, {"timesteps_total": 10**6, "training_iteration": 5}, PROBE, 4)
    assert (told["bound_by"], told["env_steps"]) == ("training_iteration", 5000)
    assert run_time.expected(row, config, {"time_total_s": 60}, PROBE, 4)["seconds"] == 60
    assert run_time.expected(row, config, {"episode_reward_mean": 60}, PROBE, 4)["seconds"] is None


def test_time_without_an_update_is_the_least():
    told = run_time.expected(
        table.find("PPO"), PPOConfig(), {"timesteps_total": 100}, {**PROBE, "updates_per_s": None}, 4
    )
    assert told["is_least"] is True


def test_probe_runs_in_one_process_and_learns_soon():
    config = run_probe.smaller(SACConfig(num_workers=4, num_replay_shards=2, learning_starts=10_000), [8])
    assert (config.num_workers, config.num_replay_shards, config.evaluation_interval) == (0, 0, None)
    assert config.learning_starts == 5 * 4 * 25 and config.buffer_size >= config.learning_starts
    assert config.updates_per_call == 50
    assert run_probe.smaller(SACConfig(), [84, 84, 4]).updates_per_call == 5


class OneBatch:
    """A loop whose first step learns for longer than the probe may last, and the clock that shows it."""

    def __init__(self):
        self.now, self.sampled, self.updates = 0.0, 0, 0
        spent = {"learn": 0.0, "sample": 1.0, "env": 0.5, "policy": 0.5}
        closing = SimpleNamespace(lengths=[])
        self.meters = SimpleNamespace(spent=spent, has_learnt=False, close_iteration=lambda: closing)

    def step(self):
        self.now, self.sampled, self.updates = 80.0, 2048, 160
        self.meters.spent["learn"], self.meters.has_learnt = 64.0, True

    def quiesce(self):
        pass


def test_probe_whose_first_batch_takes_all_of_its_time_tells_the_rate_of_that_batch():
    loop = OneBatch()
    loop.ledger = loop  # it counts by itself
    driver = SimpleNamespace(loop=loop, config=PPOConfig())
    found = run_probe.measure(driver, 4.0, clock=lambda: loop.now)
    assert (found["updates_per_s"], found["updates_per_env_step"]) == (160 / 64, 160 / 2048)


def test_probe_in_a_process_of_its_own_measures_a_run_without_tensorflow(tmp_path):
    flags = {"run": "ARS", "env": "CartPole-v1", "local_dir": str(tmp_path), "stop": ['{"timesteps_total": 5000}']}
    told, problem = run_time.probed(spec.from_flags(flags))
    assert problem is None and told["env_steps_per_s"] > 100 and told["updates_per_s"] > 0


def test_probe_that_fails_says_so(tmp_path):
    wanted = spec.from_flags({"run": "ARS", "env": "CartPole-v1", "local_dir": str(tmp_path), "stop": ["{}"]})
    told, problem = run_time.probed(dataclasses.replace(wanted, imports=["no_such_module"]))
    assert told is None and problem.state == "fail" and "no module 'no_such_module'" in problem.text


def test_probe_that_is_too_slow_says_nothing_about_whether_the_run_fits(roomy, tmp_path, monkeypatch):
    monkeypatch.setattr(run_time, "PROBE_LIMIT_S", 0.2)
    told = run_plan.plan(made(tmp_path))
    assert told["fits"] and told["probe"] is told["time"] is None
    assert states(told)["time"] == "warn" and "a probe of 0 s did not complete" in told["findings"][-1]["text"]


def searched(tmp_path, *words, samples=1, **flags):
    flags |= {"run": "SAC", "env": "Pendulum-v1", "set": list(words), "stop": ['{"timesteps_total": 20000}']}
    return search_spec.read(None, flags | {"local_dir": str(tmp_path)}, {"num_samples": samples})


def test_plan_of_a_search_is_that_of_its_largest_trial_times_those_side_by_side(roomy, tmp_path):
    found = searched(tmp_path, "num_workers=0", "buffer_size={grid_search: [3000, 9000, 5000]}", samples=2)
    one, trials = run_plan.largest(found)
    assert one.config.buffer_size == 9000 and dataclasses.astuple(trials) == (6, 4, found.specs.index(one))
    told, single = run_plan.plan(one, probe=False, trials=trials), run_plan.plan(one, probe=False)
    assert told["memory"]["replay"] == 4 * single["memory"]["replay"] == 4 * 25 * 9000
    assert told["memory"]["batches"] == 4 * single["memory"]["batches"]
    assert told["memory"]["object_store"] == 256 * 2**20
    assert [(part["what"].partition(":")[0], part["count"]) for part in told["processes"]] == [
        ("the search", 1),
        ("the run", 4),
        ("Ray's own", 1),
    ]
    assert told["disk"]["total"] == 6 * single["disk"]["total"]
    assert states(told)["CPU"] == "ok" and told["findings"][-1]["text"] == "6 trials, 4 in parallel, on 4 cores"


def test_trials_that_ask_for_more_cores_run_one_after_the_other_and_take_as_many_times_as_long(
    roomy, tmp_path, monkeypatch
):
    one, trials = run_plan.largest(searched(tmp_path, "num_workers=3", "gamma={grid_search: [0.9, 0.99, 0.999]}"))
    assert dataclasses.astuple(trials) == (3, 1, 0)
    monkeypatch.setattr(run_time, "probed", lambda spec: (dict(PROBE), None))
    alone = run_plan.plan(one)["time"]["seconds"]
    assert run_plan.plan(one, trials=trials)["time"]["seconds"] == pytest.approx(3 * alone)


def test_trial_that_asks_for_more_than_ray_is_to_have_does_not_fit(roomy, tmp_path):
    found = searched(tmp_path, "num_workers=3", "gamma={grid_search: [0.9, 0.99]}", ray_num_cpus=2)
    one, trials = run_plan.largest(found)
    told = run_plan.plan(one, probe=False, trials=trials)
    assert trials.at_once == 0 and not told["fits"] and states(told)["CPU"] == "fail"


TRAFFIC = {
    "driver_us": 400.0,
    "bytes_per_env_step": 50.0,
    "weights_bytes": 40_000,
    "versions_per_env_step": 0.001,
    "push_s": 0.002,
}


def scaled(run, shape, keys=(), replay=0, **over):
    env = "Pendulum-v1" if run == "SAC" else "CartPole-v1"
    one = spec.from_flags({"run": run, "env": env, "set": list(keys), "stop": ["{}"]})
    row, probe = table.find(run), PROBE | {name: over.pop(name) for name in list(over) if name in PROBE}
    traffic, cluster = TRAFFIC | over, cluster_scale.ClusterShape(*shape, *([64.0] if len(shape) == 4 else []))
    held = cluster_scale.held(row, one, cluster, {"replay": replay, "batches": 0}, traffic)
    found = cluster_scale.expected(row, one.config, cluster, probe, traffic, held)
    carried = {part["part"]: part["env_steps_per_s"] for part in found["parts"]}
    return found, carried, cluster_scale.finding(row, one.config, found)


def test_learner_that_workers_outrun_saturates_first():
    found, carried, told = scaled("IMPALA", (64, 4, 16, 10.0), ["rollout_fragment_length=50", "num_envs_per_worker=8"])
    assert carried["learner"] == 100 / 0.05 and carried["workers"] == 63 * 1000  # the run takes a core of 64
    assert carried["driver"] == pytest.approx(400 / 400e-6)
    assert carried["fragments"] == pytest.approx(10e9 / 8 / (50 * 3 / 4))
    assert (found["first"], found["env_steps_per_s"]) == ("learner", 2000.0)
    assert "the learner saturates first: 2.0 of 64 workers" in told.text and "num_learners" in told.mend


def test_workers_and_learner_that_take_turns_add_up():
    found, _, told = scaled("PPO", (2, 1, 16, 10.0), updates_per_s=100.0)
    assert found["env_steps_per_s"] == pytest.approx(1 / (1 / 2000 + 1 / 2000))
    assert found["first"] == "workers" and told.state == "ok"
    _, carried, told = scaled("PPO", (3, 1, 16, 10.0))
    assert "take turns" in told.text and carried["fragments"] is None  # one node: nothing travels


def test_a_version_of_the_weights_travels_once_to_each_other_node():
    many = {"versions_per_env_step": 1e-6, "bytes_per_env_step": 1.0}
    for size in (10_000, 200_000):
        _, carried, _ = scaled("IMPALA", (64, 4, 16, 10.0), weights_bytes=size, **many)
        assert carried["weights"] == pytest.approx(10e9 / 8 / (size * 1e-6 * 3))


def test_replay_is_learnt_from_as_its_intensity_asks():
    found, carried, told = scaled("SAC", (8, 1, 16, 10.0), ["training_intensity=256", "train_batch_size=256"])
    assert carried["learner"] == 100.0 and found["first"] == "learner"
    assert told.mend.endswith("training_intensity=128")


def test_memory_of_the_nodes_bounds_how_many_workers_there_are():
    keys = ["rollout_fragment_length=50", "num_envs_per_worker=8"]
    found, carried, told = scaled("IMPALA", (64, 4, 16, 10.0, 2.0), keys, updates_per_s=1e9, driver_us=0.0)
    held = found["memory"]
    assert held["worker"] == footprint.ACTOR + 8 * footprint.PER_ENV
    assert held["store"] == 64 * 2 * 400 * 50  # two fragments of each worker
    here = (2 * 2**30 - held["run"] - held["store"]) // held["worker"]
    there = (2 * 2**30 - footprint.RAY_DAEMONS) // held["worker"]
    assert 0 < here < there and carried["memory"] == (here + 3 * there) * 1000
    assert found["first"] == "memory" and told.state == "warn" and found["env_steps_per_s"] == carried["memory"]
    assert f"the memory of the nodes saturates first: {here + 3 * there:.1f} of 64 workers" in told.text
    assert scaled("IMPALA", (64, 4, 16, 10.0, 64.0), keys, updates_per_s=1e9, driver_us=0.0)[0]["first"] == "workers"


def test_replay_that_fills_the_node_of_the_run_leaves_room_for_nothing():
    found, carried, told = scaled("SAC", (8, 2, 16, 10.0, 4.0), ["buffer_size=1000000"], replay=5 * 2**30)
    assert (carried["memory"], found["first"], found["memory"]["replay"]) == (0, "memory", 5 * 2**30)
    assert told.text.startswith("the run does not fit into the memory of its node: 0 workers of")
    assert told.mend.endswith("buffer_size=500000")


def test_rows_that_send_no_fragments_are_not_estimated():
    assert "not fragments" in cluster_scale.unknown(table.find("ES")).text
    assert cluster_scale.unknown(table.find("APEX")) is None


def test_bytes_are_those_of_arrays_in_whatever_holds_them():
    arrays = {"a": np.zeros((3, 4), np.float32), "b": [np.zeros(2, np.uint8), None], "c": "text"}
    assert run_probe.size_of(arrays) == 48 + 2


@pytest.mark.tensorflow
def test_traffic_of_a_run_is_measured_at_its_parts():
    one = spec.from_flags({"run": "PG", "env": "CartPole-v1", "set": ["num_workers=0", "seed=1"], "stop": ["{}"]})
    config = run_probe.smaller(one.config, [4])
    driver = Driver("PG", config, one.env_facts)
    try:
        driver.start()
        told = run_probe.traffic(driver, 0.1)
    finally:
        driver.close()
    assert told["driver_us"] > 0 and told["push_s"] > 0
    assert told["bytes_per_env_step"] >= 4 * 4 + 4 + 4  # an observation, a reward, an action
    assert told["weights_bytes"] > 4 * 1000 and 0 < told["versions_per_env_step"] <= 1
