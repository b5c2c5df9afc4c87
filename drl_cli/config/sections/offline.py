"""Keys of what is learnt from: steps that workers sample, recorded ones from files, or a mix of both.

Mixed into the config of every algorithm that learns from a buffer. Names and meanings are RLlib's (COMMON_CONFIG, 1.0.1 to
1.13). Deviations: files that fit into ``buffer_size`` are held and read once; shares need not sum to 1 to the last bit.
"""

import math
import os
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field, model_validator

from drl_cli.config.schema import MAX_TEXT, MisfitError, Section, Whole, key

SAMPLER, DATASET = "sampler", "dataset"
ELSEWHERE = "://"  # in what is no path: minari://…


def _shares(mapping):
    """Refuse shares that are no whole."""
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

    format: Literal["json"] = key("json", "How the files are written: lines of JSON.")
    paths: Paths | None = key(
        None, "A file, a folder, a pattern or a list of them.", allowed="a path, a list of paths, or null"
    )


class InputKeys(Section):
    """Where the steps come from that are learnt from."""

    input: Paths | _Shares = key(
        SAMPLER,
        "sampler: workers step the environment. Else recorded experience: a file, a folder, a pattern, a list of them, or "
        "minari://ID, which is read instead and held as far as it fits into buffer_size. {sampler: 0.5, PATH: 0.5}: shares "
        "of the steps that enter the buffer; files are read again and again then.",
        allowed="sampler, a path, a list of paths, or a mapping of these to shares that sum to 1",
    )
    input_config: InputConfig = key(InputConfig(), "Where the files are if input is dataset.")
    shuffle_buffer_size: Whole = key(
        0,
        "Of so many pieces of episodes (a batch of RLlib's, an episode) one is drawn at random to be read next; 0: in the "
        "order of the files. For files of more than buffer_size steps, of which only the newest ones are learnt from.",
        ge=0,
        le=1_000_000,
    )
    actions_in_input_normalized: bool = key(
        False, "Whether files hold Box actions in [-1, 1], to be stretched to the bounds of the action space."
    )

    @model_validator(mode="after")
    def _reads_what_it_names(self):
        if (self.input == DATASET) != (self.input_config.paths is not None):
            text = "without them" if self.input == DATASET else f"input is {self._input_in_words()}"
            raise MisfitError("input_config.paths", f"they go with input: dataset; {text}")
        if self.actions_in_input_normalized and self.input == SAMPLER:
            raise MisfitError("actions_in_input_normalized", "true speaks of files, and input is sampler; leave it out")
        if self.shuffle_buffer_size and self.input == SAMPLER:
            raise MisfitError("shuffle_buffer_size", "it speaks of files, and input is sampler; leave it out")
        if not isinstance(self.input, (str, dict)) and SAMPLER in self.input:
            raise MisfitError("input", "sampler in a list has no share; write {sampler: 0.5, PATH: 0.5}")
        return self

    def _input_in_words(self):
        return self.input if isinstance(self.input, str) else "another one"


class Stream(NamedTuple):
    """One thing that steps come from."""

    paths: tuple | None  # of files; None: workers step the environment
    share: float  # of the steps


def streams(config):
    """Return the tuple of Streams that ``input`` names; only the environment for configs without the key."""
    given = getattr(config, "input", SAMPLER)
    if given == DATASET:
        given = config.input_config.paths
    shares = given if isinstance(given, dict) else {given: 1.0} if isinstance(given, str) else {tuple(given): 1.0}
    return tuple(Stream(_paths(what), share) for what, share in shares.items())


def _paths(what):
    if what == SAMPLER:
        return None
    return (what,) if isinstance(what, str) else tuple(what)


def reads(config):
    """Return whether anything is read from files."""
    return any(stream.paths for stream in streams(config))


def reads_only(config):
    """Return whether all steps come from files, in no certain proportion: what fits into memory is held then."""
    found = streams(config)
    return len(found) == 1 and found[0].paths is not None


def samples(config):
    """Return whether any steps are sampled in the environment."""
    return any(stream.paths is None for stream in streams(config))


def absolute(config):
    """Return {key: value} of the paths in ``config`` as absolute ones: workers and later resumes may be elsewhere."""
    if not reads(config):
        return {}
    if config.input == DATASET:
        section = config.input_config
        return {"input_config": section.model_copy(update={"paths": _everywhere(section.paths)})}
    if isinstance(config.input, dict):
        return {"input": {_everywhere(what): share for what, share in config.input.items()}}
    return {"input": _everywhere(config.input)}


def _everywhere(paths):
    if not isinstance(paths, str):
        return tuple(map(_everywhere, paths))
    if paths == SAMPLER or ELSEWHERE in paths:
        return paths
    return os.path.abspath(os.path.expanduser(paths))
