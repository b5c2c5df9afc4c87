"""Whatever is called through a Protocol of ``contracts``, of a loop or of a plan has its methods, with arguments that fit."""

import inspect

import pytest

from drl_cli import contracts
from drl_cli.actors import tester
from drl_cli.actors.evolution_learner import EvolutionLearner
from drl_cli.actors.evolution_worker import EvolutionWorker
from drl_cli.actors.experience_reader import ExperienceReader
from drl_cli.actors.gradient_worker import GradientWorker
from drl_cli.actors.mixed_worker import MixedWorker
from drl_cli.actors.replay_buffer import ReplayBuffer
from drl_cli.actors.rollout_worker import RolloutWorker
from drl_cli.runtime.cluster import InlineCluster, LocalHandle, Reference, ThreadHandle
from drl_cli.runtime.loop_kinds import Loop
from drl_cli.runtime.loops.evolution import EvolutionLoop
from drl_cli.runtime.loops.gradients import GradientLoop
from drl_cli.runtime.loops.replay import ReplayLoop
from drl_cli.runtime.loops.stream import StreamPlan
from drl_cli.runtime.loops.sync import SyncPlan
from drl_cli.runtime.loops.trajectories import TrajectoryLoop, TrajectoryPlan
from drl_cli.runtime.testers import ManyTesters

ROLES = [
    *(
        (contracts.WorkerPart, kind)
        for kind in (RolloutWorker, ExperienceReader, MixedWorker, GradientWorker, EvolutionWorker)
    ),
    (contracts.LearnerPart, EvolutionLearner),
    (contracts.ReplayPart, ReplayBuffer),
    (contracts.TesterPart, tester.Tester),
    (contracts.Cluster, InlineCluster),
    (contracts.Call, Reference),
    *((contracts.Handle, kind) for kind in (LocalHandle, ThreadHandle)),
    *((Loop, kind) for kind in (ReplayLoop, TrajectoryLoop, GradientLoop, EvolutionLoop)),
    *((TrajectoryPlan, kind) for kind in (SyncPlan, StreamPlan)),
]
SET_WHEN_MADE = {"close"}  # a GradientWorker takes it over from its RolloutWorker
MORE = {(EvolutionWorker, "collect"): 1}  # its loop hands out blocks


def _methods(protocol):
    return {name: one for name, one in vars(protocol).items() if inspect.isfunction(one) and not name.startswith("_")}


@pytest.mark.parametrize(("protocol", "kind"), ROLES, ids=lambda one: one.__name__)
def test_class_has_the_methods_of_its_role_and_takes_its_arguments(protocol, kind):
    for name, wanted in _methods(protocol).items():
        if not hasattr(kind, name) and name in SET_WHEN_MADE:
            continue
        named = inspect.signature(wanted).parameters.values()
        count = sum(one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for one in named)
        if count:  # an overloaded one shows none
            assert inspect.signature(getattr(kind, name)).bind(*range(count + MORE.get((kind, name), 0)))


@pytest.mark.parametrize("kind", [LocalHandle, ThreadHandle])
def test_handle_calls_with_arguments_and_returns(kind):
    assert inspect.signature(kind.call).bind("self", "learn", 1, 2, returns=2)


def test_several_testers_are_called_as_one():
    assert {"call", "is_remote"} <= set(dir(ManyTesters))
