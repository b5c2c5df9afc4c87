"""Aggregator: joins fragments to the batch that they are learnt from, in a process of its own.

With ``num_aggregation_workers`` the loop of IMPALA and APPO has batches joined ahead of the learner, so that neither the driver
nor the learner's thread copies fragments. An aggregator has no state: one that died is started again, and its call repeated.

Source: RLlib 1.0's aggregation workers (``num_aggregation_workers``), which concatenate sample batches for the learner.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from drl_cli.config.sections.on_policy import TrajectoryKeys, sequence_length
from drl_cli.experience.trajectories import join

if TYPE_CHECKING:
    from drl_cli.experience.columns import Batch, Columns
    from drl_cli.policies.policy_spec import PolicySpec


class Joining(NamedTuple):
    """How fragments become a batch, see ``experience.trajectories.join``; plain data, the learner's."""

    gamma: float
    sequence: int
    stepwise: tuple[str, ...]
    every_end: bool
    least_rows: int = 0

    def batch(self, *fragments: Columns) -> Batch:
        """Return the trajectory batch of ``fragments``, {column: array [E, T, …]}."""
        return join(fragments, *self)


def joining(config: TrajectoryKeys, spec: PolicySpec, least_rows: int = 0) -> Joining:
    """Return how the fragments of a run are joined; ``least_rows``: of every batch."""
    return Joining(config.gamma, sequence_length(config), tuple(spec.stepwise), spec.team is not None, least_rows)


class Aggregator:
    """Joins what the loop passes by reference."""

    def join(self, how: Joining, *fragments: Columns) -> tuple[float, Batch]:
        """Return (seconds that it took, the trajectory batch of ``fragments`` in their order).

        Two values, since the loop waits for one of them, and must not fetch the other.
        """
        began = time.perf_counter()
        batch = how.batch(*fragments)
        return time.perf_counter() - began, batch
