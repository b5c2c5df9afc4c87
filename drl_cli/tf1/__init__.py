"""TensorFlow 1 mechanics that know no algorithm: optimisers, Polyak averages, many updates in one session call.

Belongs here: graph code that any algorithm could use: Adam, RMSProp, epochs over minibatches, towers, sessions,
weights by exact name, stateless random bits.

Not here: nets and distributions (``policies/*_tf.py``), losses and updates (``algorithms/``).

Read first: ``repeat.py``
"""
