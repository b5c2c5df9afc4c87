"""A wrong word anywhere suggests the right one: commands, options and their values, over the whole tree of commands."""

import click
import pytest
from fake_runs import row, write_run

from drl_cli import cli


def tree(command=cli.drl, words=()):
    """Yield (words behind drl, command) of the whole tree."""
    yield words, command
    for name in getattr(command, "table", {}):
        yield from tree(command.get_command(click.Context(command, **command.context_settings), name), (*words, name))


def misspelt(word):
    """Return ``word`` with two neighbouring letters of its middle exchanged, or its last letter doubled."""
    place = len(word) // 2
    other = word[: place - 1] + word[place] + word[place - 1] + word[place + 1 :]
    return other if other != word and len(word) > 3 else word + word[-1]


def choices():
    """Yield (words to type, the right word) for each option or argument that takes one of a few words."""
    for words, command in tree():
        for parameter in command.params:
            if isinstance(parameter.type, click.Choice):
                right = max(parameter.type.choices, key=len)
                option = parameter.opts[-1:] if isinstance(parameter, click.Option) else []
                yield [*words, *option, misspelt(right), *_needed(command, parameter)], right


def _needed(command, parameter):
    return [param.name for param in command.params if isinstance(param, click.Argument) and param is not parameter]


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A run, in the folder of results of this process, which stands beside some files."""
    write_run(tmp_path / "results", 1, [row(1)])
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "results"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("first: {run: PPO, env: CartPole-v1}\n")
    (tmp_path / "my_envs.py").write_text("")


def told(capsys, words, code=2):
    """Type ``words``; return the last line of stderr, which says what is wrong."""
    assert cli.main(list(words)) == code
    return capsys.readouterr().err.splitlines()[-1]


GROUPS = [(words, name) for words, command in tree() for name in getattr(command, "table", {})]


@pytest.mark.parametrize(
    "words, name", GROUPS, ids=lambda value: "-".join(value) if isinstance(value, tuple) else value
)
def test_misspelt_command_names_the_right_one(capsys, words, name):
    assert f"Did you mean '{name}'?" in told(capsys, [*words, misspelt(name)])


COMMANDS = [(words, command) for words, command in tree() if not isinstance(command, click.Group) or words == ("runs",)]


@pytest.mark.parametrize("words, command", COMMANDS, ids=["-".join(words) for words, _ in COMMANDS])
def test_misspelt_option_names_the_right_one(capsys, words, command):
    shown = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    names = {name for option in shown for name in option.opts if name.startswith("--")}
    for name in sorted(names):
        line = told(capsys, [*words, "--" + misspelt(name[2:])])
        assert f"Did you mean '{name}'?" in line, line


CHOICES = list(choices())


@pytest.mark.parametrize("typed, right", CHOICES, ids=["-".join(typed[:3]) for typed, _ in CHOICES])
def test_misspelt_choice_names_the_right_one(capsys, typed, right):
    assert f"Did you mean '{right}'?" in told(capsys, typed)
    assert len(CHOICES) >= 10


PPO = ("train", "--run", "PPO", "--env", "CartPole-v1")


@pytest.mark.parametrize(
    "line, right",
    [
        ("train --run PPPO --env CartPole-v1", "PPO"),
        ("train --run PPO --env CartPloe-v1", "CartPole-v1"),
        ("train -f cartpol-ppo", "cartpole-ppo"),
        ("train -f mien.yaml", "mine.yaml"),
        ("train -f mine.yaml --import my_env", "my_envs"),
        ("@train --config @mien.yaml", "mine.yaml"),
        ("@train -s gama=0.9", "gamma"),
        ("@train -s model.fcnet_hidens=[8]", "model.fcnet_hiddens"),
        ("@train -s batch_mode=complete_episode", "complete_episodes"),
        ("@train -s exploration_config.type=StocasticSampling", "StochasticSampling"),
        ("@train --stop timesteps_totl=10", "timesteps_total"),
        ("@train --assert episode_rewad_mean>=10", "episode_reward_mean"),
        ("@train --checkpoint-score-attr episode_rewad_mean", "episode_reward_mean"),
        ("@train --num-samples 2 --scheduler HyperBend", "HyperBand"),
        ("@train --num-samples 2 --search radnom", "random"),
        ("@train --num-samples 2 --scheduler ASHA --scheduler-config {metrc:\x20a}", "metric"),
        ("@train --num-samples 2 --scheduler ASHA --scheduler-config {mode:\x20maxx}", "max"),
        (
            "@train --num-samples 2 --scheduler ASHA --scheduler-config {metric:\x20episode_rewad_mean}",
            "episode_reward_mean",
        ),
        ("@train --num-samples 2 --resources-per-trial {cpus:\x201}", "cpu"),
        ("@train --restore 0000001", "00000001"),
        ("train --resume=0000002", "00000001"),
        ("rollout 00000002", "00000001"),
        ("evaluate 00000002", "00000001"),
        ("evaluate 00000001 --assert mea>=3", "mean"),
        ("watch 00000002", "00000001"),
        ("checkpoint info 00000002", "00000001"),
        ("checkpoint verify 00000002", "00000001"),
        ("checkpoint pack 00000002 -o x.tar", "00000001"),
        ("diff 00000002 pendulum-sac", "00000001"),
        ("diff 00000001 pendulum-sak", "pendulum-sac"),
        ("diff mine.yaml:frist pendulum-sac", "first"),
        ("compare defualt", "default"),
        ("plot defualt", "default"),
        ("plot default --field episode_rewad_mean", "episode_reward_mean"),
        ("plot default -o curves.pgn", "png"),
        ("example show cartpol-ppo", "cartpole-ppo"),
        ("example run cartpol-ppo", "cartpole-ppo"),
        ("example list --run PPPO", "PPO"),
        ("algorithms PPPO", "PPO"),
        ("algorithms PPO --key gama", "gamma"),
        ("envs CartPloe", "CartPole-v1"),
        ("env check CartPloe-v1", "CartPole-v1"),
        ("explain cartpol-ppo", "cartpole-ppo"),
        ("explain cartpole-ppo --key gama", "gamma"),
        ("runs rm 00000002", "00000001"),
    ],
)
def test_misspelt_value_names_the_right_one(results, capsys, line, right):
    words = [word.replace("\x20", " ") for word in line.replace(":\x20", ":\x00").split(" ")]
    words = [word.replace("\x00", " ") for word in words]
    words = [*PPO, *words[1:]] if words[0] == "@train" else words
    assert cli.main(words) == 2
    said = capsys.readouterr().err
    assert f"'{right}'" in said and "Did you mean" in said, said


@pytest.mark.parametrize(
    "line, right", [("example list cartpoel", "cartpole"), ("example list --env CartPloe-v1", "CartPole-v1")]
)
def test_misspelt_filter_that_finds_nothing_names_the_right_one(capsys, line, right):
    assert f"Did you mean '{right}'?" in told(capsys, line.split(), code=0)


@pytest.mark.parametrize(
    "line, said",
    [
        ("train --seed x", "'x' is not a whole number of at least 0."),
        ("train --seed -1", "'-1' is not a whole number of at least 0."),
        ("train --num-samples 0", "'0' is not a whole number from 1 to 10000."),
        ("evaluate r --gamma nan", "'nan' is not a number from 0 to 1."),
        ("compare r --goal high", "'high' is not a number."),
        ("completion", "Missing argument 'bash|zsh|fish'. It takes one of bash, zsh, fish."),
    ],
)
def test_wrong_number_or_missing_word_says_what_is_allowed(capsys, line, said):
    assert told(capsys, line.split()).endswith(said)
