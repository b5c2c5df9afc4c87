"""Environments: found by name, made, described, stepped side by side, filmed.

Belongs here: everything between a name and ``EnvBatch.step``: creation, spaces, preprocessing, wrappers, reuse of
objects, processes of their own, video, callbacks.

Not here: what acts in them (``policies/``), what is stored of them (``experience/``), who steps them (``actors/``).

Read first: ``env_batch.py``
"""
