"""SAC with an ensemble of critics (REDQ) and with dropout in them (DroQ), against slow updates in float64."""

import numpy as np
import pytest
from max_entropy_machine import SEED, block, config, machine
from slow import SlowUpdate, compare, follow_targets
from slow_sac import Losses

from drl_cli.algorithms.max_entropy_critics_graph import dropout
from drl_cli.policies.nets import Dense, NetSpec
from drl_cli.tf1.stateless_random import hashed_uniform, stateless_uniform
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

LAYER_NORM = {"fcnet_hiddens": (5,), "fcnet_activation": "tanh", "layer_norm": True}
REDQ = {"num_critics": 3, "target_critics": 2}
DROQ = {"critic_dropout": 0.25, "Q_model": LAYER_NORM}
UNITS, UPDATES = 5, 3


def drawn_uniform(kind, shape, stream):
    """Return uniform numbers of ``shape`` for each update."""
    with tf.Graph().as_default(), tf.Session() as session:
        number = tf.placeholder(tf.int64, [])
        draw = kind(shape, SEED, number, stream)
        return [session.run(draw, {number: n}) for n in range(UPDATES)]


class EnsembleLosses(Losses):
    """Algorithm 1 of REDQ and algorithm 2 of DroQ: a random part of the critics in the target, their mean for the policy."""

    def __init__(self, made):
        super().__init__(made, -1.0, 1.0)
        rows, self.number = made.train_batch_size, -1
        count = made.target_critics or made.critics
        self.drawn = [np.arange(count)] * UPDATES
        if count < made.critics:
            self.drawn = [np.argsort(-lots)[:count] for lots in drawn_uniform(stateless_uniform, [made.critics], 5)]
        self.masks = [None] * 3
        if made.critic_dropout:
            shapes = [[one, rows, UNITS] if one > 1 else [rows, UNITS] for one in (count, made.critics, made.critics)]
            each = [
                drawn_uniform(hashed_uniform, shape, stream) for shape, stream in zip(shapes, (6, 7, 8), strict=True)
            ]
            rate = made.critic_dropout
            self.masks = [[(u.reshape(-1, rows, UNITS) >= rate) / (1 - rate) for u in one] for one in each]

    def begin(self):
        self.number += 1

    def _mask(self, which, row):
        return None if self.masks[which] is None else self.masks[which][self.number][:, row]

    def target_q(self, present, row, obs, action):
        drawn, masks = self.drawn[self.number], self._mask(0, row)
        if masks is not None:  # the masks are those of the critics that are drawn, in their order
            every = np.ones((self.critics, UNITS))
            every[drawn] = masks
            masks = every
        return self.q(present, "target_critic", obs, action, masks)[drawn].min()

    def online_q(self, weights, row, obs, action):
        return self.q(weights, "critic", obs, action, self._mask(1, row))

    def policy_q(self, present, row, obs, action):
        q = self.q(present, "critic", obs, action, self._mask(2, row))
        return q.min() if self.config.policy_q == "min" else q.mean()


CASES = {
    "REDQ": REDQ,
    "DroQ": DROQ,
    "both, one critic drawn, the policy's minimum": DROQ | {"num_critics": 3, "target_critics": 1, "policy_q": "min"},
}


@pytest.mark.parametrize("keys", CASES.values(), ids=CASES)
def test_update_matches_the_papers_in_float64(keys):
    made = config("sac", tau=0.2, **keys)
    with machine("sac", made) as started:
        slow = SlowUpdate(made, started.values(), EnsembleLosses(made), follow_targets(0.2))
        assert compare(started, slow, block("sac", made), updates=UPDATES) == UPDATES


@pytest.mark.parametrize("kind", ["sac", "discrete"])
def test_updates_in_one_call_are_those_one_at_a_time_bit_for_bit(kind):
    made = config(kind, **REDQ, critic_dropout=0.3)
    given = block(kind, made)
    with machine(kind, made) as started:
        started.run(given, 4)
        together = started.values()
    with machine(kind, made) as again:
        for number in range(4):
            again.run({name: np.roll(values, -number, axis=0) for name, values in given.items()}, 1)
        singly = again.values()
    assert [name for name in together if not np.array_equal(together[name], singly[name])] == []


@pytest.mark.slow
def test_compiled_and_plain_updates_agree():
    made = config("sac", policy_delay=2, **(REDQ | DROQ))
    transitions, found = block("sac", made), []
    for xla in (False, True):
        with machine("sac", made, xla=xla) as started:
            started.run(transitions, 3)
            found.append(started.values())
    for name, value in found[0].items():
        np.testing.assert_allclose(found[1][name], value, rtol=2e-3, atol=2e-4, err_msg=name)


@pytest.mark.parametrize(("keys", "draws"), [({}, 2), (REDQ, 3), (DROQ, 5)])
def test_only_what_is_asked_for_draws_random_numbers(keys, draws):
    with machine("sac", config("sac", **keys)) as started:
        written = str(started.session.graph.as_graph_def())  # the update is a function in it
        found = written.count('op: "StatelessRandomUniformFullIntV2"')
    assert found == draws


def test_dropout_keeps_the_mean_and_differs_in_rows_copies_layers_updates_and_streams():
    net = NetSpec("critic", (("obs", 2),), (Dense(50), Dense(40)), (("q", 1),), copies=2)
    ones = [np.ones((2, 100, units), np.float32) for units in (50, 40)]
    with tf.Graph().as_default(), tf.Session() as session:
        number = tf.placeholder(tf.int64, [])
        both = [dropout(net, 0.2, 100, SEED, (number, stream)) for stream in (6, 7)]
        masks = [[drop(tf.constant(x)) for x in ones] for drop in both]
        (first, second), (other, _) = session.run(masks, {number: 0})
        (again, _), _ = session.run(masks, {number: 0})
        (later, _), _ = session.run(masks, {number: 1})
    assert set(np.unique(first)) == set(np.unique(second)) == {np.float32(0), np.float32(1.25)}
    assert abs((first == 0).mean() - 0.2) < 0.015 and abs((second == 0).mean() - 0.2) < 0.015
    np.testing.assert_array_equal(first, again)
    for different in (later, other, np.roll(first, 1, axis=0), np.roll(first, 1, axis=1)):
        assert 0.25 < (first != different).mean() < 0.39  # 2 · 0.2 · 0.8 = 0.32
    assert 0.25 < (first[..., :40] != second).mean() < 0.39
