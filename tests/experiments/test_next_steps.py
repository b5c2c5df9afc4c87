import shlex
import sys
import types

import pytest
from experiment_fakes import Spec

from drl_cli.experiments import next_steps


@pytest.mark.parametrize(
    ("imports", "env", "words"),
    [
        ([], "Pendulum-v1", []),
        (["a", "b.c"], "Mine-v0", ["--import", "a", "--import", "b.c"]),
        ([], "my_envs:Mine-v0", ["--env", "my_envs:Mine-v0"]),
    ],
)
def test_commands_name_what_registers_the_environment(tmp_path, imports, env, words):
    assert next_steps.needed(imports, env) == words
    command = next_steps.resume(tmp_path / "a run", Spec(tmp_path, imports=imports, env=env), "--stop", "x=N")
    assert shlex.split(command) == ["drl", "train", "--resume", f"{tmp_path}/a run", *words, "--stop", "x=N"]


def test_modules_of_the_current_folder_are_named_unless_they_are_found_anyway(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, file in (("near", "near.py"), ("package", "package/__init__.py"), ("far", "elsewhere/far.py")):
        module = types.ModuleType(name)
        module.__file__ = str(tmp_path / file)
        monkeypatch.setitem(sys.modules, name, module)
    named = (["near", "package.envs", "far", "absent"], "near:Mine-v0")
    assert next_steps.modules_of_this_folder(*named) == ["near", "package.envs"]
    monkeypatch.setenv("PYTHONPATH", f"/nowhere:{tmp_path}")
    assert next_steps.modules_of_this_folder(*named) == []
