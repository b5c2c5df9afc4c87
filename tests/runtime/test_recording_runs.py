"""A run that records: every env step is in its folder, and learning is what it is without."""

import pytest
from runtime_runs import small_config, timeless

from drl_cli.errors import RunFolderError
from drl_cli.experience.recorded.pieces import layout_of
from drl_cli.experience.recorded.read import Source

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("quick_learner")]


def test_run_records_every_env_step_and_learns_the_same(run, tmp_path, reports):
    plain = run("Pendulum-v1", small_config(num_envs_per_worker=1))
    trainer = run("Pendulum-v1", small_config(num_envs_per_worker=1, output="logdir"), options={"folder": tmp_path})
    assert [timeless(trainer.train()) for _ in range(2)] == [timeless(plain.train()) for _ in range(2)]
    layout = layout_of(trainer.env["spaces"], (200,))
    pieces = list(Source(tmp_path, layout, passes=1))
    assert sum(piece.steps for piece in pieces) == trainer.loop.sampled == 400
    assert sum(piece.is_whole for piece in pieces) == trainer.loop.ledger.meters.episodes
    assert ("notice", {"text": f"recording every env step to {tmp_path}/experience"}) in reports
    episode = next(piece for piece in pieces if piece.is_whole)
    assert (episode.truncated, episode.steps) == (True, 200)
    assert all(piece.logp is not None for piece in pieces)


def test_folder_that_cannot_be_written_is_refused_before_anything_starts(run, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match=r"output: .*/file/out cannot be written \(Not a directory\)"):
        run("Pendulum-v1", small_config(output=str(tmp_path / "file" / "out")))
