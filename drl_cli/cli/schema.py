"""``drl schema [ALGORITHM]``: the JSON Schema of files of experiments, for editors. Needs neither TensorFlow nor Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from drl_cli.cli import group, options, shell_words, terminal

if TYPE_CHECKING:
    from drl_cli.cli.terminal import Session

EXAMPLES = """
drl schema > schema.json
drl schema SAC | jq '.definitions["config.SAC"].properties | keys'
"""


@click.command("schema", cls=group.Command, examples=EXAMPLES)
@click.argument("name", metavar="[ALGORITHM]", required=False, shell_complete=shell_words.algorithms)
@options.import_option("Which")
@options.speech_options
@click.pass_obj
def schema(session: Session, name: str | None, imports: tuple[str, ...]) -> None:
    """Print the JSON Schema (draft 7) of files of experiments: every key with type, bounds, default and meaning.

    With ALGORITHM, only that of files which run it. An editor that knows YAML completes and checks keys if the first line of a
    file names the schema beside it: # yaml-language-server: $schema=schema.json. Algorithms are spelled as drl algorithms lists
    them. drl train checks more than a schema can say: which values go together, and what suits the environment.
    """
    from drl_cli.experiments import file_schema

    options.import_modules(imports)
    made = file_schema.of_files(None if name is None else [name])
    terminal.Stdout(session).line(file_schema.written(made))
