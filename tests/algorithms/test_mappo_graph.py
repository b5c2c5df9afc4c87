"""MAPPO against a slow reference: each agent's rewards, ends, advantages and ratios, and what its keys change."""

import numpy as np
import pytest
import team_envs  # noqa: F401  registers OddTeam-v0
from batch_machine import BatchMachine, config
from machine import SCOPE

from drl_cli.actors.rollout_worker import RolloutWorker
from drl_cli.algorithms import mappo_graph, table
from drl_cli.config.parse import parse
from drl_cli.envs import make
from drl_cli.errors import ConfigError
from drl_cli.experience.trajectories import join
from drl_cli.extras import load
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.policies.team_actor_critic_tf import TeamActorCritic
from drl_cli.runtime.cluster import LocalHandle
from drl_cli.tf1.tensorflow import function, tf

pytestmark = pytest.mark.tensorflow

AGENTS, REWARDS = 3, (1.0, 10.0, 100.0)
KEYS = {"train_batch_size": 42, "sgd_minibatch_size": 21, "num_sgd_iter": 2, "gamma": 0.9, "lambda": 0.8}
KEYS |= {"num_envs_per_worker": 3, "rollout_fragment_length": 7}
FIRST = ("first_ratio_deviation", "first_kl", "first_clip_fraction")


class Played:
    """What a worker did in OddTeam-v0: two fragments of 7 steps of 3 environments, whose episodes have 4 steps."""

    def __init__(self, env_config, **keys):
        row, self.config = table.find("MAPPO"), config("MAPPO", **(KEYS | keys))
        env = {"id": "OddTeam-v0", "env_config": env_config, "imports": (), "preprocessing": None}
        self.spaces = make.check(env["id"], env_config, row)
        nets = load(row.nets)
        spec = nets.policy_spec(self.config, self.spaces)
        rng, initial = np.random.default_rng(1), nets.initial_weights(self.config, spec, 3)
        self.weights = {n: (w + rng.normal(0, 0.3, w.shape)).astype(np.float32) for n, w in initial.items()}
        server = LocalHandle("server", "drl_cli.actors.parameter_server:ParameterServer", ())
        server.call("push", {"default_policy": self.weights})
        place = {"seed": 7, "index": 0, "incarnation": 0, "random_steps": 0, "stream": 0, "streams": 3, "base": 0}
        worker = RolloutWorker(self.config, env, spec, place, server)
        fragments = [worker.collect(1)[1] for _ in range(2)]
        worker.close()
        self.batch = join(fragments, self.config.gamma, every_end=True)
        self.shape = (*self.batch["mask"].shape, len(self.batch["end_at"]))
        self.spec = spec

    def machine(self):
        made = BatchMachine("MAPPO", self.config, self.spaces, self.shape)
        made.set(**self.weights)
        return made

    def estimated(self):
        """Return the rows that are learnt from, [E, T, A, …]."""
        with tf.Graph().as_default(), tf.Session() as session:
            net = TeamActorCritic(self.spec, self.weights, SCOPE, self.config.death_masking)
            norm = mappo_graph.ValueNorm(SCOPE, self.config.value_normalization)
            variables = [*net.variables.values(), *norm.variables.values()]
            session.run(tf.variables_initializer(variables))
            batch = {name: tf.constant(column) for name, column in self.batch.items()}

            def estimate(batch):  # a function, so that what is read after an assignment sees it, as in the learner
                return mappo_graph.agent_estimates(self.config, net, norm, batch).rows

            rows = session.run(function(estimate, autograph=False)(batch))
        return {name: values.reshape(*self.shape[:2], AGENTS, *values.shape[1:]) for name, values in rows.items()}


KINDS = {"discrete": {}, "cut": {"cut": True}, "box": {"box_actions": True}, "masked": {"mask": 2}}


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "own"])
@pytest.mark.parametrize("env_config", KINDS.values(), ids=KINDS)
def test_first_minibatch_has_each_agent_s_ratio_1_and_kl_0(env_config, shared):
    played = Played(env_config, share_weights=shared)
    with played.machine() as machine:
        out = machine.learn(played.batch, lr=0.1)
        assert [out.stats[name] for name in FIRST] == [pytest.approx(0.0, abs=5e-6)] * 3
        assert out.stats["kl"] > 1e-5
        assert out.finite
        after = machine.values()
    assert all(np.isfinite(value).all() for value in after.values())
    assert {n for n, w in played.weights.items() if np.array_equal(w, after[n])} == set()


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "own"])
def test_joint_log_probability_of_the_worker_is_the_sum_of_the_agents_that_it_drew(shared):
    played = Played({}, share_weights=shared, death_masking=False)
    rows = played.estimated()
    np.testing.assert_allclose(rows["logp"].sum(axis=2), played.batch["logp"], atol=1e-5)
    policy = NumpyPolicy(played.spec, played.weights)
    obs = played.batch["obs"].reshape(-1, played.spec.obs_shape[0])
    np.testing.assert_allclose(rows["value"].mean(axis=2).ravel(), policy.value(obs, ()), atol=1e-5)


def slow_advantages(played, values):
    """Each agent's advantages step by step in one row, as if it were alone; ``values``: [E, T, A], 0 for who is gone."""
    batch, (streams, steps, _) = played.batch, played.shape
    found, gamma, lambda_ = np.zeros((streams, steps, AGENTS)), 0.9, 0.8
    layout = played.spec.team
    alive = batch["obs"][..., layout.alive[0] : sum(layout.alive)]
    end_alive = batch["end_obs"][..., layout.alive[0] : sum(layout.alive)]
    last = {int(at): which for which, at in enumerate(batch["end_at"])}
    for e in range(streams):
        for agent in range(AGENTS):
            later = 0.0
            for t in reversed(range(steps)):
                if not alive[e, t, agent]:
                    later = 0.0
                    continue
                which = last.get(e * steps + t)
                if which is not None:
                    goes_on, after = end_alive[which, agent], played.end_values[which, agent]
                else:
                    goes_on, after = alive[e, t + 1, agent], values[e, t + 1, agent]
                ended = batch["trace"][e, t] == 0
                delta = REWARDS[agent] + gamma * goes_on * after - values[e, t, agent]
                later = delta + (0.0 if ended or not goes_on else gamma * lambda_ * later)
                found[e, t, agent] = later
    return found, alive


@pytest.mark.parametrize("cut", [False, True])
def test_advantages_are_those_of_each_agent_s_own_rewards_until_its_own_end(cut):
    played = Played({"cut": cut}, value_normalization=False)
    rows = played.estimated()
    values = rows["value"].astype(float)
    with tf.Graph().as_default(), tf.Session() as session:
        net = TeamActorCritic(played.spec, played.weights, SCOPE, True)
        session.run(tf.variables_initializer(list(net.variables.values())))
        seen = net.look(net.values(), net.rows(tf.constant(played.batch["end_obs"])))
        played.end_values = session.run(seen.value).reshape(-1, AGENTS)
    expected, alive = slow_advantages(played, values)
    np.testing.assert_allclose((rows["target"] - values) * alive, expected, atol=1e-3)
    there = expected[alive > 0]
    standardized = (expected - there.mean()) / there.std() * alive
    np.testing.assert_allclose(rows["advantage"] * alive, standardized, atol=1e-3)
    assert np.array_equal(rows["mask"], alive)
    assert alive.mean() < 0.9


def test_what_agents_that_are_gone_did_changes_nothing_unless_they_go_on():
    for masked in (True, False):
        played, found = Played({}, death_masking=masked), []
        team = played.spec.team
        gone = played.batch["obs"][..., team.alive[0]] == 0
        for action in (0, 1):
            batch = played.batch | {"action": played.batch["action"].copy()}
            batch["action"][..., 0] = np.where(gone, action, batch["action"][..., 0])
            with played.machine() as machine:
                machine.learn(batch)
                found.append(machine.values())
        same = all(np.array_equal(value, found[1][name]) for name, value in found[0].items())
        assert gone.any()
        assert same == masked


def test_value_normalization_learns_targets_of_deviation_1():
    plain, normed = (Played({}, value_normalization=on).estimated() for on in (False, True))
    there = plain["mask"] > 0
    assert abs(plain["target"][there].mean()) > 10.0
    assert normed["target"][there].mean() == pytest.approx(0.0, abs=1e-4)
    assert normed["target"][there].std() == pytest.approx(1.0, abs=1e-4)


def test_shared_reward_gives_each_agent_what_the_team_gets():
    own, shared = (Played({}, shared_reward=on, value_normalization=False).estimated() for on in (False, True))
    # The team's reward is at least 110 at every step, the first agent's own is 1.
    more = (shared["target"] - own["target"])[..., 0]
    assert more[own["mask"][..., 0] > 0].min() > 50.0


def test_batch_without_a_valid_step_changes_nothing():
    played = Played({})
    with played.machine() as machine:
        machine.learn(played.batch)
        before = machine.values()
        empty = {name: np.zeros_like(played.batch[name]) for name in ("mask", "reward", "discount", "trace")}
        out = machine.learn(played.batch | empty)
        after = machine.values()
    assert (out.updates, out.finite) == (0, True)
    assert [name for name in before if not np.array_equal(before[name], after[name])] == []


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "own"])
def test_agents_begin_with_the_deviation_that_is_asked_for(shared):
    row, asked = table.find("MAPPO"), config("MAPPO", share_weights=shared, model={"log_std_init": -2.0})
    nets, spaces = load(row.nets), make.check("OddTeam-v0", KINDS["box"], row)
    weights = nets.initial_weights(asked, nets.policy_spec(asked, spaces), 3)
    bias = weights["policy/log_std/bias"]
    np.testing.assert_array_equal(bias, np.full_like(bias, -2.0))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"vf_share_layers": True}, "vf_share_layers: true fits no central value"),
        ({"model": {"use_lstm": True}}, "model.use_lstm: true: the agents of MAPPO have no memory here"),
        ({"reward_scaling": True}, "reward_scaling: true scales the reward of the team"),
        ({"clip_rewards": True}, "clip_rewards: it limits the reward of the team"),
        (
            {"use_critic": False, "use_gae": False, "batch_mode": "complete_episodes"},
            "use_critic: false leaves nothing",
        ),
        ({"observation_filter": "MeanStdFilter"}, "observation_filter: MeanStdFilter would change who is alive"),
    ],
)
def test_keys_that_no_team_can_have_are_refused(keys, message):
    with pytest.raises(ConfigError) as caught:
        parse(table.find("MAPPO"), keys, "config")
    assert message in str(caught.value)
