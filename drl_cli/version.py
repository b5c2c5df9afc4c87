"""The version of this program, as packages, records and checkpoints name it."""

__version__ = "0.1.0"
