"""Searches: many runs side by side on Ray Tune, compared, and the best of them written down.

Belongs here: trials, schedulers, ranking, the record that ``--resume`` reads.

Not here: the grammar of searched values (``config/search_space.py``), what one trial does (``experiments/run.py``).

Read first: ``run_search.py``
"""
