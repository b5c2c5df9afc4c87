"""What the value learns from real fragments through the real learner of every row that learns from trajectories.

As in ``test_returns``: a world without end that gives 1 a step, which a time limit cuts at five steps, is worth
1 / (1 − 0.9) = 10 everywhere; one that ends with its fifth step the sum of what is left.
"""

import batch_machine
import counting_envs
import numpy as np
import pytest

from drl_cli.algorithms import table
from drl_cli.envs import make
from drl_cli.extras import load
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.runtime import loop_kinds
from drl_cli.runtime.cluster import LocalHandle

pytestmark = pytest.mark.tensorflow

LEFT = [4.0951, 3.439, 2.71, 1.9, 1.0]  # of five steps, γ = 0.9
CALLS = 120
RATE = [[0, 0.3], [CALLS // 2, 0.1], [CALLS, 0.003]]  # by the number of the call, which is told as the env steps
COMMON = {"gamma": 0.9, "horizon": 5, "num_envs_per_worker": 4, "rollout_fragment_length": 7, "lr": RATE}
COMMON |= {"model": {"fcnet_hiddens": ()}, "use_gae": True, "lambda": 0.8, "batch_mode": "truncate_episodes"}
PASSES = {"train_batch_size": 28, "sgd_minibatch_size": 14, "num_sgd_iter": 2, "vf_iterations": 2}
ROWS = [row.name for row in table.built_in() if row.postprocess == "trajectory" and not row.team]
# The value of whole episodes has nothing to bootstrap from but where the time limit cut them.
CASES = {name: (name, {}) for name in ROWS} | {
    "PG whole returns": ("PG", {"use_gae": False}),
    "PPO whole episodes": ("PPO", {"batch_mode": "complete_episodes"}),
    "IMPALA without V-trace": ("IMPALA", {"vtrace": False}),
}


class Alone:
    """A worker that learns itself, without others, as a learner."""

    def __init__(self, worker):
        self._worker, self.state = worker, worker.trained

    def prepare(self, streams, steps):
        self._worker.prepare()

    def learn(self, call, seen, found):
        assert found is None
        self._worker.plan([self._worker.begin(call)])
        answers = ()
        for number in range(5):  # two passes over two minibatches
            _, answer = self._worker.step(number, *answers)
            answers = [answer]
        return self._worker.end([seen])


@pytest.mark.parametrize(("name", "more"), CASES.values(), ids=CASES)
def test_every_value_learns_what_an_endless_world_and_an_ending_one_are_worth(name, more):
    row = table.find(name)
    fields = load(row.config).model_fields
    known = set(fields) | {field.alias for field in fields.values()}
    keys = {key: value for key, value in (COMMON | PASSES).items() if key in known}
    made = batch_machine.config(name, **(keys | more))
    spaces = make.check("CountedReward-v0", {"discrete": True}, row)
    spec = load(row.nets).policy_spec(made, spaces)
    initial = load(row.nets).initial_weights(made, spec, 3)
    server = LocalHandle("server", "drl_cli.actors.parameter_server:ParameterServer", ())
    server.call("push", {"default_policy": {name: initial[name] for name in spec.weight_names()}})
    place = {"seed": 7, "index": 0, "incarnation": 0, "random_steps": 0, "stream": 0, "streams": 4, "base": 0}
    place |= {"learns": {"graph": row.graph, "nets": row.nets}}  # read by workers that learn
    env = {"id": "CountedReward-v0", "env_config": {"discrete": True}, "imports": ()}
    parts = loop_kinds.kind_of(row)
    worker = load(parts.worker)(made, env, spec, place, server)
    if parts.learner is None:
        learner = Alone(worker)
    else:
        learner = load(parts.learner)(made, spec, row.graph, initial, {"seed": 3, "with_ray": False}, server)
    gradients = name == "A3C"
    learner.prepare(*(() if gradients else (4, 7)))
    version = 1
    for call in range(CALLS):
        token, found = worker.collect(version)
        assert token.meta.version == version
        version = (learner.apply(call, None, found) if gradients else learner.learn(call, None, found))["version"]
    values = {n.removeprefix("default_policy/"): value for n, value in learner.state().items()}
    policy = NumpyPolicy(spec, {n: values[n] for n in spec.weight_names()})
    seen = np.concatenate([counting_envs.FOR_EVER[None], counting_envs.COUNTING])
    value = policy.q_values(seen).max(axis=1) if spec.distribution == "q" else policy.value(seen, ())
    np.testing.assert_allclose(value, [10.0, *LEFT], rtol=0.03, atol=0.05)
