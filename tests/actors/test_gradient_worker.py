"""The gradient worker: its gradient is that of the fragment that a rollout worker would have sent, and it goes on exactly."""

import json

import numpy as np
import pytest
from actor_critics import ENV, LSTM, config, identity, parts

from drl_cli.actors.gradient_worker import GradientWorker
from drl_cli.actors.graph_gradients import GraphGradients
from drl_cli.actors.rollout_worker import RolloutWorker
from drl_cli.algorithms.a3c_gradients import NumpyGradients
from drl_cli.errors import CheckpointError
from drl_cli.experience.trajectories import join
from drl_cli.policies.numpy_policy import NumpyPolicy

pytestmark = pytest.mark.tensorflow

KINDS = {"dense": {}, "shared": {"vf_share_layers": True}, "lstm": {"model": LSTM}}
SCHEDULE = ((0, 0.0), (100, 1.0))


def _worker(kind, of=GradientWorker, place=None, **keys):
    made = config(**KINDS[kind], **keys)
    spec, _, server = parts(made)
    return of(made, ENV, spec, place or identity(), server), server


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_is_that_of_the_fragment(kind):
    worker, _ = _worker(kind)
    found = [worker.collect(1) for _ in range(3)]
    twin, _ = _worker(kind, RolloutWorker)
    made = config(**KINDS[kind])
    spec, weights, _ = parts(made)
    compute = (GraphGradients if spec.state else NumpyGradients)(made, spec)
    for token, sent in found:
        expected, columns = twin.collect(1)
        assert (token.meta, token.steps, token.episodes) == (expected.meta, 10, expected.episodes)
        assert token.meta.version == 1 and token.seconds["learn"] > 0
        batch = join([columns], made.gamma, 3 if spec.state else 1)
        gradients, stats = compute(NumpyPolicy(spec, weights), batch, made.entropy_coeff)
        assert set(sent) == {"gradients", "stats"} and sent["stats"] == stats
        assert sorted(sent["gradients"]) == sorted(weights)
        for name, gradient in gradients.items():
            np.testing.assert_array_equal(sent["gradients"][name], gradient)
    assert max(np.abs(gradient).max() for gradient in found[0][1]["gradients"].values()) > 1e-3


def test_it_waits_for_the_first_weights():
    made = config()
    spec, weights, server = parts(made)
    worker = GradientWorker(made, ENV, spec, identity(), server)
    token, _ = worker.collect()
    assert token.meta.version == 1


def test_it_differentiates_with_the_weights_that_it_was_asked_to_have():
    worker, server = _worker("dense")
    worker.collect(1)
    _, weights = server.call("pull", 0).result()
    other = {name: value * 0.5 for name, value in weights["default_policy"].items()}
    server.call("push", {"default_policy": other})
    token, sent = worker.collect(2)
    assert token.meta.version == 2
    assert worker._worker.policy.weights is other
    twin, server = _worker("dense", RolloutWorker)
    twin.collect(1)
    server.call("push", {"default_policy": other})
    _, columns = twin.collect(2)
    made = config()
    spec, _, _ = parts(made)
    expected, _ = NumpyGradients(made, spec)(NumpyPolicy(spec, other), join([columns], made.gamma), made.entropy_coeff)
    np.testing.assert_array_equal(sent["gradients"]["policy/logits/kernel"], expected["policy/logits/kernel"])


@pytest.mark.parametrize(("streams", "expected"), [(2, [0.2, 0.3, 0.4]), (4, [0.2, 0.4, 0.6])])
def test_entropy_coefficient_follows_its_schedule_by_the_env_steps_of_the_run(streams, expected):
    worker, _ = _worker("dense", place=identity(base=20, streams=streams), entropy_coeff=SCHEDULE)
    found = [worker.collect(1)[1]["stats"]["entropy_coeff"] for _ in range(3)]
    np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_worker_goes_on_from_its_state_with_the_same_gradients(kind):
    worker, _ = _worker(kind, entropy_coeff=SCHEDULE)
    for _ in range(2):
        worker.collect(1)
    arrays, facts = worker.state()
    arrays = {name: np.array(array) for name, array in arrays.items()}
    facts = json.loads(json.dumps(facts))
    before = [worker.collect(1) for _ in range(2)]
    resumed, _ = _worker(kind, entropy_coeff=SCHEDULE)
    resumed.load(arrays, facts)
    for expected, sent in before:
        token, other = resumed.collect(1)
        assert token.meta == expected.meta and other["stats"] == sent["stats"]
        for name, gradient in sent["gradients"].items():
            np.testing.assert_array_equal(other["gradients"][name], gradient)


def test_state_of_another_kind_of_worker_is_refused():
    worker, _ = _worker("dense")
    twin, _ = _worker("dense", RolloutWorker)
    with pytest.raises(CheckpointError, match="incomplete"):
        worker.load(*twin.state())
