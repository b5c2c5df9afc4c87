"""The table of algorithms: rows that load, and names that do not run."""

import pytest

from drl_cli.algorithms import table
from drl_cli.configs.sac import SACConfig
from drl_cli.errors import InputError
from drl_cli.loading import load


def test_sac_is_found_with_its_parts():
    row = table.find("SAC")
    assert load(row.config) is SACConfig
    assert row[2:4] == ("drl_cli.algorithms.sac_nets", "drl_cli.algorithms.sac")
    assert row[4:] == ("n_step", "drl_cli.runtime.loops.replay", ("Box",), ("Box1d",))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("TD3", "TD3 is not built yet; SAC runs on the same Box actions."),
        ("PPO", "PPO is not built yet; SAC runs on the same Box actions."),
        ("DQN", "DQN is not built yet. What runs: SAC."),
        ("sac", "Unknown algorithm 'sac'. Did you mean 'SAC'?"),
        ("IMPALLA", "Unknown algorithm 'IMPALLA'. Did you mean 'IMPALA'?"),
        ("zzzz", "Unknown algorithm 'zzzz'. What runs: SAC."),
        ("", "Unknown algorithm ''. What runs: SAC."),
    ],
)
def test_name_that_does_not_run_is_refused(name, message):
    with pytest.raises(InputError) as caught:
        table.find(name)
    assert str(caught.value) == message


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
    monkeypatch.setattr(table, "ALGORITHMS", rows)
    assert table.fitting() == {"Box": "A, B", "Box1d": "A, B", "Discrete": "B, C", "Image": "B, C"}


def test_every_name_that_is_not_built_is_no_row():
    assert set(table.NOT_BUILT) & set(table.names()) == set()
