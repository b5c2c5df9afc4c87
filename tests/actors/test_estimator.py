"""The policy judged by recorded episodes: a sample that the seed decides, RLlib's names, reasons instead of numbers."""

import numpy as np
import pytest
from recorded_files import write_uniform

from drl_cli.actors import estimator as module
from drl_cli.actors.estimator import Estimator
from drl_cli.algorithms import dqn
from drl_cli.algorithms import sac as sac_family
from drl_cli.algorithms.dqn import DQNConfig
from drl_cli.algorithms.sac import SACConfig
from drl_cli.experience.action_likelihood import Drawing
from drl_cli.experience.recorded.read import Source
from drl_cli.experience.recorded_episodes import EpisodeCollector, layout_of_policy
from drl_cli.policies.numpy_policy import NumpyPolicy

BOX = {"kind": "Box", "shape": [1], "dtype": "float32", "low": [-2.0], "high": [2.0]}
PENDULUM = {"obs": {"kind": "Box", "shape": [3], "dtype": "float32"}, "action": BOX}
CARTPOLE = {
    "obs": {"kind": "Box", "shape": [4], "dtype": "float32"},
    "action": {"kind": "Discrete", "n": 2, "start": 0, "shape": [], "dtype": "int32"},
}


@pytest.fixture
def sac(tmp_path):
    """Function (keys of the config) → (config, policy) over 30 recorded episodes of ten steps in Pendulum."""
    path = write_uniform(tmp_path / "recorded.json")

    def made(**keys):
        config = SACConfig.model_validate(
            {
                "input": path,
                "input_evaluation": ["is", "wis"],
                "seed": 3,
                "policy_model": {"fcnet_hiddens": [4]},
                **keys,
            }
        )
        spec = sac_family.policy_spec(config, PENDULUM)
        return config, NumpyPolicy(spec, sac_family.initial_weights(config, spec, 0))

    return made


def test_estimates_have_rllibs_names_and_are_those_of_the_episodes(sac):
    config, policy = sac()
    found = Estimator(config, policy).estimate(0)
    recollection = EpisodeCollector(policy)
    for piece in Source(config.input, layout_of_policy(policy.spec), passes=1):
        recollection.add(piece)
    expected = recollection.estimate(config.gamma)
    assert (found["episodes"], list(found)) == (30, ["episodes", "effective_sample_size", "is", "wis"])
    assert found["effective_sample_size"] == pytest.approx(expected["effective_sample_size"])
    for method, name in (("is", "IS"), ("wis", "WIS")):
        step = expected[method]["per_step"]
        assert found[method] == {
            "V_prev": pytest.approx(expected["behaviour"]["mean"]),
            f"V_step_{name}": pytest.approx(step["mean"]),
            f"V_step_{name}_low": pytest.approx(step["low"], rel=0.2),
            f"V_step_{name}_high": pytest.approx(step["high"], rel=0.2),
            f"V_episode_{name}": pytest.approx(expected[method]["per_episode"]["mean"]),
            "V_gain_est": None,  # costs: what was recorded is below 0
        }


def test_only_what_was_asked_for_is_told(sac):
    assert list(Estimator(*sac(input_evaluation="wis")).estimate(0)) == ["episodes", "effective_sample_size", "wis"]


def test_new_weights_are_judged_by_the_same_episodes(sac):
    config, policy = sac(input_evaluation_num_episodes=7)
    judge = Estimator(config, policy)
    first = judge.estimate(0)
    policy.set_weights(sac_family.initial_weights(config, policy.spec, 1))
    second = judge.estimate(0)
    assert first["episodes"] == second["episodes"] == 7
    assert first["wis"]["V_prev"] == second["wis"]["V_prev"] and first["wis"] != second["wis"]


def test_sample_depends_on_the_seed_alone(sac):
    values = [Estimator(*sac(input_evaluation_num_episodes=7, seed=seed)).estimate(0) for seed in (3, 3, 4)]
    assert values[0] == values[1] and values[0] != values[2]


def test_every_episode_is_as_likely_to_be_in_the_sample(sac):
    counts = np.zeros(30)
    for seed in range(60):
        judge = Estimator(*sac(input_evaluation_num_episodes=10, seed=seed))
        for piece in judge._drawn():
            counts[int(piece.episode)] += 1
    assert counts.sum() == 600 and abs(counts.reshape(3, 10).sum(axis=1) - 200).max() < 40


def test_reading_and_memory_are_bounded(sac, monkeypatch):
    monkeypatch.setattr(module, "MAX_STEPS", 120)
    assert Estimator(*sac()).estimate(0)["episodes"] == 12
    monkeypatch.setattr(module, "MAX_BYTES", 5 * 10 * 3 * 4)
    assert Estimator(*sac()).estimate(0)["episodes"] == 5


def test_files_without_probabilities_give_the_reason(sac, tmp_path):
    told = Estimator(*sac(input=write_uniform(tmp_path / "bare.json", scored=False))).estimate(0)
    assert (
        list(told) == ["text"] and "bare.json:1: the probabilities of these actions were not recorded" in told["text"]
    )


def test_policy_over_action_values_explores_as_at_that_env_step(tmp_path):
    path = write_uniform(tmp_path / "recorded.json", "CartPole-v1")
    exploring = {"initial_epsilon": 1.0, "final_epsilon": 0.1, "epsilon_timesteps": 1000}
    config = DQNConfig.model_validate(
        {"input": path, "input_evaluation": "wis", "exploration_config": exploring, "seed": 1}
    )
    spec = dqn.policy_spec(config, CARTPOLE)
    policy = NumpyPolicy(spec, dqn.initial_weights(config, spec, 0))
    judge = Estimator(config, policy)
    early, late = judge.estimate(0), judge.estimate(5000)
    # epsilon 1 is what uniform actions did
    assert early["wis"]["V_step_WIS"] == pytest.approx(early["wis"]["V_prev"]) and early["wis"][
        "V_gain_est"
    ] == pytest.approx(1)
    recollection = EpisodeCollector(policy, Drawing(0.1))
    for piece in judge._sample:
        recollection.add(piece)
    assert late["wis"]["V_step_WIS"] == recollection.estimate(config.gamma)["wis"]["per_step"]["mean"]
