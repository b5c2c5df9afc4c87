"""From a policy to a file or folder that other programs run: written aside, loaded again, compared, then moved into place.

Used by ``drl checkpoint export`` and ``drl train --export-formats``. Beside a file ``policy.onnx`` there is
``policy.onnx.json``, in the folder of a SavedModel ``drl.json``: what goes in and out, what it was made from, how far it is
from the original.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from drl_cli.checkpoints.files import write_new
from drl_cli.envs import preprocessors
from drl_cli.errors import ExportFailed, InputError, full_or
from drl_cli.export import parity, signature
from drl_cli.extras import load
from drl_cli.version import __version__

if TYPE_CHECKING:
    import numpy as np

    from drl_cli.policies.numpy_policy import NumpyPolicy
    from drl_cli.policies.policy_spec import PolicySpec

FORMATS = {
    "savedmodel": "drl_cli.export.saved_model",
    "onnx": "drl_cli.export.onnx_file",
    "tflite": "drl_cli.export.tflite",
}
ENDINGS = {"savedmodel": "", "onnx": ".onnx", "tflite": ".tflite"}
KIND = "drl-policy-1"
_ACTION = ("kind", "shape", "dtype", "low", "high", "n", "nvec", "start")


class Format(Protocol):
    """A module that writes one format and reads it back."""

    def write(
        self, spec: PolicySpec, weights: Mapping[str, np.ndarray], path: Path, about: Mapping[str, Any], /
    ) -> None:
        """Write a policy as ``path``, which must not be there."""
        ...

    def read(self, path: Path, /) -> ReadPolicy:
        """Return what was written as a function."""
        ...


class ReadPolicy(Protocol):
    """An exported policy that was read back."""

    def __call__(self, given: Mapping[str, np.ndarray], /) -> Mapping[str, np.ndarray]:
        """Run it: {name: array [B, …]} → {name: array [B, …]}."""
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


class Exported(NamedTuple):
    """``path``: the file or folder; ``about``: the path of its description; ``comparison``: a ``parity.Comparison``;
    ``size`` in bytes.
    """

    path: Path
    about: Path
    comparison: parity.Comparison
    size: int


def check_place(form: str, out: Path | str) -> Path:
    """Return where ``out`` is as a Path. Raises InputError where something is there, or its name does not fit the format."""
    path = Path(out).expanduser()
    if ENDINGS[form] and path.suffix != ENDINGS[form]:
        raise InputError(f"{out}: give a file of {form} a name that ends in {ENDINGS[form]}.")
    for place in (path, _beside(form, path)):
        if os.path.lexists(place):
            raise InputError(f"{place}: it already exists, and nothing is overwritten. Choose another name.")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: there is no such folder.")
    return path


def export(
    policy: NumpyPolicy, facts: Mapping[str, Any], form: str, out: Path | str, replace: bool = False
) -> Exported:
    """Write ``policy`` (NumpyPolicy with weights) in the format ``form`` as ``out`` and return what came of it, Exported.

    ``facts``: those of its checkpoint's manifest; ``replace``: what is there goes, once the new one is whole. Raises
    InputError, ExportFailed (nothing is left then).
    """
    if policy.spec.action.kind == "Composite":
        raise InputError(
            "A policy over actions that are a Dict or Tuple is not exported: its format has one array for an action. Play it "
            "with drl rollout, or from Python with Trainer.compute_action."
        )
    path = Path(out).expanduser() if replace else check_place(form, out)
    module = load(FORMATS[form])
    aside = path.parent / f".tmp-{path.name}-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        os.mkdir(aside)
    except OSError as error:
        raise full_or(error, InputError)(f"{path.parent}: cannot be written to ({error.strerror}).") from error
    try:
        made = aside / "made"
        about = description(policy, facts, form)
        module.write(policy.spec, policy.weights, made, about)
        comparison = _compared(module, made, policy, facts, f"{form}, loaded again: ")
        size = sum(part.stat().st_size for part in [made, *made.rglob("*")] if part.is_file())
        text = json.dumps(about | {"compared": comparison._asdict()}, indent=1, ensure_ascii=False) + "\n"
        write_new(aside / "about", [text.encode()])
        _move(aside, path, _beside(form, path), replace)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return Exported(path, _beside(form, path), comparison, size)


def description(policy: NumpyPolicy, facts: Mapping[str, Any], form: str) -> dict[str, Any]:
    """Return the description of an exported policy as plain data: see ``docs/checkpoints.rst``."""
    spec, action = policy.spec, facts.get("spaces", {}).get("action", {})
    return {
        "format": KIND,
        "kind": form,
        "drl": __version__,
        "algorithm": facts.get("algorithm"),
        "env": facts.get("env"),
        **({"policy": facts["policy"]} if "policy" in facts else {}),
        "training_iteration": facts.get("counters", {}).get("training_iteration"),
        "evaluation_reward_mean": facts.get("score", {}).get("evaluation_reward_mean"),
        "signature": "serving_default",
        "rows": "the first axis of every input and output is that of rows, of any number",
        "inputs": [_described(port) for port in signature.inputs(spec)],
        "outputs": [_described(port) for port in signature.outputs(spec)],
        "action_space": {name: action[name] for name in _ACTION if action.get(name) is not None},
        "preprocessing": facts.get("preprocessing"),
        "apply_first": apply_first(facts),
        "frames": spec.frames,
    }


def apply_first(facts: Mapping[str, Any]) -> list[str]:
    """Return what stood between the environment and the policy, in order and in words: no part of an export.

    ``facts``: of a manifest. [] where observations are as the environment returns them or flattened. Raises CheckpointError.
    """
    plan = preprocessors.from_facts(facts.get("preprocessing")) or preprocessors.NOTHING
    found = [f"env_wrappers {name}{_options(keywords)}" for name, keywords in plan.get("wrappers", ())]
    if "preprocessor" in plan:
        name, options = plan["preprocessor"]
        mask = ", and the action mask after its vector" if facts.get("spaces", {}).get("mask") else ""
        found.append(f"model.custom_preprocessor {name}{_options(options)}{mask}")
    if plan["atari"]:
        found.append("gymnasium's AtariPreprocessing")
    if plan["scale_bytes"]:
        found.append("vectors of bytes scaled to [-1, 1]")
    if plan["dim"] and not plan["atari"]:
        found.append(f"images resized to {plan['dim']} x {plan['dim']}")
    if plan["grayscale"] and not plan["atari"]:
        found.append("images converted to grayscale")
    return found


def _options(given: Mapping[str, Any]) -> str:
    return f" {json.dumps(given, sort_keys=True)}" if given else ""


def _described(port: signature.Port) -> dict[str, Any]:
    return {"name": port.name, "dtype": port.dtype, "shape": list(port.shape), "meaning": port.meaning}


def _beside(form: str, path: Path) -> Path:
    return path / "drl.json" if form == "savedmodel" else path.with_name(path.name + ".json")


def _compared(
    module: Format, made: Path, policy: NumpyPolicy, facts: Mapping[str, Any], where: str
) -> parity.Comparison:
    loaded = module.read(made)
    try:
        return parity.compare(policy, loaded, facts.get("spaces", {}).get("obs", {}))
    except ExportFailed as error:
        raise ExportFailed(f"{where}{error}. Nothing was kept.") from error
    finally:
        loaded.close()


def _move(aside: Path, path: Path, about: Path, replace: bool) -> None:
    """Put what was made into its place: a folder with its description in it, or a file and its description beside it."""
    made = aside / "made"
    if made.is_dir():
        os.rename(aside / "about", made / about.name)
        if replace and path.is_dir():
            os.rename(path, aside / "old")
        os.rename(made, path)
        return
    for source, target in ((aside / "about", about), (made, path)):
        if replace:
            os.replace(source, target)
        else:
            os.link(source, target)  # fails where something has come into being meanwhile
