"""``register_algorithm``: rows of others, what is refused, and where they are found."""

from types import SimpleNamespace

import pytest

from drl_cli import plugins
from drl_cli.algorithms import dataflow, table
from drl_cli.algorithms.a2c import PGConfig
from drl_cli.algorithms.custom_algorithms import Algorithm, register_algorithm
from drl_cli.config.parse import read
from drl_cli.config.schema import key
from drl_cli.errors import InputError

pytestmark = pytest.mark.usefixtures("plug_ins")


class OwnConfig(PGConfig):
    """An own one."""

    boldness: float = key(1.0, "How bold.", gt=0)


def build(config, spec, initial, seed, scope):
    return None


def row(**other):
    made = {
        "name": "OWN",
        "config": OwnConfig,
        "nets": "drl_cli.algorithms.actor_critic_nets",
        "graph": build,
        "postprocess": "trajectory",
        "loop": "sync",
        "actions": ("Discrete",),
        "observations": ("Box1d",),
    }
    return Algorithm(**made | other)


def test_registered_row_is_found_in_any_spelling_with_the_parts_of_its_loop():
    kept = register_algorithm(row())
    assert table.find("o-w_n") is kept
    assert kept.loop == "sync"
    assert [*table.rows()][-1] is kept
    assert table.names()[-1] == "OWN"
    assert table.fitting()["Discrete"].endswith(", OWN")


def test_parts_of_ones_own_are_kept():
    class Loop:
        """Nobody waits.

        More of it.
        """

        @staticmethod
        def make(cluster, pool, replay, learner, config):
            return None

    kept = register_algorithm(row(loop=Loop, learner="mine:Learner", postprocess="n_step"))
    assert (kept.loop, kept.learner) == (Loop, "mine:Learner")
    assert table.loop_name(kept) == "Loop"
    assert dataflow.of(kept) == ("Loop", "Nobody waits.")
    assert table.learns_from_replay(kept)


def test_keys_are_checked_by_its_own_schema_and_told_of_to_others():
    register_algorithm(row())
    config, problems, _ = read(table.find("OWN"), {"boldness": 2.5}, "--config", table.rows())
    assert (config.boldness, problems) == (2.5, [])
    _, problems, _ = read(table.find("PG"), {"boldness": 2.5}, "--config", table.rows())
    assert problems == ["boldness: a key of OWN, not of PG (--config)."]


def test_postprocess_of_ones_own_learns_from_what_comes():
    assert not table.learns_from_replay(register_algorithm(row(postprocess=lambda batch, config: {})))


def test_same_name_again_replaces_the_row():
    register_algorithm(row())
    register_algorithm(row(actions=("Box",)))
    assert [own.actions for own in table.rows() if own.name == "OWN"] == [("Box",)]


def test_algorithm_of_rllibs_that_does_not_run_here_may_be_registered():
    register_algorithm(row(name="MAML"))
    assert table.find("maml").config is OwnConfig


def test_rows_stay_in_the_process_that_drives_a_run():
    register_algorithm(row())
    assert "algorithm" not in plugins.registered()


def test_installed_plug_in_is_asked_for_a_name_that_is_not_known_otherwise(monkeypatch):
    asked = []
    monkeypatch.setattr(plugins, "discover", lambda: asked.append(1) or register_algorithm(row()))
    assert table.find("SAC").name == "SAC"
    assert asked == []
    assert table.find("OWN").name == "OWN"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("drl_cli.algorithms.ppo", "drl_cli.algorithms.ppo_graph"),
        ("drl_cli.algorithms.ppo_graph", "drl_cli.algorithms.ppo_graph"),
        ("drl_cli.algorithms.table", "drl_cli.algorithms.table"),
        ("mine.ppo", "mine.ppo"),
    ],
)
def test_graph_by_the_name_of_its_family_is_that_of_the_family(given, kept):
    assert register_algorithm(row(graph=given)).graph == kept


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"name": "sac"}, "sac: a built-in algorithm has that name; choose another one."),
        ({"name": "my own"}, "my own: 'my own' is no name"),
        ({"config": dict}, "OWN: config is not a class of keys"),
        ({"nets": SimpleNamespace(policy_spec=1)}, "OWN: nets lacks initial_weights, target_updates."),
        ({"graph": 3}, "OWN: graph is neither a function that builds a graph nor a module with build."),
        (
            {"loop": "synk"},
            "OWN: there is no loop 'synk'; there are replay, sync, stream, gradients, decentralized, evolution. Did you mean ",
        ),
        ({"loop": object()}, "OWN: loop has no function make."),
        ({"postprocess": "gae"}, "OWN: postprocess 'gae' is none of n_step, monte_carlo,"),
        ({"postprocess": len, "loop": "replay"}, "a custom postprocess takes batches of trajectories"),
        ({"actions": ("Discret",)}, "OWN: actions ('Discret',) is not a tuple of Box, Discrete,"),
        ({"observations": "Box1d"}, "OWN: observations 'Box1d' is not a tuple of Box1d, Image."),
    ],
)
def test_row_that_cannot_work_is_refused(other, text):
    with pytest.raises(InputError) as caught:
        register_algorithm(row(**other))
    assert text in str(caught.value)
    assert plugins.ALGORITHMS.known() == {}


def test_what_is_no_row_is_refused():
    with pytest.raises(InputError, match="register_algorithm: an Algorithm is registered, not 'OWN'"):
        register_algorithm("OWN")
