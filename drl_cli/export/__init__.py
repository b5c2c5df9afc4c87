"""The greedy policy of a checkpoint as one function, for programs that know nothing of drl: SavedModel, ONNX, TFLite.

``export_policy`` writes, runs what was written and compares it with the NumPy policy; ``signature`` says what goes in and comes
out; ``saved_model``, ``tflite`` and ``onnx_file`` are the formats, loaded by name when they are asked for.

Belongs here: one file a format, written from a policy, loaded again and compared.

Not here: the policy itself (``policies/``).

Read first: ``export_policy.py``
"""
