"""Where each key of a config came from: the file and line, the flag, the other spelling that was read; or nowhere.

Used by ``experiment``, which records it with a run, and through it by ``drl explain``.
"""

from drl_cli.config.key_description import leaves
from drl_cli.config.parse import ReadConfig


def origins(schema: type, read: ReadConfig) -> dict[str, str]:
    """Return {dotted key: place} of the keys of ``schema`` that the mapping of which ``read`` was made gives.

    A place is ``"tuned.yaml:12"`` or ``"--config"``, with ``", as sample_batch_size"`` behind it where the key was written
    in a spelling of RLlib's that is not ours. What is missing is at its default.
    """
    return {".".join(path): read.where.place(path) for path, _ in leaves(schema) if _is_given(read.given, path)}


def _is_given(mapping, path):
    for name in path:
        if not isinstance(mapping, dict) or name not in mapping:
            return False
        mapping = mapping[name]
    return True
