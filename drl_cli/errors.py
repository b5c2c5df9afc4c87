"""The errors a user can cause or meet, each with the exit code that the command line ends with.

Everything below the command line raises these; ``drl_cli.cli`` prints the message as it stands and exits with
``exit_code``. A message says what was wrong, where (key, file, actor), what is allowed, the nearest valid name and
what to do next. Programmer mistakes raise ``ValueError`` and the like, and end as exit code 1 with a log.

    DrlError 1
    ├── InputError 2                what was typed or read cannot be used
    │   ├── ConfigError             a key, a value, a file of keys
    │   ├── NotRegistered           a name that no module has registered (a model, a preprocessor, …)
    │   ├── EnvError                an environment that is unknown, broken, or does not fit
    │   ├── CheckpointError         missing, damaged, foreign or newer
    │   ├── ExperienceError         files of recorded steps: missing, malformed, or of another environment
    │   ├── RunFolderError          cannot be written, or another run holds it
    │   └── StorageError            a storage (s3://…, file://…) that cannot be opened, read or written
    ├── ExportFailed 1              an exported policy does not do what the checkpoint's does
    ├── RunFailed 3                 the run cannot go on (divergence, an environment that keeps failing)
    │   ├── Diverged
    │   ├── WorkersFailed
    │   └── PluginFailed        registered code (callbacks, an exploration) raised, or returned something unusable
    ├── CriterionMissed 4           a demanded score was not reached
    ├── ResourcesExhausted 5        this machine ran out of disk, memory or file descriptors, or its disk fails
    └── ClusterUnavailable 75       a cluster that cannot be reached, or did not grant the resources in time
"""

import difflib
import errno
import json
import os
import re
import traceback
from collections.abc import Iterable

_OWN = os.path.dirname(os.path.abspath(__file__))
_STANDARD = os.path.dirname(os.path.abspath(os.__file__))
_INSTALLED = ("site-packages", "dist-packages")
_URI_PASSWORD = re.compile(r"(://[^?#\s\"':@]*:)[^?#\s\"']*@")
_URI_OPTION = re.compile(r"([?&][\w.-]*(?:secret|passw|token|key|sas|sig)[\w.-]*=)[^&\s\"']*", re.IGNORECASE)
_LIBRARIES = ("gymnasium", "numpy")  # what an environment calls, and what calls it


class DrlError(Exception):
    """Base of every error that is shown to a user as one message without a traceback."""

    exit_code = 1


class InputError(DrlError):
    """What was typed, or read from a file that was named, cannot be used."""

    exit_code = 2


class ConfigError(InputError):
    """A config key, a stop field or a file of them is wrong."""


class NotRegistered(InputError):
    """A name of a component that no imported module or installed package has registered."""


class EnvError(InputError):
    """An environment is unknown, cannot be built, or has spaces that do not fit the algorithm."""


class CheckpointError(InputError):
    """A checkpoint is missing, damaged, foreign, newer than this version, or does not fit the run."""


class ExperienceError(InputError):
    """Files of recorded experience are missing, malformed or hostile, or do not fit the environment."""


class RunFolderError(InputError):
    """A results folder cannot be written, or belongs to another run."""


class StorageError(InputError):
    """A storage that a URI names cannot be opened, read or written: credentials, network, permissions, a name."""


class ExportFailed(DrlError):
    """An exported policy, loaded again, does not do what the checkpoint's policy does; nothing of it was kept."""


class RunFailed(DrlError):
    """The run cannot go on."""

    exit_code = 3


class Diverged(RunFailed):
    """A loss, gradient, observation or reward is no longer a finite number."""


class WorkersFailed(RunFailed):
    """Rollout workers keep failing, or none delivers."""


class PluginFailed(RunFailed):
    """Registered code (callbacks, an exploration, a postprocess) raised an error or returned something unusable."""


class Overdue(DrlError):
    """The run has to end, and what it waits for takes too long. Never shown: the run ends with what it has."""


class CriterionMissed(DrlError):
    """The run ended below the score that was demanded."""

    exit_code = 4


class ResourcesExhausted(DrlError):
    """This machine ran out of disk, memory, shared memory or file descriptors, or its disk fails."""

    exit_code = 5


class ClusterUnavailable(DrlError):
    """A cluster cannot be reached, or did not grant the resources in time; trying again may help."""

    exit_code = 75


class RaisedElsewhere(Exception):
    """An error of foreign code in another process, of a subclass with its name; ``place``: where it was raised there."""

    place = ""


def reason_of(error: OSError | ValueError) -> str:
    """Return why a file could not be used: what the operating system said, or what was wrong with its name."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def is_full(error: BaseException) -> bool:
    """Return whether ``error`` says that a disk or a quota has no room left."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def full_or(error: BaseException, otherwise: type[DrlError]) -> type[DrlError]:
    """Return the class for a file that could not be written: ResourcesExhausted where the disk is full, else ``otherwise``."""
    return ResourcesExhausted if is_full(error) else otherwise


MACHINE_FAILURES = {
    errno.ENOSPC: "ran out of disk space",
    errno.EDQUOT: "ran out of disk quota",
    errno.EMFILE: "ran out of files",
    errno.ENFILE: "ran out of files",
    errno.ENOMEM: "ran out of memory",
    errno.EIO: "has a disk that fails",
    errno.EROFS: "has a disk that can only be read",
    errno.ESTALE: "lost a folder of the network",
    errno.EFBIG: "limits the size of files",
}
"""Numbers of an OSError that come from the machine and not from what was typed, and what they say of it."""


NO_ROOM_FOR_A_LIBRARY = ("failed to map segment", "annot allocate memory")  # the dynamic loader's words, see dlopen(3)


def machine_failure(error: BaseException) -> str | None:
    """Return what the machine ran out of, or what of it failed, in one line; None for an error of another kind."""
    has_no_room = isinstance(error, ImportError) and any(words in str(error) for words in NO_ROOM_FOR_A_LIBRARY)
    if isinstance(error, MemoryError) or has_no_room:
        reason = MACHINE_FAILURES[errno.ENOMEM]
    elif isinstance(error, OSError) and error.errno in MACHINE_FAILURES:
        reason = MACHINE_FAILURES[error.errno]
    else:
        return None
    where = f" ({error.filename})" if isinstance(error, OSError) and error.filename else ""
    return f"this machine {reason}{where}" + (f": {error}" if str(error) else ".")


def failure(error: BaseException) -> str:
    """Return in one line what foreign code raised, and the file and line of it; of our own errors what they say."""
    text = " ".join(str(error).split())[:300]
    if isinstance(error, DrlError):
        return text
    place = place_of(error)
    return f"{type(error).__name__}: {text} ({place})." if place else f"{type(error).__name__}: {text.rstrip('.')}."


def place_of(error: BaseException) -> str:
    """Return ``FILE:LINE, in FUNCTION`` of the last line of the user's code that ``error`` came through.

    Without such a line, of an installed package; an empty string where all code was ours. One that was raised in another
    process brings its own.
    """
    if isinstance(error, RaisedElsewhere):
        return error.place
    foreign = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_foreign(frame.filename)]
    own = [frame for frame in foreign if not _is_installed(frame.filename)]
    called = [frame for frame in foreign if not any(f"{os.sep}{name}{os.sep}" in frame.filename for name in _LIBRARIES)]
    frames = own or called or foreign
    return f"{frames[-1].filename}:{frames[-1].lineno}, in {frames[-1].name}" if frames else ""


def _is_foreign(path: str) -> bool:
    return "<frozen" not in path and not path.startswith(_OWN + os.sep)


def _is_installed(path: str) -> bool:
    return path.startswith(_STANDARD + os.sep) or any(f"{os.sep}{name}{os.sep}" in path for name in _INSTALLED)


def without_passwords(text: str) -> str:
    """Return ``text`` with the passwords and secret options of the URIs in it as ``***``."""
    return _URI_OPTION.sub(r"\1***", _URI_PASSWORD.sub(r"\1***@", text))


def shown(value: object) -> str:
    """Return a value as it would be typed, cut to 60 characters; passwords in URIs are hidden."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    text = without_passwords(text.encode("utf-8", "replace").decode("utf-8"))
    return text if len(text) <= 60 else text[:57] + "…"


def nearest(word: object, choices: Iterable[str], count: int = 3) -> list[str]:
    """Return up to ``count`` of ``choices`` (strings) that resemble ``word``, the closest first.

    Of equally close ones those come first that have more letters in the same places: A4C is nearer to A3C than to SAC. What has
    all words of ``word`` in it resembles it too: max_episode_steps does max_steps.
    """
    lower, by_lower = str(word).lower(), {}
    for choice in choices:
        by_lower.setdefault(choice.lower(), choice)
    alike = 0.5 if len(lower) == 2 else 0.6 if len(lower) < 5 else 0.72  # of two letters one is half
    found = difflib.get_close_matches(lower, list(by_lower), n=max(count, 10), cutoff=alike)
    words = set(lower.split("_"))
    if len(words) > 1:
        found += [name for name in by_lower if words <= set(name.split("_")) and name not in found]
    found.sort(key=lambda name: (-difflib.SequenceMatcher(None, name, lower).ratio(), -_same_places(name, lower)))
    return [by_lower[name] for name in found[:count]]


def _same_places(one: str, other: str) -> int:
    return sum(mine == yours for mine, yours in zip(one, other, strict=False))


def suggestion(word: object, choices: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` (with its leading blank) for the nearest choice, or an empty string."""
    found = nearest(word, choices, count=1)
    return f" Did you mean '{found[0]}'?" if found else ""
