"""The keys that the config of every algorithm has, whatever it learns from: what shared code may read of any config.

Code that serves all algorithms annotates ``config: CommonKeys``. A key that only some of them have is read after an
``isinstance`` check of the section that declares it, as ``RolloutKeys`` for ``explore`` and ``BufferKeys`` for ``buffer_size``.
"""

from typing import TYPE_CHECKING

from drl_cli.config.sections.environment import EnvironmentKeys
from drl_cli.config.sections.evaluation import EvaluationKeys
from drl_cli.config.sections.iteration import IterationKeys
from drl_cli.config.sections.model import Vision
from drl_cli.config.sections.output import OutputKeys
from drl_cli.config.sections.resources import ResourceKeys
from drl_cli.config.sections.rollout import WorkerKeys


class CommonKeys(EnvironmentKeys, WorkerKeys, OutputKeys, EvaluationKeys, IterationKeys, ResourceKeys):
    """Environments, workers, what is written, evaluation, iterations, placement; and a ``model``, each algorithm's own."""

    if TYPE_CHECKING:  # declared by each algorithm, after all other keys: here it would come before them
        model: Vision
