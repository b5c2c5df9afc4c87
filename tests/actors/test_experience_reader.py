"""Fragments of recorded steps: their columns, what is done with broken pieces, where reading goes on."""

import json

import numpy as np
import pytest
from experience_files import line, random_set, write
from parts import config, server, spec

from drl_cli.actors.experience_reader import INSIDE, ExperienceReader, acted
from drl_cli.actors.mixed_worker import MixedWorker
from drl_cli.errors import CheckpointError, ExperienceError
from drl_cli.policies.policy_spec import ActionSpec, CompositeSpec, DiscreteSpec, PolicySpec

BOX = spec(3, (-2.0,), (2.0,))
ENV = {
    "id": "Pendulum-v1",
    "env_config": {},
    "preprocessing": None,
    "spaces": {
        "obs": {"kind": "Box", "shape": [3], "dtype": "float32"},
        "action": {"kind": "Box", "shape": [1], "dtype": "float32", "low": [-2.0], "high": [2.0]},
    },
}
WHO = {"seed": 7, "index": 0, "number": 0, "incarnation": 0, "workers": 1, "behind": 0}
OBS = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 8.0]]
END = [9.0, 9.0, 9.0]


def reader(path, of_spec=BOX, who=(), **keys):
    return ExperienceReader(config(input=path, **keys), ENV, of_spec, WHO | dict(who))


def rest(one):
    """All fragments up to the one that says that the pass has ended: (steps, first numbers of their observations)."""
    found = []
    while True:
        token, columns = one.collect()
        found += [] if columns is None else columns["obs"][:, 0, 0].tolist()
        if token.reading.ended:
            return found


def test_fragment_holds_whole_episodes_one_behind_the_other(tmp_path):
    first = line(OBS, [[-2.0], [0.0], [1.0]], [1, 2, 3], END, terminated=True, eps_id=1)
    second = line(OBS[:2], [[2.0], [-4.0]], [4, 5], END, truncated=True, eps_id=2)
    token, columns = reader(write(tmp_path / "a.json", first, second)).collect()
    np.testing.assert_array_equal(columns["obs"][:, 0], [*OBS, *OBS[:2]])
    np.testing.assert_allclose(
        columns["action"][:, 0, 0], [-1, 0, 0.5, 1, -1], atol=2e-6
    )  # stretched to ±1, and inside
    assert np.abs(columns["action"]).max() < 1.0
    assert columns["reward"][:, 0].tolist() == [1, 2, 3, 4, 5]
    assert columns["terminated"][:, 0].tolist() == [False, False, True, False, False]
    assert columns["truncated"][:, 0].tolist() == [False] * 4 + [True]
    assert columns["end_obs"].tolist() == [END, END] and columns["cut"].tolist() == [True]
    assert (token.steps, token.reading.episodes, token.reading.ended) == (5, ((6.0, 3), (9.0, 2)), False)
    assert {name: (a.shape[:2], a.dtype) for name, a in columns.items() if name in ("obs", "action", "reward")} == {
        "obs": ((5, 1), np.float32),
        "action": ((5, 1), np.float32),
        "reward": ((5, 1), np.float32),
    }


def test_piece_that_is_broken_off_is_bootstrapped_where_it_was_last_seen(tmp_path):
    path = write(tmp_path / "a.json", line(OBS, [[0], [0], [0]], [1, 2, 3]))  # nothing is known behind the last step
    token, columns = reader(path).collect()
    assert columns["reward"][:, 0].tolist() == [1, 2]
    assert columns["end_obs"].tolist() == [OBS[2]] and columns["truncated"][:, 0].tolist() == [False, True]
    assert token.reading == (1, (), True)  # no whole episode, and nothing after it


def test_end_without_an_observation_behind_it_is_a_real_end(tmp_path):
    path = write(tmp_path / "a.json", line(OBS, [[0], [0], [0]], [1, 2, 3], terminated=True))
    _, columns = reader(path).collect()
    assert columns["terminated"][:, 0].tolist() == [False, False, True] and columns["end_obs"].tolist() == [[0, 0, 0]]


def test_time_limit_in_older_files_is_a_truncation(tmp_path):
    data = json.loads(line(OBS, [[0], [0], [0]], [1, 2, 3], END, truncated=True))
    del data["terminateds"], data["truncateds"]
    _, columns = reader(write(tmp_path / "a.json", json.dumps(data)), horizon=3).collect()
    assert columns["truncated"][:, 0].tolist() == [False, False, True]


@pytest.mark.parametrize("held", [0, 5])
def test_files_are_read_once_and_again_only_when_asked(tmp_path, held):
    path = random_set(tmp_path / "a.json", "Pendulum-v1")
    one = reader(path, rollout_fragment_length=40, shuffle_buffer_size=held)
    first = rest(one)
    assert len(first) > 80 and len(set(first)) == len(first)
    assert sorted(rest(one)) == sorted(first)


def test_what_is_held_is_shuffled(tmp_path):
    path = random_set(tmp_path / "a.json", "Pendulum-v1")
    in_order, mixed = rest(reader(path)), rest(reader(path, shuffle_buffer_size=5))
    assert in_order != mixed and sorted(in_order) == sorted(mixed)


def test_workers_read_everything_once_between_them(tmp_path):
    for number in range(3):
        random_set(tmp_path / f"{number}.json", "Pendulum-v1", seed=number)
    alone = rest(reader(str(tmp_path)))
    parts = [rest(reader(str(tmp_path), who={"index": i, "workers": 2})) for i in range(2)]
    assert sorted(parts[0] + parts[1]) == sorted(alone) and all(parts)


@pytest.mark.parametrize("held", [0, 5])
def test_successor_passes_over_what_its_predecessor_brought(tmp_path, held):
    path = random_set(tmp_path / "a.json", "Pendulum-v1")
    one = reader(path, shuffle_buffer_size=held)
    brought = [one.collect()[1]["obs"][:, 0, 0].tolist() for _ in range(3)]
    left = rest(one)
    successor = reader(path, who={"incarnation": 1, "behind": 3}, shuffle_buffer_size=held)
    assert rest(successor) == left and brought[0][0] not in left
    assert successor.collect()[0].meta.incarnation == 1


@pytest.mark.parametrize("held", [0, 5])
def test_reader_goes_on_exactly_where_it_was_saved(tmp_path, held):
    path = random_set(tmp_path / "a.json", "Pendulum-v1")
    one = reader(path, shuffle_buffer_size=held)
    [one.collect() for _ in range(2)]
    arrays, facts = one.state()
    other = reader(path, shuffle_buffer_size=held)
    other.load(arrays, json.loads(json.dumps(facts)))
    for _ in range(30):  # into the second and third pass
        (mine, columns), (its, same) = one.collect(), other.collect()
        assert (mine.meta, mine.steps, mine.reading) == (its.meta, its.steps, its.reading)
        assert columns is None or all(np.array_equal(columns[name], same[name]) for name in columns)


def test_reader_refuses_to_go_on_in_files_that_have_changed(tmp_path):
    path = random_set(tmp_path / "a.json", "Pendulum-v1")
    arrays, facts = reader(path).state()
    random_set(tmp_path / "a.json", "Pendulum-v1", episodes=13)
    with pytest.raises(CheckpointError, match="The files of experience have changed since the checkpoint was made"):
        reader(path).load(arrays, facts)
    with pytest.raises(CheckpointError, match="The state of a reader is incomplete"):
        reader(path).load(arrays, {})


def test_normalised_actions_of_files_are_those_of_the_policy(tmp_path):
    path = write(tmp_path / "a.json", line(OBS, [[0.5], [-0.25], [0.0]], [1, 1, 1], END, truncated=True))
    found = [
        reader(path, **keys).collect()[1]["action"].ravel() for keys in ({}, {"actions_in_input_normalized": True})
    ]
    np.testing.assert_allclose(found, [[0.25, -0.125, 0.0], [0.5, -0.25, 0.0]], atol=1e-6)


def test_rewards_are_clipped_and_filters_see_what_is_read(tmp_path):
    path = write(tmp_path / "a.json", line(OBS, [[0], [0], [0]], [5, -3, 0.5], END, truncated=True))
    filtered = PolicySpec(**{**vars(BOX), "filter": True, "scaled": True})
    token, columns = reader(path, filtered, clip_rewards=1.0, gamma=0.5).collect()
    assert columns["reward"][:, 0].tolist() == [1, -1, 0.5]
    assert token.seen["obs"].count == 3 and token.seen["obs"].mean.tolist() == [3, 4, 5]
    assert token.seen["return"].mean == pytest.approx(np.mean([1.0, -0.5, 0.25]))
    assert token.reading.episodes == ((2.5, 3),)  # as the environment gave it


def test_episode_that_would_fill_the_replay_is_refused_with_file_and_line(tmp_path):
    path = random_set(tmp_path / "a.json", "Pendulum-v1", episodes=1, longest=300, seed=3)
    with pytest.raises(
        ExperienceError, match=r"a\.json:1: an episode of \d+ steps is more than half of the replay \(100 steps"
    ):
        reader(path, buffer_size=100, learning_starts=10).collect()


def test_discrete_actions_are_counted_from_zero_and_box_actions_may_be_left_in_the_environment_s_units():
    discrete = PolicySpec(**{**vars(BOX), "distribution": "categorical", "action": DiscreteSpec(3, 5)})
    assert acted(np.int32([0, 2, 1]), discrete).tolist() == [0, 2, 1]
    plain = spec(3, (-2.0,), (4.0,), normalize=False)
    np.testing.assert_allclose(acted(np.float32([[-2.0], [5.0], [1.0]]), plain)[:, 0], [-2, 4, 1], atol=1e-5)
    gaussian = PolicySpec(**{**vars(BOX), "distribution": "gaussian"})
    assert acted(np.float32([[-3.0], [2.0], [1.0]]), gaussian)[:, 0].tolist() == [-1, 1, 0.5]


PLACE = {"random_steps": 10**9, "stream": 0, "streams": 1, "base": 0}


def mixed(path, shares=(0.25, 0.75), **keys):
    made = config(input={"sampler": shares[0], path: shares[1]}, **keys)
    handle = server()
    from_weights = {"default_policy": BOX.nets[0].initial_weights(np.random.default_rng(0))}
    handle.call("push", from_weights)
    return MixedWorker(made, ENV | {"imports": ()}, BOX, WHO | PLACE, handle)


def test_mix_keeps_the_shares_of_its_streams_and_keeps_them_apart(tmp_path):
    one = mixed(random_set(tmp_path / "a.json", "Pendulum-v1"))
    tokens = [one.collect()[0] for _ in range(200)]
    steps = {number: sum(t.steps for t in tokens if t.meta.worker == number) for number in (0, 1)}
    assert steps[0] / (steps[0] + steps[1]) == pytest.approx(0.25, abs=0.02)
    assert tokens[0].reading is not None  # files come first
    assert all((token.reading is None) == (token.meta.worker == 0) for token in tokens)
    for number in (0, 1):
        sequences = [token.meta.sequence for token in tokens if token.meta.worker == number]
        assert sequences == list(range(len(sequences)))


def test_mix_of_files_alone_reads_each_in_its_share(tmp_path):
    few, many = (random_set(tmp_path / f"{n}.json", "Pendulum-v1", seed=n) for n in range(2))
    one = MixedWorker(config(input={few: 0.2, many: 0.8}), ENV, BOX, WHO | PLACE, server())
    tokens = [one.collect()[0] for _ in range(150)]
    steps = [sum(t.steps for t in tokens if t.meta.worker == number) for number in (1, 2)]
    assert steps[0] / sum(steps) == pytest.approx(0.2, abs=0.02)


def test_mix_goes_on_exactly_where_it_was_saved(tmp_path):
    path = random_set(tmp_path / "a.json", "Pendulum-v1")
    one, other = mixed(path), mixed(path)
    [one.collect() for _ in range(7)]
    arrays, facts = one.state()
    other.load(arrays, json.loads(json.dumps(facts)))
    for _ in range(12):
        (mine, columns), (its, same) = one.collect(), other.collect()
        assert (mine.meta, mine.steps) == (its.meta, its.steps)
        assert all(np.array_equal(columns[name], same[name]) for name in columns)
    with pytest.raises(CheckpointError, match="of other streams than this run's"):
        one.load(arrays, {"parts": [], "steps": []})


@pytest.mark.parametrize(("distribution", "most"), [("composite", 1.0), ("hybrid", INSIDE)])
def test_recorded_actions_of_a_dictionary_become_those_of_its_policy(distribution, most):
    parts = CompositeSpec((DiscreteSpec(3, 1), ActionSpec((-2.0,), (6.0,))))
    found = acted(np.float32([[2, 4.0], [0, 9.0]]), PolicySpec((), distribution, (3,), parts))
    np.testing.assert_array_equal(found, np.float32([[2, 0.5], [0, most]]))
