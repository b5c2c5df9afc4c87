"""Random network distillation: what is new brings more, what has been seen less; its predictor, its statistics, its state."""

import numpy as np
import pytest
from episodes import Worker
from exploring import explorer, restored, saved, spec

from drl_cli.algorithms.dqn import DQNConfig
from drl_cli.algorithms.ppo import PPOConfig
from drl_cli.algorithms.sac import SACConfig
from drl_cli.config.sections.exploration_settings import exploration_settings, novelty_misfits
from drl_cli.errors import DrlError
from drl_cli.experiments import spec as experiment_spec
from drl_cli.policies.exploration.rnd import CLIP, GAMMA, RandomNetworkDistillation, next_obs

GAUSSIAN = spec("squashed_gaussian")


class Sub:
    """An exploration that does nothing."""

    memory = {}

    def describe(self, t):
        return {"epsilon": 0.5}


def rnd(obs=3, envs=2, seed=0, **settings):
    settings = {"eta": 1.0, "lr": 1e-3, "feature_dim": 8} | settings
    return RandomNetworkDistillation(obs, envs, settings, Sub(), np.random.default_rng(seed))


def fragment(obs, ended=(), after=None):
    """Columns of a fragment whose observations are ``obs`` [T, N, D]; ``ended``: {(step, env): last observation}."""
    steps, envs, size = obs.shape
    columns = {"obs": obs.astype(np.float32), "reward": np.ones((steps, envs), np.float32)}
    columns |= {"terminated": np.zeros((steps, envs), bool), "truncated": np.zeros((steps, envs), bool)}
    for place in ended:
        columns["terminated"][place] = True
    columns["end_obs"] = (
        np.float32([ended[place] for place in sorted(ended)]).reshape(-1, size)
        if ended
        else np.zeros((0, size), np.float32)
    )
    columns["tail_obs"] = np.float32(obs[-1] if after is None else after)
    return columns


def drawn(rng, center, steps=40, envs=2, size=3):
    return fragment(center + 0.1 * rng.standard_normal((steps, envs, size)))


def test_what_has_been_seen_often_brings_less_than_what_is_new():
    rng, novelty = np.random.default_rng(1), rnd()
    first = novelty.bonus(drawn(rng, 0.0)).mean()
    for _ in range(150):
        known = novelty.bonus(drawn(rng, 0.0)).mean()
    new = novelty.bonus(drawn(rng, 2.0)).mean()
    assert known < 0.3 * first and new > 5 * known


def test_observation_after_a_step_is_the_next_one_the_last_or_the_one_behind_the_fragment():
    worker = Worker(3, 2, end=0.3)
    columns = worker.fragment(12)
    after = {}
    for episode in worker.episodes:
        numbers = [number for number, _ in episode["steps"]] + [episode["after"]]
        after |= dict(zip(numbers, numbers[1:], strict=False))
    found = next_obs(columns)
    assert [after[number] for number in columns["obs"].ravel().astype(int)] == found.ravel().astype(int).tolist()
    assert len(columns["end_obs"]) > 2


def test_rows_behind_complete_episodes_are_not_seen():
    rng = np.random.default_rng(0)
    obs = rng.standard_normal((6, 2, 3))
    columns = fragment(obs, {(2, 0): np.ones(3), (5, 1): np.ones(3)}) | {"length": np.array([3, 6])}
    columns["obs"][3:, 0] = 1e6
    novelty = rnd()
    bonus = novelty.bonus(columns)
    assert not bonus[3:, 0].any() and bonus[:3, 0].all() and bonus[:, 1].all()
    assert novelty.memory["count"][0] == 9 and np.abs(novelty.memory["mean"]).max() < 10


def test_statistics_are_those_of_all_observations_and_returns():
    rng, novelty = np.random.default_rng(2), rnd(envs=2)
    seen, returns, errors, running = [], [], [], np.zeros(2)
    for _ in range(4):
        columns = fragment(rng.standard_normal((5, 2, 3)), {(2, 1): rng.standard_normal(3)})
        bonus = novelty.bonus(columns)
        seen.append(next_obs(columns).reshape(-1, 3))
        scale = np.sqrt(novelty.memory["return_moments"][2] / novelty.memory["return_moments"][0])
        error = bonus * scale
        for step in range(5):
            running = GAMMA * running + error[step]
            returns += running.tolist()
            running[columns["terminated"][step]] = 0.0
        errors.append(error)
    seen = np.concatenate(seen).astype(np.float64)
    np.testing.assert_allclose(novelty.memory["mean"], seen.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(novelty.memory["square"] / len(seen), seen.var(axis=0), rtol=1e-9)
    np.testing.assert_allclose(scale, np.std(returns), rtol=1e-4)
    assert novelty.describe(0) == {"epsilon": 0.5, "intrinsic_reward": pytest.approx(float(bonus.mean()), rel=1e-5)}


def test_predictor_descends_the_gradient_of_its_squared_error():
    novelty, rng = rnd(lr=1e-3), np.random.default_rng(4)
    obs = rng.standard_normal((20, 3)).clip(-CLIP, CLIP)
    wanted = novelty._net("target", obs)[-1]

    def loss():
        return np.square(novelty._net("predictor", obs)[-1] - wanted).mean()

    before = {name: array.copy() for name, array in novelty.memory.items()}
    novelty._descend(obs, wanted)
    gradients = {name: novelty.memory[f"first/{name}"] / 0.1 for name in before if name.startswith("predictor/")}
    for name, array in before.items():
        novelty.memory[name][...] = array
    for name, gradient in gradients.items():
        place = np.unravel_index(np.abs(gradient).argmax(), gradient.shape)
        slopes = []
        for change in (1e-6, -1e-6):
            novelty.memory[name][place] = before[name][place] + change
            slopes.append(loss())
        novelty.memory[name][place] = before[name][place]
        np.testing.assert_allclose(gradient[place], (slopes[0] - slopes[1]) / 2e-6, rtol=1e-4)


def test_eta_scales_the_bonus_and_networks_of_workers_differ():
    columns = drawn(np.random.default_rng(0), 0.0)
    one, four, other = rnd(), rnd(eta=4.0), rnd(seed=1)
    first = one.bonus(columns)
    np.testing.assert_allclose(four.bonus(columns), 4 * first, rtol=1e-5)
    assert not np.allclose(other.bonus(columns), first)


def test_bonus_goes_on_bit_for_bit_from_a_saved_state():
    rng = np.random.default_rng(5)
    parts = [drawn(rng, 0.0, envs=4) for _ in range(4)]
    made = lambda: explorer(GAUSSIAN, type="RND", lr=0.001)  # noqa: E731
    novelty = made()
    for columns in parts[:2]:
        novelty.bonus(columns)
    state = saved(novelty, rng)
    expected = [novelty.bonus(columns) for columns in parts[2:]]
    other = made()
    restored(other, state)
    assert [other.bonus(columns).tobytes() for columns in parts[2:]] == [bonus.tobytes() for bonus in expected]


def test_no_bonus_without_exploration_or_of_another_kind():
    columns = drawn(np.random.default_rng(0), 0.0, envs=4)
    assert explorer(GAUSSIAN, explore=False, type="RND").bonus(columns) is None
    assert explorer(GAUSSIAN, type="StochasticSampling").bonus(columns) is None


@pytest.mark.parametrize(
    ("config", "acts"),
    [(PPOConfig, "StochasticSampling"), (SACConfig, "StochasticSampling"), (DQNConfig, "EpsilonGreedy")],
)
def test_actions_are_chosen_as_the_algorithm_does_where_nothing_is_said(config, acts):
    settings = exploration_settings(config(exploration_config={"type": "RND"}))
    assert (settings["type"], settings["sub_exploration"]["type"]) == ("RND", acts)


def test_images_several_agents_and_runs_without_its_steps_are_refused():
    rnd_of = {"exploration_config": {"type": "RND"}}
    assert novelty_misfits(SACConfig(**rnd_of), [3], False) == [] == novelty_misfits(SACConfig(), [84, 84, 4], True)
    refused = [
        (SACConfig(**rnd_of), [84, 84, 4], False, "for vectors"),
        (SACConfig(**rnd_of), [3], True, "for one agent"),
        (SACConfig(**rnd_of, input="policy_server"), [3], False, "external simulators"),
        (SACConfig(**rnd_of, input="/somewhere"), [3], False, "recorded steps"),
        (SACConfig(**rnd_of, deterministic=True), [3], False, "deterministic"),
    ]
    for config, shape, agents, told in refused:
        (line,) = novelty_misfits(config, shape, agents)
        assert told in line and line.startswith("exploration_config.type: RND")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"exploration_config.eta=1"}, "eta"),
        ({"exploration_config.type=RND", "exploration_config.sub_exploration={type: RND}"}, "sub_exploration"),
        ({"exploration_config.type=RND", "exploration_config.feature_dim=0"}, "feature_dim"),
        ({"exploration_config.type=RDN"}, "RND"),
    ],
)
def test_wrong_keys_are_one_line(words, told):
    with pytest.raises(DrlError) as caught:
        experiment_spec.from_flags(
            {"run": "SAC", "env": "Pendulum-v1", "set": sorted(words), "stop": ["timesteps_total=9"]}
        )
    assert told in str(caught.value) and "\n" not in str(caught.value)
