"""A worker with several agents against the environment's own slow list of what they lived through."""

import numpy as np
import pytest
from agent_workers import APART, GAMMA, SHARED, agents_worker, lived_by
from agents_at_random import AGENTS, AtRandom

from drl_cli.envs.multi_agent.agent_functions import register_policy_mapping
from drl_cli.experience.ring_buffer import Ring
from drl_cli.experience.trajectories import join
from drl_cli.policies.forward import Forward


@pytest.mark.parametrize("policies", [SHARED, APART], ids=["shared", "apart"])
@pytest.mark.parametrize(
    ("breaks", "always"), [(0.0, False), (0.05, False), (0.0, True)], ids=["late", "broken", "always"]
)
def test_what_the_replay_holds_is_what_the_agents_lived_through(monkeypatch, policies, breaks, always):
    worker, made = agents_worker(monkeypatch, "dqn", policies, breaks, always)
    rings = {name: Ring(10_000, (1,), (), ("float32", "int32")) for name in policies}
    for _ in range(40):
        _, sent = worker.collect()
        for name, columns in sent.policies.items():
            rings[name].add(0, columns)
    for name, agents in policies.items():
        ring, lived = rings[name], lived_by(made, agents)
        rows = np.arange(len(ring))
        reward, discount, last, valid = ring.windows(rows, 1, GAMMA)
        found = {int(ring.obs[row, 0]): row for row in rows[valid]}
        # What is open when the fragment ends is in the next one; the newest closed step of a stream waits for its successor.
        assert set(found) <= set(lived)
        assert len(lived) - len(found) <= 2 * len(agents)
        assert len(found) > 100
        for number, row in found.items():
            step = lived[number]
            assert ring.action[row] == step["action"]
            assert reward[row] == pytest.approx(step["reward"], abs=1e-5)
            assert discount[row] == np.float32(0.0 if step["end"] == "terminated" else GAMMA)
            if step["end"] != "broken":
                assert int(ring.obs[last[row], 0]) == step["after"]


@pytest.mark.parametrize("always", [False, True], ids=["late", "always"])
def test_trajectories_bootstrap_and_break_where_each_agent_does(monkeypatch, always):
    worker, made = agents_worker(monkeypatch, "ppo", SHARED, 0.02, always)
    fragments = [worker.collect()[1].policies["default_policy"] for _ in range(12)]
    lived = lived_by(made, AGENTS)
    learnt = 0
    for fragment in fragments:
        batch = join([fragment], GAMMA)
        ends = {int(place): index for index, place in enumerate(batch["end_at"])}
        rows, steps = batch["mask"].shape
        for row in range(rows):
            for step in np.flatnonzero(batch["mask"][row]):
                one = lived[int(batch["obs"][row, step, 0])]
                learnt += 1
                assert batch["reward"][row, step] == pytest.approx(one["reward"], abs=1e-5)
                assert batch["discount"][row, step] == np.float32(0.0 if one["end"] == "terminated" else GAMMA)
                goes_on = one["end"] is None and step + 1 < steps and batch["mask"][row, step + 1]
                if step + 1 < steps:  # nothing follows the last one, whatever its trace
                    assert batch["trace"][row, step] == (1.0 if goes_on else 0.0)
                if goes_on:
                    assert int(batch["obs"][row, step + 1, 0]) == one["after"]
                elif one["end"] in (None, "truncated"):
                    assert int(batch["end_obs"][ends[row * steps + step], 0]) == one["after"]
    assert learnt > 200


def test_the_token_counts_env_steps_and_scores_each_agent(monkeypatch):
    worker, made = agents_worker(monkeypatch, "ppo", APART)
    tokens = [worker.collect()[0] for _ in range(30)]
    assert all(token.steps == 16 for token in tokens)
    episodes = [episode for token in tokens for episode in token.agents]
    assert len(episodes) > 5
    for episode in episodes:
        assert episode.reward == pytest.approx(sum(episode.returns.values()))
        assert episode.policy_of == {"a": "first", "b": "others", "c": "others"}


def test_agent_steps_are_counted_where_the_config_says_so(monkeypatch):
    worker, _ = agents_worker(monkeypatch, "ppo", SHARED, multiagent={"count_steps_by": "agent_steps"})
    for _ in range(5):
        token, sent = worker.collect()
        (columns,) = sent.policies.values()
        assert token.steps == int(columns["steps"].sum() if "steps" in columns else columns["reward"].size)


def test_mapping_that_answers_differently_each_time_is_kept_for_the_whole_episode(monkeypatch, plug_ins):
    asked = []

    def by_turns(agent, episode):
        asked.append((episode.env_index, episode.number, agent))
        return ("first", "others")[len(asked) % 2]

    register_policy_mapping("by-turns", by_turns)
    worker, made = agents_worker(monkeypatch, "dqn", {"first": AGENTS, "others": AGENTS}, mapping_fn="by-turns")
    acted = {}  # (environment, episode, agent) → policies that acted
    for name, slots in worker._slots.items():
        monkeypatch.setattr(slots, "act", noted(slots.act, name, acted, worker, made))
    episodes = [episode for _ in range(30) for episode in worker.collect()[0].agents]
    assert len(episodes) > 5 and len(acted) > 15
    assert all(len(policies) == 1 for policies in acted.values())
    assert {policy for (policy,) in acted.values()} == {"first", "others"}
    assert len(asked) == len(set(asked)), "asked more than once for an agent in an episode"


def noted(act, policy, acted, worker, made):
    """Return ``act`` of a policy's slots, which notes for whom it acted."""

    def acts(streams, *rest):
        for stream in streams:
            env, agent = divmod(stream, len(AGENTS))
            acted.setdefault((env, made[env].resets, AGENTS[agent]), set()).add(policy)
        return act(streams, *rest)

    return acts


LSTM = {"model": {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 4, "fcnet_hiddens": [8]}}
FILTER = {"observation_filter": "MeanStdFilter"}


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        ("ppo", {}),
        ("dqn", {}),
        ("ppo", {"first": LSTM, "others": FILTER}),
        ("dqn", {"others": {**FILTER, "n_step": 3}}),
    ],
    ids=["ppo", "dqn", "lstm-filter", "plain-filter"],
)
def test_a_worker_that_goes_on_from_its_state_sends_what_it_would_have_sent(monkeypatch, kind, own):
    worker, _ = agents_worker(monkeypatch, kind, APART, own=own)
    for _ in range(3):
        worker.collect()
    arrays, facts = worker.state()
    AtRandom.numbers = iter(range(10_000, 20_000))
    expected = [worker.collect() for _ in range(2)]
    other, _ = agents_worker(monkeypatch, kind, APART, own=own)
    AtRandom.numbers = iter(range(100, 10_000))
    other.collect()  # whatever came before counts for nothing
    assert other.load(arrays, facts) == 0
    found = [other.collect() for _ in range(2)]
    for (token, sent), (again, resent) in zip(expected, found, strict=True):
        assert token.agents == again.agents
        for name, columns in sent.policies.items():
            for column, values in columns.items():
                if "obs" not in column and "state" not in column and column != "logp":
                    np.testing.assert_array_equal(values, resent.policies[name][column], err_msg=f"{name} {column}")


def test_one_stream_of_a_ladder_is_one_environment_whatever_its_agents():
    from drl_cli.policies.exploration.interface import ladder

    place = {"stream": 1, "streams": 4, "random_steps": 0, "base": 0}
    levels = ladder(place, 6, agents=3)(0, slice(None))
    np.testing.assert_allclose(levels, np.repeat(ladder(place, 2)(0, slice(None)), 3))


def test_all_rows_act_together_whoever_has_the_turn(monkeypatch):
    worker, _ = agents_worker(monkeypatch, "ppo", SHARED)
    seen, heads = [], Forward.heads
    monkeypatch.setattr(Forward, "heads", lambda net, x, *rest: (seen.append(len(x)), heads(net, x, *rest))[1])
    worker.collect()
    assert set(seen) == {6}  # two environments of three agents


def test_in_turns_the_net_sees_only_who_acts_in_blocks_of_one_size(monkeypatch):
    worker, _ = agents_worker(monkeypatch, "ppo", SHARED, is_turn_based=True)
    seen, heads = [], Forward.heads
    monkeypatch.setattr(Forward, "heads", lambda net, x, *rest: (seen.append(len(x)), heads(net, x, *rest))[1])
    worker.collect()
    assert set(seen) == {2}  # as many as environments
    policy, obs = worker._slots["default_policy"].policy, np.arange(6, dtype=np.float32)[:, None]
    chosen, alone = policy.for_rows(np.array([4, 1, 3]), 2).heads(obs), policy.for_rows(np.array([3]), 2).heads(obs)
    assert set(chosen) == {"logits"}
    assert not chosen["logits"][[0, 2, 5]].any()
    assert chosen["logits"][3].tolist() == alone["logits"][3].tolist()


def test_complete_episodes_end_with_their_environments_and_every_step_is_learnt_from_once(monkeypatch):
    worker, made = agents_worker(
        monkeypatch, "ppo", APART, 0.02, batch_mode="complete_episodes", rollout_fragment_length=5
    )
    learnt = {name: [] for name in APART}
    for _ in range(8):
        token, sent = worker.collect()
        assert token.steps >= sum(episode.length for episode in token.agents) > 0
        for name, columns in sent.policies.items():
            assert len(columns["reward"]) == max(1, columns["length"].max())
            ended = columns["terminated"] | columns["truncated"]
            for stream, steps in enumerate(columns["length"].tolist()):
                assert steps == 0 or ended[steps - 1, stream]
                assert not columns["obs"][steps:, stream].any()
            batch = join([columns], GAMMA)
            real = batch["mask"] > 0
            learnt[name] += list(zip(batch["obs"][real][:, 0].tolist(), batch["reward"][real].tolist(), strict=True))
    for name, agents in APART.items():
        lived = lived_by(made, agents)
        assert len(learnt[name]) > 50
        assert sorted(number for number, _ in learnt[name]) == sorted(lived)
        assert all(lived[number]["reward"] == pytest.approx(reward, abs=1e-5) for number, reward in learnt[name])


def test_agents_are_cut_short_at_a_soft_horizon_and_their_environment_goes_on(monkeypatch):
    worker, made = agents_worker(monkeypatch, "ppo", SHARED, 0.0, True, horizon=3, soft_horizon=True)
    token, sent = worker.collect()
    assert {episode.length for episode in token.agents} <= {1, 2, 3}
    assert sum(episode.length == 3 for episode in token.agents) >= 2
    (columns,) = sent.policies.values()
    resets = sum(env.resets for env in made)
    assert resets < len(token.agents) + 2
    assert columns["truncated"].any()


@pytest.mark.parametrize("batch_mode", ["truncate_episodes", "complete_episodes"])
def test_memory_and_filter_are_of_one_policy_each(monkeypatch, batch_mode):
    worker, _ = agents_worker(
        monkeypatch, "ppo", APART, 0.02, own={"first": LSTM, "others": FILTER}, batch_mode=batch_mode
    )
    remembered = []
    for _ in range(6):
        token, sent = worker.collect()
        first, others = sent.policies["first"], sent.policies["others"]
        assert set(token.seen) == {"others"} and "state_0" not in others and "position" not in others
        lengths = first.get("length", first.get("steps", np.full(2, len(first["reward"]))))
        for stream, steps in enumerate(lengths.tolist()):
            ended = (first["terminated"] | first["truncated"])[:steps, stream]
            position, state = first["position"][:steps, stream], first["state_0"][:steps, stream]
            begins = np.flatnonzero(ended[:-1]) + 1
            assert not position[begins].any() and not state[begins].any()
            inside = np.setdiff1d(np.arange(1, steps), begins)
            assert (position[inside] == position[inside - 1] + 1).all()
            remembered += [np.abs(state[inside]).max()] if len(inside) else []
        batch = join([first], GAMMA, 4)
        assert batch["state_0"].shape[-1] == 4
    assert min(remembered) > 0
