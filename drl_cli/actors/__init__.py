"""The five parts of a run as plain classes: rollout worker, replay buffer, parameter server, learner, tester.

Belongs here: classes that a cluster spawns, by key, in the driver's process or in a Ray actor; each has short methods
and never loops for ever.

Not here: Ray itself, and the order in which they are called (``runtime/``).

Read first: ``rollout_worker.py``
"""
