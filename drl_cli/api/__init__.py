"""The Python API: ``Trainer``, as RLlib's tutorials use it, over the run that ``drl train`` drives.

Belongs here: what programs call that is not a registration.

Not here: the ``register_…`` functions, which stand with what they register.

Read first: ``trainer.py``
"""
