"""Files in RLlib's schema that ask for many runs, written from its documented keys: their trials are read off unchanged."""

from pathlib import Path

import pytest

from drl_cli.experiments import search_spec

FOLDER = Path(__file__).parent / "rllib_searches"


def trials(name, tmp_path, **wishes):
    """Return (data of the search, its specs) of a file, as ``drl train -f`` makes them."""
    found = search_spec.read(str(FOLDER / f"{name}.yaml"), {"local_dir": str(tmp_path)}, wishes)
    return found.data, found.specs


def test_two_grids_multiply(tmp_path):
    data, specs = trials("cartpole-grid", tmp_path)
    values = [(spec.config.num_sgd_iter, spec.config.sgd_minibatch_size) for spec in specs]
    assert sorted(values) == [(1, 128), (1, 256), (1, 512), (4, 128), (4, 256), (4, 512)]
    assert {(spec.env, spec.config.num_workers, spec.stop["time_total_s"]) for spec in specs} == {
        ("CartPole-v0", 2, 180)
    }
    assert data["num_trials"] == 6 and len({spec.seed for spec in specs}) == 1  # compared on the same luck


def test_samples_multiply_the_grid(tmp_path):
    data, specs = trials("cartpole-hyperband", tmp_path, scheduler="HyperBand", scheduler_config="{max_t: 9}")
    assert len(specs) == 12 and len({spec.seed for spec in specs}) == 3
    assert data["scheduler"]["name"] == "HyperBand"


def test_environments_can_be_a_grid(tmp_path):
    _, specs = trials("td3-environments", tmp_path)
    assert [spec.env for spec in specs] == ["Pendulum-v1", "MountainCarContinuous-v0"]
    assert {spec.config.exploration_config.random_timesteps for spec in specs} == {10_000}


def test_several_experiments_of_a_file_are_one_search(tmp_path):
    data, specs = trials("several", tmp_path)
    layers = [list(spec.config.Q_model.fcnet_hiddens) for spec in specs if spec.run == "SAC"]
    assert layers == [[32], [32, 32]]
    assert [spec.seed for spec in specs if spec.run == "IMPALA"] == [0, 1, 2]
    assert [one["name"] for one in data["experiments"]] == ["pendulum-sac", "cartpole-impala"]
    assert [spec.checkpoint_freq for spec in specs] == [1, 1, 0, 0, 0]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_asks_for_more_than_one_run(path, tmp_path):
    assert len(trials(path.stem, tmp_path)[1]) > 1
