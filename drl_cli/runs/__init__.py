"""The run folder: what a run writes, which checkpoints it keeps, when it stops, and how runs are found, read and followed.

Belongs here: records, locks, journal, stopping rules, diagnosis of learning curves, loggers (``loggers/``), archives,
lists of runs.

Not here: the checkpoint format (``checkpoints/``), statistics over runs (``analysis/``), what prints them (``cli/``).

Read first: ``run_folder.py``
"""
