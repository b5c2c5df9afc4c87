"""The lines that end a run."""

from types import SimpleNamespace

from drl_cli.cli import summary
from drl_cli.config.env_names import EXTERNAL_ID


def test_run_whose_simulator_is_a_client_s_is_exported_and_neither_played_nor_scored():
    ending = summary.RunEnding("finished", "training_iteration reached 3", "/r/run", "/r/run/checkpoint_000003", None)
    view = SimpleNamespace(algorithm="DQN", env=EXTERNAL_ID, best=None)
    assert summary.summary(ending, view)[4:] == ["", "  Export    drl checkpoint export /r/run -o policy"]
