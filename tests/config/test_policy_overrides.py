"""The keys in which a policy differs from the run: read as a config is, with the policy's name before each problem."""

import pytest

from drl_cli.algorithms import table
from drl_cli.config import policy_overrides
from drl_cli.config.key_description import fields_of
from drl_cli.config.origins import Layers, Where
from drl_cli.config.parse import read
from drl_cli.extras import load

SEVERAL = [row for row in table.built_in() if row.several]


def overrides(name, own, lines=None, **run):
    """Return (the keys of the policy ``good``, problems, notices)."""
    config, problems, _ = read(table.find(name), {**run, "multiagent": {"policies": {"good": own}}}, "f.yaml")
    assert problems == []
    found, problems, notices = policy_overrides.read(table.find(name), config, Where("f.yaml", lines), table.rows())
    return found["good"], problems, notices


@pytest.mark.parametrize(
    ("name", "own", "text"),
    [
        ("PPO", {"lrr": 1}, "lrr: unknown key (f.yaml:7). Did you mean 'lr'?"),
        ("PPO", {"gamma": 7}, "gamma: 7 is not allowed; it takes a number in [0, 1] (f.yaml)."),
        (
            "PPO",
            {"num_workers": 1},
            "num_workers: a key of the whole run, which all policies share (f.yaml). Write it beside multiagent.",
        ),
        (
            "PPO",
            {"model": {"framestack": 4}},
            "model.framestack: a key of the whole run, which all policies share (f.yaml). Write it beside multiagent.",
        ),
        (
            "PPO",
            {"sgd_minibatch_size": 9, "model": {"use_lstm": True}},
            "sgd_minibatch_size: 9 is less than one sequence, model.max_seq_len 20 (f.yaml).",
        ),
        (
            "PPO",
            {"model": {"fcnet_hidens": [3]}},
            "model.fcnet_hidens: unknown key (f.yaml). Did you mean 'model.fcnet_hiddens'?",
        ),
    ],
)
def test_problem_names_policy_key_and_place(name, own, text):
    found = overrides(name, own, {("multiagent", "policies", "good", "lrr"): 7})
    assert found[1] == [f"multiagent.policies.good.{text}"]


def test_other_spellings_of_a_policys_keys_are_read():
    own, problems, notices = overrides("SAC", {"lr": 0.01})
    assert set(own["optimization"].values()) == {0.01} and problems == []
    assert notices[0].startswith("multiagent.policies.good.lr 0.01 (f.yaml) sets optimization.actor_learning_rate")


def test_key_of_a_policy_that_has_no_effect_is_said():
    _, problems, notices = overrides("DQN", {"sigma0": 0.3})
    assert problems == []
    assert notices == ["multiagent.policies.good.sigma0 has no effect while noisy is false (f.yaml)."]


def test_keys_of_a_policy_fit_those_of_the_run():
    own, problems, _ = overrides(
        "DQN", {"exploration_config": {"type": "SoftQ"}}, exploration_config={"final_epsilon": 0.1}
    )
    assert own == {"exploration_config": {"type": "SoftQ"}} and problems == []


WHOLE = {
    "PPO": "num_workers num_envs_per_worker rollout_fragment_length train_batch_size batch_mode seed horizon env env_config "
    "evaluation_interval callbacks output num_gpus xla learner_actor preprocessor_pref multiagent synchronize_filters",
    "DQN": "learning_starts training_intensity num_replay_shards updates_per_call publish_every input",
    "IMPALA": "learner_queue_size broadcast_interval replay_proportion minibatch_buffer_size",
    "APEX": "worker_side_prioritization store_buffer_in_checkpoints",
}
OWN = {
    "PPO": "gamma lr lambda clip_param sgd_minibatch_size num_sgd_iter model entropy_coeff observation_filter explore "
    "exploration_config normalize_actions clip_rewards use_sde grad_clip",
    "DQN": "buffer_size n_step prioritized_replay dueling double_q hiddens num_atoms noisy target_network_update_freq",
    "SAC": "Q_model policy_model optimization tau initial_alpha target_entropy",
}


@pytest.mark.parametrize(("keys", "is_whole"), [(WHOLE, True), (OWN, False)])
def test_keys_of_learning_and_acting_are_a_policys_and_all_others_the_runs(keys, is_whole):
    wrong = [
        (name, key)
        for name, listed in keys.items()
        for key in listed.split()
        if policy_overrides.of_whole_run(load(table.find(name).config), (key,)) is not is_whole
    ]
    assert wrong == []


@pytest.mark.parametrize("row", SEVERAL, ids=lambda row: row.name)
def test_every_key_that_is_named_is_there(row):
    schemas = [set(fields_of(load(one.config))) for one in SEVERAL]
    known = set().union(*schemas)
    assert set(policy_overrides.OWN) <= set(fields_of(load(row.config))) | known


def test_place_of_a_policys_key_is_that_of_the_block_it_was_given_in():
    layers = Layers({}, Where("my.yaml"))
    layers.add({"multiagent": {"policies": {"good": {"lr": 0.1}}}}, Where("--config"), ("config",))
    inside = layers.where.inside("config").inside("multiagent", "policies", "good")
    assert inside.place(("lr",)) == "--config"
    assert Where("my.yaml", {("a",): 3}).inside("a", "b").place(("c",)) == "my.yaml:3"
    assert (
        Where("my.yaml", {("a",): 3, ("a", "b"): 4, ("a", "b", "c"): 5}).inside("a", "b").place(("c",)) == "my.yaml:5"
    )


def test_mapping_of_rllibs_examples_is_written_out_by_the_numbers_of_the_policies():
    by_class = {"type": "ray.rllib.examples.multi_agent_and_self_play.policy_mapping_fn.PolicyMappingFn"}
    given = {"policies": ["p0", "p1"], "policy_mapping_fn": by_class}
    config, problems, notices = read(table.find("IMPALA"), {"multiagent": given}, "f.yaml")
    assert problems == [] and config.multiagent.policy_mapping == {"0": "p0", "1": "p1"}
    assert notices == ["multiagent.policy_mapping_fn PolicyMappingFn is read as policy_mapping {0: p0, 1: p1}."]
    for other in (["left", "right"], None, 7):
        assert read(table.find("IMPALA"), {"multiagent": {**given, "policies": other}}, "f.yaml")[1]


def test_policies_of_rllibs_maddpg_that_only_say_whose_they_are_are_what_drl_does_anyway():
    policies = {f"p{number}": [None, None, None, {"agent_id": number}] for number in (0, 1)}
    config, problems, notices = read(table.find("MADDPG"), {"multiagent": {"policies": policies}}, "f.yaml")
    assert (problems, notices) == ([], ["multiagent with a policy for each agent is what drl does anyway."])
    assert config.multiagent.policies == {}


@pytest.mark.parametrize("given", ["word", 7, ["p0"]])
def test_multiagent_that_is_no_mapping_is_one_problem_and_no_crash(given):
    assert len(read(table.find("PPO"), {"multiagent": given}, "f.yaml")[1]) == 1
