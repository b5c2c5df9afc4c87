"""What learners do with a graph and a postprocess of others: functions in the place of dotted names."""

import numpy as np
import pytest
from parts import server
from test_batch_learner import SMALL, SPACES, _fragment

from drl_cli.actors.batch_learner import BatchLearner
from drl_cli.algorithms import a2c_graph, actor_critic_nets
from drl_cli.algorithms.a2c import A2CConfig
from drl_cli.errors import PluginFailed

pytestmark = pytest.mark.tensorflow

SEEN = []


def _learner(graph, postprocess=None):
    config = A2CConfig.model_validate(SMALL)
    spec = actor_critic_nets.policy_spec(config, SPACES)
    initial = actor_critic_nets.initial_weights(config, spec, 3)
    started = server()
    started.call("push", {"default_policy": {name: initial[name] for name in spec.weight_names()}})
    identity = {"seed": 3, "with_ray": False, "postprocess": postprocess}
    learner = BatchLearner(config, spec, graph, initial, identity, started)
    learner.prepare(4, 6)
    return learner


def with_bonus(*arguments):
    """A2C's graph, whose rewards are those that the postprocess made."""
    built = a2c_graph.build(*arguments)

    def learn(batch, rates, number):
        learnt = built.learn({**batch, "reward": batch["bonus"]}, rates, number)
        return learnt._replace(stats=learnt.stats | {"bonus": batch["bonus"][0, 0]})

    return built._replace(columns=built.columns | {"bonus": ((), "float32", "step")}, learn=learn)


def doubled(batch, config):
    SEEN.append((batch["reward"].shape, config.gamma))
    return {"bonus": 2.0 * batch["reward"]}


def test_function_builds_the_graph_as_its_module_does():
    one, other = (_learner(graph).learn(24, None, _fragment(1), _fragment(2)) for graph in (a2c_graph.build, a2c_graph))
    assert one["stats"] == other["stats"]
    assert one["updates"] == 1


def test_postprocess_sees_the_batch_and_brings_columns_that_the_graph_learns_from():
    SEEN.clear()
    fragment = _fragment(1)
    result = _learner(with_bonus, doubled).learn(24, None, fragment, _fragment(2))
    assert SEEN == [((4, 6), 0.99)]
    assert result["stats"]["bonus"] == pytest.approx(2.0 * float(fragment["reward"][0, 0]))


@pytest.mark.parametrize(
    ("postprocess", "text"),
    [
        (lambda batch, config: {"bonnus": batch["reward"]}, "<lambda> did not bring the column bonus, which the graph"),
        (lambda batch, config: None, "<lambda> did not bring the column bonus"),
        (
            lambda batch, config: batch["wind"],
            r"<lambda> failed: KeyError: 'wind' \(.*test_own_algorithm_parts.py:\d+\)",
        ),
    ],
)
def test_postprocess_that_fails_is_told_in_one_line(postprocess, text):
    learner = _learner(with_bonus, postprocess)
    before = learner.state()
    with pytest.raises(PluginFailed, match=f"The postprocess {text}"):
        learner.learn(24, None, _fragment(1), _fragment(2))
    assert all(np.array_equal(before[name], value) for name, value in learner.state().items())


def test_graph_that_cannot_be_built_is_told_in_one_line():
    def build(config, spec, initial, seed, scope):
        return config.boldness

    with pytest.raises(
        PluginFailed, match=r"The graph of this algorithm failed: AttributeError: .*algorithm_parts.py:\d+"
    ):
        _learner(build)
