"""A policy as plain data, its forward pass in NumPy and in TensorFlow, and how it explores.

Belongs here: nets, action distributions, filters and custom models, each as a NumPy file for acting and a ``_tf``
file for learning; exploration.

Not here: how a policy is improved (``algorithms/``), where weights travel (``actors/``).

Read first: ``policy_spec.py``
"""
