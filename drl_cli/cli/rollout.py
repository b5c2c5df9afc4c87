"""``drl rollout CHECKPOINT``: play an agent and show its rewards; render it, record videos, save transitions.

Rewards and the summary go to stdout (to stderr while ``--out -`` writes transitions there), everything else to stderr. Needs
neither Ray nor TensorFlow. The loop is ``analysis.play``.
"""

from __future__ import annotations

import os
import random
import re
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from drl_cli.cli import group, options, played, rllib_options, run_options, shell_words, terminal
from drl_cli.errors import EnvError, InputError

if TYPE_CHECKING:
    from drl_cli.analysis.loaded_checkpoint import Subject
    from drl_cli.analysis.play import PlayedEpisode, Player
    from drl_cli.analysis.play_agents import AgentsPlayer
    from drl_cli.analysis.rollout_files import AgentsFile, BatchFile, EpisodeFile, ProgressFile
    from drl_cli.cli.played import EpisodeJson, EpisodeLines
    from drl_cli.cli.terminal import Session, Stdout
    from drl_cli.envs.video import Video

EXAMPLES = """
drl rollout ~/ray_results/default/RUN
drl rollout ~/ray_results/default/RUN --latest --episodes 3 --video-dir videos
drl rollout ~/ray_results/default/RUN/checkpoint_000010 --explore --seed 1
drl rollout ~/ray_results/default/RUN --steps 10000 --out transitions.jsonl
drl rollout ~/ray_results/default/RUN --explore --episodes 100 --out experience.json
"""
DEFAULT_EPISODES = 10
PICKLES = (".pkl", ".pickle", ".p")
LENGTH, WHERE, SEE = "How long", "What plays, and where", "What to see and keep"

_rollout_options = options.apply(
    [
        group.option(
            "--episodes",
            type=options.POSITIVE,
            metavar="N",
            group=LENGTH,
            help="Number of episodes. [default: 10, unless --steps is given]",
        ),
        group.option(
            "--steps",
            type=options.POSITIVE,
            metavar="N",
            group=LENGTH,
            help="Total number of env steps; may cut the last episode short.",
        ),
        options.max_steps_option(LENGTH),
        options.latest_option(WHERE),
        group.option(
            "--explore/--no-explore",
            default=False,
            group=WHERE,
            help="Sample actions instead of taking the greedy ones.",
        ),
        group.option(
            "--seed",
            type=options.COUNT,
            metavar="N",
            group=WHERE,
            help="Episode #i is seeded with N + i. [default: drawn at random and printed]",
        ),
        options.env_option(WHERE, "it was trained"),
        options.env_config_option(WHERE),
        options.run_option(WHERE),
        options.import_option(WHERE),
        group.option("--render/--no-render", default=False, group=SEE, help="Render in a window; needs a display."),
        group.option(
            "--video-dir",
            metavar="DIR",
            group=SEE,
            shell_complete=shell_words.folders,
            help="Record one mp4 file per episode.",
        ),
        group.option(
            "--out",
            metavar="FILE",
            group=SEE,
            shell_complete=shell_words.files,
            help="Write transitions, one JSON line per episode; - for stdout. A FILE.json gets RLlib's sample batches.",
        ),
        group.option("--save-info", is_flag=True, group=SEE, help="Include the environment's infos."),
        group.option(
            "--track-progress",
            is_flag=True,
            group=SEE,
            help="Keep a file __progress_… next to --out that shows the progress.",
        ),
        group.option(
            "--json",
            "as_json",
            is_flag=True,
            help="One JSON object per episode, then the summary.",
        ),
        options.quiet_option("Write only warnings and errors to stderr."),
        options.speech_options,
        rllib_options.of("rollout"),
    ]
)


@click.command("rollout", cls=group.Command, examples=EXAMPLES)
@click.argument("checkpoint", metavar="CHECKPOINT", shell_complete=shell_words.runs)
@_rollout_options
@click.pass_obj
def rollout(session: Session, checkpoint: str, imports: tuple[str, ...], **flags: Any) -> None:
    """Play CHECKPOINT: a checkpoint folder, a file in it, or a run folder (its best checkpoint).

    A line of --out is {"format": "drl-episodes-1", "env", "episode", "seed", "obs", "action", "reward", "terminated",
    "truncated"}: lists with one entry per step, and in obs one more, the observation after the last step; with
    --save-info also "info".

    If the name ends in .json, a line is one of RLlib's sample batches, {"type": "SampleBatch", "obs", "actions", …}, with
    the log-probabilities of the actions that --explore drew. Training reads both: input: FILE.

    A line of --json is {"episode", "seed", "reward", "length", "terminated", "truncated", "cut"}, the last one {"summary":
    {"checkpoint", "algorithm", "env", "training_iteration", "explore", "episodes", "mean", "sd", "median", "iqm",
    "iqm_low", "iqm_high", "min", "max", "length_mean", "length_min", "length_max"}}, null if no episode was completed.

    With several agents "reward" is the sum over them, a line of --json also has "agents": {agent: reward}, "policies": {agent:
    policy id}, "policy_reward_mean": {policy id: mean over its agents}, the summary "policies": {policy id: the same numbers};
    a line of --out is {"format": "drl-agents-episodes-1", "env", "episode", "seed", "agents": {agent: {"policy", "obs",
    "action", "reward", "terminated", "truncated"}}}.
    """
    mode = _render_mode(flags["render"], flags["video_dir"])
    _check_output(flags)
    options.import_modules(imports)
    from drl_cli.analysis import play
    from drl_cli.analysis.loaded_checkpoint import open_subject
    from drl_cli.analysis.rollout_files import ProgressFile

    subject = open_subject(
        run_options.place(checkpoint),
        flags["env"],
        options.typed_object(flags["config"], "--config"),
        flags["latest"],
        "drl rollout",
    )
    options.check_run(flags["run"], [subject])
    _check_render_mode(subject, mode)
    seed = flags["seed"] if flags["seed"] is not None else random.SystemRandom().randrange(2**31)
    if not flags["quiet"]:
        _say_what_plays(subject, flags["explore"], seed)
    output = terminal.Stdout(session)
    kept = flags["out"] and _kept(flags["out"], subject, output)
    player = _player(subject, mode, flags, seed, kept and _to_keep(flags, play))
    episodes = flags["episodes"] or (None if flags["steps"] else DEFAULT_EPISODES)
    limits = play.Limits(episodes, flags["steps"], subject.horizon, flags["max_steps"] or subject.max_steps)
    progress = flags["track_progress"] and ProgressFile(flags["out"], limits)
    printer = (
        played.EpisodeJson(output, subject, flags["explore"])
        if flags["as_json"]
        else played.EpisodeLines(output, flags["out"] == "-")
    )
    _play(player.play(limits, seed), [writer for writer in (kept, progress) if writer], printer)


def _player(
    subject: Subject, mode: str | None, flags: Mapping[str, Any], seed: int, keep: str | None
) -> Player | AgentsPlayer:
    """Return what plays ``subject``: one agent, or several."""
    from drl_cli.analysis import play

    recorder = flags["video_dir"] and _recorder(flags["video_dir"], subject, seed, flags["quiet"])
    fresh = subject.fresh_envs and mode != "human"  # a window would close and open
    if subject.agents:
        from drl_cli.analysis import play_agents  # loads pydantic

        return play_agents.AgentsPlayer(subject, mode, flags["explore"], recorder, keep, fresh)
    return play.Player(
        subject.policy, lambda: subject.make_env(mode), flags["explore"], recorder, keep, fresh, subject.frames
    )


def _check_output(flags: Mapping[str, Any]) -> None:
    """Raise InputError for output options that cannot be combined."""
    for name in ("save_info", "track_progress"):
        if flags[name] and not flags["out"]:
            raise InputError(f"--{name.replace('_', '-')} needs --out FILE.")
    if flags["out"] == "-" and (flags["as_json"] or flags["track_progress"]):
        other = "--json" if flags["as_json"] else "--track-progress"
        raise InputError(f"--out - and {other} cannot be combined. Give --out a file.")
    if flags["out"] and flags["out"].lower().endswith(PICKLES):
        terminal.say(f"--out {flags['out']}: written as JSON lines; a pickle can run code when it is read.")
    if flags["save_info"] and _is_batches(flags["out"]):
        raise InputError("--save-info: RLlib's sample batches hold no infos. Give --out a name that ends in .jsonl.")


def _is_batches(out: str) -> bool:
    return bool(out) and out.lower().endswith(".json")


def _kept(out: str, subject: Subject, output: Stdout) -> BatchFile | EpisodeFile | AgentsFile:
    """Return the writer of the episodes: RLlib's batches into a *.json file, else our own lines."""
    from drl_cli.analysis import rollout_files

    if subject.agents:
        if _is_batches(out):
            raise InputError("--out: RLlib's sample batches hold one agent. Give it a name that ends in .jsonl.")
        return rollout_files.AgentsFile(out, subject.env, output.line if out == "-" else None)
    if _is_batches(out):
        return rollout_files.BatchFile(out)
    return rollout_files.EpisodeFile(out, subject.env, output.line if out == "-" else None)


def _to_keep(flags: Mapping[str, Any], playing: ModuleType) -> str:
    """Return what of each episode the file of --out takes."""
    if _is_batches(flags["out"]):
        return playing.CHOICES
    return playing.INFOS if flags["save_info"] else playing.STEPS


def _say_what_plays(subject: Subject, explore: bool, seed: int) -> None:
    if subject.notice:
        terminal.say(subject.notice)
    acting = "exploring" if explore else "greedy"
    terminal.say(
        f"Playing {subject.path} (iteration {subject.iteration}) on {subject.env_name}, {acting}, seeds from {seed}."
    )


def _play(
    episodes: Iterator[PlayedEpisode],
    writers: Sequence[BatchFile | EpisodeFile | AgentsFile | ProgressFile],
    printer: EpisodeLines | EpisodeJson,
) -> None:
    """Go through the episodes, hand each on, and end with the summary, also when Ctrl-C cuts it short."""
    complete = []
    try:
        for episode in episodes:
            printer.add(episode)
            for writer in writers:
                writer.add(episode)
            if episode.complete:
                complete.append(episode)
    except KeyboardInterrupt:
        printer.end(complete)
        raise
    finally:
        if isinstance(episodes, Generator):
            episodes.close()
        for writer in writers:
            writer.close()
    printer.end(complete)


def _render_mode(render: bool, video_dir: str | None) -> str | None:
    """Return gymnasium's render mode for the options. Raises InputError where a window cannot open."""
    if render and video_dir:
        raise InputError("--render and --video-dir cannot be combined: an environment renders in one mode at a time.")
    if (
        render
        and sys.platform.startswith("linux")
        and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    ):
        raise InputError(
            "--render needs a display, and neither DISPLAY nor WAYLAND_DISPLAY is set. Use --video-dir DIR."
        )
    if video_dir:
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pictures in memory only: let SDL look for no display
    return "human" if render else "rgb_array" if video_dir else None


def _check_render_mode(subject: Subject, mode: str | None) -> None:
    if mode is not None and mode not in subject.render_modes:
        raise EnvError(
            f"{subject.env} cannot render as {mode}; it supports: {', '.join(subject.render_modes) or 'nothing'}."
        )


def _recorder(video_dir: str, subject: Subject, seed: int, quiet: bool) -> Callable[[int], Video]:
    """Return the function that opens the video of an episode by its number."""
    from drl_cli.envs import video

    folder = video.video_folder(video_dir)
    name = re.sub(r"[^\w.-]+", "_", subject.env_name)

    def record(number: int) -> Video:
        path = folder / f"{name}-seed{seed}-episode{number:04d}.mp4"
        return video.Video(path, subject.frames_per_second, on_done=None if quiet else _say_video)

    return record


def _say_video(path: Path) -> None:
    terminal.say(f"Video: {path}")
