"""``drl rollout CHECKPOINT``: play an agent and look at it: rewards, a window, videos, transitions.

Rewards and the summary go to stdout (to stderr while ``--out -`` writes transitions there), all else to stderr. Needs
neither Ray nor TensorFlow. The loop is ``analysis.playing``.
"""

import os
import random
import re
import sys

import click

from drl_cli.cli import group, options, terminal
from drl_cli.errors import EnvError, InputError
from drl_cli.loading import load

EXAMPLES = """
drl rollout ~/ray_results/default/RUN
drl rollout ~/ray_results/default/RUN --latest --episodes 3 --video-dir videos
drl rollout ~/ray_results/default/RUN/checkpoint_000010 --explore --seed 1
drl rollout ~/ray_results/default/RUN --steps 10000 --out transitions.jsonl
drl rollout ~/ray_results/default/RUN --explore --episodes 100 --out experience.json
"""
DEFAULT_EPISODES = 10
LENGTH, WHERE, SEE = "How long", "What plays, and where", "What to see and keep"

_rollout_options = options.apply(
    [
        group.option(
            "--episodes",
            type=options.POSITIVE,
            metavar="N",
            group=LENGTH,
            help="Episodes. [default: 10, unless --steps is given]",
        ),
        group.option(
            "--steps",
            type=options.POSITIVE,
            metavar="N",
            group=LENGTH,
            help="Environment steps in all; may cut the last episode.",
        ),
        group.option(
            "--latest", is_flag=True, group=WHERE, help="Of a run folder, the newest checkpoint instead of the best."
        ),
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
            help="Episode #i is seeded with N + i. [default: drawn and shown]",
        ),
        group.option("--env", metavar="ID", group=WHERE, help="Another environment than the one it was trained on."),
        group.option(
            "--config",
            metavar="OBJECT",
            group=WHERE,
            help="env_config and horizon, laid over the checkpoint's; an object or @FILE.",
        ),
        options.import_option(WHERE),
        group.option("--render/--no-render", default=False, group=SEE, help="Show a window; needs a display."),
        group.option("--video-dir", metavar="DIR", group=SEE, help="Write one mp4 file per episode."),
        group.option(
            "--out",
            metavar="FILE",
            group=SEE,
            help="Write transitions, one JSON object per episode and line; - for stdout. FILE.json gets RLlib's batches.",
        ),
        options.speech_options,
    ]
)


@click.command("rollout", cls=group.Command, examples=EXAMPLES)
@click.argument("checkpoint", metavar="CHECKPOINT")
@_rollout_options
@click.pass_obj
def rollout(session, checkpoint, imports, **asked):
    """Play CHECKPOINT: a checkpoint folder, a file in it, or a run folder (its best checkpoint).

    A line of --out is {"format": "drl-episodes-1", "env", "episode", "seed", "obs", "action", "reward", "terminated",
    "truncated"}: lists with one entry per step, and in obs one more, the observation after the last step.

    With a name that ends in .json it is one of RLlib's batches, {"type": "SampleBatch", "obs", "actions", …}, with the
    log-probabilities of what --explore drew. Both can be learnt from: input: FILE.
    """
    mode = _render_mode(asked["render"], asked["video_dir"])
    options.import_modules(imports)
    subject = load("drl_cli.analysis.subject").open_subject(
        checkpoint, asked["env"], options.typed_object(asked["config"], "--config"), asked["latest"], "drl rollout"
    )
    _check_render_mode(subject, mode)
    seed = asked["seed"] if asked["seed"] is not None else random.SystemRandom().randrange(2**31)
    if subject.notice:
        terminal.say(subject.notice)
    acting = "exploring" if asked["explore"] else "greedy"
    terminal.say(
        f"Playing {subject.path} (iteration {subject.iteration}) on {subject.env}, {acting}, seeds from {seed}."
    )
    output = terminal.Output(session)
    lines = terminal.say if asked["out"] == "-" else output.line
    playing = load("drl_cli.analysis.playing")
    kept = asked["out"] and _kept(asked["out"], playing, subject, output)
    player = playing.Player(
        subject.policy,
        lambda: subject.make_env(mode),
        explore=asked["explore"],
        recorder=asked["video_dir"] and _recorder(asked["video_dir"], subject, seed),
        keep=playing.CHOICES if _is_batches(asked["out"]) else bool(kept),
        reuse=mode == "human",
        frames=subject.frames,
    )
    episodes = asked["episodes"] or (None if asked["steps"] else DEFAULT_EPISODES)
    limits = playing.Limits(episodes, asked["steps"], subject.horizon)
    _play(player.play(limits, seed), kept, lines)


def _is_batches(out):
    return bool(out) and out.lower().endswith(".json")


def _kept(out, playing, subject, output):
    """Return what writes the episodes down: RLlib's batches into a *.json file, else our own lines."""
    if _is_batches(out):
        return load("drl_cli.analysis.recording").BatchFile(out)
    return playing.EpisodeFile(out, subject.env, output.line if out == "-" else None)


def _play(episodes, kept, lines):
    """Go through the episodes, print and keep each, and end with the summary, also when Ctrl-C cuts it short."""
    complete = []
    try:
        for episode in episodes:
            cut = "" if episode.complete else f" (cut after {episode.length} steps)"
            lines(f"Episode #{episode.number}: reward: {round(episode.reward, 2)}{cut}")
            if kept:
                kept.add(episode)
            if episode.complete:
                complete.append(episode)
    except KeyboardInterrupt:
        lines(summary(complete))
        raise
    finally:
        episodes.close()
        if kept:
            kept.close()
    lines(summary(complete))


def summary(episodes):
    """Return the line that sums up complete episodes."""
    if not episodes:
        return "No complete episode."
    told = load("drl_cli.analysis.statistics").describe([e.reward for e in episodes], [e.length for e in episodes])
    pm = "±" if terminal.is_unicode(sys.stdout) else "+/-"
    return (
        f"{told['episodes']} episode{'s' if told['episodes'] > 1 else ''}: "
        f"reward {told['mean']:.1f} {pm} {told['sd']:.1f} "
        f"(min {told['min']:.1f}, max {told['max']:.1f}), length {told['length_mean']:.0f} "
        f"(min {told['length_min']}, max {told['length_max']})"
    )


def _render_mode(render, video_dir):
    """Return gymnasium's render mode for what was asked. Raises InputError where a window cannot open."""
    if render and video_dir:
        raise InputError("--render and --video-dir exclude one another: an environment draws in one way at a time.")
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


def _check_render_mode(subject, mode):
    if mode is not None and mode not in subject.render_modes:
        raise EnvError(
            f"{subject.env} cannot render as {mode}; it has: {', '.join(subject.render_modes) or 'nothing'}."
        )


def _recorder(video_dir, subject, seed):
    """Return the function that opens the video of an episode by its number."""
    video = load("drl_cli.analysis.video")
    folder = video.video_folder(video_dir)
    name = re.sub(r"[^\w.-]+", "_", subject.env)

    def record(number):
        path = folder / f"{name}-seed{seed}-episode{number:04d}.mp4"
        return video.Video(path, subject.frames_per_second, on_done=lambda done: terminal.say(f"Video: {done}"))

    return record
