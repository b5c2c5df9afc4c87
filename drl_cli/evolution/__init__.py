"""Evolution strategies: perturbation directions, their noise, the policy network, and the updates of ES and ARS.

Belongs here: the mathematics of ES and ARS, in NumPy: keys, network, perturbations, update.

Not here: the worker and learner that run them (``actors/``), the loop (``runtime/loops/``).

Read first: ``directions.py``
"""
