"""The table of algorithms: rows that load, names in any case, and names that do not run."""

import subprocess
import sys

import pytest

from drl_cli.algorithms import sac, table
from drl_cli.errors import InputError
from drl_cli.extras import load


def test_sac_is_found_with_its_parts():
    row = table.find("SAC")
    assert row.config is sac.SACConfig
    assert row.nets == (sac.policy_spec, sac.initial_weights, sac.target_updates)
    assert row.graph == "drl_cli.algorithms.sac_graph"
    assert row[4:8] == ("n_step", "replay", ("Box", "Discrete", "Composite"), ("Box1d", "Image"))


@pytest.mark.parametrize(
    ("name", "actions"),
    [
        ("TQC", ("Box",)),
        ("CROSSQ", ("Box",)),
        ("XQC", ("Box",)),
        ("TD3", ("Box",)),
        ("DDPG", ("Box",)),
        ("APEX_DDPG", ("Box",)),
        ("DQN", ("Discrete",)),
        ("QRDQN", ("Discrete",)),
        ("SimpleQ", ("Discrete",)),
        ("APEX", ("Discrete",)),
        ("R2D2", ("Discrete",)),
        ("RNNSAC", ("Box",)),
        ("RNNTD3", ("Box",)),
        ("CQL", ("Box", "Discrete")),
        ("IQL", ("Box", "Discrete")),
        ("TD3BC", ("Box",)),
        ("VDN", ("MultiDiscrete",)),
        ("QMIX", ("MultiDiscrete",)),
        ("MADDPG", ("Box", "MultiDiscrete")),
    ],
)
def test_off_policy_algorithm_takes_its_actions_and_loads_its_schema(name, actions):
    row = table.find(name)
    assert (row.name, row.actions, row.loop) == (name, actions, "replay")
    assert load(row.config)().num_workers in (0, 2)


def test_rows_that_train_a_team_are_no_advice_for_actions_of_one_agent():
    assert {row.name for row in table.built_in() if row.team} == {"VDN", "QMIX", "MAPPO", "MADDPG"}
    assert "VDN" not in table.fitting()["MultiDiscrete"]


@pytest.mark.parametrize(("name", "graph"), [("PG", "a2c"), ("A2C", "a2c"), ("PPO", "ppo")])
def test_on_policy_algorithm_learns_from_trajectories(name, graph):
    row = table.find(name)
    assert (row.graph, row.postprocess) == (f"drl_cli.algorithms.{graph}_graph", "trajectory")
    assert (row.loop, row.learner) == ("sync", "")
    assert row.actions == ("Box", "Discrete", "MultiDiscrete", "MultiBinary", "Composite")


@pytest.mark.parametrize("name", ["ES", "ARS"])
def test_evolution_strategy_learns_without_tensorflow_from_whole_episodes(name):
    row = table.find(name)
    assert (row.graph, row.postprocess) == (f"drl_cli.evolution.{name.lower()}_update", "fitness")
    assert (row.actions, row.observations, row.tensorflow) == (("Box", "Discrete"), ("Box1d",), False)
    assert all(other.tensorflow for other in table.built_in() if other.name not in ("ES", "ARS"))


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("sac", "SAC"),
        ("CrossQ", "CROSSQ"),
        ("QR-DQN", "QRDQN"),
        ("simpleq", "SimpleQ"),
        ("apex-ddpg", "APEX_DDPG"),
        ("ApexDDPG", "APEX_DDPG"),
        ("TD3+BC", "TD3BC"),
        ("td3_bc", "TD3BC"),
        ("cql", "CQL"),
    ],
)
def test_name_is_found_in_any_case_with_or_without_hyphens(typed, name):
    assert table.find(typed).name == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("A4C", "Unknown algorithm 'A4C'. Did you mean 'A3C'?"),
        ("Dreemer", "Unknown algorithm 'Dreemer'. Did you mean 'DREAMER'?"),
        ("SACC", "Unknown algorithm 'SACC'. Did you mean 'SAC'?"),
        ("IMPALLA", "Unknown algorithm 'IMPALLA'. Did you mean 'IMPALA'?"),
        ("zzzz", f"Unknown algorithm 'zzzz'. What runs: {', '.join(table.names())}."),
        ("", f"Unknown algorithm ''. What runs: {', '.join(table.names())}."),
    ],
)
def test_name_that_does_not_run_is_refused(name, message):
    with pytest.raises(InputError) as caught:
        table.find(name)
    more = " One that a module registers needs --import MODULE." if message.startswith("Unknown") else ""
    assert str(caught.value) == message + more


@pytest.mark.parametrize("name", table.NOT_BUILT)
def test_name_of_rllibs_that_does_not_run_is_refused_with_one_that_does(name):
    with pytest.raises(InputError, match=rf"^{name} does not run here: .+\. The nearest: --run (\w+).*\.$") as caught:
        table.find(name)
    assert table.NOT_BUILT[name][0] in table.names() and len(str(caught.value)) < 200


def test_fitting_names_the_rows_of_each_kind_of_space(monkeypatch):
    sac = table.find("SAC")
    rows = [
        sac._replace(name=name, actions=actions, observations=observations)
        for name, actions, observations in (
            ("A", ("Box",), ("Box1d",)),
            ("B", ("Box", "Discrete"), ("Box1d", "Image")),
            ("C", ("Discrete",), ("Image",)),
        )
    ]
    monkeypatch.setattr(table, "rows", lambda: rows)
    assert table.fitting() == {"Box": "A, B", "Box1d": "A, B", "Discrete": "B, C", "Image": "B, C"}


@pytest.mark.parametrize(
    ("action", "heavy"),
    [
        ("table.names()", ("pydantic", "numpy", "gymnasium", "tensorflow", "ray")),
        ("[row.config() for row in table.rows()]; dict(table.fitting())", ("numpy", "gymnasium", "tensorflow", "ray")),
    ],
)
def test_names_load_no_schema_and_rows_no_numpy(action, heavy):
    code = (
        f"import sys; from drl_cli.algorithms import table; {action}; print([n for n in {heavy!r} if n in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_finding_a_row_imports_its_family_alone():
    code = (
        "import sys; from drl_cli.algorithms import table; table.find('tqc'); table.rows(); table.fitting(); "
        "print([name for name in ('drl_cli.algorithms.tqc', 'drl_cli.algorithms.dqn') if name in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
        == "['drl_cli.algorithms.tqc']\n"
    )


@pytest.mark.parametrize("name", table.ROWS)
def test_row_has_the_name_that_the_table_gives_it(name):
    assert table.find(name).name == name


def test_every_name_is_there_once():
    every = [name.casefold().replace("-", "").replace("_", "") for name in (*table.names(), *table.NOT_BUILT)]
    assert len(set(every)) == len(every)


@pytest.mark.parametrize("name", table.names())
def test_nets_of_a_row_describe_a_policy_and_draw_its_weights(name):
    nets = load(table.find(name).nets)
    assert all(callable(getattr(nets, part)) for part in ("policy_spec", "initial_weights", "target_updates"))
