"""Environment variables that a config gives to the processes of a run, and which of them it may not.

Used by ``config.sections.resources``. A config is data, and may come from anywhere; a variable can make a program load code: a
library, a module, another program's plug-in. So names of which loaders, interpreters and libraries are known to read such
things are refused, and so is every value that could be a path. Those are typed before the command.
"""

import fnmatch
import re
from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import AfterValidator

TYPED = "type it before the command (NAME=VALUE drl train …)"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_VALUE = re.compile(r"[\w.,:;+= -]{0,200}", re.ASCII)

LOADS_CODE = (
    *("LD_*", "DYLD_*", "GCONV_*", "GLIBC_*", "LOCPATH", "NLSPATH", "MALLOC_*"),
    *("PYTHON*", "VIRTUAL_ENV", "CONDA*", "PIP_*", "UV_*", "NUMBA_*", "CYTHON*"),
    *("PATH", "*PATH", "*_DIR", "*_DIRS", "*_HOME", "HOME", "TMPDIR", "TMP", "TEMP", "PWD", "USER", "LOGNAME"),
    *(
        "SHELL",
        "BASH*",
        "ENV",
        "IFS",
        "PS4",
        "PROMPT_COMMAND",
        "EDITOR",
        "VISUAL",
        "PAGER",
        "BROWSER",
        "SSH_*",
        "GIT_*",
    ),
    *("*PRELOAD*", "*PLUGIN*", "*HOOK*", "*BACKEND*", "*LIBRARY*", "*LIBRARIES*", "*MODULE*", "*_FLAGS", "*OPTIONS*"),
    *(
        "PERL*",
        "RUBY*",
        "NODE_*",
        "JAVA*",
        "_JAVA*",
        "JDK_*",
        "CLASSPATH",
        "LUA_*",
        "CC",
        "CXX",
        "*COMPILER*",
        "*LINKER*",
    ),
    *(
        "*PROXY*",
        "*_CERT*",
        "SSL*",
        "*TOKEN*",
        "*SECRET*",
        "*PASSWORD*",
        "*CREDENTIAL*",
        "AWS_*",
        "GOOGLE_*",
        "AZURE_*",
    ),
    *("SDL_DYNAMIC*", "QT_*", "GTK*", "GIO_*", "GST_*", "VK_*", "LIBGL*", "MESA_*", "EGL_*", "__*", "OCL_*", "OPENCL*"),
    *("RAY_*", "DRL_*", "TUNE_*", "XLA_*", "TF_XLA*", "TF_PLUGGABLE*", "KERAS_*", "MPL*", "GYMNASIUM_*", "HOSTALIASES"),
)
"""Patterns of names that are refused: some program loads, runs or trusts their values."""

OWN_KEYS = {
    "TF_CPP_MIN_LOG_LEVEL": "log_level says it",
    "TF_NUM_INTRAOP_THREADS": "tf_session_args.intra_op_parallelism_threads says it",
    "TF_NUM_INTEROP_THREADS": "tf_session_args.inter_op_parallelism_threads says it",
    "CUDA_VISIBLE_DEVICES": "num_gpus and num_gpus_per_worker say it",
}
"""Variables that other keys set, with the key."""

EARLY = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""What the driver has read before it has read any config; the processes that it starts read them anew."""


def _checked(given: dict[str, str | int]) -> dict[str, str | int]:
    for name, value in given.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name[:60]!r} is no name of an environment variable")
        if name.upper() in OWN_KEYS:
            raise ValueError(f"{name}: {OWN_KEYS[name.upper()]}")
        pattern = next((one for one in LOADS_CODE if fnmatch.fnmatchcase(name.upper(), one)), None)
        if pattern:
            raise ValueError(f"{name} may load code or change whom a program trusts, which no config may; {TYPED}")
        if not _VALUE.fullmatch(str(value)):
            raise ValueError(f"{name}: only letters, digits, blanks and .,:;+=_- here, so that it is no path; {TYPED}")
    return given


Environs = Annotated[dict[str, str | int], AfterValidator(_checked)]
"""Names of environment variables to their values."""

ALLOWED = "a mapping of names to strings or whole numbers"


def as_strings(given: Mapping[str, str | int]) -> dict[str, str]:
    """Return {name: value} of Environs, whole numbers as strings."""
    return {name: str(value) for name, value in given.items()}


def read_too_late(given: Iterable[str]) -> str | None:
    """Return a warning of variables ``given`` to the driver that it has read already, or None."""
    late = [name for name in given if name in EARLY]
    if not late:
        return None
    return (
        f"{', '.join(late)} {'reaches' if len(late) == 1 else 'reach'} the processes that the run starts; its own read "
        f"{'it' if len(late) == 1 else 'them'} when drl started: {TYPED}. tf_session_args has the learner's threads"
    )
