"""Checks before a run: the machine, installed packages, environments, and what a run would take.

Belongs here: probes that may crash or hang, each in another process, and findings with how to fix them.

Not here: checks of keys (``config/``) and of experiments (``experiments/``).

Read first: ``doctor.py``
"""
