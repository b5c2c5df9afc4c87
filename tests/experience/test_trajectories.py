"""Trajectory batches against lists of steps: every number where it belongs, nothing across an end, nothing from padding."""

import numpy as np
import pytest

from drl_cli.experience.trajectories import LEAST_ENDS, ROWS, join, padded_shape

GAMMA, LAMBDA = 0.9, 0.8
KINDS = {"terminated": (True, False), "truncated": (False, True), "both": (True, True)}


def fragment(ends, steps=6, streams=2, first=0, lengths=None, states=0, position=0):
    """A fragment whose observations, rewards and states are all different; ``ends``: {(step, env): kind}.

    Observation ``first`` + 100·env + step stands for that moment, half a number more for what came behind an end.
    """
    time, env = np.arange(steps)[:, None], np.arange(streams)
    number = first + 100.0 * env + time
    columns = {
        "obs": np.stack([number, -number], axis=-1).astype(np.float32),
        "action": number.astype(np.int32),
        "reward": np.float32(0.01) * number.astype(np.float32) + 1,
        "logp": -number.astype(np.float32),
        "terminated": np.zeros((steps, streams), bool),
        "truncated": np.zeros((steps, streams), bool),
    }
    for at, kind in ends.items():
        columns["terminated"][at], columns["truncated"][at] = KINDS[kind]
    behind = np.float32([number[at] + 0.5 for at in sorted(ends)])
    tails = (number[-1] + 0.5).astype(np.float32)
    columns["end_obs"] = np.stack([behind, -behind], axis=-1).reshape(-1, 2)
    columns["tail_obs"] = np.stack([tails, -tails], axis=-1)
    if states:
        begun = np.full(streams, position)
        columns["position"] = np.zeros((steps, streams), np.int32)
        for step in range(steps):
            columns["position"][step] = begun
            ended = columns["terminated"][step] | columns["truncated"][step]
            begun = np.where(ended, 0, begun + 1)
    for index in range(states):
        columns[f"state_{index}"] = np.stack([number + index] * 3, axis=-1).astype(np.float32)
        columns[f"end_state_{index}"] = np.stack([behind + index] * 3, axis=-1).astype(np.float32).reshape(-1, 3)
        columns[f"tail_state_{index}"] = np.stack([tails + index] * 3, axis=-1).astype(np.float32)
    if lengths is not None:
        columns["length"] = np.array(lengths, np.int64)
        for env, length in enumerate(lengths):
            for name in ("obs", "action", "reward", "logp"):
                columns[name][length:, env] = 0
    return columns


def value(obs):
    """What a critic might say."""
    return np.sin(obs[..., 0])


def slow_advantages(fragments):
    """{number of the step: its GAE}: every episode on its own, equation 16 of Schulman et al. 2016 as a sum."""
    found = {}
    for part in fragments:
        ends = dict(
            zip(sorted(map(tuple, np.argwhere(part["terminated"] | part["truncated"]))), part["end_obs"], strict=True)
        )
        for env in range(part["reward"].shape[1]):
            length = part["length"][env] if "length" in part else len(part["reward"])
            episode = []
            for step in range(length):
                episode.append(step)
                if (step, env) in ends or step == length - 1:
                    behind = ends.get((step, env), part["tail_obs"][env])
                    last = 0.0 if part["terminated"][step, env] else value(behind)
                    values = [value(part["obs"][at, env]) for at in episode] + [last]
                    deltas = [
                        part["reward"][at, env] + GAMMA * values[i + 1] - values[i] for i, at in enumerate(episode)
                    ]
                    for i, at in enumerate(episode):
                        later = [(GAMMA * LAMBDA) ** k * delta for k, delta in enumerate(deltas[i:])]
                        found[float(part["obs"][at, env, 0])] = sum(later)
                    episode = []
    return found


def batch_advantages(batch):
    """{number of the step: its GAE} from the columns of a batch."""
    (streams, steps), values = batch["mask"].shape, value(batch["obs"])
    following = np.zeros(streams * steps + 1)
    following[:-1] = np.concatenate([values[:, 1:], np.zeros((streams, 1))], axis=1).ravel()
    following[batch["end_at"]] = value(batch["end_obs"])
    delta = batch["reward"] + batch["discount"] * following[:-1].reshape(streams, steps) - values
    advantage, found = np.zeros(streams), {}
    for step in reversed(range(steps)):
        advantage = delta[:, step] + batch["discount"][:, step] * batch["trace"][:, step] * LAMBDA * advantage
        for stream in np.flatnonzero(batch["mask"][:, step]):
            found[float(batch["obs"][stream, step, 0])] = advantage[stream]
    return found


FRAGMENTS = {
    "nothing ends": [fragment({})],
    "a real end inside": [fragment({(2, 0): "terminated"})],
    "a cut inside": [fragment({(2, 0): "truncated"})],
    "both at once inside": [fragment({(2, 0): "both"})],
    "a real end at the end": [fragment({(5, 1): "terminated"})],
    "a cut at the end": [fragment({(5, 1): "truncated"})],
    "all of it in one stream": [
        fragment({(0, 1): "truncated", (1, 1): "terminated", (3, 1): "both", (5, 1): "truncated"})
    ],
    "a cut at every step": [fragment({(t, n): "truncated" for t in range(6) for n in range(2)})],
    "several fragments": [
        fragment({(1, 0): "truncated", (4, 1): "terminated"}),
        fragment({(5, 0): "truncated"}, first=1000),
        fragment({}, first=2000),
    ],
    "whole episodes": [
        fragment({(3, 0): "terminated", (6, 0): "truncated", (4, 1): "truncated"}, 7, 2, lengths=[7, 5]),
        fragment({(2, 0): "both", (5, 1): "truncated"}, 6, 2, first=1000, lengths=[3, 6]),
    ],
}


@pytest.mark.parametrize("sequence", [1, 4])
@pytest.mark.parametrize("fragments", FRAGMENTS.values(), ids=FRAGMENTS)
def test_advantages_from_a_batch_are_those_of_every_episode_on_its_own(fragments, sequence):
    expected = slow_advantages(fragments)
    found = batch_advantages(join(fragments, GAMMA, sequence))
    assert sorted(found) == sorted(expected)
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_advantages_of_random_fragments_are_those_of_every_episode_on_its_own(seed, whole):
    rng, fragments = np.random.default_rng(seed), []
    streams, steps = int(rng.integers(1, 6)), int(rng.integers(1, 30))
    for number in range(rng.integers(1, 5)):
        if whole:
            streams, steps = int(rng.integers(1, 6)), int(rng.integers(1, 30))
        kinds, drawn = list(KINDS), rng.random((steps, streams)) < rng.random()
        lengths = rng.integers(1, steps + 1, streams) if whole else None
        if whole:
            lengths[rng.integers(streams)] = steps
            drawn &= np.arange(steps)[:, None] < lengths
            drawn[lengths - 1, np.arange(streams)] = True
        ends = {tuple(at): kinds[rng.integers(3)] for at in np.argwhere(drawn).tolist()}
        fragments.append(fragment(ends, steps, streams, first=1000 * (number + 1), lengths=lengths))
    expected, found = slow_advantages(fragments), batch_advantages(join(fragments, GAMMA, 3))
    assert sorted(found) == sorted(expected) and len(found) == sum(
        f["length"].sum() if whole else f["reward"].size for f in fragments
    )
    assert found == pytest.approx(expected, abs=1e-4)


def test_columns_of_a_small_batch_written_out():
    batch = join([fragment({(0, 1): "truncated", (1, 0): "terminated"}, steps=3)], 0.5)
    assert batch["obs"][..., 0].tolist() == [[0, 1, 2], [100, 101, 102]]
    assert batch["action"].tolist() == [[0, 1, 2], [100, 101, 102]] and batch["action"].dtype == np.int32
    assert batch["logp"].tolist() == [[0, -1, -2], [-100, -101, -102]]
    assert batch["discount"].tolist() == [[0.5, 0, 0.5], [0.5, 0.5, 0.5]]
    assert batch["trace"].tolist() == [[1, 0, 1], [0, 1, 1]]
    assert batch["mask"].tolist() == [[1, 1, 1], [1, 1, 1]]
    assert batch["end_at"].tolist() == [2, 5, 3, 6] and batch["end_at"].dtype == np.int32
    assert batch["end_obs"][:3, 0].tolist() == [2.5, 102.5, 100.5]
    assert batch["end_obs"][3].tolist() == [0, 0]
    for name in ("reward", "discount", "trace", "mask"):
        assert batch[name].dtype == np.float32


def test_end_that_is_both_is_one_of_an_episode_and_takes_no_room_among_the_cuts():
    """Nothing is worth anything after a terminal state, even where the time limit is reached with it."""
    batch = join([fragment({(0, 1): "both", (1, 0): "both"}, steps=3)], 0.5)
    assert batch["end_at"].tolist() == [2, 5, 6, 6]  # the two tails alone
    assert batch["discount"].tolist() == [[0.5, 0, 0.5], [0, 0.5, 0.5]]


def test_rows_of_padding_give_a_smaller_batch_the_shape_of_a_whole_one():
    parts = [fragment({(1, 0): "truncated"}), fragment({(2, 1): "terminated"})]
    alone, filled = join(parts[:1], GAMMA), join(parts[:1], GAMMA, least_rows=4)
    whole = join(parts, GAMMA)
    assert {name: column.shape for name, column in filled.items()} == {n: c.shape for n, c in whole.items()}
    for name in ("reward", "discount", "trace", "mask"):
        assert np.array_equal(filled[name][:2], alone[name]) and not filled[name][2:].any()
    assert batch_advantages(filled) == batch_advantages(alone)


def test_steps_of_padding_give_a_fragment_that_was_ended_early_the_shape_of_a_whole_one():
    parts = [fragment({(1, 0): "truncated"})]
    alone, filled = join(parts, GAMMA), join(parts, GAMMA, least_steps=9)
    steps = alone["mask"].shape[1]
    assert filled["mask"].shape == (2, 9) and steps == 6
    assert not filled["trace"][:, steps - 1 :].any()  # nothing flows back from padding
    for name in ("reward", "discount", "mask"):
        assert np.array_equal(filled[name][:, :steps], alone[name]) and not filled[name][:, steps:].any()
    assert batch_advantages(filled) == batch_advantages(alone)


def test_room_for_ends_doubles_until_all_fit():
    rooms = []
    for cuts in (0, 1, 2, 3, 4, 5):
        ends = {(step, 0): "truncated" for step in range(cuts)} | {(step, 1): "truncated" for step in range(cuts)}
        rooms.append(len(join([fragment(ends)], GAMMA)["end_at"]))
    assert rooms == [4, 4, 8, 8, 16, 16]  # two tails, and two inside for every cut


def test_sequences_have_their_states_and_episodes_their_beginnings():
    ends = {(2, 0): "truncated", (3, 1): "terminated"}
    batch = join([fragment(ends, states=2), fragment({}, first=1000, states=2, position=5)], GAMMA, 4)
    assert batch["mask"].tolist() == [[1] * 6 + [0] * 2] * 4
    assert batch["begins"].tolist() == [
        [1, 0, 0, 1, 0, 0, 0, 0],
        [1, 0, 0, 0, 1, 0, 0, 0],
        [0] * 8,
        [0] * 8,
    ]
    assert batch["state_0"][..., 0].tolist() == [[0, 4], [100, 104], [1000, 1004], [1100, 1104]]
    assert batch["state_1"][..., 2].tolist() == [[1, 5], [101, 105], [1001, 1005], [1101, 1105]]
    assert batch["end_at"].tolist() == [5, 13, 21, 29, 2, 32, 32, 32]
    assert batch["end_state_0"][:5, 0].tolist() == [5.5, 105.5, 1005.5, 1105.5, 2.5]
    assert batch["end_state_1"][:5, 0].tolist() == [6.5, 106.5, 1006.5, 1106.5, 3.5]
    assert batch["trace"][0].tolist() == [1, 1, 0, 1, 1, 0, 0, 0]  # nothing flows back from padding


def test_stepwise_states_are_kept_for_every_step_and_the_others_for_every_sequence():
    batch = join([fragment({(2, 0): "truncated"}, states=2)], GAMMA, 3, stepwise=["state_1"])
    assert batch["state_0"][..., 0].tolist() == [[0, 3], [100, 103]]
    assert batch["state_1"][..., 0].tolist() == [[1, 2, 3, 4, 5, 6], [101, 102, 103, 104, 105, 106]]


def test_whole_episodes_lie_end_to_end_each_at_the_start_of_a_sequence():
    ends = {(2, 0): "terminated", (4, 1): "truncated", (0, 2): "terminated"}
    parts = [fragment(ends, 5, 3, first=1000 * i, lengths=[3, 5, 1], states=1) for i in range(1, 7)]
    batch = join(parts, GAMMA, 2)
    assert batch["mask"].shape == (ROWS, 16) and batch["mask"].sum() == 6 * 9
    for row in range(ROWS):
        for begin in np.flatnonzero(batch["begins"][row]):
            assert begin % 2 == 0
            assert batch["state_0"][row, begin // 2, 0] == batch["obs"][row, begin, 0]
    assert len(batch["end_at"]) == LEAST_ENDS
    cuts = batch["end_at"][:6]
    assert batch["obs"].reshape(-1, 2)[cuts, 0].tolist() == [1000 * i + 104 for i in range(1, 7)]
    assert batch["end_obs"][:6, 0].tolist() == [1000 * i + 104.5 for i in range(1, 7)]
    assert set(batch["end_at"][6:]) == {ROWS * 16}


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        ((16, 128, 1), (16, 128, 32)),
        ((4, 50, 20), (4, 60, 8)),
        ((4, 5, 20, 1000), (8, 160, 64)),
        ((1, 1, 1, 9), (8, 2, 64)),
    ],
)
def test_expected_shapes(arguments, shape):
    assert padded_shape(*arguments) == shape


def test_frame_stacks_are_those_that_the_policy_saw():
    """Against a queue of frames for each environment, refilled with an episode's first."""
    rng, steps, streams, frames = np.random.default_rng(0), 9, 3, 3
    ends = {(2, 0): "terminated", (4, 1): "truncated", (8, 1): "truncated", (5, 1): "both"}
    part = fragment(ends, steps, streams)
    shown = rng.integers(0, 256, (steps + 1, streams, 2, 2, 1), dtype=np.uint8)
    last = {at: rng.integers(0, 256, (2, 2, 1), dtype=np.uint8) for at in ends}
    queues = [[rng.integers(0, 256, (2, 2, 1), dtype=np.uint8) for _ in range(frames - 1)] for _ in range(streams)]
    seen, behind = np.zeros((streams, steps, 2, 2, frames), np.uint8), {}
    first = None
    for step in range(steps):
        for env in range(streams):
            queues[env] = [*queues[env], shown[step, env]][-frames:]
            seen[env, step] = np.concatenate(queues[env], axis=-1)
            if (step, env) in ends:
                behind[step, env] = np.concatenate([*queues[env], last[step, env]][-frames:], axis=-1)
                queues[env] = [shown[step + 1, env]] * (frames - 1)
        first = seen[:, 0].copy() if step == 0 else first
    part["obs"], part["tail_obs"], part["stack"] = shown[:-1], shown[-1], first
    part["end_obs"] = np.stack([last[at] for at in sorted(last)])
    batch = join([part], GAMMA)
    assert batch["obs"].dtype == np.uint8 and np.array_equal(batch["obs"], seen)
    tails = [np.concatenate([*queues[env], shown[-1, env]][-frames:], axis=-1) for env in (0, 2)]
    assert np.array_equal(batch["end_obs"][[0, 2]], tails)
    assert np.array_equal(batch["end_obs"][1], behind[8, 1])
    assert batch["end_at"][:4].tolist() == [8, 17, 26, 9 + 4]
    assert np.array_equal(batch["end_obs"][3], behind[4, 1])
