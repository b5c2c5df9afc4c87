"""Environments with several agents, in one form: ``multi_agent_env`` says which, the adapters beside it bring others to it.

Belongs here: PettingZoo's, RLlib's dictionaries, gymnasium environments whose spaces are tuples, copies of a single-agent
environment, and a team that is seen as one agent. Not here: who learns what (``actors``, ``runtime``). Read first:
``multi_agent_env``.
"""
