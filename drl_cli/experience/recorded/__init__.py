"""Recorded experience: files of RLlib's JSON lines and Minari datasets in, JSON lines out.

``pieces`` says what a piece of an episode is, ``read`` gives pieces from files, ``write`` makes files.
"""
