"""The house rules of docs/house.rst, read off the source: layers, rooms, heavy imports, sizes."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "drl_cli"
MAX_FILE, MAX_FUNCTION, MAX_PARAMETERS = 400, 80, 7
LAYER = {
    "errors": 0, "loading": 0, "process": 0, "plugins": 0, "version": 0,
    "configs": 1, "data": 1, "checkpoint": 1, "loggers": 1, "events": 1,
    "networks": 2,
    "acting": 3, "tf1": 3, "losses": 3,
    "algorithms": 4,
    "actors": 5,
    "runtime": 6,
    "experiment": 7, "tune": 7, "analysis": 7, "runs": 7, "checks": 7, "export": 7,
    "cli": 8,
    "__main__": 9, "__init__": 9,
}  # fmt: skip
MAY_IMPORT = {
    "ray": ("runtime/ray_cluster.py", "tune/", "checks/"),
    "tensorflow": ("tf1/tensorflow.py", "losses/", "checks/"),
    "click": ("cli/",),
    "rich": ("cli/",),
    "matplotlib": ("analysis/plots.py",),
    "plotext": ("analysis/terminal_plots.py",),
    "onnx": ("export/onnx_",),
    "onnxruntime": ("export/onnx_file.py",),
}
# Rooms that must load without the heavy libraries, and what heavy means for them.
LIGHT = {"errors", "loading", "process", "plugins", "configs", "events"}
HEAVY = {"numpy", "scipy", "gymnasium", "tensorflow", "ray", "pandas", "matplotlib"}
# Files that may import our own modules that load TensorFlow or Ray; everybody else names them as strings.
WITH_TENSORFLOW = re.compile(
    r"^(tf1|losses)/|^export/(saved_model|tflite)\.py$|^actors/(learner|batch_learner|gradient_learner|trained|graph_gradients)\.py$"
)
GRAPHS = re.compile(r'graph="(drl_cli\.algorithms\.\w+)"')
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


def _imports(path):
    """Yield (dotted name, line) for every import of a file, relative ones and members resolved."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = _module(path).split(".") if path.name == "__init__.py" else _module(path).split(".")[:-1]
    for node in ast.walk(tree):
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
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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


def test_imports_run_downwards_and_never_between_rooms_of_one_layer():
    wrong = []
    for path, targets in _edges().items():
        here = _room(path)
        assert here in LAYER, f"{path}: a room that the house does not know"
        for target in targets:
            there = _room(target)
            if here == there or here in ("__init__", "__main__") or there == "__init__":
                continue
            if LAYER[there] > LAYER[here] or (LAYER[there] == LAYER[here] and LAYER[here] > 1):
                wrong.append(f"{_relative(path)} -> {_relative(target)}")
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
            here, there = LAYER[_room(path)], LAYER[_room(modules[module])]
            # The table of algorithms names the loops that run them: data for the layers above it, not an import.
            if there > here and _relative(path) != "algorithms/table.py":
                wrong.append(f"{_relative(path)}:{line}: {name} is a layer above")
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


def _graph_parts(graphs, edges):
    """The graphs and what they are made of: files of their room that load TensorFlow too."""
    found, waiting = set(), list(graphs)
    while waiting:
        path = waiting.pop()
        found.add(path)
        for target in edges.get(path, ()):
            loads = any(WITH_TENSORFLOW.search(_relative(other)) for other in edges.get(target, ()))
            if _room(target) == "algorithms" and loads and target not in found:
                waiting.append(target)
    return found


def test_files_that_load_tensorflow_are_never_imported_from_light_ones():
    table = (PACKAGE / "algorithms" / "table.py").read_text(encoding="utf-8")
    graphs = {name.replace(".", "/").removeprefix("drl_cli/") + ".py" for name in GRAPHS.findall(table)}
    edges = _edges()
    parts = _graph_parts({path for path in edges if _relative(path) in graphs}, edges)

    def heavy(path):
        return bool(WITH_TENSORFLOW.search(_relative(path))) or path in parts

    wrong = [
        f"{_relative(path)} -> {_relative(target)}"
        for path, targets in edges.items()
        for target in targets
        if heavy(target) and not heavy(path)
    ]
    assert graphs
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
        for node in ast.walk(ast.parse(text)):
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
