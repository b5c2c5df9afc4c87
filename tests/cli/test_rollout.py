import json
import re
import subprocess
import sys
from types import SimpleNamespace

import imageio_ffmpeg
import numpy as np
import pytest

from drl_cli import cli, errors
from drl_cli.analysis.loaded_checkpoint import open_subject
from drl_cli.analysis.play import PlayedEpisode
from drl_cli.cli import played as played_as
from drl_cli.cli import rollout
from drl_cli.experience.recorded.pieces import layout_of
from drl_cli.experience.recorded.read import Source

SPACES = {
    "obs": {"kind": "Box", "shape": [3], "dtype": "float32"},
    "action": {"kind": "Box", "shape": [1], "low": [-2.0], "high": [2.0]},
}
LINE = re.compile(r"Episode #(\d+): reward: (-?\d+\.\d+)( \(cut after \d+ steps\))?")


def played(capsys, *arguments, code=0):
    """Run ``drl rollout`` in this process; return (stdout lines, stderr)."""
    assert cli.main(["rollout", *(str(word) for word in arguments)]) == code
    out, err = capsys.readouterr()
    return out.splitlines(), err


def test_rollout_prints_episodes_and_a_summary(pendulum_run, capsys):
    lines, err = played(capsys, pendulum_run, "--episodes", 2, "--seed", 3, "--config", "{horizon: 20}")
    assert [LINE.fullmatch(line)[1] for line in lines[:2]] == ["0", "1"]
    assert re.fullmatch(
        r"2 episodes: reward -\d+\.\d (±|\+/-) \d+\.\d \(min -.*\), length 20 \(min 20, max 20\)", lines[2]
    )
    assert f"Playing {pendulum_run}/checkpoint_000010 (iteration 10) on Pendulum-v1, greedy, seeds from 3.\n" == err


def test_same_seed_gives_the_same_rewards_and_exploring_others(pendulum_run, capsys):
    arguments = (pendulum_run, "--episodes", 1, "--seed", 3, "--config", '{"horizon": 20}')
    first, again, explored = (played(capsys, *arguments, *more)[0] for more in ([], [], ["--explore"]))
    assert first == again
    assert first[0] != explored[0]


def test_ten_episodes_unless_told_otherwise(pendulum_run, capsys):
    lines, _ = played(capsys, pendulum_run, "--config", "<horizon: 2>")
    assert len(lines) == 11


def test_steps_cut_the_last_episode_and_leave_it_out_of_the_summary(pendulum_run, capsys):
    lines, _ = played(capsys, pendulum_run, "--steps", 30, "--config", "{horizon: 20}")
    assert [LINE.fullmatch(line)[3] for line in lines[:2]] == [None, " (cut after 10 steps)"]
    assert lines[2].startswith("1 episode: reward ")


def test_no_complete_episode_is_said(pendulum_run, capsys):
    assert played(capsys, pendulum_run, "--steps", 3)[0][1] == "No episode was completed."


def test_out_writes_transitions(pendulum_run, capsys, tmp_path):
    played(
        capsys, pendulum_run, "--episodes", 2, "--config", "{horizon: 5}", "--out", tmp_path / "t.jsonl", "--seed", 0
    )
    episodes = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(e["episode"], e["seed"], len(e["obs"]), len(e["action"])) for e in episodes] == [
        (0, 0, 6, 5),
        (1, 1, 6, 5),
    ]
    assert (len(episodes[0]["obs"][0]), episodes[0]["truncated"]) == (3, [False, False, False, False, True])


def test_out_with_the_name_of_a_pickle_says_what_is_written(pendulum_run, capsys, tmp_path):
    path = tmp_path / "x.pkl"
    _, err = played(capsys, pendulum_run, "--steps", "3", "--out", str(path))
    assert f"--out {path}: written as JSON lines; a pickle can run code when it is read." in err
    assert json.loads(path.read_text())["format"] == "drl-episodes-1"


def test_out_dash_writes_transitions_to_stdout_and_rewards_to_stderr(pendulum_run, capsys):
    lines, err = played(capsys, pendulum_run, "--episodes", 1, "--config", "{horizon: 5}", "--out", "-")
    assert [json.loads(line)["format"] for line in lines] == ["drl-episodes-1"]
    assert "Episode #0: reward: " in err


def test_video_dir_gets_one_file_per_episode(pendulum_run, capsys, tmp_path):
    _, err = played(
        capsys, pendulum_run, "--episodes", 2, "--seed", 7, "--config", "{horizon: 3}", "--video-dir", tmp_path / "v"
    )
    names = sorted(path.name for path in (tmp_path / "v").iterdir())
    assert names == ["Pendulum-v1-seed7-episode0000.mp4", "Pendulum-v1-seed7-episode0001.mp4"]
    reader = imageio_ffmpeg.read_frames(str(tmp_path / "v" / names[0]))
    assert next(reader)["size"] == (500, 500)
    assert sum(1 for _ in reader) == 4
    assert f"Video: {tmp_path}/v/{names[1]}\n" in err


def test_render_without_a_display_names_video_dir(pendulum_run, capsys, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(rollout.sys, "platform", "linux")
    _, err = played(capsys, pendulum_run, "--render", code=2)
    assert (
        err == "Error: --render needs a display, and neither DISPLAY nor WAYLAND_DISPLAY is set. Use --video-dir DIR.\n"
    )


def test_render_and_video_dir_exclude_one_another(pendulum_run, capsys):
    assert "cannot be combined" in played(capsys, pendulum_run, "--render", "--video-dir", "v", code=2)[1]


def test_environment_that_cannot_render_is_refused():
    subject = SimpleNamespace(env="Mine-v0", render_modes=("ansi",))
    with pytest.raises(errors.EnvError, match="Mine-v0 cannot render as rgb_array; it supports: ansi."):
        rollout._check_render_mode(subject, "rgb_array")


def test_module_in_a_stored_id_is_refused_with_the_command(tmp_path, write_checkpoint, capsys):
    path = write_checkpoint(tmp_path, 1, env="antigravity:Pendulum-v1")
    _, err = played(capsys, path, code=2)
    assert err.endswith(f"If you trust it, run: drl rollout {path} --env antigravity:Pendulum-v1\n")


def test_missing_checkpoint_exits_2(tmp_path, capsys):
    assert played(capsys, tmp_path / "nowhere", code=2)[1].startswith("Error: ")


def test_interrupt_prints_what_was_played(capsys):
    def episodes():
        yield PlayedEpisode(0, 1, reward=3.0, length=5, terminated=True)
        raise KeyboardInterrupt

    lines = []
    with pytest.raises(KeyboardInterrupt):
        rollout._play(episodes(), [], played_as.EpisodeLines(SimpleNamespace(line=lines.append), False))
    assert lines[0] == "Episode #0: reward: 3.0"
    assert lines[1].startswith("1 episode: reward 3.0 ")


def test_neither_ray_nor_tensorflow_is_imported(pendulum_run):
    code = (
        "import sys; from drl_cli.cli import main;"
        f"code = main(['rollout', {str(pendulum_run)!r}, '--episodes', '1', '--config', '<horizon: 3>']);"
        "print(code, [m for m in ('ray', 'tensorflow', 'rich', 'pydantic', 'scipy', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr


def lines_of_json(capsys, *arguments):
    return [json.loads(line) for line in played(capsys, *arguments)[0]]


def test_json_tells_episodes_and_a_summary(pendulum_run, capsys):
    arguments = (pendulum_run, "--episodes", 2, "--seed", 3, "--config", "{horizon: 20}")
    first, second, last = lines_of_json(capsys, *arguments, "--json")
    told = {name: value for name, value in second.items() if name != "reward"}
    assert told == {"episode": 1, "seed": 4, "length": 20, "terminated": False, "truncated": True, "cut": False}
    facts = {
        "checkpoint": f"{pendulum_run}/checkpoint_000010",
        "algorithm": "SAC",
        "env": "Pendulum-v1",
        "training_iteration": 10,
        "explore": False,
        "episodes": 2,
    }
    summary = last["summary"]
    assert {name: summary[name] for name in facts} == facts
    assert summary["mean"] == pytest.approx((first["reward"] + second["reward"]) / 2)
    assert set(summary) == {*facts, *played_as.SCORES}
    assert (summary["length_mean"], summary["length_min"], summary["length_max"]) == (20.0, 20, 20)


def test_json_without_a_complete_episode_has_no_statistics(pendulum_run, capsys):
    episode, last = lines_of_json(capsys, pendulum_run, "--steps", 3, "--json")
    assert (episode["length"], episode["truncated"], last["summary"]["episodes"]) == (3, False, 0)
    assert {last["summary"][name] for name in played_as.SCORES} == {None}


def test_help_of_json_names_every_key(capsys):
    cli.main(["rollout", "-h"])
    shown = capsys.readouterr().out
    keys = [
        "episode",
        "seed",
        "reward",
        "length",
        "terminated",
        "truncated",
        "summary",
        "checkpoint",
        *played_as.SCORES,
    ]
    assert [key for key in keys if f'"{key}"' not in shown] == []


def test_quiet_leaves_stderr_empty(pendulum_run, capsys, tmp_path):
    arguments = (pendulum_run, "--episodes", 1, "--config", "{horizon: 3}", "--video-dir", tmp_path)
    lines, err = played(capsys, *arguments, "-q")
    assert (len(lines), err) == (2, "")


def test_algorithm_that_is_named_must_be_that_of_the_checkpoint(pendulum_run, capsys):
    arguments = (pendulum_run, "--episodes", 1, "--config", "{horizon: 3}", "--run")
    assert len(played(capsys, *arguments, "sac")[0]) == 2
    assert played(capsys, *arguments, "PPO", code=2)[1] == (
        f"Error: --run PPO: {pendulum_run}/checkpoint_000010 was trained by SAC. "
        "Leave --run out: a checkpoint records its algorithm.\n"
    )
    assert "Unknown algorithm 'SACC'. Did you mean 'SAC'?" in played(capsys, *arguments, "SACC", code=2)[1]


def test_infos_are_written_with_the_transitions(pendulum_run, capsys, tmp_path):
    arguments = (pendulum_run, "--episodes", 1, "--config", "{horizon: 3}", "--out", tmp_path / "t.jsonl")
    played(capsys, *arguments)
    assert "info" not in json.loads((tmp_path / "t.jsonl").read_text())
    played(capsys, *arguments, "--save-info")
    assert json.loads((tmp_path / "t.jsonl").read_text())["info"] == [{}, {}, {}]


def test_progress_is_kept_in_a_file_while_it_plays(pendulum_run, capsys, tmp_path, monkeypatch):
    seen = []
    progress = tmp_path / "__progress_t.jsonl"

    class Spying(played_as.EpisodeLines):
        def add(self, episode):
            seen.append(progress.read_text())
            super().add(episode)

    monkeypatch.setattr(played_as, "EpisodeLines", Spying)
    arguments = (pendulum_run, "--config", "{horizon: 3}", "--out", tmp_path / "t.jsonl", "--track-progress")
    played(capsys, *arguments, "--episodes", 3)
    assert seen == ["0 / 3 episodes completed", "1 / 3 episodes completed", "2 / 3 episodes completed"]
    assert not progress.exists()
    seen.clear()
    played(capsys, *arguments, "--steps", 5)
    assert seen == ["0 / 5 steps completed", "3 / 5 steps completed"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--save-info"], "--save-info needs --out FILE."),
        (["--track-progress"], "--track-progress needs --out FILE."),
        (["--out", "-", "--json"], "--out - and --json cannot be combined. Give --out a file."),
        (["--out", "-", "--track-progress"], "--out - and --track-progress cannot be combined. Give --out a file."),
    ],
)
def test_wishes_for_the_output_that_do_not_go_together_are_refused(words, text, pendulum_run, capsys):
    assert played(capsys, pendulum_run, *words, code=2) == ([], f"Error: {text}\n")


def test_out_json_writes_rllibs_batches_that_can_be_learnt_from(pendulum_run, capsys, tmp_path):
    path = tmp_path / "e.json"
    lines, _ = played(
        capsys, pendulum_run, "--episodes", 2, "--config", "{horizon: 5}", "--out", path, "--seed", 3, "--explore"
    )
    first, second = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    assert (first["type"], first["eps_id"], second["eps_id"]) == ("SampleBatch", [3] * 5, [4] * 5)
    assert (first["t"], first["truncateds"]) == ([0, 1, 2, 3, 4], [False] * 4 + [True])
    pieces = sorted(Source(str(path), layout_of(SPACES), passes=1), key=lambda piece: piece.episode)
    assert [piece.is_whole for piece in pieces] == [True, True]
    assert lines[0] == f"Episode #0: reward: {pieces[0].reward.sum():.2f}"
    policy = open_subject(pendulum_run, None, {}, False, "drl rollout").policy
    expected = policy.logp(policy.heads(pieces[0].obs), pieces[0].action)
    np.testing.assert_allclose(pieces[0].logp, expected, rtol=1e-4)


def test_out_json_of_greedy_actions_has_no_probabilities(pendulum_run, capsys, tmp_path):
    played(capsys, pendulum_run, "--steps", 3, "--out", tmp_path / "e.json")
    (line,) = (json.loads(line) for line in (tmp_path / "e.json").read_text(encoding="utf-8").splitlines())
    assert "action_logp" not in line and len(line["actions"]) == 3 and line["dones"] == [False] * 3


def test_out_json_on_a_full_disk_ends_in_one_line(pendulum_run, capsys, tmp_path):
    (tmp_path / "full.json").symlink_to("/dev/full")
    _, err = played(capsys, pendulum_run, "--steps", 3, "--out", tmp_path / "full.json", code=5)
    assert err.splitlines()[-1].startswith(
        f"Error: --out {tmp_path}/full.json: No space left on device. The episodes before #0"
    )
