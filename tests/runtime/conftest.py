"""A Driver that is always closed, and what was reported during a test."""

from drl_cli import process

process.prepare()
process.prepare_ray()  # before any test imports Ray: it reads what keeps it on loopback when it is imported

import pytest  # noqa: E402
from quick_learner import QuickLearner  # noqa: E402
from runtime_runs import env_facts  # noqa: E402

from drl_cli import events  # noqa: E402
from drl_cli.runtime import loop_kinds  # noqa: E402
from drl_cli.runtime.driver import Driver  # noqa: E402


@pytest.fixture
def run():
    """Function (env_id, config, restore=(checkpoint, exact), **Driver's keywords) → a started Driver."""
    trainers = []

    def start(env_id, config, restore=None, **keywords):
        trainer = Driver("SAC", config, env_facts(env_id), **keywords)
        trainers.append(trainer)
        if restore:
            trainer.restore(*restore)
        trainer.start()
        return trainer

    yield start
    for trainer in trainers:
        trainer.close()


@pytest.fixture
def quick_learner(monkeypatch):
    """Runs that learn from a replay do so with ``QuickLearner``: what an update computes does not matter to the test."""
    kind = loop_kinds.KINDS["replay"]._replace(learner=QuickLearner)
    monkeypatch.setitem(loop_kinds.KINDS, "replay", kind)


@pytest.fixture
def graph_learner(quick_learner, monkeypatch):
    """The learner with a graph, for one test of a file whose others use ``quick_learner``."""
    monkeypatch.setitem(loop_kinds.KINDS, "replay", loop_kinds.LoopKind(loop_kinds.KINDS["replay"].loop))


@pytest.fixture
def reports():
    """The (kind, fields) reported during the test."""
    seen = []
    unsubscribe = events.subscribe(lambda kind, fields: seen.append((kind, fields)))
    yield seen
    unsubscribe()
