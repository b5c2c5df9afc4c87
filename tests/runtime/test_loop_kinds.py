"""Which loop, learner and worker belong together, and what a row replaces."""

import pytest

from drl_cli.algorithms import table
from drl_cli.extras import load
from drl_cli.runtime import loop_kinds

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("loop", "learner", "worker"),
    [
        ("replay", "learner:Learner", "rollout_worker:RolloutWorker"),
        ("stream", "batch_learner:BatchLearner", "rollout_worker:RolloutWorker"),
        ("gradients", "gradient_learner:GradientLearner", "gradient_worker:GradientWorker"),
        ("decentralized", None, "decentralized_worker:DecentralizedWorker"),
        ("evolution", "evolution_learner:EvolutionLearner", "evolution_worker:EvolutionWorker"),
    ],
)
def test_name_of_a_loop_brings_its_learner_and_worker(loop, learner, worker):
    kind = loop_kinds.kind_of(table.find("SAC")._replace(loop=loop))
    assert (kind.learner, kind.worker) == (learner and f"drl_cli.actors.{learner}", f"drl_cli.actors.{worker}")
    assert load(kind.loop).make


def test_learner_and_worker_of_a_row_replace_those_of_its_loop():
    row = table.find("SAC")._replace(loop="drl_cli.runtime.loops.replay", learner="mine:Learner")
    assert loop_kinds.kind_of(row) == ("drl_cli.runtime.loops.replay", "mine:Learner", loop_kinds.WORKER)
