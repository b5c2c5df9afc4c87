"""The loops: one file per dataflow, with ``make``, ``start`` and ``step``; a loop depends on no particular algorithm.

Read first: ``replay.py``
"""
