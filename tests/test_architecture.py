"""The rules of docs/architecture.rst, read off the source: floors, rooms, heavy imports, sizes."""

import ast
import functools
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
_SPEC = importlib.util.spec_from_file_location("make_architecture", ROOT / "docs" / "make_architecture.py")
make_architecture = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(make_architecture)
PACKAGE = ROOT / "drl_cli"
MAX_FILE, MAX_FUNCTION, MAX_PARAMETERS = 400, 80, 7
ORDER = {room: place for place, room in enumerate(" ".join(make_architecture.FLOORS.values()).split())}
ENTRIES = ("__init__", "__main__")
MAY_IMPORT = {
    "ray": ("runtime/ray_cluster.py", "runtime/ray_actors.py", "search/", "checks/"),
    "tensorflow": ("tf1/tensorflow.py", "checks/"),
    "click": ("cli/",),
    "rich": ("cli/",),
    "matplotlib": ("analysis/plots.py",),
    "plotext": ("analysis/terminal_plots.py",),
    "onnx": ("export/onnx_",),
    "onnxruntime": ("export/onnx_file.py",),
}
# Rooms that load with ``drl --help`` or with a refused key, and what is too heavy for them.
LIGHT = {"errors", "events", "process", "stop_request", "plugins", "extras", "config"}
HEAVY = {"numpy", "scipy", "gymnasium", "tensorflow", "ray", "pandas", "matplotlib"}
# Files that load TensorFlow, by themselves or through one another. No other file imports them: they are named by key, and
# loaded in the process that needs them.
WITH_TENSORFLOW = re.compile(
    r"^(tf1|algorithms/losses)/|_(tf|graph)\.py$|^export/(saved_model|tflite)\.py$"
    r"|^actors/((batch_|gradient_|decentralized_)?learner|learner_replica|session_state|graph_gradients)\.py$"
)
DOTTED = re.compile(r"^drl_cli(\.\w+)+(:\w+)?$")


def _sources():
    return sorted(path for path in PACKAGE.rglob("*.py"))


def _relative(path):
    return path.relative_to(PACKAGE).as_posix()


def _room(path):
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else path.stem


def _module(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def _nodes(path):
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@functools.cache
def _imports(path):
    """Return (dotted name, line) for every import of a file, relative ones and members resolved."""
    return list(_each_import(path))


def _each_import(path):
    package = _module(path).split(".") if path.name == "__init__.py" else _module(path).split(".")[:-1]
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            yield module, node.lineno
            for alias in node.names:
                yield f"{module}.{alias.name}", node.lineno


def _loaded(path):
    """Yield (module name, line) for every dotted name of ours that stands in a string for ``loading.load``."""
    for node in _nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.match(node.value):
            yield node.value, node.lineno


def _own_modules():
    return {_module(path): path for path in _sources()}


def _edges():
    """Map each file to the files of ours that it imports."""
    modules = _own_modules()
    return {
        path: {modules[name] for name, _ in _imports(path) if name in modules and modules[name] != path}
        for path in _sources()
    }


def _is_above(here, there):
    return here != there and here not in ENTRIES and there not in ENTRIES and ORDER[there] > ORDER[here]


def test_imports_run_downwards():
    wrong = []
    for path, targets in _edges().items():
        here = _room(path)
        assert here in ENTRIES or here in ORDER, f"{path}: a room that docs/architecture.rst does not know"
        wrong += [f"{_relative(path)} -> {_relative(target)}" for target in targets if _is_above(here, _room(target))]
    assert wrong == []


def test_imports_have_no_cycle():
    edges, state, cycles = _edges(), {}, []

    def visit(path, trail):
        state[path] = "open"
        for target in edges[path]:
            if state.get(target) == "open":
                cycles.append(" -> ".join(_relative(step) for step in [*trail, target]))
            elif target not in state:
                visit(target, [*trail, target])
        state[path] = "closed"

    for path in edges:
        if path not in state:
            visit(path, [path])
    assert cycles == []


def test_names_in_strings_exist_and_run_downwards():
    modules, wrong = _own_modules(), []
    for path in _sources():
        for name, line in _loaded(path):
            module, _, attribute = name.partition(":")
            if module not in modules:
                wrong.append(f"{_relative(path)}:{line}: {name} does not exist")
                continue
            if _is_above(_room(path), _room(modules[module])):
                wrong.append(f"{_relative(path)}:{line}: {name} stands above it")
            defined = rf"^(def|class) {attribute}\b|^{attribute}\b"
            if attribute and not re.search(defined, modules[module].read_text(), re.M):
                wrong.append(f"{_relative(path)}:{line}: {name} has no such attribute")
    assert wrong == []


@pytest.mark.parametrize("library", sorted(MAY_IMPORT))
def test_heavy_libraries_are_imported_only_where_they_belong(library):
    places = MAY_IMPORT[library]
    found = [_relative(path) for path in _sources() for name, _ in _imports(path) if name.split(".")[0] == library]
    assert [path for path in found if not path.startswith(places)] == []


def test_light_rooms_import_nothing_heavy():
    found = [
        f"{_relative(path)}:{line}: {name}"
        for path in _sources()
        if _room(path) in LIGHT
        for name, line in _imports(path)
        if name.split(".")[0] in HEAVY
    ]
    assert found == []


def test_files_that_load_tensorflow_are_never_imported_from_light_ones():
    wrong = [
        f"{_relative(path)} -> {_relative(target)}"
        for path, targets in _edges().items()
        for target in targets
        if WITH_TENSORFLOW.search(_relative(target)) and not WITH_TENSORFLOW.search(_relative(path))
    ]
    assert wrong == []


def test_no_module_can_unpickle():
    forbidden = {"pickle", "cloudpickle", "dill", "shelve", "joblib", "marshal"}
    imports = [(path, name, line) for path in _sources() for name, line in _imports(path)]
    found = [f"{_relative(path)}:{line}" for path, name, line in imports if name.split(".")[0] in forbidden]
    assert found == []


def test_files_functions_and_parameter_lists_are_short():
    wrong = []
    for path in _sources():
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > MAX_FILE:
            wrong.append(f"{_relative(path)}: {text.count(chr(10))} lines")
        for node in _nodes(path):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            length = node.end_lineno - node.body[0].lineno + 1
            names = [a.arg for a in [*node.args.args, *node.args.kwonlyargs] if a.arg not in ("self", "cls")]
            if length > MAX_FUNCTION:
                wrong.append(f"{_relative(path)}:{node.lineno}: {node.name} has {length} lines")
            if len(names) > MAX_PARAMETERS and _room(path) != "cli":
                wrong.append(f"{_relative(path)}:{node.lineno}: {node.name} takes {len(names)} parameters")
    assert wrong == []


def test_public_definitions_have_docstrings():
    missing = [
        f"{_relative(path)}:{node.lineno}: {node.name}"
        for path in _sources()
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        and not node.name.startswith("_")
        and ast.get_docstring(node) is None
    ]
    assert missing == []


def test_every_room_says_what_belongs_there_and_names_a_file_to_read_first():
    for room in make_architecture.rooms():
        if room.parts:
            first = room.parts["Read first"].strip("`")
            assert (PACKAGE / room.name / first).is_file(), f"{room.name}: {first}"
    assert {room.name for room in make_architecture.rooms() if room.parts} == {
        path.parent.name for path in PACKAGE.glob("*/__init__.py")
    }
