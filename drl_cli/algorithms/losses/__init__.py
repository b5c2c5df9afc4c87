"""Loss functions as TensorFlow expressions, one file per family, each with the equations of its paper.

Read first: ``action_value.py``
"""
