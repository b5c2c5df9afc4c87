"""The published figures that are shipped."""

import math

import pytest

from drl_cli.algorithms import table
from drl_cli.analysis import published


def test_every_figure_has_a_source_with_conditions_that_is_told_where():
    for figure in published.figures():
        source = published.sources([figure["source"]])[figure["source"]]
        assert source["url"].startswith("https://") and len(source["conditions"]) > 20
        assert source["measures"] in ("evaluation", "training", "best evaluation")


def test_every_figure_is_a_number_of_an_algorithm_that_runs_here():
    known = table.names()
    for figure in published.figures():
        assert figure["algorithm"] in known, figure
        assert math.isfinite(figure["mean"]) and (figure["steps"] is None or figure["steps"] >= 20_000), figure
        assert figure["sd"] is None or figure["sd"] >= 0, figure
        assert figure["sd"] is None or figure["sd_over"] in ("seeds", "episodes"), figure


def test_no_figure_is_there_twice():
    seen = [
        tuple(figure[name] for name in ("source", "algorithm", "env", "steps", "note"))
        for figure in published.figures()
    ]
    assert len(seen) == len(set(seen)) > 200


def test_figures_of_an_environment_come_from_all_of_its_versions():
    found = published.figures(["SAC"], "LunarLanderContinuous-v3")
    assert [(f["source"], f["env"], f["mean"], f["sd"], f["steps"]) for f in found] == [
        ("rl-zoo3", "LunarLanderContinuous-v2", 260.39, 65.47, 500_000),
        ("slm-lab", "LunarLanderContinuous-v3", 125.0, None, 300_000),
    ]


@pytest.mark.parametrize(
    "env, family",
    [
        ("Pendulum-v1", "Pendulum"),
        ("ALE/Pong-v5", "Pong"),
        ("PongNoFrameskip-v4", "Pong"),
        ("LunarLander-v3", "LunarLander"),
        ("my_module:Thing", "my_module:Thing"),
        ("mpe2/simple_spread_v3", "simple_spread"),
        ("classic/connect_four-v3", "connect_four"),
    ],
)
def test_family_is_the_id_without_version_and_namespace(env, family):
    assert published.family(env) == family


def test_figures_that_are_no_returns_summed_over_agents_say_what_they_are():
    metrics = {figure["source"]: figure["metric"] for figure in published.figures(env="mpe2/simple_spread-v3")}
    assert metrics["epymarl"] == "the return divided by the number of agents" and all(metrics.values())
    assert all(figure["metric"] is None for figure in published.figures(env="LunarLander-v3"))


def test_version_notice_names_the_other_versions():
    found = published.figures(["SAC"], "Pendulum-v1")
    assert published.version_notice("Pendulum-v1", found) is None
    assert published.version_notice("classic/connect_four-v3", published.figures(env="connect_four-v3")) is None
    hopper = published.version_notice("Hopper-v5", published.figures(["PPO"], "Hopper-v5"))
    assert hopper == "Hopper-v5 is compared with Hopper-v3, Hopper-v4: v5 pays other rewards than v2 to v4."
