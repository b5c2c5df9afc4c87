"""Lines of files become pieces of episodes: RLlib's layouts, packed or not, and whatever else a file may hold."""

import json

import numpy as np
import pytest
from recorded import HOSTILE, NUMBERS, PACKED, PUSH, THREE, batch, columns, layout, told, write

from drl_cli.errors import ExperienceError
from drl_cli.experience.recorded import json_lines
from drl_cli.experience.recorded.packed_columns import packed
from drl_cli.experience.recorded.read import Source

IMAGE = {"kind": "Box", "shape": [8, 9, 1], "dtype": "uint8", "low": 0, "high": 255}
# One line as RLlib 0.8's PPO wrote it for CartPole-like observations of two numbers: plain lists, `dones`, no `action_logp`.
RLLIB_0_8 = json.dumps(
    {
        "type": "SampleBatch",
        "t": [0, 1, 2],
        "eps_id": [241561760, 241561760, 241561760],
        "agent_index": [0, 0, 0],
        "obs": [[0.040251147001981735, -0.009447001852095127], [0.5, -1.25], [0.25, 1.0]],
        "actions": [2, 0, 1],
        "action_prob": [0.5, 0.25, 0.125],
        "action_logits": [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]],
        "prev_actions": [0, 2, 0],
        "prev_rewards": [0.0, 1.0, 1.0],
        "rewards": [1.0, 1.0, 0.5],
        "dones": [False, False, True],
        "infos": [{}, {}, {"TimeLimit.truncated": True}],
        "new_obs": [[0.5, -1.25], [0.25, 1.0], [0.75, 0.0]],
        "vf_preds": [0.1, 0.2, 0.3],
        "unroll_id": [7, 7, 7],
        "weights": [1.0, 1.0, 1.0],
    }
)
# One line as RLlib 1.13's SAC wrote it: obs and new_obs packed, under protocol 5, several policies possible.
RLLIB_1_13 = json.dumps(
    {
        "type": "MultiAgentBatch",
        "count": 3,
        "policy_batches": {
            "default_policy": {
                "obs": PACKED["protocol 5"],
                "new_obs": PACKED["protocol 5"],
                "actions": [[0.5], [-0.25], [0.125]],
                "rewards": [-1.5, -2.0, 0.25],
                "dones": [False, True, False],
                "eps_id": [5, 6, 7],
                "unroll_id": [1, 1, 1],
                "agent_index": [0, 0, 0],
                "t": [11, 4, 0],
                "action_logp": [-0.5, -0.25, 0.0],
                "action_dist_inputs": [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]],
            }
        },
    }
)


def read(path, of=None):
    return list(Source(path, of or layout(), passes=1))


def refused(path, of=None):
    with pytest.raises(ExperienceError) as caught:
        read(path, of)
    return str(caught.value)


def test_line_of_rllib_0_8_is_an_episode_with_its_time_limit(tmp_path):
    (piece,) = read(write(tmp_path / "a.json", RLLIB_0_8), layout(limits=()))
    assert told(piece) == (241561760, 0, 3, False, True)
    assert piece.obs.tolist() == [
        [np.float32(0.040251147001981735), np.float32(-0.009447001852095127)],
        [0.5, -1.25],
        [0.25, 1],
    ]
    assert (piece.action.tolist(), piece.action.dtype) == ([2, 0, 1], np.int32)
    assert (piece.reward.tolist(), piece.reward.dtype) == ([1.0, 1.0, 0.5], np.float32)
    assert piece.end_obs.tolist() == [0.75, 0.0]
    assert np.array_equal(piece.logp, np.log([0.5, 0.25, 0.125]).astype(np.float32))
    assert piece.source == f"{tmp_path}/a.json:1"


def test_line_of_rllib_1_13_with_packed_columns_is_read(tmp_path):
    pieces = read(write(tmp_path / "a.json", RLLIB_1_13), layout(PUSH))
    assert [told(piece) for piece in pieces] == [
        (6, 4, 1, True, False),
        (5, 11, 1, False, False),
        (7, 0, 1, False, False),
    ]
    assert [piece.obs.tolist() for piece in pieces] == [[NUMBERS[1]], [NUMBERS[0]], [NUMBERS[2]]]
    assert [piece.action.tolist() for piece in pieces] == [[[-0.25]], [[0.5]], [[0.125]]]
    assert [piece.logp.tolist() for piece in pieces] == [[-0.25], [-0.5], [0.0]]
    assert pieces[0].end_obs.tolist() == NUMBERS[1]


def test_rows_packed_one_by_one_are_joined(tmp_path):
    line = batch(columns(1, 0, 3, obs=[PACKED["protocol 4"]] * 3, new_obs=None))
    found = read(write(tmp_path / "a.json", line), layout(obs={"shape": [3, 2], "dtype": "float32"}))
    assert [piece.obs.tolist() for piece in found] == [[NUMBERS] * 3]


def test_episode_over_several_lines_is_one_piece(tmp_path):
    path = write(tmp_path / "a.json", batch(columns(4, 0, 2)), batch(columns(4, 2, 5)), batch(columns(4, 7, 1, True)))
    (piece,) = read(path)
    assert told(piece) == (4, 0, 8, True, False)
    assert piece.obs.tolist() == [[4, t] for t in range(8)]
    assert (piece.end_obs.tolist(), piece.source) == ([4, 8], f"{path}:1")


def test_interleaved_environments_are_taken_apart(tmp_path):
    rows = batch(*(columns(episode, t, 1, t == episode) for t in range(3) for episode in (1, 2) if t <= episode))
    assert [told(piece) for piece in read(write(tmp_path / "a.json", rows))] == [
        (1, 0, 2, True, False),
        (2, 0, 3, False, True),
    ]


def test_end_at_the_time_limit_is_a_truncation_and_one_before_is_not(tmp_path):
    path = write(tmp_path / "a.json", batch(columns(1, 0, 3, True), columns(2, 0, 2, True)), batch(columns(3, 0, 2)))
    path.write_text(path.read_text() + batch(columns(3, 2, 1, True)) + "\n")
    assert [told(piece) for piece in read(path)] == [
        (1, 0, 3, False, True),
        (2, 0, 2, True, False),
        (3, 0, 3, False, True),
    ]


def test_ends_that_the_file_tells_apart_are_kept(tmp_path):
    ends = {"terminateds": [False, False, True], "truncateds": [False, False, False], "dones": None}
    assert told(read(write(tmp_path / "a.json", batch(columns(1, 0, 3, **ends))))[0]) == (1, 0, 3, True, False)


def test_episodes_without_names_end_where_they_are_done_or_broken(tmp_path):
    bare = {"eps_id": None, "agent_index": None, "t": None}
    line = batch(columns(1, 0, 2, True, **bare), columns(2, 0, 2, **bare), columns(3, 0, 1, **bare))
    pieces = read(write(tmp_path / "a.json", line, line))
    assert [told(piece)[1:] for piece in pieces] == [
        (0, 2, True, False),
        (0, 2, True, False),
        (0, 2, False, False),
        (0, 1, False, False),
        (0, 2, False, False),
        (0, 1, False, False),
    ]


def test_episode_that_jumps_is_broken_off(tmp_path):
    pieces = read(write(tmp_path / "a.json", batch(columns(1, 0, 2), columns(1, 5, 2)), batch(columns(1, 9, 1, True))))
    assert [told(piece) for piece in pieces] == [
        (1, 0, 2, False, False),
        (1, 5, 2, False, False),
        (1, 9, 1, True, False),
    ]


def test_agents_of_one_episode_are_kept_apart(tmp_path):
    line = batch(columns(1, 0, 2, True), columns(1, 0, 2, True, agent_index=[1, 1]))
    assert [told(piece) for piece in read(write(tmp_path / "a.json", line))] == [(1, 0, 2, True, False)] * 2


def test_file_without_next_observations_has_them_but_for_the_last(tmp_path):
    (piece,) = read(write(tmp_path / "a.json", batch(columns(1, 0, 4, True, new_obs=None))))
    assert (told(piece), piece.end_obs) == ((1, 0, 4, True, False), None)


def test_one_hot_and_float64_and_normalized_actions_become_what_the_policy_sees(tmp_path):
    path = write(tmp_path / "a.json", batch(columns(1, 0, 2, obs=[2, 0], new_obs=None, actions=[[-1.0], [0.5]])))
    (piece,) = read(path, layout(PUSH, {"shape": [3], "dtype": "float32"}, normalized=True))
    assert piece.obs.tolist() == [[0, 0, 1], [1, 0, 0]]
    assert (piece.action.tolist(), piece.action.dtype) == ([[-2.0], [2.5]], np.float32)
    assert read(path, layout(PUSH, {"shape": [3], "dtype": "float32"}))[0].action.tolist() == [[-1.0], [0.5]]


def test_images_are_bytes_and_of_a_stack_the_newest_frame(tmp_path):
    frames = np.arange(2 * 8 * 9 * 2).reshape(2, 8, 9, 2) % 256
    path = write(tmp_path / "a.json", batch(columns(1, 0, 2, obs=frames.tolist(), new_obs=None)))
    (piece,) = read(path, layout(obs=IMAGE, frames=2))
    assert (piece.obs.dtype, piece.obs.shape) == (np.uint8, (2, 8, 9, 1))
    assert np.array_equal(piece.obs, frames[..., 1:])


def test_empty_lines_and_empty_batches_hold_nothing(tmp_path):
    path = write(tmp_path / "a.json", "", json.dumps({"type": "SampleBatch"} | columns(1, 0, 0, dones=[])), "  ")
    assert "holds no step" in refused(path)
    assert len(read(write(path, "", batch(columns(1, 0, 1)), ""))) == 1


def test_line_that_is_being_written_is_passed_over_with_a_note(tmp_path):
    path = write(tmp_path / "a.json", batch(columns(1, 0, 2, True)))
    path.write_text(path.read_text() + batch(columns(2, 0, 2))[:100])
    source = Source(path, layout(), passes=1)
    assert len(list(source)) == 1
    assert source.notes == [f"{path}:2: the last line is not complete (is it being written?) and is skipped"]


def test_last_line_without_an_end_that_is_whole_is_read(tmp_path):
    path = write(tmp_path / "a.json", batch(columns(1, 0, 2, True)))
    path.write_text(path.read_text() + batch(columns(2, 0, 1)))
    assert [told(piece)[0] for piece in read(path)] == [1, 2]


def test_sums_of_several_rewards_are_refused(tmp_path):
    path = write(tmp_path / "a.json", batch(columns(1, 0, 5, new_obs=[[1, i + 3] for i in range(5)])))
    assert refused(path).startswith(f"{path}:1: new_obs: that of row 0 is the observation 3 steps later")


def test_rows_that_do_not_follow_one_another_come_one_by_one_with_a_note(tmp_path):
    path = write(tmp_path / "a.json", batch(columns(1, 0, 3, new_obs=[[9, 9], [8, 8], [7, 7]])))
    source = Source(path, layout(), passes=1)
    assert [piece.steps for piece in source] == [1, 1, 1]
    assert source.notes == [f"{path}:1: from row 0 on, rows are not consecutive; they are read one by one"]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "is no JSON"),
        ("[1]", "is not a JSON object"),
        ("{}", 'has no field "type"'),
        ('{"type": "SampleBatsh"}', "Did you mean 'SampleBatch'?"),
        ('{"type": ["SampleBatch"]}', "is unknown"),
        ('{"type": "SampleBatch", "type": "SampleBatch"}', "twice"),
        ('{"type": "SampleBatch"}', "has no obs, actions, rewards, dones"),
        ('{"type": "MultiAgentBatch", "policy_batches": {"a": {}, "default_policy": {}}}', "a, default_policy; only"),
        ('{"type": "MultiAgentBatch", "policy_batches": []}', "no object of batches"),
        ("[" * 100_000, "is no JSON"),
        ('{"type": ' + "9" * 5000 + "}", "is no JSON"),
        (batch(columns(1, 0, 2, rewards=[1.0])), "obs: 2 rows, where rewards have 1"),
        (batch(columns(1, 0, 2, rewards=[1.0, float("nan")])), "rewards: holds a number that is not finite"),
        (batch(columns(1, 0, 2, rewards=[1.0, 1e300])), "float32 cannot hold"),
        (batch(columns(1, 0, 2, rewards=[1.0, "2.0"])), "rewards: is not a list of numbers"),
        (batch(columns(1, 0, 2, rewards=[[1.0], [2.0, 3.0]])), "rewards: "),
        (batch(columns(1, 0, 2, rewards=[[1.0, 1.0], [2.0, 3.0]])), "one number per row"),
        (batch(columns(1, 0, 2), rewards=3), "rewards: is no list"),
        (
            batch(columns(1, 0, 2, obs=[[1.0], [2.0]])),
            "obs: rows of shape (1,); the environment's observations are (2,)",
        ),
        (batch(columns(1, 0, 2, obs=[[1.0, None], [2.0, 3.0]])), "obs: is not a list of numbers"),
        (batch(columns(1, 0, 2, actions=[0, 3])), "actions: holds the choice 3; there are 3, counted from 0"),
        (batch(columns(1, 0, 2, actions=[0, -1])), "holds the choice -1"),
        (batch(columns(1, 0, 2, actions=[0, 0.5])), "no whole one"),
        (batch(columns(1, 0, 2, actions=[0, 2**70])), "actions: is not a list of numbers"),
        (batch(columns(1, 0, 2, dones=[False, 2])), "values other than true and false"),
        (batch(columns(1, 0, 2, t=[-1, 0])), "negative"),
        (batch(columns(1, 0, 2, eps_id=[0.5, 1])), "not whole"),
        (batch(columns(1, 0, 2, action_prob=[0.5, 0.0])), "not above 0"),
        (batch(columns(1, 0, 2), obs="hello"), "obs: is a string, and no packed column"),
        (batch(columns(1, 0, 2), obs=PACKED["protocol 5"]), "obs: 3 rows, where rewards have 2"),
        (batch(columns(1, 0, 2, obs=[PACKED["protocol 5"], [1, 2]])), "side by side"),
        *[(batch(columns(1, 0, 2), obs=text), "obs: ") for text in HOSTILE.values()],
    ],
)
def test_line_that_cannot_be_learnt_from_is_refused_with_file_and_line(tmp_path, line, what):
    path = write(tmp_path / "a.json", batch(columns(0, 0, 1, True)), line, batch(columns(0, 0, 1, True)))
    text = refused(path)
    assert text.startswith(f"{path}:2: ") and what in text
    assert "\n" not in text and len(text) < 400


def test_packed_column_of_more_than_the_rows_can_hold_is_not_unpacked(tmp_path):
    path = write(tmp_path / "a.json", batch(columns(1, 0, 1), obs=packed(np.zeros((100_000, 2)))))
    assert refused(path) == f"{path}:1: obs: more than 65552 bytes when unpacked, which is more than its rows can hold."


def test_too_long_a_line_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(json_lines, "MAX_LINE", 1000)
    path = write(tmp_path / "a.json", batch(columns(1, 0, 1)), "x" * 2000)
    assert refused(path).startswith(f"{path}:2: a line of more than")


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b'{"type": "\xff"}\n')
    assert refused(path).startswith(f"{path}:1: is no JSON")


def episode(**more):
    whole = {
        "format": "drl-episodes-1",
        "env": "X",
        "episode": 3,
        "seed": 1,
        "obs": [[0, 0], [0, 1], [0, 2]],
        "action": [1, 2],
    }
    return json.dumps(whole | {"reward": [0.5, 1.5], "terminated": [False, False], "truncated": [False, True]} | more)


def test_episodes_of_drl_rollout_are_read_with_their_actions_counted_from_the_start(tmp_path):
    counted = {"kind": "Discrete", "n": 3, "start": 1, "shape": [], "dtype": "int64"}
    (piece,) = read(write(tmp_path / "a.jsonl", episode(), episode(reward=[])), layout(counted))
    assert told(piece) == (3, 0, 2, False, True)
    assert (piece.action.tolist(), piece.end_obs.tolist(), piece.reward.tolist()) == ([0, 1], [0, 2], [0.5, 1.5])


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"obs": [[0, 0], [0, 1]]}, "2 rows for 2 steps"),
        ({"terminated": [True, False]}, "ends before its last step"),
        ({"episode": [1]}, "neither a number nor a string"),
        ({"action": [1]}, "action: 1 rows"),
    ],
)
def test_episode_of_drl_rollout_that_is_crooked_is_refused(tmp_path, more, what):
    path = write(tmp_path / "a.jsonl", episode(**more))
    text = refused(path)
    assert text.startswith(f"{path}:1: ") and what in text


TWO_PARTS = {
    "kind": "Composite",
    "parts": [{"path": ["go"], **THREE}, {"path": ["far"], **PUSH}],
    "shape": [2],
    "dtype": "float32",
}


def test_actions_of_a_dictionary_are_vectors_whose_choices_count_from_zero(tmp_path):
    actions = [[2, 0.5], [0, -2.0], [1, 9.0]]  # recordings hold a Box as it was drawn, beyond its bounds too
    (piece,) = read(write(tmp_path / "a.json", batch(columns(1, 0, 3, True, actions=actions))), layout(TWO_PARTS))
    assert piece.action.dtype == np.float32 and piece.action.tolist() == actions


@pytest.mark.parametrize("wrong", [[3, 0.5], [-1, 0.5], [0.5, 0.5]])
def test_choice_of_a_dictionary_that_there_is_not_is_refused(tmp_path, wrong):
    path = write(tmp_path / "a.json", batch(columns(1, 0, 2, True, actions=[[0, 0.5], wrong])))
    assert "actions: numbers 0 to 0 hold a choice that there is not" in refused(path, layout(TWO_PARTS))
