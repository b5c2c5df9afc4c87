"""Files that somebody made to do harm: each is refused in one line, runs nothing, and touches nothing outside its folder.

An audit hook of Python notes what a file would need to run something: a process, an unpickled name, a socket. The module
``evil_module`` lies in the current folder and in Python's path, and writes a file when it is imported. Sources: the
documentation of ``pickle``, ``tarfile`` and ``zipfile``; YAML 1.1's tags for Python; what safetensors' format forbids.
"""

import base64
import contextlib
import copy
import gzip
import hashlib
import importlib.util
import io
import json
import os
import pickle
import stat
import struct
import sys
import tarfile
import zipfile
from pathlib import Path

import h5py
import lz4.block
import lz4.frame
import pytest

from drl_cli import cli

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
NOTED, NOTES = (
    ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen", "pickle.find_class", "socket.connect"),
    [],
)
_watch = {"on": False}


def _hook(event, arguments):
    if _watch["on"] and event in NOTED:
        NOTES.append((event, str(arguments)[:200]))


@contextlib.contextmanager
def watched():
    """Collect in ``NOTES`` what is run inside."""
    if "hook" not in _watch:
        _watch["hook"] = sys.addaudithook(_hook)
    NOTES.clear()
    _watch["on"] = True
    try:
        yield
    finally:
        _watch["on"] = False


def _module(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


damaged_files = _module("damaged_files", ROOT / "benchmarks" / "damaged_files.py")
packed_columns = _module("recorded_hostile", TESTS / "experience" / "recorded" / "recorded.py").HOSTILE


class Evil:
    """Unpickled, it would write a file."""

    def __reduce__(self):
        return os.system, ("touch evil",)


PICKLE = pickle.dumps(Evil())
HEAD = "first:\n  run: PPO\n  env: CartPole-v1\n  config:\n    "
CALL = "touch evil"
LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(20)
)
TUNED = {
    "a call by a tag": f"{HEAD}gamma: !!python/object/apply:os.system ['{CALL}']\n",
    "an object by a tag": f"{HEAD}gamma: !!python/object/new:evil_module.Evil [1]\n",
    "a name by a tag": f"{HEAD}gamma: !!python/name:os.system\n",
    "a module by a tag": f"{HEAD}gamma: !!python/module:evil_module\n",
    "a state by a tag": f"{HEAD}gamma: !!python/object:evil_module.Evil {{a: 1}}\n",
    "a tag of its own": f"{HEAD}gamma: !evil 1\n",
    "a tag renamed": "%TAG !p! tag:yaml.org,2002:python/\n---\n" + f"{HEAD}gamma: !p!name:os.system\n",
    "bytes by a tag": f"{HEAD}gamma: !!binary aGk=\n",
    "a set by a tag": f"{HEAD}model: !!set {{a, b}}\n",
    "aliases that double": LAUGHS,
    "an alias in itself": "first: &a [*a]\n",
    "a merge key": "a: &a {run: PPO}\nfirst: {<<: *a, env: CartPole-v1}\n",
    "nesting": "first: " + "[" * 100_000,
    "mappings in mappings": "".join(" " * i + "a:\n" for i in range(5000)),
    "a megabyte": "first: {run: PPO, env: '" + "x" * 1_100_000 + "'}\n",
    "keys without end": "first: {" + ", ".join(f"k{i}: 1" for i in range(30_000)) + "}\n",
    "a number of many digits": f"{HEAD}gamma: 0.{'9' * 100_000}\n",
    "RLlib's eval": f"{HEAD}lr: {{eval: \"__import__('os').system('{CALL}')\"}}\n",
    "RLlib's sample_from": f"{HEAD}lr: {{sample_from: 'lambda spec: __import__(\"evil_module\")'}}\n",
    "an environment to import": "first: {run: PPO, env: 'evil_module:Evil'}\n",
    "an algorithm to import": "first: {run: evil_module.Evil, env: CartPole-v1}\n",
    "callbacks to import": f"{HEAD}callbacks: evil_module.Evil\n",
    "a network to import": f"{HEAD}model: {{custom_model: evil_module.Evil}}\n",
    "an exploration to import": f"{HEAD}exploration_config: {{type: evil_module.Evil}}\n",
    "an evaluation to import": f"{HEAD}custom_eval_function: evil_module.evil\n",
    "a folder outside": "../../evil: {run: PPO, env: CartPole-v1, stop: {training_iteration: 1}}\n",
    "a pickle": PICKLE.decode("latin-1"),
}
TUNED_JSON = {
    "a key twice": '{"first": {"run": "PPO", "run": "SAC", "env": "CartPole-v1"}}',
    "no number": '{"first": {"run": "PPO", "env": "CartPole-v1", "config": {"gamma": NaN}}}',
    "nesting": '{"first": ' + "[" * 100_000 + "]" * 100_000 + "}",
}


def _rewrite(path, change):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def _facts(**changes):
    """A change of the facts of a checkpoint, with its hashes made valid again."""

    def make(checkpoint):
        _rewrite(checkpoint / "manifest.json", lambda manifest: manifest["facts"].update(copy.deepcopy(changes)))
        damaged_files.seal(checkpoint)

    return make


def _manifest(change):
    def make(checkpoint):
        _rewrite(checkpoint / "manifest.json", change)
        damaged_files.seal(checkpoint)

    return make


def _weights(data):
    def make(checkpoint):
        (checkpoint / "weights.safetensors").write_bytes(data)
        damaged_files.seal(checkpoint)

    return make


def _arrays(header, body=b""):
    text = json.dumps(header).encode()
    return _weights(struct.pack("<Q", len(text)) + text + body)


def _in_place_of(name, make):
    def replaced(checkpoint):
        (checkpoint / name).unlink()
        make(checkpoint / name)

    return replaced


def _bomb():
    """An array of which the header says that it unpacks to 4 GB, from 16 MB of LZ4 blocks of nothing."""
    block = lz4.block.compress(bytes(16 * 2**20), store_size=False)
    packed = {"x": {"dtype": "U8", "shape": [2**32], "block": 16 * 2**20, "sizes": [len(block)] * 256}}
    header = {"x": {"dtype": "U8", "shape": [256 * len(block)], "data_offsets": [0, 256 * len(block)]}}
    return {"__metadata__": {"lz4": json.dumps(packed)}, **header}, block * 256


ENTRY = {"size": 1, "sha256": "0" * 64, "part": "state"}
CHECKPOINTS = {
    "a pickle beside": lambda path: (path / "params.pkl").write_bytes(PICKLE),
    "a pickle for weights": _weights(PICKLE),
    "an archive of torch for weights": _weights(b"PK\x03\x04" + bytes(100)),
    "HDF5 for weights": _weights(b"\x89HDF\r\n\x1a\n" + bytes(100)),
    "a header without end": _weights(struct.pack("<Q", 2**63) + b"{}"),
    "a header of 100 MB": _weights(struct.pack("<Q", 100_000_000) + b"{}"),
    "an array beyond the file": _arrays({"x": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}),
    "an array before the file": _arrays({"x": {"dtype": "U8", "shape": [8], "data_offsets": [-8, 0]}}),
    "arrays over each other": _arrays(
        {name: {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]} for name in "ab"}, bytes(8)
    ),
    "an array of objects": _arrays({"x": {"dtype": "O", "shape": [1], "data_offsets": [0, 8]}}, bytes(8)),
    "4 GB in 16 MB": _arrays(*_bomb()),
    "a link": _in_place_of("state.json", lambda path: path.symlink_to("/etc/passwd")),
    "a link to a device": _in_place_of("weights.safetensors", lambda path: path.symlink_to("/dev/zero")),
    "a pipe": _in_place_of("manifest.json", os.mkfifo),
    "a terabyte of nothing": lambda path: os.truncate(path / "weights.safetensors", 2**40),
    "a file outside": _manifest(lambda manifest: manifest["files"].update({"../evil.json": ENTRY})),
    "a file of the system": _manifest(lambda manifest: manifest["files"].update({"/etc/passwd": ENTRY})),
    "a newer format": _manifest(lambda manifest: manifest.update(format=999)),
    "a manifest of nested lists": lambda path: (path / "manifest.json").write_text("[" * 200_000),
    "an environment to import": _facts(env="evil_module:Evil", env_asked="evil_module:Evil"),
    "a network without end": _facts(policies={"default_policy": {"hidden": [10**12]}}),
}
RUNS = {
    "an environment to import": ("params.json", lambda params: params.update(env="evil_module:Evil")),
    "callbacks to import": ("params.json", lambda params: params["config"].update(callbacks="evil_module.Evil")),
    "a network to import": (
        "params.json",
        lambda params: params["config"]["model"].update(custom_model="evil_module.Evil"),
    ),
}
BODY = b"hello"
LISTED = {"size": len(BODY), "sha256": hashlib.sha256(BODY).hexdigest()}


def _described(names, **more):
    data = {
        "format": "drl-archive-1",
        "kind": "run",
        "name": "run",
        "drl": "0.1.0",
        "files": dict.fromkeys(names, LISTED),
    }
    return json.dumps(data | more).encode()


def _tar(*members, **more):
    """A maker of a .tar.gz of [(name, bytes, {field: value})] whose manifest lists them all."""

    def make(folder):
        path = folder / "a.tar.gz"
        with tarfile.open(path, "w:gz", format=tarfile.GNU_FORMAT) as archive:
            for name, data, fields in [
                ("drl-archive.json", _described([name for name, *_ in members], **more), {}),
                *members,
            ]:
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                for field, value in fields.items():
                    setattr(entry, field, value)
                archive.addfile(entry, io.BytesIO(data))
        return path

    return make


def _zip(*members, **more):
    def make(folder):
        path = folder / "a.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("drl-archive.json", _described([name for name, *_ in members], **more))
            for name, data, mode in members:
                entry = zipfile.ZipInfo(name)
                entry.create_system, entry.external_attr = 3, mode << 16
                archive.writestr(entry, data)
        return path

    return make


def _gzip_bomb(folder):
    with gzip.open(folder / "a.tar.gz", "wb", 1) as file:
        entry = tarfile.TarInfo("drl-archive.json")
        entry.size = 2**33 - 1
        file.write(entry.tobuf())
        for _ in range(64):
            file.write(bytes(2**20))
    return folder / "a.tar.gz"


LINK = {"type": tarfile.SYMTYPE, "linkname": "/tmp"}
ARCHIVES = {
    "a path upwards in a tar": _tar(("run/../../evil", BODY, {})),
    "a path of the system in a tar": _tar(("/tmp/evil", BODY, {})),
    "a link and a file through it": _tar(("run/out", b"", LINK), ("run/out/evil", BODY, {})),
    "a hard link": _tar(("run/x", b"", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"})),
    "a device": _tar(("run/x", b"", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5})),
    "a pipe": _tar(("run/x", b"", {"type": tarfile.FIFOTYPE})),
    "an extended header": _tar(("run/x", b"22 path=../../../evil\n", {"type": tarfile.XHDTYPE})),
    "a long name": _tar(("run/" + "x" * 5000, BODY, {})),
    "a hidden file": _tar(("run/.bashrc", BODY, {})),
    "gigabytes of nothing": _gzip_bomb,
    "a claim of terabytes": _tar(("run/x", BODY, {}), files={"run/x": {**LISTED, "size": 2**42}}),
    "a newer format": _tar(("run/x", BODY, {}), format="drl-archive-2"),
    "a path upwards in a zip": _zip(("run/../../evil", BODY, 0)),
    "a path of Windows in a zip": _zip(("run/..\\..\\evil", BODY, 0)),
    "a link in a zip": _zip(("run/x", b"/etc/passwd", stat.S_IFLNK | 0o777)),
    "a device in a zip": _zip(("run/x", b"", stat.S_IFCHR | 0o666)),
    "a zip bomb": _zip(("run/x", bytes(50 * 2**20), 0)),
}


def _line(**changes):
    data = {
        "type": "SampleBatch",
        "obs": [[0.0] * 4] * 2,
        "actions": [0, 1],
        "rewards": [1.0, 1.0],
        "dones": [False, True],
    }
    return json.dumps(data | changes)


STEPS = {
    **{f"a packed column that is {what}": _line(obs=text) for what, text in packed_columns.items()},
    "a packed column that unpacks to 1 GB": _line(
        obs=base64.b64encode(lz4.frame.compress(b"\x80" + bytes(2**20)) * 64).decode()
    ),
    "a pickle": base64.b64encode(PICKLE).decode(),
    "a type to import": _line(type="evil_module.Evil"),
    "nesting": "[" * 100_000,
}


def _external_link(group):
    group["observations"] = h5py.ExternalLink("/tmp/secret.hdf5", "x")


DATASETS = {
    "a link to another file": _external_link,
    "a link in the file": lambda group: group.__setitem__("observations", h5py.SoftLink("/")),
    "text for numbers": lambda group: group.create_dataset("observations", data=["evil"] * 6),
    "a terabyte of nothing": lambda group: group.create_dataset("observations", (2**30, 128), "f8", chunks=(1024, 128)),
}
CASES = [
    *(("tuned", name) for name in TUNED),
    *(("tuned_json", name) for name in TUNED_JSON),
    *(("checkpoint", name) for name in CHECKPOINTS),
    *(("run", name) for name in RUNS),
    *(("archive", name) for name in ARCHIVES),
    *(("steps", name) for name in STEPS),
    *(("dataset", name) for name in DATASETS),
    ("rllib", "a checkpoint"),
]


def made(kind, name, folder):
    """Make the hostile file in ``folder``; returns the words that read it."""
    if kind in ("tuned", "tuned_json"):
        path = folder / ("mine.yaml" if kind == "tuned" else "mine.json")
        path.write_bytes((TUNED if kind == "tuned" else TUNED_JSON)[name].encode("utf-8"))
        return ["train", "-f", path, "-s", "num_workers=0", "--local-dir", folder / "results"]
    if kind == "checkpoint":
        path = damaged_files.checkpoint_of("ppo")(folder)
        CHECKPOINTS[name](path)
        return ["rollout", path, "--steps", "2"]
    if kind == "run":
        path = damaged_files.copied("ppo")(folder)
        _rewrite(path / RUNS[name][0], RUNS[name][1])
        return ["train", f"--resume={path}", "--stop", "training_iteration=9"]
    if kind == "archive":
        return ["checkpoint", "unpack", ARCHIVES[name](folder), "-o", folder / "out"]
    if kind == "steps":
        (folder / "steps.json").write_text(STEPS[name] + "\n")
        return [*damaged_files.ESTIMATE[:2], "--data", folder / "steps.json", "-q"]
    if kind == "dataset":
        damaged_files.dataset(folder)
        (path,) = folder.rglob("*.hdf5")
        path.with_name("metadata.json").write_text("{}")
        with h5py.File(path, "a") as file:
            for group in file.values():
                del group["observations"]
                DATASETS[name](group)
        return [*damaged_files.ESTIMATE[:2], "--data", "minari://toy/cartpole-v0", "-q"]
    path = folder / "checkpoint_10"
    path.mkdir()
    (path / "checkpoint-10").write_bytes(PICKLE)
    (path / "checkpoint-10.tune_metadata").write_bytes(PICKLE)
    return ["rollout", path, "--steps", "2"]


def snapshot(*folders):
    """What is in the folders: {path: (size, time)}."""
    inside = [path for folder in folders for path in folder.rglob("*")]
    return {path: (path.lstat().st_size, path.lstat().st_mtime_ns) for path in inside if not path.is_dir()}


def test_sixty_files_and_more_are_watched_by_a_hook_that_notes_what_pickles_and_processes_do():
    assert len(CASES) >= 60
    with watched():
        pickle.loads(pickle.dumps(Path))
        os.system("true")
    assert [event for event, _ in NOTES] == ["pickle.find_class", "os.system"]


@pytest.mark.parametrize("kind, name", CASES, ids=[f"{kind}: {name}" for kind, name in CASES])
def test_hostile_file_is_refused_and_runs_and_touches_nothing(kind, name, tmp_path, capsys, monkeypatch):
    place, outside = tmp_path / "place", tmp_path / "outside"
    place.mkdir()
    outside.mkdir()
    (outside / "evil_module.py").write_text("open('evil', 'w').close()\nclass Evil: ...\n")
    monkeypatch.chdir(outside)
    monkeypatch.syspath_prepend(str(outside))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(place / "minari"))
    words, before = [str(word) for word in made(kind, name, place)], snapshot(outside)
    with watched():
        code, said = cli.main(words), capsys.readouterr()
    assert NOTES == [] and "evil_module" not in sys.modules
    assert snapshot(outside) == before and not (tmp_path / "evil").exists() and not Path("/tmp/evil").exists()
    assert code == 2 and "a bug in drl" not in said.err, said.err
    assert not (place / "out").exists()
    (line,) = [line for line in said.err.splitlines() if line.startswith("Error: ")]
    assert len(line) < 1000
