"""SAC over a Dict or Tuple: its update against a slow one in float64, its targets, parts of one kind, and what is refused."""

import numpy as np
import pytest
from max_entropy_machine import JOINT, OBS, SPACES, block, config, machine
from slow import SlowUpdate, compare, follow_targets
from slow_sac import HybridLosses

from drl_cli.algorithms import sac
from drl_cli.algorithms.hybrid_sac_graph import target_entropies
from drl_cli.errors import ConfigError
from drl_cli.policies.composite_distributions import distribution_of
from drl_cli.policies.numpy_policy import NumpyPolicy

pytestmark = pytest.mark.tensorflow

CASES = {
    "plain": {},
    "single critic, delay": {"twin_q": False, "policy_delay": 2},
    "several": {"target_entropy": 0.5, "target_entropy_fraction": 0.9, "prioritized_replay": True},
    "entropy not in the targets": {"backup_entropy": False, "grad_clip": 0.05},
}
BOX, CHOICE = SPACES["Box"]["action"], SPACES["Discrete"]["action"]


def _spaces(*parts):
    parts = [{"path": [at], **part} for at, part in enumerate(parts)]
    return SPACES["Box"] | {"action": {"kind": "Composite", "parts": parts}}


@pytest.mark.parametrize("keys", CASES.values(), ids=CASES)
def test_update_matches_the_paper_in_float64(keys):
    made = config("hybrid", tau=0.2, **keys)
    with machine("hybrid", made) as started:
        slow = SlowUpdate(made, started.values(), HybridLosses(made), follow_targets(0.2))
        assert compare(started, slow, block("hybrid", made), updates=3) == 3


def test_each_kind_of_part_has_a_target_of_its_own():
    spec = sac.policy_spec(config("hybrid"), SPACES["Composite"])
    assert (spec.distribution, spec.nets[0].heads) == ("hybrid", (("mean", 2), ("log_std", 2), ("logits", 6)))
    assert spec.misfit() is None
    assert target_entropies(config("hybrid"), spec.action) == (-2.0, pytest.approx(0.5375278))  # 0.3·ln 6
    assert target_entropies(config("hybrid", target_entropy=0.5), spec.action)[0] == 0.5


@pytest.mark.parametrize("parts", [(BOX, BOX), (CHOICE, CHOICE)], ids=["Boxes alone", "choices alone"])
def test_parts_of_one_kind_alone_are_learnt_and_the_other_temperature_stays(parts):
    made = config("hybrid", updates_per_call=1)
    transitions = block("hybrid", made)
    if parts[0] is CHOICE:
        transitions["action"] = np.rint(np.abs(transitions["action"][..., :2]))
    with machine("hybrid", made, _spaces(*parts)) as started:
        before = started.values()
        assert started.run(transitions, 1)["finite"]
        after = started.values()
    assert all(not np.array_equal(before[n], after[n]) for n in before if n.startswith(("policy/", "critic/")))
    moved = (before["log_alpha"] != after["log_alpha"]).tolist()
    assert moved == [parts[0] is BOX, parts[0] is CHOICE]


def test_policy_draws_numbers_and_choices_as_its_log_probability_says():
    spec = sac.policy_spec(config("hybrid"), SPACES["Composite"])
    logits = np.log(np.float32([[0.3, 0.1, 0.1, 0.2, 0.2, 0.1]]))
    rows = 20_000
    heads = {"mean": np.zeros((rows, 2), np.float32), "log_std": np.full((rows, 2), -1.0, np.float32)}
    heads["logits"] = np.repeat(logits, rows, axis=0)
    drawn = distribution_of(spec).sample(heads, np.random.default_rng(0))
    joint = (drawn[:, 0] * JOINT[1] + drawn[:, 3]).astype(int)
    np.testing.assert_allclose(np.bincount(joint) / rows, np.exp(logits[0]), atol=0.015)
    assert np.tanh(-1.0) < np.quantile(drawn[:, 1], 0.02) < np.tanh(-0.6)  # two deviations of exp(-1), squashed
    at = np.float32([[1, 0.0, 0.0, 2]])
    first = {head: values[:1] for head, values in heads.items()}
    expected = np.log(0.1) + 2 * (1.0 - 0.5 * np.log(2 * np.pi))  # of the joint choice (1, 2), and of two means
    np.testing.assert_allclose(distribution_of(spec).logp(first, at), [expected], rtol=1e-5)
    np.testing.assert_array_equal(distribution_of(spec).greedy(first), [[0.0, 0.0, 0.0, 0.0]])


def test_worker_policy_of_choices_alone_acts_on_whole_numbers():
    spec = sac.policy_spec(config("hybrid"), _spaces(CHOICE, CHOICE))
    policy = NumpyPolicy(spec, sac.initial_weights(config("hybrid"), spec, 1))
    action, _, _ = policy.act(np.zeros((50, OBS), np.float32), (), np.random.default_rng(0), True)
    assert action.shape == (50, 2) and set(np.unique(action)) == {0.0, 1.0, 2.0}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            (BOX, {"kind": "MultiBinary", "n": 3, "shape": [3]}),
            "SAC: actions with parts that are MultiBinary, where Box",
        ),
        ((CHOICE,) * 6, "SAC: actions with 729 joint choices of its Discrete parts, where 256 are allowed. PPO takes"),
    ],
)
def test_parts_that_have_no_joint_choices_are_refused_in_one_line(parts, message):
    with pytest.raises(ConfigError) as refused:
        sac.policy_spec(config("hybrid"), _spaces(*parts))
    assert str(refused.value).startswith(message) and "\n" not in str(refused.value)
