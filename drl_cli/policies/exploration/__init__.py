"""How training actions differ from greedy ones; the worker asks once per step for all its environments.

Users: ``actors.rollout_worker`` (``make``), ``runtime.assembly`` (``random_timesteps``, through the config's settings).
"""

from drl_cli.policies.exploration.worker_exploration import make

__all__ = ["make"]
