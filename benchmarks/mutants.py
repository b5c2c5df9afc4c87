"""Mutation testing: small seeded changes of the source, each run against the tests of its group.

    python benchmarks/mutants.py                            # 100 mutants of every group: some 40 minutes on two cores
    python benchmarks/mutants.py losses --count 20 --seed 1
    python benchmarks/mutants.py losses --number 3 17       # these of the draw, with pytest's output

A mutant changes one place: an operator (arithmetic, comparison, logic), a sign, a number (an index, too), True or False, or
it removes a ``stop_gradient``. Annotations, strings and error messages are left alone. It is killed if a test fails, and timed
out if the tests take four times their usual CPU time. Survivors are printed as a changed line, to be killed by a new test or
called equivalent (CONTRIBUTING.rst). Each runs in a fork of this process, which has loaded the libraries but no module that
a mutant changes; no file is written. Subprocesses that tests start run the original source.
"""

import argparse
import ast
import collections
import hashlib
import importlib.machinery
import importlib.util
import itertools
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from drl_cli import process

ROOT = Path(__file__).parents[1]
MEMORY = 8 * 2**30  # bytes, limit of each mutant
SIDE_BY_SIDE = 2
PATIENCE = 20  # wall-clock limit of a mutant, as a multiple of its limit of CPU time
RESULTS = ("killed", "survived", "timed out")


class Group(NamedTuple):
    """Globs of the mutated files and of their tests, fast ones first; libraries to load besides pytest and NumPy."""

    source: tuple[str, ...]
    tests: tuple[str, ...]
    loads: tuple[str, ...] = ()

    def tests_of(self, stem: str) -> list[str]:
        """Return the files of tests, first those that are named after the changed module ``stem``."""
        return sorted(_files(self.tests), key=lambda file: stem.split("_")[-1] not in file)


def _files(globs: tuple[str, ...]) -> list[str]:
    """Return the files below ``ROOT``, each once."""
    return list(dict.fromkeys(str(path) for each in globs for path in sorted(ROOT.glob(each))))


_RETURNS = ("advantages", "monte_carlo_returns", "n_step", "trajectories", "sequences", "off_policy_estimates")
_RING = ("sum_tree", "compressed_rows", "streams", "ring_state", "ring_buffer", "priorities", "frames")
GROUPS = {
    "losses": Group(("drl_cli/algorithms/losses/*.py",), ("tests/algorithms/losses/test_*.py",), ("tensorflow",)),
    "returns": Group(
        tuple(f"drl_cli/experience/{name}.py" for name in _RETURNS),
        tuple(f"tests/experience/test_{name}.py" for name in _RETURNS),
        ("scipy.stats", "tensorflow"),
    ),
    "ring": Group(
        tuple(f"drl_cli/experience/{name}.py" for name in _RING),
        tuple(f"tests/experience/test_{name}.py" for name in (*_RING, "sequences")),
        ("lz4.block", "scipy.stats"),
    ),
    "checkpoints": Group(
        ("drl_cli/checkpoints/*.py",),
        (
            "tests/checkpoints/test_archive*.py",
            "tests/checkpoints/test_checkpoint_[afs]*.py",
            "tests/runs/test_*pack.py",
        )
        + ("tests/runs/test_retention.py", "tests/checkpoints/test_*.py"),
        ("pydantic", "lz4.block"),
    ),
}


class Mutant(NamedTuple):
    """``path`` with the bytes from ``start`` to ``stop`` replaced by ``new``."""

    path: Path
    start: int
    stop: int
    new: str

    def source(self) -> bytes:
        """Return the changed file."""
        text = self.path.read_bytes()
        return text[: self.start] + self.new.encode() + text[self.stop :]

    def diff(self) -> tuple[int, str]:
        """Return the number of the line, and the line before and after."""
        line = self.path.read_bytes()[: self.start].count(b"\n")
        before, after = (text.decode().splitlines()[line].strip() for text in (self.path.read_bytes(), self.source()))
        return line + 1, f"    - {before}\n    + {after}"

    def draw_key(self, seed: int) -> bytes:
        """Return what decides which mutants are drawn: a hash of the changed line, so that edits elsewhere do not matter."""
        return hashlib.sha256(f"{seed} {self.path.name} {self.diff()[1]}".encode()).digest()


# fmt: off
SWAPPED = {
    "+": "-", "-": "+", "*": "/", "/": "*", "//": "*", "%": "*", "**": "*", "<<": ">>", ">>": "<<", "|": "&", "&": "|",
    "and": "or", "or": "and", "is": "is not", "is not": "is", "in": "not in", "not in": "in", "==": "!=", "!=": "==",
    "<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"),
}
# fmt: on
"""operator -> its replacement, or several"""


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield ``node`` and its descendants except annotations, imports for type checkers, f-strings and raised errors."""
    match node:
        case ast.Raise() | ast.JoinedStr() | ast.If(ast.Name("TYPE_CHECKING")):
            return
        case ast.AnnAssign(annotation=ast.Name("TypeAlias")):
            return
    yield node
    for field, value in ast.iter_fields(node):
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST) and field not in ("annotation", "returns"):
                yield from _nodes(part)


def mutants_of(path: Path) -> list[Mutant]:
    """Return every mutant of a file."""
    text, found, lines = path.read_bytes(), [], [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))

    def span(node: ast.AST) -> tuple[int, int]:
        return lines[node.lineno - 1] + node.col_offset, lines[node.end_lineno - 1] + node.end_col_offset

    def change(left: ast.AST, right: ast.AST, assigned: str = "") -> None:
        start, stop = span(left)[1], span(right)[0]
        # Between the operands stand the operator and perhaps parentheses.
        operator = text[start:stop].decode().strip(" ()\n" + assigned)
        news, at = SWAPPED.get(operator, ()), text.find(operator.encode(), start, stop)
        found.extend(Mutant(path, at, at + len(operator), new) for new in ([news] if isinstance(news, str) else news))

    for node in _nodes(ast.parse(text)):
        match node:
            case ast.BinOp(left, _, right):
                change(left, right)
            case ast.AugAssign(left, _, right):
                change(left, right, assigned="=")
            case ast.BoolOp(_, operands):
                for left, right in itertools.pairwise(operands):
                    change(left, right)
            case ast.Compare(first, _, others):
                for left, right in itertools.pairwise((first, *others)):
                    change(left, right)
            case ast.UnaryOp(ast.USub() | ast.Not() | ast.Invert(), operand) if not isinstance(operand, ast.Constant):
                start, stop = span(node)[0], span(operand)[0]
                found.append(Mutant(path, start, stop, "(" * text[start:stop].count(b"(")))
            case ast.Constant(bool(value)):
                found.append(Mutant(path, *span(node), str(not value)))
            case ast.Constant(int(value) | float(value)):
                found.extend(Mutant(path, *span(node), f"({value!r} {sign} 1)") for sign in "+-")
            case ast.Call(ast.Attribute(attr="stop_gradient"), [argument]):
                found.append(Mutant(path, *span(node), f"({text[slice(*span(argument))].decode()})"))
    return found


class _Changed(importlib.machinery.SourceFileLoader):
    """Loads a module from the source of a mutant."""

    def __init__(self, name: str, mutant: Mutant) -> None:
        super().__init__(name, str(mutant.path))
        self._mutant = mutant

    def get_code(self, fullname: str) -> object:
        return compile(self._mutant.source(), self.path, "exec")


class _Importer:
    """The first importer: finds the changed module and leaves all others to those after it."""

    def __init__(self, mutant: Mutant) -> None:
        name = ".".join(mutant.path.relative_to(ROOT).with_suffix("").parts)
        self._name, self._mutant = name.removesuffix(".__init__"), mutant

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name != self._name:
            return None
        return importlib.util.spec_from_file_location(name, self._mutant.path, loader=_Changed(name, self._mutant))


def _start(group: Group, mutant: Mutant | None, folder: Path, limit: int, shows: bool) -> int:
    """Run the group's tests in a fork, limited to ``limit`` seconds of CPU time, and return its process id."""
    child = os.fork()
    if child:
        return child
    status = 3
    try:
        os.setsid()
        os.nice(5)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        if not shows:
            silent = os.open(os.devnull, os.O_RDWR)
            for descriptor in range(3):
                os.dup2(silent, descriptor)
        if mutant:
            sys.meta_path.insert(0, _Importer(mutant))
        words = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--basetemp"]
        words += [str(folder), *group.tests_of(mutant.path.stem if mutant else "")]
        status = int(sys.modules["pytest"].main(words))
    finally:
        os._exit(status)


class Result(NamedTuple):
    """One of ``RESULTS`` for the mutant ``number``, and the seconds of CPU time of its tests."""

    number: int
    word: str
    seconds: float


def run(group: Group, mutants: list[Mutant | None], limit: int, shows: bool = False) -> Iterator[Result]:
    """Yield the Result of each of ``mutants`` (None: the source as it is), which may take ``limit`` seconds of CPU time."""
    running, waiting = {}, list(enumerate(mutants))
    in_memory = Path("/dev/shm")  # where fsync costs nothing
    with tempfile.TemporaryDirectory(dir=in_memory if in_memory.is_dir() else None) as folder:
        while waiting or running:
            while waiting and len(running) < SIDE_BY_SIDE:
                number, mutant = waiting.pop(0)
                child = _start(group, mutant, Path(folder) / str(number), limit, shows)
                running[child] = number, time.monotonic() + PATIENCE * limit
            time.sleep(0.02)
            for child, (number, until) in list(running.items()):
                if time.monotonic() > until:
                    os.killpg(child, signal.SIGKILL)
                ended, status, used = os.wait4(child, os.WNOHANG)
                if ended:
                    del running[child]
                    shutil.rmtree(Path(folder) / str(number), ignore_errors=True)
                    killed = "timed out" if status in (signal.SIGXCPU, signal.SIGKILL) else "killed"
                    yield Result(number, killed if status else "survived", used.ru_utime + used.ru_stime)


def measure(name: str, count: int, seed: int, numbers: list[int] | None) -> str:
    """Run ``count`` mutants of the group ``name``, or those ``numbers`` of them; return its row of the table."""
    group = GROUPS[name]
    for library in ("numpy", "pytest", *group.loads):
        with process.muted(library):
            importlib.import_module(library)
    found = [mutant for file in _files(group.source) for mutant in mutants_of(Path(file))]
    drawn = sorted(found, key=lambda mutant: mutant.draw_key(seed))[:count]
    begin = time.monotonic()
    (whole,) = run(group, [None], 600)
    if whole.word != "survived":
        raise SystemExit(f"{name}: its tests fail without a mutant: run {' '.join(group.tests_of(''))} first")
    chosen, counts = range(len(drawn)) if numbers is None else numbers, collections.Counter()
    limit = 5 + round(4 * whole.seconds)
    for place, result, _ in run(group, [drawn[number] for number in chosen], limit, shows=numbers is not None):
        counts[result] += 1
        if result != "killed" or numbers is not None:
            mutant = drawn[chosen[place]]
            line, diff = mutant.diff()
            print(f"{name} {chosen[place]}: {result}: {mutant.path.relative_to(ROOT)}:{line}\n{diff}", flush=True)
    columns = len(found), len(chosen), *(counts[result] for result in RESULTS), round(time.monotonic() - begin)
    return f"{name:14}" + "".join(f"{column:10}" for column in columns)


def main() -> None:
    """Measure the groups that are named, or all, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("group", nargs="*", help=f"of {', '.join(GROUPS)}; all by default")
    parser.add_argument("--count", type=int, default=100, help="mutants of each group")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--number", type=int, nargs="+", help="only these of the draw, with what pytest says")
    options = parser.parse_args()
    unknown = [name for name in options.group if name not in GROUPS]
    if unknown:
        parser.error(f"no group {unknown[0]!r}: choose of {', '.join(GROUPS)}")
    if not set(options.number or ()) <= set(range(options.count)):
        parser.error(f"--number takes numbers from 0 to {options.count - 1}, those below --count")
    process.prepare()
    process.prepare_tensorflow(1, 1, 0)
    os.chdir(ROOT)
    rows = [measure(name, options.count, options.seed, options.number) for name in options.group or GROUPS]
    heads = "".join(f"{head:>10}" for head in ("possible", "drawn", *RESULTS, "seconds"))
    print("\n".join([f"{'group':14}{heads}", *rows]))


if __name__ == "__main__":
    main()
