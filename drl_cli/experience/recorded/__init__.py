"""Recorded experience: files of RLlib's JSON lines and Minari datasets in, JSON lines out.

``record`` says what a piece of an episode is, ``reading`` gives pieces from files, ``writing`` makes files.
"""
