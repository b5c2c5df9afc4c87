"""From words to a run: files and flags become a checked experiment or search; an experiment becomes a run.

Belongs here: tuned files, flags, defaults, provenance, opening and resuming of runs, the run itself.

Not here: single keys (``config/``), the folder's contents (``runs/``), how many runs share a machine (``search/``).

Read first: ``spec.py``
"""
