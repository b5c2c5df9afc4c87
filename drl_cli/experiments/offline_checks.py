"""What must be right about files to learn from before anything heavy is loaded. User: ``experiments.spec``."""

from drl_cli.actors.experience_reader import layout
from drl_cli.config.sections.offline import reads, reads_only, streams
from drl_cli.envs.preprocessors import frames_of
from drl_cli.experience.recorded import read

PLAYED = ("episode_reward_mean", "episode_reward_max", "episode_reward_min", "episode_len_mean", "episodes_total")
"""Fields of a result that speak of episodes that workers play."""


def problems(row, config, mapping, where):
    """Return one line for each thing that ``config`` of the table's ``row`` asks for and files cannot give.

    ``mapping``: the experiment's, with its rules; ``where``: its Where.
    """
    if row.reads and not reads(config):
        place = where.place(("config", "input"))
        text = f"{row.name} learns from recorded steps, and input is sampler ({place}). "
        return [text + 'Give it files: --config \'{"input": "PATH"}\'; record them with output in another run.']
    if not reads_only(config):
        return []
    found = []
    for name in ("stop", "pass_criteria"):
        rules = mapping.get(name)
        for field in rules if isinstance(rules, dict) else ():
            if field in PLAYED:
                place = where.place((name, field))
                found.append(
                    f"{name}: {field} never comes: files are read, and no episodes are played ({place}). Write "
                    f"evaluation/{field.replace('episodes_total', 'episode_reward_mean')}."
                )
    return found


def check_files(config, env):
    """Read the first steps of every stream of files. Raises ExperienceError for what is missing or does not fit ``env``.

    ``env``: dict(id, env_config, spaces, preprocessing).
    """
    spaces = env["spaces"] | {"frames": frames_of(env["preprocessing"])}
    for stream in streams(config):
        if stream.paths:
            read.check(stream.paths, layout(config, env | {"spaces": spaces}))
