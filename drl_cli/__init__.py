"""drl: train, watch and score deep-reinforcement-learning agents from the command line."""

__version__ = "0.1.0"
