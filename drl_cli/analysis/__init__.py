"""Scores: episodes played by a checkpoint, statistics over episodes and seeds, comparisons, curves.

Belongs here: computation over results and episodes, published figures, plots.

Not here: how it is printed (``cli/``), what a run writes (``runs/``).

Read first: ``play.py``
"""
