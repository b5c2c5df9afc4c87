"""The greedy policy of a checkpoint as one function, for programs that know nothing of drl: SavedModel, ONNX, TFLite.

``exporting`` writes, runs what was written and compares it with the NumPy policy; ``signature`` says what goes in and comes
out; ``saved_model``, ``tflite`` and ``onnx_file`` are the formats, loaded by name when they are asked for.
"""
