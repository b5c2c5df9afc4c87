"""``lr_factor_by_return``: learning rates that fall once an evaluation has reached a return."""

import numpy as np
import pytest
from runtime_runs import SMALL as REPLAY

from drl_cli import checkpoints
from drl_cli.algorithms import table
from drl_cli.experiments import env_facts
from drl_cli.extras import load
from drl_cli.runtime.driver import Driver

pytestmark = pytest.mark.process

NET = {"fcnet_hiddens": [8]}
SMALL = {
    "seed": 7,
    "num_workers": 0,
    "evaluation_interval": 1,
    "evaluation_num_episodes": 1,
    "evaluation_confirm_episodes": 0,
    "evaluation_config": {"horizon": 20},
    "timesteps_per_iteration": 60,
    "xla": False,
}
TRANSITIONS = {
    "learning_starts": 50,
    "training_intensity": 8.0,
    "train_batch_size": 16,
    "rollout_fragment_length": 7,
    "updates_per_call": 10,
    "buffer_size": 500,
}
BATCHES = {"num_envs_per_worker": 2, "rollout_fragment_length": 15, "train_batch_size": 30, "model": NET}
MINIBATCHES = BATCHES | {"num_sgd_iter": 2, "sgd_minibatch_size": 15}
RUNS = {
    "DQN": ("CartPole-v1", TRANSITIONS | {"model": NET, "hiddens": [8], "target_network_update_freq": 0}),
    "SAC": ("Pendulum-v1", TRANSITIONS | {"policy_model": NET, "Q_model": NET}),
    "CROSSQ": ("Pendulum-v1", TRANSITIONS | {"policy_model": NET, "Q_model": NET}),
    "XQC": ("Pendulum-v1", TRANSITIONS | {"policy_model": NET, "Q_model": NET}),
    "TD3": ("Pendulum-v1", TRANSITIONS | {"actor_hiddens": [8], "critic_hiddens": [8]}),
    "PPO": ("CartPole-v1", MINIBATCHES),
    "A2C": ("CartPole-v1", BATCHES),
    "A3C": ("CartPole-v1", {"rollout_fragment_length": 15, "model": NET}),
    "IMPALA": ("CartPole-v1", BATCHES),
    "TRPO": ("CartPole-v1", BATCHES | {"sgd_minibatch_size": 15}),
    "DDPPO": ("CartPole-v1", {name: MINIBATCHES[name] for name in MINIBATCHES if name != "train_batch_size"}),
    "PPO of two policies": ("CartPole-v1", MINIBATCHES | {"multiagent": {"copies": 2, "policies": {"0": {}, "1": {}}}}),
    "DQN of two policies": (
        "CartPole-v1",
        TRANSITIONS | {"model": NET, "hiddens": [8], "multiagent": {"copies": 2, "policies": {"0": {}, "1": {}}}},
    ),
    "ARS": ("CartPole-v1", {"num_rollouts": 4, "rollouts_used": 2, "noise_size": 10_000}),
    "ES": ("CartPole-v1", {"episodes_per_batch": 4, "train_batch_size": 1, "noise_size": 10_000, "l2_coeff": 0.1}),
}
LOW, HIGH = -1e6, 1e6  # returns below and above all


@pytest.fixture
def start():
    """Function (name in RUNS, points, restore=None) → a started Driver, closed behind the test."""
    runs = []

    def make(name, points, restore=None, **over):
        row, (env_id, keys) = table.find(name.split()[0]), RUNS[name]
        config = load(row.config).model_validate(SMALL | keys | {"lr_factor_by_return": points} | over)
        found = env_facts.found(row, config, env_id)
        run = Driver(row.name, found.config, {**found.facts, "asked": env_id, "imports": ()})
        runs.append(run)
        if restore is not None:
            run.restore(restore, True)
        run.start()
        return run

    yield make
    for run in runs:
        run.close()


def nets(run):
    """What is trained, and what acts."""
    state = run.parts.learner.call("state").result()
    names = [f"{policy}/{name}" for policy, spec in run.setup.specs.items() for name in spec.weight_names()]
    return {name: state[name] for name in names if "filter/" not in name}


def moved(run):
    """How far the weights move in an iteration that makes updates."""
    before, updates = nets(run), run.loop.ledger.updates
    run.train()
    assert run.loop.ledger.updates > updates
    return max(float(np.abs(array - before[name]).max()) for name, array in nets(run).items())


def evaluated(run):
    """Train until an evaluation is complete."""
    for _ in range(20):
        if run.train()["evaluation"]:
            return
    raise AssertionError("no evaluation within 20 iterations")


@pytest.mark.parametrize("algorithm", RUNS)
def test_factor_of_zero_leaves_the_policy_where_it_is(start, algorithm):
    run = start(algorithm, [[LOW, 0], [HIGH, 0]])
    evaluated(run)
    assert moved(run) == 0


@pytest.mark.parametrize("algorithm", [name for name in RUNS if name not in ("A3C", "ARS", "ES")])
def test_factor_of_zero_leaves_an_averaged_policy_where_it_is_although_the_learnt_one_is_elsewhere(start, algorithm):
    run = start(algorithm, [[LOW, 0], [HIGH, 0]], policy_average=0.9)
    evaluated(run)
    state, scope = run.parts.learner.call("state").result(), next(iter(run.setup.specs))
    learnt = [name for name in nets(run) if f"{scope}/learnt_" + name.removeprefix(f"{scope}/") in state]
    assert any((state[name] != state[f"{scope}/learnt_" + name.removeprefix(f"{scope}/")]).any() for name in learnt)
    assert moved(run) == 0


def filters(run):
    """What observations are normalized with."""
    state = run.parts.learner.call("state").result()
    return {name: array for name, array in state.items() if name.endswith(("filter/mean", "filter/var"))}


@pytest.mark.parametrize("algorithm", RUNS)
@pytest.mark.parametrize("factor", [0, 1])
def test_policy_that_is_frozen_does_not_act_otherwise_because_its_filter_moves_on(start, algorithm, factor):
    run = start(algorithm, [[LOW, factor], [HIGH, factor]], observation_filter="MeanStdFilter")
    evaluated(run)
    run.train()  # what was seen before the factor held is in the filter now
    before = filters(run)
    run.train()
    assert before
    for name, array in filters(run).items():
        assert np.array_equal(array, before[name]) == (factor == 0)


@pytest.mark.parametrize("algorithm", RUNS)
def test_factor_of_one_changes_nothing(start, algorithm):
    run, plain = start(algorithm, [[LOW, 1], [HIGH, 1]]), start(algorithm, None)
    for one in (run, plain):
        evaluated(one)
    assert moved(run) == moved(plain) > 0


def test_factor_before_the_first_evaluation_is_one(start):
    run = start("SAC", [[LOW, 0], [HIGH, 0]], evaluation_interval=50)
    run.train()
    assert moved(run) > 0


def test_highest_evaluation_counts_and_a_result_has_the_factor(start):
    run = start("PPO", [[10, 1], [20, 0.5]])
    for mean, factor in ((9.0, 1.0), (15.0, 0.75), (12.0, 0.75), (30.0, 0.5), (1.0, 0.5)):
        run.scoring.load(run.scoring.state() | {"highest": max(mean, run.scoring.highest or mean)}, exact=True)
        run._scale_rates()
        assert run.evaluations.lr_factor == pytest.approx(factor)
    result = run.train()
    assert result["info"]["lr_factor"] == 0.5
    assert result["info"]["learner"]["default_policy"]["cur_lr"] == pytest.approx(0.5 * run.config.lr)


def test_trust_region_shrinks_with_the_square_of_the_factor(start):
    keys = {"max_kl": 0.01, "line_search_steps": 1}
    free = start("TRPO", None, **keys)
    half = start("TRPO", [[LOW, 0.1], [HIGH, 0.1]], **keys)
    for run in (free, half):
        evaluated(run)
    stats = [run.train()["info"]["learner"]["default_policy"] for run in (free, half)]
    assert stats[1]["kl"] < 0.03 * stats[0]["kl"]


@pytest.mark.parametrize("algorithm", ["SAC", "PPO", "DDPPO", "ARS"])
def test_resumed_run_has_the_factor_from_its_first_update_on(start, tmp_path, algorithm):
    run = start(algorithm, [[LOW, 0], [HIGH, 0]])
    evaluated(run)
    resumed = start(algorithm, [[LOW, 0], [HIGH, 0]], restore=checkpoints.load(run.save(tmp_path)))
    assert resumed.evaluations.lr_factor == 0
    assert moved(resumed) == 0


def test_checkpoint_from_before_the_key_goes_on_by_its_last_evaluation(start):
    run = start("PPO", None)
    evaluated(run)
    state = run.scoring.state()
    mean = state.pop("highest")
    run.scoring.load(state, exact=True)
    assert run.scoring.highest == mean == state["newest"]["episode_reward_mean"]


@pytest.mark.parametrize(
    ("points", "says"),
    [
        ([[200, 1], [100, 0.1]], "rise"),
        ([[200, 0.1]], "lr_factor_by_return"),
        ([[100, 1], [200, -0.1]], "lr_factor_by_return"),
        ([[100, 1], [200, 11]], "lr_factor_by_return"),
        (0.1, "lr_factor_by_return"),
    ],
)
def test_points_that_say_nothing_are_refused(points, says):
    with pytest.raises(ValueError, match=says):
        load(table.find("SAC").config).model_validate(REPLAY | {"lr_factor_by_return": points})
