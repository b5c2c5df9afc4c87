"""QMIX and VDN against hand-made numbers: mixing that grows with each value, targets, gradients, agents that are gone."""

import numpy as np
import pytest
from machine import Machine
from team_spaces import team_spaces

from drl_cli.algorithms import qmix, qmix_graph

pytestmark = pytest.mark.tensorflow

AGENTS, ACTIONS, STATE, ROWS = 2, 3, 2, 4
SPACES = team_spaces((2, 2), (ACTIONS, ACTIONS), STATE)
KEYS = {
    "model": {"fcnet_hiddens": ()},
    "hypernet_hiddens": (),
    "mixing_embed_dim": 3,
    "train_batch_size": ROWS,
    "updates_per_call": 1,
    "target_network_update_freq": 10_000,
    "grad_clip": None,
    "double_q": False,
}


def machine(kind, rate=1e-2, **keys):
    config = {"qmix": qmix.QMIXConfig, "vdn": qmix.VDNConfig}[kind](**(KEYS | keys))
    return Machine(config, SPACES, modules=(qmix, qmix_graph), rates={"lr": rate})


def block(seed=0, alive=(1.0, 1.0)):
    """One batch of random transitions in which everything is allowed."""
    rng, size = np.random.default_rng(seed), SPACES["obs"]["shape"][0]
    obs, next_obs = rng.normal(0, 1, (2, 1, ROWS, size)).astype(np.float32)
    for seen in (obs, next_obs):
        seen[..., 4:10], seen[..., 10:12] = 1.0, alive
    return {
        "obs": obs,
        "next_obs": next_obs,
        "action": rng.integers(0, ACTIONS, (1, ROWS, AGENTS), dtype=np.int32),
        "reward": rng.normal(0, 1, (1, ROWS)).astype(np.float32),
        "discount": np.float32([[0.9, 0.9, 0.0, 0.9]]),
    }


def values_of(weights, obs, prefix=""):
    """Each agent's action values in NumPy, [ROWS, A, n]."""
    kernel, bias = (weights[f"{prefix}q/q/{part}"] for part in ("kernel", "bias"))
    return obs[0, :, :4].reshape(ROWS, AGENTS, 2) @ kernel + bias


def mixed(weights, obs, values, prefix=""):
    """The mixing network, row by row in NumPy, [ROWS]."""
    found = []
    for state, q in zip(obs[0, :, -STATE:], values, strict=True):
        w1, b1, w2, b2 = (
            state @ weights[f"{prefix}mixer/{head}/kernel"] + weights[f"{prefix}mixer/{head}/bias"]
            for head in ("w1", "b1", "w2", "b2")
        )
        hidden = q @ np.abs(w1.reshape(AGENTS, 3)) + b1
        hidden = np.where(hidden > 0, hidden, np.expm1(hidden))
        found.append(hidden @ np.abs(w2) + b2[0])
    return np.array(found)


def chosen(values, action):
    return np.take_along_axis(values, action[0][..., None].astype(int), axis=2)[..., 0]


@pytest.mark.parametrize("double_q", [False, True])
@pytest.mark.parametrize("kind", ["vdn", "qmix"])
def test_loss_is_half_the_mean_square_of_what_is_left_to_the_target(kind, double_q):
    given = block()
    with machine(kind, double_q=double_q) as running:
        # A target that differs from the online net, so that it matters which of them chooses.
        running.set(**{n: -w for n, w in running.values().items() if n.startswith("target_q")})
        weights = running.values()
        out = running.run(given, 1)

    def total(obs, values, prefix=""):
        return values.sum(axis=1) if kind == "vdn" else mixed(weights, obs, values, prefix)

    following = values_of(weights, given["next_obs"], "target_")
    choosing = values_of(weights, given["next_obs"]) if double_q else following
    best = choosing.argmax(axis=2)
    target = given["reward"][0] + given["discount"][0] * total(
        given["next_obs"], chosen(following, best[None]), "target_"
    )
    now = total(given["obs"], chosen(values_of(weights, given["obs"]), given["action"]))
    assert out["stats"]["loss"] == pytest.approx(0.5 * np.mean((target - now) ** 2), rel=1e-4)
    assert out["stats"]["mean_q"] == pytest.approx(now.mean(), rel=1e-4)


def test_agents_that_are_gone_count_nothing_and_learn_nothing():
    one_left = block(alive=(1.0, 0.0))
    with machine("vdn", share_weights=False) as running:
        before = running.values()
        out = running.run(one_left, 1)
        after = running.values()
        kernel = before["q/q/kernel"]
    values = one_left["obs"][0, :, :2] @ kernel[0]
    taken = np.take_along_axis(values, one_left["action"][0][:, :1].astype(int), axis=1)[:, 0]
    assert out["stats"]["mean_q"] == pytest.approx(taken.mean(), rel=1e-4)
    assert not np.array_equal(before["q/q/kernel"][0], after["q/q/kernel"][0])
    assert np.array_equal(before["q/q/kernel"][1], after["q/q/kernel"][1])


def test_gradient_of_vdn_by_hand_reaches_only_the_actions_taken():
    given = block()
    given["action"][:] = 1
    with machine("vdn") as running:
        weights = running.values()
        out = running.run(given, 1)
        slots = running.values()
    now = chosen(values_of(weights, given["obs"]), given["action"]).sum(axis=1)
    following = values_of(weights, given["next_obs"], "target_").max(axis=2).sum(axis=1)
    error = given["reward"][0] + given["discount"][0] * following - now
    # d loss / d bias of action 1: two agents share it.
    expected = np.array([0.0, -2.0 * error.mean(), 0.0])
    np.testing.assert_allclose(slots["q_adam/q/q/bias/m"] / 0.1, expected, rtol=1e-4, atol=1e-6)
    assert out["rows"]["priority"][0].tolist() == pytest.approx(np.abs(error).tolist(), rel=1e-4)
