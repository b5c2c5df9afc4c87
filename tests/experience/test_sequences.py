"""Sequences against a slow list of episodes."""

import numpy as np
import pytest
from episodes import Worker
from scipy import stats

from drl_cli.experience.priorities import Priorities
from drl_cli.experience.ring_buffer import Ring
from drl_cli.experience.sequences import Sequences

GAMMA = 0.9


class Stepper(Worker):
    """Fragments with positions, and a state that holds the number of the observation it comes before."""

    def fragment(self, steps, cut=()):
        begun = [
            0 if self.open[env] is None or env in cut else len(self.open[env]["steps"]) for env in range(self.envs)
        ]
        columns = super().fragment(steps, cut)
        position = np.zeros((steps, self.envs), np.int32)
        for env in range(self.envs):
            at = begun[env]
            for step in range(steps):
                position[step, env] = at
                at = 0 if columns["terminated"][step, env] or columns["truncated"][step, env] else at + 1
        state = np.where(position[..., None] == 0, 0.0, columns["obs"]).astype(np.float32)
        return columns | {"position": position, "state_0": np.repeat(state, 2, axis=-1), "state_1": -state}


def filled(burn_in=3, learnt=4, capacity=1000, pieces=(7,) * 20, envs=2, **how):
    worker = Stepper(1, envs, **how)
    sequences = Sequences(Ring(capacity, (1,), (1,), backwards=True), burn_in, learnt, ((2,), (1,)))
    for index, steps in enumerate(pieces):
        sequences.add(0, worker.fragment(steps, range(envs) if index == 0 else ()))
    return worker, sequences


def expected(worker, burn_in, learnt, n_step):
    """{number of the first learnt observation: the sequence's columns}, one episode and step at a time."""
    found = {}
    for episode in worker.episodes:
        steps, kind = episode["steps"], episode["kind"]
        numbers = [number for number, _ in steps] + ([episode["after"]] if kind is not None else [])
        for start in range(0, len(steps), -(-learnt // 2)):
            if kind is None and start + learnt + n_step > len(steps):
                continue  # something that it needs is still to come
            before = [max(0, start - back) for back in range(burn_in, 0, -1)]
            places = [*before, *(min(start + ahead, len(numbers) - 1) for ahead in range(learnt + n_step))]
            begins = [0.0] * len(places)
            if start <= burn_in:
                begins[burn_in - start] = 1.0
            rows = {name: [] for name in ("action", "reward", "discount", "ahead", "mask")}
            for step in range(start, start + learnt):
                window = steps[step : step + n_step]
                ends = step + len(window) == len(steps)
                dead = ends and kind is not None and "terminated" in kind
                rows["mask"].append(float(step < len(steps)))
                rows["action"].append(-numbers[step] if window else 0)
                rows["reward"].append(sum(GAMMA**power * r for power, (_, r) in enumerate(window)))
                rows["discount"].append(GAMMA ** len(window) if window and not dead else 0.0)
                rows["ahead"].append(len(window))
            first = places[0]
            stored = 0.0 if first == 0 else numbers[first]
            found[numbers[start]] = rows | {
                "obs": [numbers[place] for place in places],
                "begins": begins,
                "state_0": [stored, stored],
                "state_1": [-stored],
            }
    return found


def read_all(sequences, n_step):
    """{number of the first learnt observation: its columns} of every sequence that may be drawn."""
    rows = np.arange(len(sequences))
    *windows, valid = sequences.windows(rows, n_step, GAMMA)
    columns = sequences.read(rows[valid], *(part[valid] for part in windows))
    assert columns["obs"].dtype == columns["reward"].dtype == columns["mask"].dtype == np.float32
    assert columns["ahead"].dtype == np.int32
    burn_in = columns["obs"].shape[1] - columns["mask"].shape[1] - n_step
    return {
        int(columns["obs"][row, burn_in, 0]): {name: values[row] for name, values in columns.items()}
        for row in range(valid.sum())
    }


def assert_agree(found, wanted):
    assert sorted(found) == sorted(wanted)
    for first, columns in wanted.items():
        assert set(found[first]) == set(columns)
        for name, values in columns.items():
            np.testing.assert_allclose(
                found[first][name].reshape(np.shape(values)), values, rtol=1e-5, atol=1e-6, err_msg=f"{first} {name}"
            )


@pytest.mark.parametrize("end", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize(("burn_in", "learnt"), [(0, 4), (3, 4), (5, 1), (2, 9)])
def test_sequences_equal_those_of_the_list_of_episodes(burn_in, learnt, n_step, end):
    worker, sequences = filled(burn_in, learnt, end=end)
    wanted = expected(worker, burn_in, learnt, n_step)
    assert len(wanted) > 20
    assert_agree(read_all(sequences, n_step), wanted)


@pytest.mark.parametrize("pieces", [(1,) * 60, (3, 8, 1, 20, 5, 5, 5, 5, 8), (60,)])
def test_fragment_borders_change_nothing(pieces):
    worker, sequences = filled(pieces=pieces, end=0.1)
    assert_agree(read_all(sequences, 2), expected(worker, 3, 4, 2))


def test_sequences_whose_burn_in_is_overwritten_are_no_longer_drawn():
    worker, sequences = filled(capacity=120, pieces=(7,) * 40, end=0.05)
    wanted, found = expected(worker, 3, 4, 2), read_all(sequences, 2)
    present = set(sequences._ring.obs[:, 0].astype(int))
    kept = {first: columns for first, columns in wanted.items() if {*columns["obs"]} <= present}
    assert 10 < len(kept) < len(wanted) - 50
    assert_agree(found, kept)


def test_a_lost_fragment_leaves_no_sequence_across_the_gap():
    worker, sequences = filled(pieces=(10,), end=0.0, envs=1)
    sequences.cut(0)
    worker.fragment(4)
    sequences.add(0, worker.fragment(12))
    first = [number for number, _ in worker.episodes[0]["steps"]]
    # learnt parts begin at the positions 0, 2, 4 …; those from 14 on whose burn-in of 3 reaches before 14 have lost it
    assert sorted(read_all(sequences, 2)) == [first[at] for at in (0, 2, 4, 6, 8, 18, 20)]


def test_every_sequence_is_drawn_equally_often():
    worker, sequences = filled(end=0.2, pieces=(7,) * 6)
    wanted = expected(worker, 3, 4, 2)
    columns = sequences.draw(20_000, 2, GAMMA, np.random.default_rng(0))
    assert columns["obs"].shape == (20_000, 3 + 4 + 2, 1)
    numbers, counts = np.unique(columns["obs"][:, 3, 0], return_counts=True)
    assert sorted(numbers) == sorted(wanted)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_sequences_are_drawn_by_their_priorities_and_no_others():
    worker, sequences = filled(end=0.2, pieces=())
    priorities = Priorities(sequences, 1.0, 1e-9)
    for index in range(6):
        sequences.add(0, worker.fragment(7, (0, 1) if index == 0 else ()))
        priorities.follow()
    wanted = expected(worker, 3, 4, 2)
    firsts = sorted(wanted)
    found = {}
    for row in range(len(sequences)):
        found[int(sequences._ring.obs[row, 0])] = row
    serials = np.array([found[first] for first in firsts])
    weight = np.where(np.arange(len(firsts)) % 3 == 0, 0.0, 1.0 + np.arange(len(firsts)))
    priorities.set(serials, weight)
    columns, serial, share = priorities.draw(100, 100, 2, GAMMA, np.random.default_rng(0))
    assert set(columns["obs"][:, 3, 0].astype(int)) == {f for f, w in zip(firsts, weight, strict=True) if w}
    counts = np.array([(serial == s).sum() for s in serials])
    kept = weight > 0
    assert stats.chisquare(counts[kept], weight[kept] / weight.sum() * counts.sum()).pvalue > 1e-4
    assert len(share) == 10_000 and counts.sum() == 10_000


def test_state_comes_back_and_goes_on_as_the_whole_does():
    worker, whole = filled(capacity=120, pieces=(7,) * 10, end=0.1)
    arrays, facts = whole.state()
    assert arrays["state_0"].shape == (120, 2) and arrays["position"].dtype == np.int32
    again = filled(capacity=120, pieces=())[1]
    again.load({name: array.copy() for name, array in arrays.items()}, facts)
    for _ in range(3):
        columns = worker.fragment(7)
        whole.add(0, columns)
        again.add(0, columns)
    draws = [each.draw(500, 2, GAMMA, np.random.default_rng(3)) for each in (whole, again)]
    for name, values in draws[0].items():
        np.testing.assert_array_equal(values, draws[1][name])
    assert whole.nbytes() == again.nbytes() == 120 * (4 + 4 + 4 + 4 + 1 + 4 + 4 + 3 * 4)


@pytest.mark.parametrize(("name", "change"), [("position", lambda x: x - 9), ("state_1", lambda x: x[:, :0])])
def test_state_that_does_not_fit_is_refused(name, change):
    arrays, facts = filled()[1].state()
    with pytest.raises(ValueError, match="replay"):
        filled(pieces=())[1].load(arrays | {name: change(arrays[name])}, facts)


@pytest.mark.parametrize("name", ["position", "state_0"])
def test_fragment_without_what_sequences_need_is_refused(name):
    worker, sequences = filled(pieces=())
    columns = worker.fragment(3)
    del columns[name]
    with pytest.raises(ValueError, match=f"a fragment's {name} is missing"):
        sequences.add(0, columns)
    assert len(sequences) == 0


def test_nothing_complete_is_said_so():
    _, sequences = filled(pieces=(4,), end=0.0)
    with pytest.raises(ValueError, match="no 5 complete sequences of 4 steps in 8 rows"):
        sequences.draw(5, 2, GAMMA, np.random.default_rng(0))
