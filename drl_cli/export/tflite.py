"""A policy as a TensorFlow Lite (LiteRT) file: converted from the SavedModel of ``export.saved_model``, loaded again and run.

TensorFlow 2.16 to 2.21 bring both the converter and an interpreter (which warns that its successor is the package
ai-edge-litert); nothing else is needed. Operations are TensorFlow Lite's own, without flex: any interpreter runs them. The
signature is "serving_default"; rows are a free axis, which an interpreter sets to 1 by default.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from drl_cli.checkpoints.files import write_new
from drl_cli.errors import ExportFailed
from drl_cli.export import saved_model
from drl_cli.tf1.tensorflow import lite

if TYPE_CHECKING:
    from drl_cli.policies.policy_spec import PolicySpec


def write(spec: PolicySpec, weights: Mapping[str, np.ndarray], path: Path, about: Mapping[str, Any]) -> None:
    """Write ``spec`` (PolicySpec) with ``weights`` ({name: float32 array}) as the file ``path``, which must not be there."""
    with tempfile.TemporaryDirectory(prefix="drl-export-") as folder:
        source = Path(folder) / "model"
        saved_model.write(spec, weights, source, about)
        converter = lite().TFLiteConverter.from_saved_model(str(source), signature_keys=[saved_model.SIGNATURE])
        converter.target_spec.supported_ops = [lite().OpsSet.TFLITE_BUILTINS]
        try:
            content = converter.convert()
        except Exception as error:  # the converter has no class of its own for what it cannot convert
            said = next((line.strip() for line in str(error).splitlines() if "error:" in line), str(error).strip())
            raise ExportFailed(f"TensorFlow Lite cannot hold this policy: {said[:300]}. Use savedmodel.") from error
        write_new(path, [content])


class LiteModel:
    """A TFLite file that was read back: ``model({name: array [B, …]}) → {name: array [B, …]}``."""

    def __init__(self, path: Path | str) -> None:
        """``path``: the file."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that another package is its successor
            # Without delegates: these print to stderr, and what any interpreter computes is what is to be compared.
            self._interpreter = lite().Interpreter(
                model_path=str(path),
                experimental_op_resolver_type=lite().experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            )
        self._runner = self._interpreter.get_signature_runner(saved_model.SIGNATURE)

    def __call__(self, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run the signature, which sets the number of rows itself."""
        return {name: np.array(value) for name, value in self._runner(**given).items()}

    def close(self) -> None:
        """Nothing to close."""


def read(path: Path | str) -> LiteModel:
    """Return what was written as the function that it holds."""
    return LiteModel(path)
