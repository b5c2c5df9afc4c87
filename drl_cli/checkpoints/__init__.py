"""The state of a run ⇄ a folder of plain data: written atomically, hashed, never pickled.

Users: ``runtime.driver`` (writes and restores), ``experiment`` (keeps, prunes, resumes), ``policies.numpy_policy`` (plays).
A checkpoint is a folder ``<run>/checkpoint_000010``::

    manifest.json        format, number, facts, and size + SHA-256 + part of every data file
    weights.safetensors  every variable of the learner
    state.json           counters, schedules, random states
    workers.safetensors  the running episodes of the workers
    replay-0.safetensors optional part "replay"; ``drop_replay`` takes it away and leaves ``replay.dropped``
    COMMIT               SHA-256 and size of manifest.json; written last

Nothing in it is executed, imported or unpickled when it is read. Every kind of damage is one ``CheckpointError`` that
names the file and the reason. The layout and the write order follow the practice of databases: temporary folder,
fsync of each file, manifest, COMMIT, fsync of the folder, rename, fsync of the parent.

Belongs here: the files of a checkpoint and their checks: writing, reading, verifying.

Not here: which checkpoints a run keeps, and archives of them (``runs/``); what the state means (``runtime/``).

Read first: ``reader.py``
"""

from drl_cli.checkpoints.arrays import write_arrays
from drl_cli.checkpoints.files import replace_file, write_json
from drl_cli.checkpoints.reader import Checkpoint, load
from drl_cli.checkpoints.writer import Writer

__all__ = [
    "Checkpoint",
    "Writer",
    "load",
    "replace_file",
    "write_arrays",
    "write_json",
]
