"""Environments by the path of a class, as RLlib's files name them."""

import pytest

from drl_cli.envs import make
from drl_cli.errors import EnvError

EXAMPLES = "ray.rllib.examples.env."


@pytest.mark.parametrize(
    ("path", "here"),
    [
        ("stateless_cartpole.StatelessCartPole", "drl/StatelessCartPole-v1"),
        ("multi_agent.MultiAgentCartPole", "drl/MultiAgentCartPole-v1"),
        ("two_step_game.TwoStepGame", "drl/TwoStepGame-v1"),
        ("two_step_game.TwoStepGameWithGroupedAgents", "drl/TwoStepGame-v1"),
    ],
)
def test_class_of_an_environment_that_is_here_runs_as_it(path, here):
    asked = f"{EXAMPLES}{path}"
    found = make.resolve(asked)
    assert (found.id, found.asked) == (here, asked)
    assert found.notice == f"{asked} is {here} here."


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (
            f"{EXAMPLES}repeat_after_me_env.RepeatAfterMeEnv",
            "is a class of RLlib's examples, which drl does not contain; environments go by registered names. In a module of "
            "yours write drl_cli.register_env('RepeatAfterMeEnv', RepeatAfterMeEnv), then type: --import MODULE --env "
            "RepeatAfterMeEnv",
        ),
        (
            f"{EXAMPLES}d4rl_env.hopper_medium",
            "is an environment of D4RL, whose recordings are Minari's today. Write env: Hopper-v5, and input: minari://ID "
            "with one of: minari list remote",
        ),
        ("mine.envs.Maze", "is the path of a class; environments go by registered names."),
    ],
)
def test_class_path_is_refused_with_what_to_write(asked, text):
    with pytest.raises(EnvError) as caught:
        make.resolve(asked)
    assert str(caught.value).startswith(asked) and text in str(caught.value)
    assert f"--env {asked}" not in str(caught.value)
