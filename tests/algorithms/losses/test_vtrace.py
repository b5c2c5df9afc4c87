"""V-trace against the paper's sum, written out step by step, and what must not get a gradient."""

import numpy as np
import pytest

from drl_cli.algorithms.losses.vtrace import Clips, vtrace
from drl_cli.tf1.tensorflow import tf

pytestmark = pytest.mark.tensorflow

GAMMA = 0.9
CLIPS = {
    "the paper's": Clips(),
    "apart": Clips(rho=0.8, pg_rho=1.7),
    "none": Clips(rho=None, pg_rho=None),
    "short traces": Clips(rho=1.2, pg_rho=0.6, lambda_=0.7),
}


def run(tensors):
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(tensors())


def made(seed, streams=5, steps=9):
    """A random batch: some steps end an episode, really or by a limit; the last stream is padded from its seventh step on."""
    rng = np.random.default_rng(seed)
    shape = (streams, steps)
    ends = rng.choice(["", "terminated", "truncated"], p=[0.6, 0.2, 0.2], size=shape)
    ends[0], mask = "", np.ones(shape, np.float32)
    mask[-1, 6:] = 0.0
    batch = {
        "reward": rng.normal(size=shape).astype(np.float32),
        "discount": np.where(ends == "terminated", 0.0, GAMMA).astype(np.float32),
        "trace": np.where(ends == "", 1.0, 0.0).astype(np.float32),
        "mask": mask,
    }
    values, ends_in = rng.normal(size=shape).astype(np.float32), rng.normal(size=shape).astype(np.float32)
    following = np.concatenate([values[:, 1:], ends_in[:, -1:]], axis=1)
    following[-1, 5] = ends_in[-1, 5]  # the last real step of the padded stream
    next_values = np.where(ends == "", following, ends_in).astype(np.float32)
    log_rho = rng.normal(size=shape).astype(np.float32)
    log_rho[-1, 6:] = np.nan
    return log_rho, batch, values, next_values


def paper(log_rho, batch, values, next_values, clips):
    """(v_s, advantage) of each real step by eq. 1: v_s = V(x_s) + Σ_t γ^{t−s} (Π_{i<t} c_i) δ_t, to the end."""
    targets, advantages = np.zeros(values.shape), np.zeros(values.shape)
    most_rho, most_pg = (np.inf if most is None else most for most in clips[:2])
    for stream, begin in np.argwhere(batch["mask"] > 0):
        targets[stream, begin] = values[stream, begin]
        weight = 1.0
        for step in range(begin, values.shape[1]):
            if not batch["mask"][stream, step]:
                break
            ratio = np.exp(np.float64(log_rho[stream, step]))
            reward, discount = batch["reward"][stream, step], batch["discount"][stream, step]
            error = min(ratio, most_rho) * (reward + discount * next_values[stream, step] - values[stream, step])
            targets[stream, begin] += weight * error
            if batch["trace"][stream, step] == 0:
                break
            weight *= discount * clips.lambda_ * min(ratio, 1.0)
    for stream, step in np.argwhere(batch["mask"] > 0):
        ratio = min(np.exp(np.float64(log_rho[stream, step])), most_pg)
        last = step + 1 == values.shape[1] or not batch["mask"][stream, step + 1] or not batch["trace"][stream, step]
        after = next_values[stream, step] if last else targets[stream, step + 1]
        bootstrapped = batch["reward"][stream, step] + batch["discount"][stream, step] * after
        advantages[stream, step] = ratio * (bootstrapped - values[stream, step])
    return targets, advantages


def traced(log_rho, batch, values, next_values, clips):
    batch = {name: tf.constant(column) for name, column in batch.items()}
    return vtrace(tf.constant(log_rho), batch, tf.constant(values), tf.constant(next_values), clips)


@pytest.mark.parametrize("clips", CLIPS.values(), ids=CLIPS)
@pytest.mark.parametrize("seed", range(4))
def test_targets_and_advantages_are_the_paper_s_sums(clips, seed):
    case = made(seed)
    found = run(lambda: traced(*case, clips))
    targets, advantages = paper(*case, clips)
    np.testing.assert_allclose(found.value_target, targets, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.advantage, advantages, rtol=1e-4, atol=1e-5)
    assert (found.rho[-1, 6:] == 0).all()
    np.testing.assert_allclose(found.rho[0], np.exp(case[0][0]), rtol=1e-5)


def test_every_clip_and_lambda_is_1_unless_it_is_given():
    assert Clips() == (1.0, 1.0, 1.0)


def test_two_steps_come_out_as_by_hand():
    ones = np.ones((1, 2), np.float32)
    batch = {"reward": np.float32([[1, 2]]), "discount": 0.5 * ones, "trace": ones, "mask": ones}
    log_rho = np.log(np.float32([[2.0, 0.5]]))
    found = run(lambda: traced(log_rho, batch, np.float32([[4, 6]]), np.float32([[6, 8]]), Clips(1.0, 1.5)))
    # δ = 1·(1 + ½·6 − 4) = 0 and ½·(2 + ½·8 − 6) = 0 … and with c_0 = 1: v_1 = 6, v_0 = 4 + 0 + ½·1·0
    np.testing.assert_allclose(found.value_target, [[4.0, 6.0]])
    batch["reward"] = np.float32([[1, 4]])
    found = run(lambda: traced(log_rho, batch, np.float32([[4, 6]]), np.float32([[6, 8]]), Clips(1.0, 1.5)))
    # δ_1 = ½·(4 + 4 − 6) = 1: v_1 = 7; v_0 = 4 + ½·1·1; the policy's: 1.5·(1 + ½·7 − 4) and ½·(4 + ½·8 − 6)
    np.testing.assert_allclose(found.value_target, [[4.5, 7.0]])
    np.testing.assert_allclose(found.advantage, [[0.75, 1.0]])


def test_on_policy_targets_are_the_returns_bootstrapped_at_the_end():
    _, batch, values, next_values = made(1)
    found = run(lambda: traced(np.zeros_like(values), batch, values, next_values, Clips()))
    # Stream 0 has no end: Σ γ^i r_i and the value behind the last step.
    returns, following = [], next_values[0, -1]
    for reward in batch["reward"][0, ::-1]:
        following = reward + GAMMA * following
        returns.insert(0, following)
    np.testing.assert_allclose(found.value_target[0], returns, rtol=1e-4)
    np.testing.assert_allclose(found.advantage[0], np.array(returns) - values[0], rtol=1e-4, atol=1e-5)
    assert (found.rho == batch["mask"]).all()


def test_nothing_passes_a_gradient():
    log_rho, batch, values, next_values = made(2)

    def gradients():
        inputs = [tf.constant(np.nan_to_num(log_rho)), tf.constant(values), tf.constant(next_values)]
        columns = {name: tf.constant(column) for name, column in batch.items()}
        found = vtrace(inputs[0], columns, *inputs[1:], Clips())
        return [tf.constant(int(each is None)) for part in found for each in tf.gradients(part, inputs)]

    assert run(gradients) == [1] * 9


def test_a_ratio_beyond_every_float_is_clipped_like_any_other():
    log_rho, batch, values, next_values = made(3)
    log_rho[0, 3] = 500.0
    found = run(lambda: traced(log_rho, batch, values, next_values, Clips()))
    np.testing.assert_allclose(found.rho[0, 3], np.exp(20.0), rtol=1e-5)
    assert np.isfinite(found.value_target).all()
    assert np.isfinite(found.advantage).all()
