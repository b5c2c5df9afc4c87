"""What a config is made of: documented keys, strict reading of YAML, JSON and flags, and RLlib's spellings.

Belongs here: the schema engine (``schema``, ``parse``), key sections that several algorithms share (``sections/``),
what RLlib and other libraries call the same thing (``rllib/``).

Not here: keys of one algorithm (``algorithms/``, ``evolution/``), what a whole experiment is (``experiments/``),
anything that loads NumPy.

Read first: ``schema.py``
"""
