"""Keys of recorded experience: ``input``, steps that are learnt from, and ``output``, steps that workers record.

``OutputKeys`` is mixed into the config of every algorithm, ``InputKeys`` where a buffer is learnt from. Names and meanings are
RLlib's (COMMON_CONFIG, 1.0.1 to 1.13). Deviations: files that fit into ``buffer_size`` are held and read once; shares need not
sum to 1 to the last bit.
"""

import math
import os
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import AfterValidator, Field, model_validator
from typing_extensions import Self

from drl_cli.config.schema import MAX_TEXT, MisfitError, Section, Whole, default, key
from drl_cli.config.sections.served_input import POLICY_SERVER

SAMPLER, DATASET, LOGDIR = "sampler", "dataset", "logdir"
PLAYED = (SAMPLER, POLICY_SERVER)  # inputs that are no files
FOLDER = "experience"  # of recordings, within the run's folder
ELSEWHERE = "://"  # in what is no path: minari://…
Column = Literal[
    "obs",
    "new_obs",
    "actions",
    "rewards",
    "dones",
    "terminateds",
    "truncateds",
    "eps_id",
    "t",
    "unroll_id",
    "agent_index",
    "prev_actions",
    "prev_rewards",
    "action_prob",
    "action_logp",
]
COLUMNS: tuple[Column, ...] = get_args(Column)
"""The columns of a recorded batch, in their order; the last two only where the policy is drawn from."""

RECORDED = {
    "n_step": default(1),
    "learning_starts": default(0),
    "training_intensity": default(1.0),
    "timesteps_per_iteration": default(100_000),
    "rollout_fragment_length": default(200),
    "evaluation_interval": default(
        1,
        rllib=None,
        why="only evaluations play episodes, so nothing else measures the agent",
    ),
}
"""What algorithms start from that learn the values of actions from recorded experience: CQL, IQL, TD3+BC. A timestep is a step
learnt from, as for MARWIL and BC: with ``training_intensity`` 1 files of n steps are a pass every n timesteps."""


def _shares(mapping: dict[str, float]) -> dict[str, float]:
    """Refuse shares that do not sum to 1."""
    if not mapping:
        raise ValueError("it names nothing to read")
    if not math.isclose(math.fsum(mapping.values()), 1.0, abs_tol=1e-6):
        raise ValueError(f"the shares sum to {math.fsum(mapping.values()):g}, not to 1")
    return mapping


_Path = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
Paths = _Path | Annotated[tuple[_Path, ...], Field(strict=False, min_length=1, max_length=10_000)]
_Shares = Annotated[dict[_Path, Annotated[float, Field(gt=0, le=1)]], AfterValidator(_shares)]


class InputConfig(Section):
    """Where ``input: dataset`` is, in the words of RLlib from 1.9 on."""

    format: Literal["json"] = key("json", "Format of the files: JSON lines.")
    paths: Paths | None = key(
        None, "A file, a folder, a glob pattern or a list of them.", allowed="a path, a list of paths, or null"
    )


class InputKeys(Section):
    """Where the steps to learn from come from."""

    input: Paths | _Shares = key(
        SAMPLER,
        "sampler: workers step the environment. policy_server: external simulators ask for actions over HTTP and "
        "report rewards; only the spaces of the environment are used. Otherwise recorded experience is read: a file, a "
        "folder, a glob pattern, a list of them, or minari://ID; it is kept as far as it fits into buffer_size. "
        "{sampler: 0.5, PATH: 0.5}: shares of the steps that enter the buffer; files are then read repeatedly.",
        allowed="sampler, policy_server, a path, a list of paths, or a mapping of these to shares that sum to 1",
    )
    input_config: InputConfig = key(InputConfig(), "Where the files are if input is dataset.")
    shuffle_buffer_size: Whole = key(
        0,
        "Size of the shuffle buffer, in pieces of episodes (an RLlib batch, or an episode), from which the next one "
        "is sampled; 0 reads in the order of the files. For files of more than buffer_size steps, of which only the "
        "newest are trained on.",
        ge=0,
        le=1_000_000,
    )
    actions_in_input_normalized: bool = key(
        False, "Whether files hold Box actions in [-1, 1], which are rescaled to the bounds of the action space."
    )

    @model_validator(mode="after")
    def _reads_what_it_names(self) -> Self:
        if (self.input == DATASET) != (self.input_config.paths is not None):
            text = "without them" if self.input == DATASET else f"input is {self._input_in_words()}"
            raise MisfitError("input_config.paths", f"they go with input: dataset; {text}")
        if self.actions_in_input_normalized and self.input in PLAYED:
            text = f"true speaks of files, and input is {self.input}; leave it out"
            raise MisfitError("actions_in_input_normalized", text)
        if self.shuffle_buffer_size and self.input in PLAYED:
            raise MisfitError("shuffle_buffer_size", f"it speaks of files, and input is {self.input}; leave it out")
        if not isinstance(self.input, (str, dict)) and SAMPLER in self.input:
            raise MisfitError("input", "sampler in a list has no share; write {sampler: 0.5, PATH: 0.5}")
        if not isinstance(self.input, str) and POLICY_SERVER in self.input:
            raise MisfitError("input", "policy_server is not mixed with other inputs; give it alone")
        return self

    def _input_in_words(self) -> str:
        return self.input if isinstance(self.input, str) else "another one"


class InputStream(NamedTuple):
    """One source of steps."""

    paths: tuple[str, ...] | None  # of files; None: workers step the environment, or serve external simulators
    share: float  # of the steps


def streams(config: Section) -> tuple[InputStream, ...]:
    """Return the streams that ``input`` names; only the environment for configs without the key."""
    if not isinstance(config, InputKeys):
        return (InputStream(None, 1.0),)
    given = config.input_config.paths if config.input == DATASET else config.input
    shares: dict[Any, float] = given if isinstance(given, dict) else {given: 1.0}
    return tuple(InputStream(_paths(what), share) for what, share in shares.items())


def _paths(what: str | tuple[str, ...]) -> tuple[str, ...] | None:
    if what in PLAYED:
        return None
    return (what,) if isinstance(what, str) else tuple(what)


def reads(config: Section) -> bool:
    """Return whether anything is read from files."""
    return any(stream.paths for stream in streams(config))


def reads_only(config: Section) -> bool:
    """Return whether all steps come from files, in no certain proportion: what fits into memory is held then."""
    found = streams(config)
    return len(found) == 1 and found[0].paths is not None


def samples(config: Section) -> bool:
    """Return whether any steps are sampled, in the environment or by external simulators."""
    return any(stream.paths is None for stream in streams(config))


def absolute(config: Section) -> dict[str, Any]:
    """Return {key: value} of the paths in ``config`` as absolute ones: workers and later resumes may run elsewhere."""
    if not isinstance(config, InputKeys) or not reads(config):
        return {}
    if config.input == DATASET:
        section = config.input_config
        return {"input_config": section.model_copy(update={"paths": _everywhere(section.paths)})}
    if isinstance(config.input, dict):
        return {"input": {_everywhere(what): share for what, share in config.input.items()}}
    return {"input": _everywhere(config.input)}


def _everywhere(paths: Any) -> Any:
    if not isinstance(paths, str):
        return tuple(map(_everywhere, paths))
    if paths == SAMPLER or ELSEWHERE in paths:
        return paths
    return os.path.abspath(os.path.expanduser(paths))


def _local(path: str) -> str:
    if "://" in path:
        raise ValueError("recordings go to folders of this machine; those of logdir are copied to storage_path, a URI")
    return path


class OutputKeys(Section):
    """Whether, where and how what happens in the environments is recorded."""

    output: Annotated[str, Field(min_length=1), AfterValidator(_local)] | None = key(
        None,
        "Record every env step: logdir writes to the folder experience in the run's folder, any other value to that "
        "folder, which is created, both on the node of the run; null: no recording. Raw observations and rewards, actions in "
        "the environment's units.",
        allowed="logdir, a folder, or null",
    )
    output_compress_columns: Annotated[tuple[Column, ...], Field(strict=False, max_length=len(COLUMNS))] = key(
        ("obs", "new_obs"),
        "Columns that are packed (LZ4, as in RLlib); the others are plain lists of numbers.",
        allowed=f"a list of {', '.join(COLUMNS)}",
    )
    output_max_file_size: Whole = key(
        64 * 2**20,
        "Maximum size of a file, after which a worker starts another; a single line may be longer.",
        "bytes",
        ge=1024,
        le=2**40,
    )

    @model_validator(mode="after")
    def _records_what_is_played(self) -> Self:
        if self.output is not None and not samples(self):
            raise MisfitError("output", "nothing is played where input names files alone, so nothing can be recorded")
        return self


def output_folder(config: OutputKeys, run_folder: Path | str | None) -> str | None:
    """Return the absolute path of the folder that the workers of a run record into, or None.

    ``run_folder``: that of the run, None for a Trainer without one.
    """
    output = config.output
    if output is None:
        return None
    if output == LOGDIR:
        return os.path.join(os.path.abspath(run_folder or os.curdir), FOLDER)
    return os.path.abspath(os.path.expanduser(output))
