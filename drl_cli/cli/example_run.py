"""``drl example run NAME``: ``drl train -f NAME`` for a file that comes with drl, with every option of ``drl train``."""

import click

from drl_cli.cli import group, shell_words
from drl_cli.cli.train import train

EXAMPLES = """
drl example run cartpole-ppo
drl example run lunarlander-continuous-sac --seed 3 -s num_workers=0
drl example run pendulum-sac --plan
"""


@click.command("run", cls=group.Command, examples=EXAMPLES)
@click.argument("name", shell_complete=shell_words.tuned_files)
@click.pass_context
def run_example(context, name, **asked):
    """Train with the tuned file NAME; what is typed beside it overrides it, as with drl train -f."""
    from drl_cli.experiments import tuned_files

    found = tuned_files.find(name)
    return context.invoke(train, config_file=found.name, **asked)


run_example.params += [parameter for parameter in train.params if parameter.name != "config_file"]
