"""Checkpoints and records of runs that somebody changed, hashes and all: they are read, or refused in one line."""

import copy
import json
import random

import pytest
from fake_runs import evaluation, row, write_run

from drl_cli import cli
from drl_cli.checkpoints.writer import commit_text
from drl_cli.runs import retention

VALUES = ("many", -1, 0, 1.5, 2**70, None, True, [], {}, [1, 2], ["a"], {"a": 1}, [[None]], "")
COMMANDS = (
    ("evaluate", "--episodes", "1", "-q"),
    ("rollout", "--steps", "3", "--seed", "1"),
    ("checkpoint", "info"),
    ("checkpoint", "verify"),
    ("runs", "--local-dir"),
)


def places(node, above=()):
    """The path of every value in nested plain data."""
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [place for name, value in inner for place in ((*above, name), *places(value, (*above, name)))]


def mutated(facts, seed):
    """A copy of ``facts`` in which one value is gone or another one."""
    rng, facts = random.Random(seed), copy.deepcopy(facts)
    *above, last = rng.choice([place for place in places(facts) if rng.random() < 0.5 or len(place) < 3])
    holder = facts
    for name in above:
        holder = holder[name]
    if rng.random() < 0.2:
        del holder[last]
    else:
        holder[last] = rng.choice(VALUES)
    return facts


@pytest.mark.parametrize("seeds", [range(start, start + 15) for start in range(0, 60, 15)])
def test_changed_facts_are_never_a_bug(pendulum_run, capsys, seeds):
    (pendulum_run / "best.json").unlink()
    path = retention.numbers(pendulum_run)[-1][1]
    manifest = json.loads((path / "manifest.json").read_text())
    for seed in seeds:
        text = json.dumps({**manifest, "facts": mutated(manifest["facts"], seed)}).encode("ascii")
        (path / "manifest.json").write_bytes(text)
        (path / "COMMIT").write_bytes(commit_text(text))
        for words in COMMANDS:
            code = cli.main([*words[:2], str(path), *words[2:]] if words[0] == "checkpoint" else [*words, str(path)])
            err = capsys.readouterr().err
            assert code in (0, 2) and "a bug in drl" not in err, (seed, words, err)


@pytest.mark.parametrize("name", ["params.json", "status.json", "best.json", "result.json"])
def test_changed_records_are_never_a_bug(tmp_path, capsys, monkeypatch, name):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path))
    best = {"checkpoint": "checkpoint_000001", "metric": "evaluation/episode_reward_mean", "value": -150.5}
    path = write_run(tmp_path, 1, [row(1, evaluation=evaluation(1, -100.0))], best=best)
    write_run(tmp_path, 2, [row(1, evaluation=evaluation(1, -50.0))], run="TD3")
    record = json.loads((path / name).read_text())
    for seed in range(15):
        (path / name).write_text(json.dumps(mutated(record, seed)) + "\n")
        for words in (["runs"], ["compare", "--goal", "-60"], ["plot", "--json"], ["diff"], ["explain"], ["watch"]):
            ids = {"runs": [], "explain": ["00000001"], "watch": ["00000001"]}.get(words[0], ["00000001", "00000002"])
            code = cli.main([words[0], *ids, *words[1:]])
            err = capsys.readouterr().err
            assert code in (0, 2, 3) and "a bug in drl" not in err, (seed, words, err)
