"""Learners without a centre: their updates are those of one learner on all fragments, and their variables stay equal."""

import numpy as np
import pytest
from parts import server

from drl_cli.actors.batch_learner import BatchLearner
from drl_cli.actors.decentralized_learner import DecentralizedLearner
from drl_cli.actors.decentralized_worker import OwnWeights
from drl_cli.algorithms import actor_critic_nets
from drl_cli.algorithms.ddppo import DDPPOConfig
from drl_cli.algorithms.ppo import PPOConfig
from drl_cli.errors import ConfigError, Diverged

pytestmark = pytest.mark.tensorflow

SPACES = {
    "obs": {"kind": "Box1d", "shape": (3,), "dtype": "float32"},
    "action": {"kind": "Discrete", "n": 2, "start": 0, "shape": ()},
    "frames": 1,
}
SMALL = {"num_envs_per_worker": 2, "rollout_fragment_length": 6, "xla": False, "model": {"fcnet_hiddens": [5]}}
PASSES = {"num_sgd_iter": 3, "sgd_minibatch_size": 12, "lr": 0.01, "kl_coeff": 0.3}
GRAPH = "drl_cli.algorithms.ppo_graph"


def learners(count, **keys):
    """``count`` learners that are ready, of a run with the seed 3."""
    config = DDPPOConfig.model_validate(SMALL | PASSES | keys)
    spec = actor_critic_nets.policy_spec(config, SPACES)
    initial = actor_critic_nets.initial_weights(config, spec, 3)
    own = {"default_policy": {name: initial[name] for name in spec.weight_names()}}
    identity = {"seed": 3, "with_ray": False, "plugins": None}
    made = [
        DecentralizedLearner(config, spec, (GRAPH, initial), identity, OwnWeights(own), index) for index in range(count)
    ]
    assert all(learner.prepare() > 0 for learner in made)
    return made


def fragment(seed, steps=6):
    """A fragment of so many steps of two environments, in which an episode is cut and one ends."""
    rng = np.random.default_rng(seed)
    columns = {
        "obs": rng.normal(0, 1, (6, 2, 3)).astype(np.float32),
        "action": rng.integers(0, 2, (6, 2)).astype(np.int32),
        "reward": rng.normal(0, 1, (6, 2)).astype(np.float32),
        "logp": np.full((6, 2), -0.7, np.float32),
        "terminated": np.zeros((6, 2), bool),
        "truncated": np.zeros((6, 2), bool),
    }
    columns["terminated"][0, 0] = columns["truncated"][1, 1] = True
    columns = {name: column[:steps] for name, column in columns.items()}
    ends = {"end_obs": rng.normal(0, 1, (2 if steps > 1 else 1, 3)), "tail_obs": rng.normal(0, 1, (2, 3))}
    return columns | {name: column.astype(np.float32) for name, column in ends.items()}


def learn(team, fragments, first=0, last=None):
    """Let a team learn from its fragments: the steps from ``first`` to ``last``; returns the results of a whole round."""
    begun = [learner.begin(columns, 0) for learner, columns in zip(team, fragments, strict=True)]
    for learner in team:
        learner.plan(begun)
    answers = ()
    total = team[0]._config.num_sgd_iter * team[0]._minibatches
    for number in range(first, (total if last is None else last) + 1):
        answers = [learner.step(number, *answers) for learner in team]
    return [learner.close([None] * len(team)) for learner in team] if last is None else answers


@pytest.mark.parametrize("lengths", [(6, 6), (1, 6)], ids=["equal", "one cut off"])
def test_two_workers_updates_are_those_of_one_ppo_learner_on_the_joined_batch(lengths):
    team, fragments = learners(2), [fragment(seed, steps) for seed, steps in enumerate(lengths)]
    config = PPOConfig.model_validate(SMALL | PASSES | {"sgd_minibatch_size": 24, "train_batch_size": 24})
    spec = actor_critic_nets.policy_spec(config, SPACES)
    initial = actor_critic_nets.initial_weights(config, spec, 3)
    central = BatchLearner(config, spec, GRAPH, initial, {"seed": 3, "with_ray": False}, server())
    central.prepare(4, 6)
    results, expected = learn(team, fragments), central.learn(0, None, *fragments)
    assert [(one["updates"], one["steps"], one["version"]) for one in results] == 2 * [(3, 2 * sum(lengths), 2)]
    assert results[0]["stats"].keys() == expected["stats"].keys()
    for name in set(expected["stats"]) - {"vf_explained_var"}:  # there the mean of the workers'
        assert results[0]["stats"][name] == pytest.approx(expected["stats"][name], rel=1e-3, abs=1e-5), name
    found, wanted = team[0].state(), central.state()
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=2e-6, err_msg=name)
    moved = "default_policy/policy/logits/kernel"
    assert np.abs(found[moved] - initial["policy/logits/kernel"]).max() > 1e-3
    assert found["default_policy/kl_coeff"] != np.float32(0.3)


@pytest.fixture(scope="module")
def three():
    """Three learners whose fragments have three minibatches, and their first state."""
    made = learners(3, sgd_minibatch_size=5)
    return made, made[0].state()


@pytest.fixture
def team(three):
    """These learners as they were at first."""
    made, state = three
    for learner in made:
        learner.load(state, 1)
    return made


def test_workers_are_equal_bit_for_bit_after_rounds_of_unequal_fragments(team):
    for number, lengths in enumerate(((6, 6, 6), (6, 2, 5), (1, 6, 6))):
        results = learn(team, [fragment(10 * number + index, steps) for index, steps in enumerate(lengths)])
        assert [one["updates"] for one in results] == [9, 9, 9]  # three passes over three minibatches of at most 5
        assert len({one["digest"] for one in results}) == 1
    first, *others = [learner.state() for learner in team]
    for other in others:
        assert [name for name in first if first[name].tobytes() != other[name].tobytes()] == []
    assert first["default_policy/num_updates"] == 27


def test_every_step_of_a_fragment_is_visited_once_in_a_pass_in_another_order_in_each(team):
    learner, columns = team[0], fragment(0)
    learner.plan([learner.begin(columns, 0)])
    obs = {row.tobytes() for row in columns["obs"].reshape(-1, 3)}
    orders = []
    for turn in range(3):
        parts = [learner._minibatch_of(3 * turn + place) for place in range(3)]
        rows = [row.tobytes() for part in parts for row in part["obs"][part["mask"] > 0]]
        assert len(rows) == 12 and set(rows) == obs
        orders.append(rows)
    assert orders[0] != orders[1] != orders[2]


def test_worker_that_missed_a_step_goes_on_with_the_others_from_the_state_of_one_that_took_it(team):
    first, second, _ = team
    fragments, state = [fragment(0), fragment(1)], first.state()
    expected = learn(team[:2], fragments)
    for learner in team[:2]:
        learner.load(state, 1)
    answers = learn(team[:2], fragments, last=0)
    first.step(1, *answers)  # the second one did not get the answers
    second.load(first.state(), first.version)
    second.taken = list(first.taken)
    answers = ()
    for number in range(1, 10):
        answers = [learner.step(number, *answers) for learner in team[:2]]
    results = [learner.close([None, None]) for learner in team[:2]]
    assert [one["digest"] for one in results] == [one["digest"] for one in expected]
    assert [one["stats"] for one in results] == [one["stats"] for one in expected]


def test_step_that_is_not_finite_is_taken_by_nobody(team):
    answers = learn(team, [fragment(index) for index in range(3)], last=0)
    answers[1][0][:] = np.nan
    before = team[0].state()
    for learner in team:
        with pytest.raises(Diverged):
            learner.step(1, *answers)
    assert [name for name, value in team[0].state().items() if not np.array_equal(value, before[name])] == []


def test_graph_without_steps_is_refused():
    config = DDPPOConfig.model_validate(SMALL | PASSES)
    spec = actor_critic_nets.policy_spec(config, SPACES)
    initial = actor_critic_nets.initial_weights(config, spec, 3)
    identity = {"seed": 3, "with_ray": False, "plugins": None}
    made = DecentralizedLearner(
        config, spec, ("drl_cli.algorithms.a2c_graph", initial), identity, OwnWeights({"default_policy": {}}), 0
    )
    with pytest.raises(ConfigError, match="has no steps for learners without a centre"):
        made.prepare()
