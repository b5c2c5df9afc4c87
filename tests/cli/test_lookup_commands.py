"""``drl example``, ``drl algorithms``, ``drl explain``: what they print, as a table and as JSON."""

import json
from pathlib import Path

import pytest

from drl_cli import cli
from drl_cli.cli import example
from drl_cli.cli.train import train
from drl_cli.experiments import tuned_files


@pytest.fixture
def drl(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words):
        code = cli.main(list(words))
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_example_list_fits_80_columns_and_names_every_file(drl):
    code, out, err = drl("example", "list")
    assert (code, err) == (0, "")
    assert max(len(line) for line in out.splitlines()) <= 80
    line = next(line for line in out.splitlines() if line.startswith("cartpole-ppo "))
    read = tuned_files.find("cartpole-ppo")
    steps = f"{read.env_steps / 1000:.1f}k"
    held = "{}/{}".format(*read.held)
    assert line.split() == ["cartpole-ppo", "490", f"{read.median_s}", "s", f"{read.worst_s}", "s", steps, held]


def test_example_list_has_columns_for_algorithm_and_environment_where_there_is_room(drl, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    _, out, _ = drl("example", "list", "--run", "ppo", "--env", "CartPole-v0")
    assert [line.split()[:3] for line in out.splitlines()] == [
        ["name", "algorithm", "environment"],
        ["cartpole-ppo", "PPO", "CartPole-v1"],
    ]


@pytest.mark.parametrize(
    ("algorithm", "word", "keys"),
    [
        (
            "SAC",
            "lr",
            [
                "exploration_config.lr",
                *(f"optimization.{part}_learning_rate" for part in ("actor", "critic", "entropy")),
                "lr_factor_by_return",
            ],
        ),
        ("TD3", "lr", ["exploration_config.lr", "actor_lr", "critic_lr", "lr_factor_by_return"]),
        ("PPO", "max_grad_norm", ["grad_clip"]),
        ("PPO", "n_steps", ["rollout_fragment_length"]),
    ],
)
def test_algorithms_key_finds_what_a_name_from_elsewhere_stands_for(drl, algorithm, word, keys):
    _, out, _ = drl("algorithms", algorithm, "--key", word, "--json")
    assert [row["key"] for row in json.loads(out)["keys"]] == keys


def test_example_list_json_has_the_documented_keys(drl):
    _, out, _ = drl("example", "list", "pendulum", "sac", "--json")
    one = next(found for found in json.loads(out)["examples"] if found["name"] == "pendulum-sac")
    assert set(one) == {
        "name",
        "run",
        "env",
        "about",
        "notes",
        "goal",
        "target",
        "held_at",
        "seeds",
        "took",
        "median_s",
        "worst_s",
        "env_steps",
        "held",
        "machine",
        "workers",
        "path",
    }
    read = tuned_files.find("pendulum-sac")
    assert (one["target"], one["median_s"], one["held"]) == (read.target, read.median_s, list(read.held))


def test_example_show_fits_the_terminal_and_leaves_commands_as_they_are(drl, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = drl("example", "show", "pendulum-td3bc")
    notes = out[: out.index("\ngoal ")].splitlines()
    assert max(len(line) for line in notes if not line.startswith(" ")) <= 80
    assert (
        "  drl train --run SAC --env Pendulum-v1 --seed 1 -s training_intensity=40 -s evaluation_interval=null \\"
        in notes
    )


def test_example_show_keeps_the_items_of_a_list_apart(drl, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = drl("example", "show", "lunarlander-impala")
    notes = out[: out.index("\ngoal ")].splitlines()
    written = Path(tuned_files.find("lunarlander-impala").path).read_text("utf-8")
    assert sum(line.startswith("- ") for line in notes) == written.count("\n# - ") > 2
    assert max(map(len, notes)) <= 80


def test_example_show_prints_facts_and_settings(drl):
    code, out, _ = drl("example", "show", "cartpole-ars.yaml")
    assert code == 0 and out.startswith("cartpole-ars")
    assert "\ngoal      475" in out and "\n  run: ARS\n" in out and "drl example run cartpole-ars" in out


def test_example_that_is_unknown_is_refused_with_the_nearest(drl):
    code, out, err = drl("example", "show", "cartpole-pppo")
    assert (code, out) == (2, "") and "Did you mean 'cartpole-ppo'?" in err
    code, _, err = drl("example", "lst")
    assert code == 2 and "Did you mean 'list'?" in err


def test_example_run_takes_every_option_of_train_but_the_file():
    mine = {name for parameter in example.run_example.params for name in parameter.opts}
    theirs = {name for parameter in train.params for name in parameter.opts}
    assert theirs - mine == {"-f", "--config-file"} and mine - theirs == {"name"}


def test_example_run_hands_the_name_and_the_options_to_train(drl, monkeypatch):
    handed = {}
    monkeypatch.setattr(train, "callback", lambda **given: handed.update(given))
    code, _, _ = drl("example", "run", "cartpole-ars", "--seed", "3", "-s", "gamma=1", "--json")
    assert code == 0
    assert (handed["config_file"], handed["seed"], handed["set"], handed["as_json"]) == (
        "cartpole-ars",
        3,
        ("gamma=1",),
        True,
    )


def test_algorithms_lists_all(drl):
    code, out, _ = drl("algorithms", "--json")
    rows = {row["name"]: row for row in json.loads(out)["algorithms"]}
    assert code == 0 and set(rows["SAC"]) == {"name", "about", "actions", "observations", "dataflow", "tensorflow"}
    assert rows["SAC"]["actions"] == ["Box", "Discrete", "Composite"] and rows["ES"]["tensorflow"] is False


def test_algorithms_shows_one_with_its_keys(drl):
    _, out, _ = drl("algorithms", "sac", "--key", "tau", "--key", "n_step")
    assert "tau = 0.01 share per target update" in out and "    RLlib: 0.005; here matches the higher" in out
    assert "\nn_step = 3 env steps\n" in out and "gamma" not in out


def test_algorithms_wrong_words_are_refused_with_the_nearest(drl):
    code, _, err = drl("algorithms", "SCA")
    assert code == 2 and "Did you mean 'SAC'?" in err
    code, _, err = drl("algorithms", "SAC", "--key", "gama")
    assert code == 2 and "Did you mean 'gamma'?" in err
    code, _, err = drl("algorithms", "--key", "gamma")
    assert code == 2 and "drl algorithms NAME --key" in err


def line_of(name: str, text: str) -> int:
    """The number, from 1, of the first line of the tuned file ``name`` that contains ``text``."""
    written = Path(tuned_files.find(name).path).read_text("utf-8").splitlines()
    return 1 + next(i for i, line in enumerate(written) if text in line)


def test_explain_puts_what_was_given_first(drl):
    code, out, _ = drl("explain", "cartpole-ppo", "-s", "gamma=0.9", "--given")
    lines = out.splitlines()
    assert code == 0 and lines[0] == "PPO on CartPole-v1"
    assert any(line.split() == ["gamma", "0.9", "-s"] for line in lines)
    place = f"cartpole-ppo.yaml:{line_of('cartpole-ppo', 'num_sgd_iter: 20')}"
    assert any(line.split()[:3] == ["num_sgd_iter", "20", place] for line in lines)
    assert "clip_param" not in out


def test_explain_json_has_the_documented_keys(drl):
    _, out, _ = drl("explain", "pendulum-sac", "--json")
    (one,) = json.loads(out)["experiments"]
    assert set(one) == {"run", "env", "env_asked", "rows"}
    row = next(row for row in one["rows"] if row["key"] == "config.training_intensity")
    line = line_of("pendulum-sac", "training_intensity: 64")
    assert row["from"].endswith(f"pendulum-sac.yaml:{line}") and row["value"] == 64


GRID = """
one:
  run: PPO
  env: CartPole-v1
  config:
    lr: {grid_search: [0.001, 0.0003]}
    model: {fcnet_hiddens: {grid_search: [[16], [32, 32], [64, 64]]}}
two:
  run: PPO
  env: CartPole-v1
  config: {num_workers: 1, seed: 3}
"""


def test_explain_tells_of_a_search_what_is_searched_over_and_what_its_trials_share(drl, tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text(GRID, encoding="utf-8")
    _, out, _ = drl("explain", str(path), "--json")
    one, two = json.loads(out)["experiments"]
    assert (one["trials"], two["trials"]) == (6, 1)
    rows = {row["key"]: (row["value"], row["from"]) for row in one["rows"]}
    assert rows["config.lr"] == ({"grid_search": [0.001, 0.0003]}, f"{path}:6")
    assert rows["config.model.fcnet_hiddens"] == ({"grid_search": [[16], [32, 32], [64, 64]]}, f"{path}:7")
    assert rows["config.num_workers"] == (0, "filled in by drl")
    assert rows["config.seed"][1] == "drawn for this run" and rows["config.gamma"][1] is None
    rows = {row["key"]: (row["value"], row["from"]) for row in two["rows"]}
    assert (rows["config.seed"], rows["config.num_workers"]) == ((3, f"{path}:11"), (1, f"{path}:11"))
    code, out, _ = drl("explain", str(path), "-s", "env={grid_search: [CartPole-v1, Acrobot-v1]}", "--key", "env")
    assert code == 0 and out.startswith("PPO on CartPole-v1, 12 trials\n")
    code, out, err = drl("explain", str(path), "-s", "gamma={grid_search: [1, 2]}")
    assert (code, out) == (2, "") and "gamma: 2 is not allowed" in err and "Traceback" not in err


def test_explain_of_a_run_takes_no_settings(drl, tmp_path):
    (tmp_path / "params.json").write_text("{}")
    code, _, err = drl("explain", str(tmp_path), "-s", "gamma=1")
    assert code == 2 and "whose values are fixed" in err
