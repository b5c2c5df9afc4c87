"""The driver of a run: clusters, the pool of workers, loops that keep sampling and learning in step, evaluation, saving.

Belongs here: what places the parts, calls them and counts: inline and Ray clusters with the same verbs, ``loops/``,
bottlenecks, memory.

Not here: what one part does (``actors/``), where results are written (``runs/``), what was asked for
(``experiments/``).

Read first: ``driver.py``
"""
