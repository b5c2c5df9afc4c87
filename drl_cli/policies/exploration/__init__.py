"""How training actions differ from greedy ones; chosen once per step for all environments of a worker.

Users: ``actors.rollout_worker`` (``make``), ``runtime.assembly`` (``random_timesteps``, from the config's settings).
"""

from drl_cli.policies.exploration.worker_exploration import make

__all__ = ["make"]
