"""Environments with several agents, in one form, which ``multi_agent_env`` defines; adapters convert the others.

Belongs here: PettingZoo's, RLlib's dictionaries, gymnasium environments whose spaces are tuples, copies of a single-agent
environment, and a team that is seen as one agent. Not here: what policies learn from (``actors``, ``runtime``). Read first:
``multi_agent_env``.
"""
