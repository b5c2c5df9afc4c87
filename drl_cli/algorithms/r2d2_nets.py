"""The net of R2D2 as plain data: DQN's, with an LSTM between the hidden layers and the values.

Light, as ``dqn_nets``. Source: Kapturowski et al. 2019, section 2.3; keys from RLlib's R2D2.
"""

from drl_cli.algorithms import dqn_nets
from drl_cli.algorithms.dqn_nets import initial_weights
from drl_cli.policies.net_builders import target_updates
from drl_cli.policies.policy_spec import ValueSpec

__all__ = ["initial_weights", "policy_spec", "target_updates"]


def policy_spec(config, spaces):
    """Return the PolicySpec of a recurrent policy over action values for ``spaces`` (see ``envs.make.describe``)."""
    return dqn_nets.values_spec(config, spaces, ValueSpec(), config.model.lstm_cell_size)
