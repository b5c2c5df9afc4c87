"""State machines of hypothesis as tests: how many orders of their rules are tried, and that all of them were."""

from unittest import mock

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test


def compared_in(machine, orders, steps):
    """Run ``machine`` on ``orders`` orders of ``steps`` steps; returns by how much ``machine.compared`` grew.

    Orders are counted where they end: hypothesis draws them by the source of what it is given, which is therefore ``machine``.
    """
    before, tried, teardown = machine.compared, [], machine.teardown

    def counted(self):
        tried.append(None)
        teardown(self)

    chosen = settings(
        max_examples=orders,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    with mock.patch.object(machine, "teardown", counted):
        run_state_machine_as_test(machine, settings=chosen)
    assert len(tried) >= orders
    return machine.compared - before
