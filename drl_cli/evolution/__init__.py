"""Evolution strategies: directions in weight space, their noise, the policy's net, and the updates of ES and ARS.

Belongs here: what ES and ARS are, in NumPy: keys, net, perturbations, update.

Not here: the worker and learner that run them (``actors/``), the loop (``runtime/loops/``).

Read first: ``directions.py``
"""
