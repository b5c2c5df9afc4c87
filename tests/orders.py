"""State machines of hypothesis as tests: how many orders of their rules are tried, and that all of them were."""

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test


def compared_in(machine, orders, steps):
    """Run ``machine`` on ``orders`` orders of ``steps`` steps; returns by how much ``machine.compared`` grew."""
    before, made = machine.compared, []

    def make():
        made.append(None)
        return machine()

    chosen = settings(
        max_examples=orders,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(make, settings=chosen)
    assert len(made) >= orders
    return machine.compared - before
