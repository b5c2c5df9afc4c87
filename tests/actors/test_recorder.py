"""What a worker records: read back it is what the worker sent, over fragments, ends, kinds of actions and resumes."""

import copy
import errno
import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
import scored_policies
from parts import config, identity, server, spec
from scripted_envs import ENV, HIGH, LOW, Scripted

from drl_cli.actors.recorder import Recorder
from drl_cli.actors.rollout_worker import RolloutWorker
from drl_cli.algorithms import actor_critic_nets
from drl_cli.algorithms.ppo import PPOConfig
from drl_cli.errors import CheckpointError
from drl_cli.experience.recorded import write
from drl_cli.experience.recorded.pieces import layout_of
from drl_cli.experience.recorded.read import Source
from drl_cli.policies.numpy_policy import NumpyPolicy

SPEC = spec(2, (LOW,), (HIGH,))
BOX = {"kind": "Box", "shape": [1], "dtype": "float32", "low": [LOW], "high": [HIGH]}
OBS = {"kind": "Box", "shape": [2], "dtype": "float32"}
LAYOUT = layout_of({"obs": OBS, "action": BOX})
PLANS = [
    {"ends": (7, "terminated")},
    {"ends": (4, "truncated")},
    {"ends": (1, "terminated truncated")},
    {"ends": (3, "terminated")},
    {"ends": (9, "truncated")},
]


def worker(folder, *plan, random_steps=10**9, **keys):
    Scripted.begin(*plan)
    who = identity(3, random_steps) | {"output": str(folder)}
    return RolloutWorker(config(**({"num_envs_per_worker": 2} | keys)), ENV, SPEC, who, server())


def read(folder, layout=LAYOUT):
    return list(Source(str(folder), layout, passes=1))


def lines(folder):
    return [json.loads(line) for path in sorted(folder.glob("*.json")) for line in path.read_text().splitlines()]


def slow_episodes(fragments):
    """Go through fragments step by step: what each environment did, cut at ends; {environment: [episode as a dict]}."""
    found = {}
    for columns in fragments:
        ends = iter(columns["end_obs"])
        steps, count = columns["reward"].shape
        for env in range(count):
            if columns["cut"][env]:
                found.setdefault(env, []).append({"obs": [], "action": [], "reward": []})
        for step in range(steps):
            for env in range(count):
                if "length" in columns and step >= columns["length"][env]:
                    continue
                episode = found[env][-1]
                for name in ("obs", "action", "reward"):
                    episode[name].append(columns[name][step, env].tolist())
                ended = bool(columns["terminated"][step, env]), bool(columns["truncated"][step, env])
                if any(ended):
                    episode |= {"end": ended, "end_obs": next(ends).tolist()}
                    found[env].append({"obs": [], "action": [], "reward": []})
        for env in range(count):
            found[env][-1]["end_obs"] = columns["tail_obs"][env].tolist()
    return [episode for env in sorted(found) for episode in found[env] if episode["obs"]]


def as_slow(piece, policy):
    """A Piece as ``slow_episodes`` gives it."""
    action = policy.as_acted(piece.action)
    told = {"obs": piece.obs.tolist(), "action": action.tolist(), "reward": piece.reward.tolist()}
    told["end_obs"] = piece.end_obs.tolist()
    return told | ({"end": (piece.terminated, piece.truncated)} if piece.terminated or piece.truncated else {})


def sorted_by_obs(episodes):
    return sorted(episodes, key=lambda episode: episode["obs"])


@pytest.mark.parametrize("compress", [["obs", "new_obs"], [], ["obs", "actions", "rewards", "dones", "eps_id", "t"]])
def test_pieces_read_back_are_what_the_fragments_hold(tmp_path, compress):
    made = worker(tmp_path, *PLANS, output_compress_columns=compress)
    fragments = [made.collect()[1] for _ in range(4)]
    made.close()
    pieces = read(tmp_path)
    found = [as_slow(piece, made.policy) for piece in pieces]
    wanted = slow_episodes(fragments)
    assert len(wanted) == 7 and sum("end" in episode for episode in wanted) == 5
    for one, other in zip(sorted_by_obs(found), sorted_by_obs(wanted), strict=True):
        np.testing.assert_allclose(one.pop("action"), other.pop("action"), atol=1e-6)
        assert one == other
    assert all(piece.start == 0 for piece in pieces)
    assert len({piece.episode for piece in pieces}) == 7


def test_whole_episodes_are_recorded_without_what_lies_behind_them(tmp_path):
    made = ppo_worker(tmp_path, *PLANS, num_envs_per_worker=2, batch_mode="complete_episodes", horizon=6)
    fragments = [made.collect(1)[1] for _ in range(2)]
    assert len({*fragments[0]["length"], *fragments[1]["length"]}) > 1
    found, wanted = [as_slow(piece, made.policy) for piece in read(tmp_path)], slow_episodes(fragments)
    for one, other in zip(sorted_by_obs(found), sorted_by_obs(wanted), strict=True):
        np.testing.assert_allclose(one.pop("action"), other.pop("action"), atol=1e-6)
        assert one == other


def test_line_has_rllibs_columns_with_one_row_a_step(tmp_path):
    made = worker(tmp_path, {"ends": (2, "terminated")}, num_envs_per_worker=1, output_compress_columns=[])
    columns = made.collect()[1]
    (line,) = lines(tmp_path)
    assert line.pop("type") == "SampleBatch"
    assert {name: len(values) for name, values in line.items()} == dict.fromkeys(line, 5)
    assert line["new_obs"] == [[0, 1], [0, 2], [1, 1], [1, 2], [1, 3]]
    assert (line["t"], line["dones"]) == ([0, 1, 0, 1, 2], [False, True, False, False, False])
    assert (line["terminateds"], line["truncateds"]) == (line["dones"], [False] * 5)
    assert line["eps_id"][:2] == [line["eps_id"][0]] * 2 and line["eps_id"][2:] == [line["eps_id"][0] + 1] * 3
    assert line["prev_rewards"] == [0.0, 0.0, 0.0, 100.0, 101.0]
    actions = [row[0] for row in line["actions"]]
    assert [row[0] for row in line["prev_actions"]] == [0.0, actions[0], 0.0, actions[2], actions[3]]
    assert actions == pytest.approx((columns["action"][:, 0, 0] * 3 + 1).tolist(), abs=1e-6)
    assert (line["agent_index"], line["unroll_id"]) == ([0] * 5, [1] * 5)


def test_uniform_actions_are_recorded_with_their_density_in_the_environments_units(tmp_path):
    worker(tmp_path).collect()
    (line,) = lines(tmp_path)
    assert line["action_logp"] == pytest.approx([-np.log(HIGH - LOW)] * 10)
    assert line["action_prob"] == pytest.approx([1 / 6] * 10)
    assert read(tmp_path)[0].logp == pytest.approx([-np.log(6)] * 5)


def test_rewards_are_recorded_raw_where_clipped_ones_are_learnt_from(tmp_path):
    columns = worker(tmp_path, clip_rewards=2.0).collect()[1]
    assert columns["reward"].max() == 2.0
    assert max(piece.reward.max() for piece in read(tmp_path)) == 104.0


def test_step_that_broke_is_not_recorded_and_its_episode_is_cut(tmp_path):
    made = worker(tmp_path, {"breaks": (2, "raise")}, num_envs_per_worker=1)
    made.collect()
    assert [(p.steps, p.terminated, p.truncated, p.end_obs.tolist()) for p in read(tmp_path)] == [
        (2, False, True, [0, 2]),
        (3, False, False, [1, 3]),
    ]


def ppo_worker(folder, *plan, **keys):
    small = {"num_envs_per_worker": 1, "rollout_fragment_length": 5, "train_batch_size": 5, "sgd_minibatch_size": 5}
    made = PPOConfig.model_validate(small | {"model": {"fcnet_hiddens": [4]}} | keys)
    spaces = {"obs": {"kind": "Box1d", "shape": (2,), "dtype": "float32"}, "action": BOX, "frames": 1}
    of_spec = actor_critic_nets.policy_spec(made, spaces)
    handle = server()
    handle.call("push", {"default_policy": actor_critic_nets.initial_weights(made, of_spec, 5)})
    Scripted.begin(*(plan or [{"ends": (3, "terminated")}]))
    return RolloutWorker(made, ENV, of_spec, identity(3, 0) | {"output": str(folder)}, handle)


def test_drawn_actions_are_recorded_unclipped_with_their_density_in_the_environments_units(tmp_path):
    columns = ppo_worker(tmp_path).collect(1)[1]
    first, second = read(tmp_path)
    np.testing.assert_allclose(
        np.concatenate([first.action, second.action])[:, 0], columns["action"][:, 0, 0] * 3 + 1, atol=1e-6
    )
    logp = np.concatenate([first.logp, second.logp])
    np.testing.assert_allclose(logp, columns["logp"][:, 0] - np.log(3), atol=1e-5)


def test_greedy_actions_are_recorded_without_probabilities(tmp_path):
    ppo_worker(tmp_path, explore=False).collect(1)
    assert not {"action_prob", "action_logp"} & set(lines(tmp_path)[0])


# -- kinds of spaces ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", scored_policies.SPACES)
def test_actions_of_every_kind_read_back_equal(tmp_path, kind):
    of_spec = scored_policies.bare(kind)
    policy = NumpyPolicy(of_spec)
    rng = np.random.default_rng(1)
    obs = rng.normal(size=(4, 2, scored_policies.OBS)).astype(np.float32)
    action = np.stack([policy.random(np.ones_like(row), rng) for row in obs])
    columns = fragment(obs, action)
    recorder(tmp_path, policy).add(columns)
    layout = layout_of({"obs": {"shape": [scored_policies.OBS], "dtype": "float32"}, "action": described(kind)})
    pieces = read(tmp_path, layout)
    assert len(pieces) == 2
    for env, piece in enumerate(pieces):
        assert piece.action.dtype == action.dtype
        np.testing.assert_allclose(policy.as_acted(piece.action), action[:, env], atol=1e-6)
        assert np.array_equal(piece.obs, obs[:, env])


def test_images_read_back_equal(tmp_path):
    obs = np.random.default_rng(1).integers(0, 256, (3, 2, 8, 9, 1), dtype=np.uint8)
    policy = NumpyPolicy(scored_policies.bare("categorical"))
    recorder(tmp_path, policy).add(fragment(obs, np.zeros((3, 2), np.int32)))
    layout = layout_of({"obs": {"shape": [8, 9, 1], "dtype": "uint8"}, "action": described("categorical")})
    assert [np.array_equal(piece.obs, obs[:, env]) for env, piece in enumerate(read(tmp_path, layout))] == [True, True]


def described(kind):
    space = scored_policies.SPACES[kind]
    if kind == "composite":
        names = ("categorical", "gaussian", "multi_categorical", "multi_bernoulli")
        return {**space, "parts": [described(name) for name in names], "shape": [9]}
    shape = {"MultiDiscrete": [3], "MultiBinary": [3], "Discrete": []}.get(space["kind"], [2])
    return space | {"shape": shape}


def fragment(obs, action):
    shape = action.shape[:2]
    none = np.zeros(shape, bool)
    return {
        "obs": obs,
        "action": action,
        "reward": np.zeros(shape, np.float32),
        "terminated": none,
        "truncated": none,
        "end_obs": np.zeros((0, *obs.shape[2:]), obs.dtype),
        "tail_obs": obs[0],
        "cut": np.ones(shape[1], bool),
    }


def recorder(folder, policy):
    keys = {"num_envs_per_worker": 2, "output_compress_columns": ("obs", "new_obs"), "output_max_file_size": 10**6}
    return Recorder(SimpleNamespace(**keys), str(folder), identity(0), policy, 2)


# -- files --------------------------------------------------------------------------------------------------------


def test_files_are_rotated_by_size_and_nothing_is_lost_between_them(tmp_path):
    made = worker(tmp_path, *PLANS, output_max_file_size=5000)
    for _ in range(6):
        made.collect()
    sizes = [path.stat().st_size for path in tmp_path.glob("*.json")]
    assert len(sizes) == 3 and max(sizes) <= 5000
    assert sum(piece.steps for piece in read(tmp_path)) == 60
    assert all(path.name.startswith("output-") and "_worker-3_" in path.name for path in tmp_path.iterdir())


def test_two_workers_that_begin_in_one_second_write_files_of_their_own(tmp_path):
    for _ in range(2):
        worker(tmp_path).collect()
    assert len(list(tmp_path.iterdir())) == 2


def test_full_disk_ends_the_recording_with_a_note_and_leaves_whole_lines(tmp_path, monkeypatch):
    made = worker(tmp_path)
    made.collect()
    real = os.write

    def half(file, data):
        if len(data) < 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data[: len(data) // 2])

    monkeypatch.setattr(write.os, "write", half)
    token, columns = made.collect()
    monkeypatch.undo()
    assert columns["reward"].shape == (5, 2)
    path = next(tmp_path.iterdir())
    assert token.notes == (
        f"worker 3 stops recording, and the run continues without: {path} cannot be written (No space left on device). What is "
        "there is whole",
    )
    assert made.collect()[0].notes == ()
    assert len(lines(tmp_path)) == 1 and path.read_bytes().endswith(b"}\n")


def pendulum(folder):
    env = {"id": "Pendulum-v1", "env_config": {}, "imports": ()}
    keys = config(num_envs_per_worker=2, horizon=7, output_max_file_size=5000)
    return RolloutWorker(keys, env, spec(3, (-2.0,), (2.0,)), identity(3) | {"output": str(folder)}, server())


def test_resumed_worker_records_as_if_it_had_not_stopped(tmp_path):
    made, broken = pendulum(tmp_path / "whole"), pendulum(tmp_path / "broken")
    for _ in range(6):
        made.collect()
    for _ in range(3):
        broken.collect()
    arrays, facts = copy.deepcopy(broken.state())
    for _ in range(2):  # steps that will be taken again
        broken.collect()
    broken.close()
    again = pendulum(tmp_path / "broken")
    again.load(arrays, json.loads(json.dumps(facts)))
    for _ in range(3):
        again.collect()
    assert sorted(map(str, lines(tmp_path / "broken"))) == sorted(map(str, lines(tmp_path / "whole")))
    assert len(lines(tmp_path / "whole")) == 6


@pytest.mark.parametrize(
    "output",
    [
        {"prefix": "../other/x", "part": 0, "bytes": 0},
        {"prefix": "output-2021-01-01_00-00-00_worker-0/../../x", "part": 0, "bytes": 0},
        {"prefix": "output-2021-01-01_00-00-00_worker-0", "part": -1, "bytes": 0},
        {"prefix": "output-2021-01-01_00-00-00_worker-0", "part": 0, "bytes": "0"},
        {"prefix": 7, "part": 0, "bytes": 0},
        {},
    ],
)
def test_state_that_names_other_files_is_refused(tmp_path, output):
    made = recorder(tmp_path / "out", NumpyPolicy(SPEC))
    arrays, facts = made.state()
    with pytest.raises(CheckpointError, match="state of a recording"):
        made.load(arrays, facts | {"output": output})


def test_resuming_follows_no_link_out_of_the_folder(tmp_path):
    other, folder = tmp_path / "precious", tmp_path / "out"
    other.write_text("precious")
    folder.mkdir()
    prefix = "output-2021-01-01_00-00-00_worker-0"
    (folder / f"{prefix}_0.json").symlink_to(other)
    made = recorder(folder, NumpyPolicy(SPEC))
    arrays, facts = made.state()
    made.load(arrays, facts | {"output": {"prefix": prefix, "part": 0, "bytes": 0}})
    assert other.read_text() == "precious"
