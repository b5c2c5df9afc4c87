"""Callbacks in rollout workers: which hooks when, with what; metrics in tokens; steps changed before they are sent."""

import numpy as np
import pytest
from experience_files import line, write
from parts import config, identity, server, spec
from scripted_envs import ENV, HIGH, LOW, Scripted
from watched_callbacks import Failing, Noting, Odd, Sampled, Shaping

from drl_cli.actors.experience_reader import ExperienceReader
from drl_cli.actors.rollout_worker import RolloutWorker
from drl_cli.algorithms import actor_critic_nets
from drl_cli.algorithms.ppo import PPOConfig
from drl_cli.envs.callback_episodes import parts
from drl_cli.errors import PluginFailed

SPEC = spec(2, (LOW,), (HIGH,))
SPACES = {
    "obs": {"kind": "Box1d", "shape": (2,), "dtype": "float32"},
    "action": {"kind": "Box", "shape": (1,), "low": (LOW,), "high": (HIGH,)},
    "frames": 1,
}
PENDULUM = {"id": "Pendulum-v1", "env_config": {}, "imports": ()}


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    for kind, name, value in ((Noting, "heard", []), (Shaping, "parts", []), (Odd, "said", {}), (Sampled, "how", None)):
        monkeypatch.setattr(kind, name, value)


def worker(*plan, callbacks="noting", **keys):
    Scripted.begin(*plan)
    return RolloutWorker(config(callbacks=callbacks, **keys), ENV, SPEC, identity(3), server())


def test_hooks_follow_an_episode_and_its_metrics_come_with_the_token():
    token, _ = worker({"ends": (2, "terminated")}, {"ends": (1, "truncated")}, rollout_fragment_length=4).collect()
    assert Noting.heard == [
        ("start", 0, 0, 0.0),
        ("step", 0, 1, 0.0),
        ("step", 0, 2, 1.0),
        ("end", 0, 2, 1.0),
        ("start", 0, 0, 0.0),
        ("step", 0, 1, 100.0),
        ("end", 0, 1, 100.0),
        ("start", 0, 0, 0.0),
        ("step", 0, 1, 200.0),
    ]
    assert token.told == (({"last": 1.0}, {"lengths": [2.0, 2.0]}), ({"last": 100.0}, {"lengths": [1.0, 3.0]}))
    assert token.episodes == ((1.0, 2), (100.0, 1))


def test_without_callbacks_a_token_says_nothing():
    token, _ = worker({"ends": (2, "terminated")}, callbacks=None).collect()
    assert token.told == () and Noting.heard == []


def test_an_episode_that_breaks_has_no_end_and_its_successor_begins():
    token, columns = worker({"breaks": (1, "raise")}, {"ends": (2, "terminated")}, rollout_fragment_length=3).collect()
    assert [heard[0] for heard in Noting.heard] == ["start", "step", "start", "step", "step", "end", "start"]
    assert columns["obs"][:, 0].tolist() == [[0, 0], [1, 0], [1, 1]] and token.told[0][0] == {"last": 101.0}


@pytest.mark.parametrize("soft", [False, True])
def test_the_horizon_ends_episodes_for_hooks_too(soft):
    token, _ = worker({}, {}, {}, horizon=2, soft_horizon=soft, rollout_fragment_length=4).collect()
    assert [heard[0] for heard in Noting.heard] == ["start", "step", "step", "end"] * 2 + ["start"]
    assert [told[0]["last"] for told in token.told] == ([1.0, 3.0] if soft else [1.0, 101.0])


def test_complete_episodes_of_several_environments_are_kept_apart():
    plan = [{"ends": (3, "terminated")}, {"ends": (1, "terminated")}, {"ends": (1, "terminated")}]
    keys = {"num_envs_per_worker": 2, "rollout_fragment_length": 2, "batch_mode": "complete_episodes"}
    made = PPOConfig(train_batch_size=5, sgd_minibatch_size=5, callbacks="shaping", clip_rewards=False, **keys)
    scored = actor_critic_nets.policy_spec(made, SPACES)
    handle = server()
    handle.call("push", {"default_policy": actor_critic_nets.initial_weights(made, scored, 5)})
    Scripted.begin(*plan, {"ends": (5, "terminated")})
    token, columns = RolloutWorker(made, ENV, scored, identity(3, 0), handle).collect()
    assert columns["length"].tolist() == [3, 2]
    assert [kept["reward"].tolist() for kept, *_ in Shaping.parts] == [[0, 1, 2], [100], [200]]
    assert [steps for *_, steps in Shaping.parts] == [3, 1, 1]
    assert columns["reward"].T.tolist() == [[1000, 1001, 1002], [1100, 1200, 0]]
    assert token.episodes == ((100.0, 1), (200.0, 1), (3.0, 3))


def test_reward_shaping_changes_what_is_sent_and_not_what_is_reported():
    made = worker({"ends": (2, "terminated")}, {"ends": (9, "truncated")}, callbacks="shaping", gamma=0.9)
    token, columns = made.collect()
    assert columns["reward"][:, 0].tolist() == [1000, 1001, 1100, 1101, 1102]
    assert token.episodes == ((1.0, 2),)
    (first, gamma, steps), (second, _, later) = Shaping.parts
    assert (gamma, steps, later) == (0.9, 2, 3)
    assert first["obs"].tolist() == [[0, 0], [0, 1]] and first["next_obs"].tolist() == [[0, 1], [0, 2]]
    assert second["obs"].tolist() == [[1, 0], [1, 1], [1, 2]] and second["next_obs"].tolist() == [
        [1, 1],
        [1, 2],
        [1, 3],
    ]
    assert first["terminated"].tolist() == [False, True] and second["truncated"].tolist() == [False] * 3


def test_shaping_comes_behind_clipping_and_before_priorities():
    keys = {"clip_rewards": 5.0, "prioritized_replay": True, "worker_side_prioritization": False}
    _, columns = worker({"ends": (2, "terminated")}, {}, callbacks="shaping", **keys).collect()
    assert columns["reward"][:, 0].tolist() == [1000, 1001, 1005, 1005, 1005]


def test_an_array_put_in_the_place_of_another_is_taken_over():
    _, columns = worker({"ends": (2, "terminated")}, callbacks="replacing").collect()
    assert columns["reward"][:, 0].tolist() == [0, -1, -100, -101, -102] and columns["reward"].dtype == np.float32


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda steps: steps.update(rewards=steps["reward"]), "steps have no 'rewards'. Did you mean 'reward'?"),
        (lambda steps: steps.update(reward=np.zeros(9)), r"reward has the shape \(9,\), not \(\d,\)"),
        (lambda steps: steps["reward"].fill(np.nan), "left a reward that is not finite"),
        (lambda steps: steps["terminated"].fill(True), "failed: ValueError: .*read-only"),
        (lambda steps: steps.update(terminated=steps["truncated"]), "terminated cannot be replaced"),
    ],
)
def test_steps_that_cannot_be_sent_are_refused(change, text, monkeypatch):
    monkeypatch.setattr(Shaping, "on_postprocess", lambda self, *, steps, **more: change(steps))
    with pytest.raises(PluginFailed, match=f"callbacks 'shaping': on_postprocess.*{text}"):
        worker({"ends": (2, "terminated")}, callbacks="shaping").collect()


def test_parts_are_those_of_a_walk_through_every_step():
    rng, shape = np.random.default_rng(5), (40, 3)
    ended = rng.random(shape) < 0.2
    terminated = ended & (rng.random(shape) < 0.5)
    order = np.argwhere(ended)
    end_obs = 100.0 * order[:, 0] + order[:, 1]
    tail = np.arange(3.0) - 7
    slow = []
    for env in range(3):
        begin = 0
        for step in range(40):
            if ended[step, env]:
                slow.append((env, begin, step + 1, 100.0 * step + env))
                begin = step + 1
        if begin < 40:
            slow.append((env, begin, 40, tail[env]))
    columns = {"terminated": terminated, "truncated": ended & ~terminated, "end_obs": end_obs, "tail_obs": tail}
    assert [tuple(part) for part in parts(columns)] == slow and len(slow) > 15


def test_fragments_may_be_changed_in_place_before_they_are_sent():
    _, columns = worker({"ends": (2, "terminated")}, callbacks="sampled").collect()
    assert columns["reward"][:, 0].tolist() == [0, 0.5, 50, 50.5, 51]
    assert columns["terminated"].flags.writeable


@pytest.mark.parametrize(
    ("how", "text"), [("shape", "on_sample_end left reward with another shape"), ("flags", "failed: ValueError")]
)
def test_fragments_that_cannot_be_sent_are_refused(how, text, monkeypatch):
    monkeypatch.setattr(Sampled, "how", how)
    with pytest.raises(PluginFailed, match=text):
        worker({"ends": (2, "terminated")}, callbacks="sampled").collect()


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"custom_metrics": {"angle": "wide"}}, r"custom_metrics\['angle'\] is 'wide'; one number is needed"),
        ({"custom_metrics": {"angle": np.zeros(3)}}, r"custom_metrics\['angle'\] is "),
        ({"hist_data": {"angles": 3}}, r"hist_data\['angles'\] is '3'; a list of numbers is needed"),
        ({"hist_data": {"angles": [1, None]}}, r"hist_data\['angles'\]: an element is 'None'"),
        ({"hist_data": {"episode_reward": [1]}}, r"hist_data\['episode_reward'\]: hist_stats already has this name"),
    ],
)
def test_metrics_that_are_no_numbers_are_refused(said, text, monkeypatch):
    monkeypatch.setattr(Odd, "said", said)
    with pytest.raises(PluginFailed, match=f"callbacks 'odd': {text}"):
        worker({"ends": (2, "terminated")}, callbacks="odd").collect()


def test_numpy_numbers_are_numbers(monkeypatch):
    said = {"custom_metrics": {"a": np.float32(0.5), "b": np.array([2])}, "hist_data": {"c": np.arange(2)}}
    monkeypatch.setattr(Odd, "said", said)
    token, _ = worker({"ends": (2, "terminated")}, callbacks="odd").collect()
    assert token.told == (({"a": 0.5, "b": 2.0}, {"c": [0.0, 1.0]}),)


def test_an_exact_resume_brings_callbacks_and_running_episodes_back():
    plan = [{"ends": (7, "terminated")}, {"ends": (3, "terminated")}]
    made = worker(*plan)
    made.collect()
    arrays, facts = made.state()
    assert facts["callbacks"] == {"steps": 5}
    following, _ = made.collect()
    whole, Noting.heard[:] = list(Noting.heard), []
    other = worker(*plan)
    other.load(arrays, facts)
    assert [heard[0] for heard in Noting.heard] == ["start"] + ["step"] * 5  # again, and then the state as it was
    assert other.state()[1]["callbacks"] == {"steps": 5}
    token, _ = other.collect()
    assert (token.told, token.episodes) == (following.told, following.episodes)
    assert token.told[0] == ({"last": 6.0}, {"lengths": [7.0, 7.0]})
    assert Noting.heard == whole


def test_a_hook_that_raises_in_a_replay_is_named(monkeypatch):
    made = worker({"ends": (7, "terminated")}, callbacks="failing")
    monkeypatch.setattr(Failing, "after", 9)
    made.collect()
    arrays, facts = made.state()
    monkeypatch.setattr(Failing, "after", 2)
    with pytest.raises(PluginFailed, match="callbacks 'failing': on_episode_step failed: KeyError: 'motor'"):
        worker({"ends": (7, "terminated")}, callbacks="failing").load(arrays, facts)


def test_steps_read_from_files_pass_by_the_hooks_on_steps(tmp_path):
    env = PENDULUM | {
        "preprocessing": None,
        "spaces": {
            "obs": {"kind": "Box", "shape": [3], "dtype": "float32"},
            "action": {"kind": "Box", "shape": [1], "dtype": "float32", "low": [-2.0], "high": [2.0]},
        },
    }
    who = {"seed": 7, "index": 0, "number": 0, "incarnation": 0, "workers": 1, "behind": 0}
    path = write(
        tmp_path / "a.json", line([[0.0, 1.0, 2.0]] * 2, [[0.5], [0.5]], [1, 2], [9.0, 9.0, 9.0], terminated=True)
    )
    made = ExperienceReader(config(input=path, callbacks="shaping"), env, spec(3, (-2.0,), (2.0,)), who)
    _, columns = made.collect()
    assert columns["reward"][:, 0].tolist() == [1001, 1002]
    ((kept, _, episode),) = Shaping.parts
    assert kept["next_obs"].tolist() == [[0.0, 1.0, 2.0], [9.0, 9.0, 9.0]] and episode is None
