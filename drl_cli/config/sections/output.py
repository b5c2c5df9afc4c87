"""Keys of recording: what the environments of the workers do, written down as RLlib's JSON lines.

Mixed into the config of every algorithm. Names and meanings are RLlib's
(COMMON_CONFIG, 1.0.1).
"""

import os
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from drl_cli.config.schema import MisfitError, Section, Whole, key

LOGDIR, SAMPLER = "logdir", "sampler"
FOLDER = "experience"  # within the run's folder
COLUMNS = (
    *("obs", "new_obs", "actions", "rewards", "dones", "terminateds", "truncateds", "eps_id", "t", "unroll_id"),
    *("agent_index", "prev_actions", "prev_rewards", "action_prob", "action_logp"),
)
"""The columns of a recorded batch, in their order; the last two only where the policy is drawn from."""


def _local(path):
    if "://" in path:
        raise ValueError("recordings go to folders of this machine, not to a URI")
    return path


Column = Literal[COLUMNS]


class OutputKeys(Section):
    """Whether, where and how what happens in the environments is recorded."""

    output: Annotated[str, Field(min_length=1), AfterValidator(_local)] | None = key(
        None,
        "Record every env step: logdir into the folder experience of the run's folder, else a folder, which is made; null does "
        "not. Raw observations and rewards, actions in the environment's units.",
        allowed="logdir, a folder, or null",
    )
    output_compress_columns: Annotated[tuple[Column, ...], Field(strict=False, max_length=len(COLUMNS))] = key(
        ("obs", "new_obs"),
        "Columns that are packed (lz4, as RLlib packs them); the others are plain lists of numbers.",
        allowed=f"a list of {', '.join(COLUMNS)}",
    )
    output_max_file_size: Whole = key(
        64 * 2**20,
        "A worker goes on in another file before one grows beyond this; a single line may be longer.",
        "bytes",
        ge=1024,
        le=2**40,
    )

    @model_validator(mode="after")
    def _records_what_is_played(self):
        source = getattr(self, "input", SAMPLER)  # a key of algorithms that may learn from files
        plays = SAMPLER in source if isinstance(source, dict) else source == SAMPLER
        if self.output is not None and not plays:
            raise MisfitError("output", "nothing is played where input names files alone, so nothing can be recorded")
        return self


def output_folder(config, run_folder):
    """Return the folder that the workers of a run record into, absolute, or None.

    ``run_folder``: that of the run, None for a Trainer without one.
    """
    output = getattr(config, "output", None)
    if output is None:
        return None
    if output == LOGDIR:
        return os.path.join(os.path.abspath(run_folder or os.curdir), FOLDER)
    return os.path.abspath(os.path.expanduser(output))
