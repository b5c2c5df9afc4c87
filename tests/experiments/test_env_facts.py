"""Environments with several agents from words to a spec: their policies, what is refused, teams as one agent."""

import pytest

from drl_cli import events, plugins
from drl_cli.algorithms import table
from drl_cli.envs.multi_agent.agent_functions import register_observation_fn, register_policy_mapping
from drl_cli.errors import DrlError
from drl_cli.experiments import spec

TWO_POLES = "drl/MultiAgentCartPole-v1"
TRAINS_SEVERAL = "PPO PQN PG A2C IMPALA APPO DQN QRDQN SimpleQ APEX SAC TQC CROSSQ XQC TD3 DDPG APEX_DDPG"


@pytest.fixture(autouse=True)
def notices():
    """The texts of the notices that are reported during the test."""
    texts = []
    unsubscribe = events.subscribe(lambda kind, fields: texts.append(fields["text"]) if kind == "notice" else None)
    yield texts
    unsubscribe()


def made(*words, run="PPO", env=TWO_POLES, stop="timesteps_total=100"):
    return spec.from_flags({"run": run, "env": env, "set": list(words), "stop": [stop]})


def message(*words, **flags):
    with pytest.raises(DrlError) as caught:
        made(*words, **flags)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_rows_that_train_several_policies_are_those_of_the_list():
    assert {row.name for row in table.built_in() if row.several} == set(TRAINS_SEVERAL.split())


def test_one_policy_is_shared_where_nothing_is_said(notices):
    one = made()
    agents = one.env_facts["agents"]
    assert (agents["kind"], agents["is_turn_based"], agents["mapping_fn"]) == ("dictionary", False, None)
    assert agents["mapping"] == {"0": "default_policy", "1": "default_policy"}
    assert one.env_facts["spaces"] == agents["policies"]["default_policy"]["spaces"] == agents["spaces"]["0"]
    assert "One policy, default_policy, acts for all agents, whose spaces are equal: 0, 1." in notices


def test_policies_and_their_keys_are_in_the_facts_in_our_spelling():
    words = ("multiagent.policies.a.lr_schedule=[[0, 0.1], [10, 0.01]]", "multiagent.policies.b.gamma=0.9")
    one = made(*words, "multiagent.policy_mapping={'0': a, '*': b}", "multiagent.policies_to_train=[a]")
    policies = one.env_facts["agents"]["policies"]
    assert policies["a"]["config"] == {"lr": [[0, 0.1], [10, 0.01]]} and policies["b"]["config"] == {"gamma": 0.9}
    assert [own["is_trained"] for own in policies.values()] == [True, False]
    assert one.config.multiagent.policies == {name: own["config"] for name, own in policies.items()}


def test_copies_of_an_environment_with_one_agent_are_agents_by_number(notices):
    agents = made("multiagent.copies=3", env="CartPole-v1").env_facts["agents"]
    assert (agents["kind"], agents["count"], list(agents["spaces"])) == ("copies", 3, ["0", "1", "2"])
    assert not any(text.startswith("tuned file") for text in notices)


def test_threshold_of_one_agent_is_no_stop_rule_of_copies():
    one = spec.from_flags({"run": "PPO", "env": "CartPole-v1", "set": ["multiagent.copies=2"]})
    assert list(one.stop) == ["timesteps_total"]


def test_empty_block_means_one_agent_where_there_is_one():
    assert (
        "agents" not in made("multiagent.policies={}", "multiagent.policy_mapping_fn=null", env="CartPole-v1").env_facts
    )


def test_function_chooses_as_episodes_begin():
    register_policy_mapping("by turns", lambda agent, episode: "ab"[(int(agent) + episode.number) % 2])
    try:
        agents = made("multiagent.policies=[a, b]", "multiagent.policy_mapping_fn=by turns").env_facts["agents"]
    finally:
        plugins.POLICY_MAPPINGS._things = {}
    assert (agents["mapping"], agents["mapping_fn"]) == (None, "by turns")
    assert agents["policies"]["a"]["agents"] == ["0", "1"]


@pytest.mark.parametrize(
    ("words", "flags", "text"),
    [
        (
            (),
            {"run": "ES"},
            f"{TWO_POLES} has several agents, and ES trains the policy of one agent. Those that train several: ",
        ),
        (
            ("multiagent.copies=2",),
            {"run": "ARS", "env": "CartPole-v1"},
            "multiagent.copies: ARS trains the policy of one agent",
        ),
        (
            ("multiagent.policies=[a]",),
            {"env": "CartPole-v1"},
            "multiagent.policies: CartPole-v1 has one agent. Write what differs beside multiagent, or play several of it",
        ),
        (("multiagent.copies=2",), {}, f"multiagent.copies: {TWO_POLES} has several agents itself. Leave it out."),
        (("multiagent.mode=aec",), {}, f"multiagent.mode: {TWO_POLES} is no environment of PettingZoo"),
        (("multiagent.policies.a.lrr=1",), {}, "multiagent.policies.a.lrr: unknown key (-s). Did you mean 'lr'?"),
        (
            ("multiagent.replay_mode=lockstep",),
            {},
            "multiagent.replay_mode: lockstep is for teams; each policy of PPO learns",
        ),
        (
            ("multiagent.policies=[a]", "multiagent.policy_mapping_fn=drow"),
            {},
            "multiagent.policy_mapping_fn: No mapping of agents to policies is registered as 'drow'.",
        ),
        (
            ("callbacks=none such", "remote_worker_envs=true", "num_envs_per_worker=2"),
            {},
            "callbacks: No class of callbacks is registered",
        ),
        (("input=nowhere",), {"run": "DQN"}, "nowhere: No such file or directory. It takes a file, a folder"),
        (
            ("input=nowhere", "input_evaluation=[is]"),
            {"run": "DQN"},
            "input_evaluation: with several agents nothing is estimated from recorded episodes. Leave it out.",
        ),
        (
            ("remote_worker_envs=true", "num_envs_per_worker=2", "record_env=true"),
            {},
            "record_env: with remote_worker_envs the environments cannot be rendered.",
        ),
        (
            ("multiagent.policies={a: {use_sde: true}}",),
            {},
            "policy a: use_sde: state-dependent noise is for Box actions, the environment's are Discrete.",
        ),
        ((), {"run": "TD3"}, f"{TWO_POLES}: agent '0': "),
    ],
)
def test_what_does_not_go_with_these_agents_is_refused_in_one_line(words, flags, text):
    assert text in message(*words, **flags)


def test_priorities_of_workers_are_off_and_that_is_said(notices):
    one = made(run="APEX")
    assert one.config.worker_side_prioritization is False
    assert any(text.startswith("worker_side_prioritization is off: with several agents") for text in notices)


def test_recorded_config_of_policies_is_read_as_the_same():
    mapping = "multiagent.policy_mapping={'0': a, '1': b}"
    one = made("multiagent.policies={a: {lr: 0.1}, b: null}", mapping)
    recorded = one.config.model_dump(mode="json", by_alias=True)["multiagent"]["policies"]
    again = made(f"multiagent.policies={recorded}", mapping)
    assert again.env_facts["agents"] == one.env_facts["agents"]


def test_team_row_runs_as_one_agent_that_is_all_of_them(notices):
    one = made(run="QMIX", env="drl/TwoStepGame-v1")
    assert (one.env, one.env_asked) == ("drl/Team-v1", "drl/TwoStepGame-v1")
    assert one.config.env_config == {"env": "drl/TwoStepGame-v1", "env_config": {}}
    assert "agents" not in one.env_facts and one.env_facts["spaces"]["team"]
    assert (
        "QMIX trains a team: drl/TwoStepGame-v1 runs as drl/Team-v1 with env_config.env drl/TwoStepGame-v1, all of its agents "
        "seen as one." in notices
    )


def test_team_whose_actions_the_algorithm_cannot_learn_names_those_that_can():
    said = message("env_config.continuous_actions=true", run="QMIX", env="mpe2/simple_spread-v3")
    assert "drl/Team-v1" not in said
    assert (
        "mpe2/simple_spread-v3: QMIX trains teams whose agents have Discrete actions; these agents have Box actions. "
        "Algorithms for such teams: MADDPG, MAPPO." in said
    )


def test_row_of_one_agent_takes_a_team_that_is_named():
    assert made("env_config={env: drl/TwoStepGame-v1}", env="drl/Team-v1").env_facts["spaces"]["team"]


def test_state_of_a_team_is_that_of_the_observation_function_where_the_algorithm_sees_one():
    register_observation_fn("sizes", lambda observations: [float(len(observations)), 1.0, 2.0])
    words = ("multiagent.observation_fn=sizes",)
    try:
        one = made(*words, run="QMIX", env="drl/TwoStepGame-v1")
        refused = message(*words, run="VDN", env="drl/TwoStepGame-v1")
        unused = message(*words)
    finally:
        plugins.OBSERVATION_FNS._things = {}
    assert one.config.env_config["observation_fn"] == "sizes"
    assert one.env_facts["spaces"]["team"]["state"][1] == 3
    assert (
        "multiagent.observation_fn: VDN learns without a state. Those that see what it returns: QMIX, MAPPO" in refused
    )
    assert "multiagent.observation_fn: with several agents each policy sees what its agents see" in unused


def test_minibatch_of_a_shared_policy_may_hold_the_steps_of_all_its_agents():
    batch = ("train_batch_size=64", "rollout_fragment_length=16")
    assert made(*batch, "sgd_minibatch_size=128").config.sgd_minibatch_size == 128
    assert message(*batch, "sgd_minibatch_size=129") == (
        "sgd_minibatch_size: 129 is more than the 128 agent steps of a batch: train_batch_size 64 times 2 agents. "
        "Set it to 128 or less."
    )


def test_minibatch_of_a_policy_of_its_own_may_hold_the_steps_of_its_agents_alone():
    words = ("train_batch_size=64", "rollout_fragment_length=16", "sgd_minibatch_size=64")
    own = "multiagent.policies={a: null, b: {sgd_minibatch_size: %d}}"
    mapping = "multiagent.policy_mapping={'0': a, '*': b}"
    assert made(*words, own % 128, mapping, "env_config.num_agents=3").config.train_batch_size == 64
    refused = message(*words, own % 65, mapping)
    assert refused.startswith("multiagent.policies.b: sgd_minibatch_size: 65 is more than train_batch_size 64")


def test_minibatch_of_one_agent_holds_no_more_env_steps_than_a_batch():
    refused = message("train_batch_size=64", "rollout_fragment_length=16", "sgd_minibatch_size=65", env="CartPole-v1")
    assert refused == "sgd_minibatch_size: 65 is more than train_batch_size 64. Set it to 64 or less."


def test_minibatch_of_agents_that_act_in_turn_holds_no_more_steps_than_a_batch():
    words = ("train_batch_size=64", "rollout_fragment_length=16", "sgd_minibatch_size=65")
    assert "65 is more than train_batch_size 64" in message(*words, env="drl/TicTacToe-v1")


def test_minibatch_of_a_team_holds_steps_of_agents_and_a_batch_env_steps():
    batch = ("train_batch_size=64", "rollout_fragment_length=16")
    one = made(*batch, "sgd_minibatch_size=128", run="MAPPO", env="drl/TwoStepGame-v1")
    assert one.config.sgd_minibatch_size == 128
    refused = message(*batch, "sgd_minibatch_size=129", run="MAPPO", env="drl/TwoStepGame-v1")
    assert "sgd_minibatch_size: 129 is more than the 128 agent steps of a batch" in refused
    assert "train_batch_size 64 times 2 agents" in refused


def test_team_row_refuses_policies_and_steps_of_agents():
    assert "multiagent.policies: QMIX trains all agents together, as one team; leave it out" in message(
        "multiagent.policies=[a]", run="QMIX", env="drl/TwoStepGame-v1"
    )
    assert "multiagent.copies: QMIX trains a team, and such agents have nothing in common" in message(
        "multiagent.copies=2", run="QMIX", env="CartPole-v1"
    )
