"""Experience between an environment step and a gradient: columns, ring buffer, priorities, sequences, trajectories.

Belongs here: fragments, the replay's storage and sampling, n-step and Monte Carlo returns, off-policy estimates,
recorded files (``recorded/``).

Not here: TensorFlow, and the actors that hold these objects (``actors/``).

Read first: ``columns.py``
"""
