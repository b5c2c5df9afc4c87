"""The algorithms: a light file with keys, nets and row for each family, and a graph file with its update.

Belongs here: rows, keys, nets as data, updates as TF1 graphs, losses (``losses/``).

Not here: who waits for whom (``runtime/loops/``), and anything that only some other room needs of a policy
(``policies/``).

Read first: ``table.py``
"""
