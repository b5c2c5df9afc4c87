"""``drl new file | env | client``: files to start from. Their text is ``experiments.file_templates``; no TensorFlow, no Ray."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drl_cli.cli import endings, group, options, shell_words, terminal
from drl_cli.errors import ConfigError, full_or

if TYPE_CHECKING:
    from drl_cli.cli.terminal import Session

TABLE = {
    "file": ("drl_cli.cli.new:new_file", "Write a commented file of an experiment for an environment."),
    "env": ("drl_cli.cli.new:new_env", "Write an environment to fill in, which trains as it is."),
    "client": ("drl_cli.cli.new:new_client", "Write policy_client.py, with which a simulator asks a run for actions."),
}
FILE_EXAMPLES = """
drl new file --env CartPole-v1
drl new file --env Pendulum-v1 --run SAC -o mine.yaml
"""
ENV_EXAMPLES = """
drl new env LineWalk
drl new env LineWalk -o my_envs.py
"""
CLIENT_EXAMPLES = """
drl new client
drl new client -o heater_client.py
"""

new = group.command_group(
    "new", TABLE, FILE_EXAMPLES + ENV_EXAMPLES + CLIENT_EXAMPLES, "Write a file to start from; none is overwritten."
)


@click.command("file", cls=group.Command, examples=FILE_EXAMPLES)
@group.option("--env", metavar="ID", required=True, shell_complete=shell_words.environments, help="Environment.")
@group.option(
    "--run", "--algo", "run", metavar="NAME", shell_complete=shell_words.algorithms,
    help="Algorithm; without it one is chosen for the environment.",
)  # fmt: skip
@group.option(
    "-o", "--out", metavar="FILE", help="File to write, .yaml. [default: named after environment and algorithm]"
)
@options.import_option("Options")
@options.speech_options
@click.pass_obj
def new_file(session: Session, env: str, run: str | None, out: str | None, imports: tuple[str, ...]) -> None:
    """Write a commented file of an experiment, to be trained with drl train -f.

    The environment is played at random for about a second. Algorithm and keys are chosen as drl train --env does, with the
    reasons in comments; other keys that are often changed stand in comments, at their defaults.
    """
    from drl_cli.experiments import file_templates

    options.import_modules(imports)
    if out is not None:
        _check(out, (".yaml", ".yml"))
    with endings.at_once():
        choice = file_templates.choose(env, run)
    plain = re.sub(r"-v\d+$", "", env.rpartition("/")[2].rpartition(":")[2])
    path = out or f"{plain}-{choice.run}.yaml".lower()
    _write(path, file_templates.experiment(choice, env, Path(path).stem, path))
    terminal.say(f"Wrote {path}. Train it: drl train -f {path}", session)


@click.command("env", cls=group.Command, examples=ENV_EXAMPLES)
@click.argument("name")
@group.option("-o", "--out", metavar="FILE", help="File to write, .py. [default: the name in small letters]")
@options.speech_options
@click.pass_obj
def new_env(session: Session, name: str, out: str | None) -> None:
    """Write a module with the environment NAME, which is registered as NAME-v0 and can be trained as it is.

    What is to be replaced is marked with CHANGE.
    """
    from drl_cli.experiments import file_templates

    path = out or f"{re.sub(r'(-v[0-9]+)?$', '', name, count=1)}.py".lower()
    _check(path, (".py",))
    text = file_templates.environment(name, Path(path).stem)
    _write(path, text)
    env_id = re.search(r'register_env\("(.+?)"', text)
    module = Path(path).stem
    terminal.say(f"Wrote {path}. Check it: drl env check {env_id[1] if env_id else name} --import {module}", session)


@click.command("client", cls=group.Command, examples=CLIENT_EXAMPLES)
@group.option("-o", "--out", metavar="FILE", default="policy_client.py", help="File to write, .py.")
@options.speech_options
@click.pass_obj
def new_client(session: Session, out: str) -> None:
    """Write the client of the policy server, one file that needs Python's standard library alone.

    A simulator asks a run with input policy_server for actions with it, and reports rewards.
    """
    from drl_cli.api import policy_client

    _check(out, (".py",))
    _write(out, Path(policy_client.__file__).read_text("utf-8"))
    terminal.say(
        f"Wrote {out}. It asks a run: drl train -s input=policy_server -s policy_server.token_file=token", session
    )


def _check(out: str, suffixes: tuple[str, ...]) -> None:
    if Path(out).suffix.lower() not in suffixes:
        raise ConfigError(f"-o {out}: the file must end in {' or '.join(suffixes)}.")


def _write(out: str, text: str) -> None:
    """Write a new file. Raises ConfigError where there is one already, or it cannot be written."""
    try:
        with open(Path(out).expanduser(), "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{out} exists already and is not overwritten. Name another file with -o.") from None
    except OSError as error:
        kind = full_or(error, ConfigError)
        raise kind(f"{out}: cannot be written ({error.strerror or error}).") from error
