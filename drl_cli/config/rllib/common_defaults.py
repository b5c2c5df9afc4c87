"""RLlib's common config as its page shows it, where an algorithm reads less of it: defaults that ask for nothing, one key for
several, class paths for names.

Used by ``config.rllib.aliases``. A pasted block asks for none of these; another value than the default is refused as
before. Source: RLlib 1.0 (COMMON_CONFIG, MODEL_DEFAULTS), with the keys that later releases added to both.
"""

import re
from collections.abc import Mapping
from typing import Any

from drl_cli.config.key_description import fields_of, section_of
from drl_cli.config.schema import Section
from drl_cli.config.sections.exploration import types_of
from drl_cli.config.sections.off_policy import RecurrentReplayKeys

UNREAD: dict[tuple[str, ...], Any] = {
    ("batch_mode",): "truncate_episodes",
    ("train_batch_size",): 200,
    ("lr",): 0.0001,
    ("explore",): True,
    ("exploration_config",): {"type": "StochasticSampling"},
    ("input",): "sampler",
    ("input_evaluation",): ["is", "wis"],
    ("model", "fcnet_hiddens"): [256, 256],
    ("model", "fcnet_activation"): "tanh",
}
"""Key → RLlib's default of it, which asks an algorithm that does not read the key for nothing."""

EMPTY: dict[str, tuple] = {
    "policies": ({}, None),
    "policy_mapping_fn": (None,),
    "policies_to_train": (None, []),
    "observation_fn": (None,),
    "replay_mode": ("independent",),
    "count_steps_by": ("env_steps",),
    "policy_map_capacity": (100,),
    "policy_map_cache": (None,),
}
"""What a ``multiagent`` block holds that names no policies."""

SEVERAL: dict[str, tuple[tuple[str, ...], ...]] = {
    "lr": (
        ("optimization", "actor_learning_rate"),
        ("optimization", "critic_learning_rate"),
        ("optimization", "entropy_learning_rate"),
        ("actor_lr",),
        ("critic_lr",),
        ("value_lr",),
    )
}
"""Key → the keys that it sets where the algorithm has these in its place."""

_TF_SESSION = {
    "intra_op_parallelism_threads": 2,
    "inter_op_parallelism_threads": 2,
    "gpu_options": {"allow_growth": True},
    "log_device_placement": False,
    "device_count": {"CPU": 1},
    "allow_soft_placement": True,
}
_LOCAL_TF_SESSION = {"intra_op_parallelism_threads": 8, "inter_op_parallelism_threads": 8}
_ATARI = {"dim": 84, "grayscale": False, "framestack": True}
"""Defaults that speak of Atari games in RLlib, and here of every image."""
_PASTED = "custom_preprocessor"  # who gives this key of MODEL_DEFAULTS as null has pasted the block
_CLASS = re.compile(r"(?:<class ')?ray\.(?:rllib|tune)\.(?:\w+\.)*(\w+)(?:'>)?")


def class_name(value: object) -> str | None:
    """Return the name of the class whose full path ``value`` is, where it is one of RLlib's or Tune's; else None."""
    match = _CLASS.fullmatch(value) if isinstance(value, str) else None
    return match[1] if match else None


def mapped_by_number(multiagent: dict[str, Any]) -> bool:
    """Write out the mapping of RLlib's example PolicyMappingFn; returns whether ``multiagent`` asks for it.

    In it the policy p0 acts for the agent 0, p1 for 1 and so on. It stays where policies have other names.
    """
    asked, policies = multiagent.get("policy_mapping_fn"), multiagent.get("policies")
    if not isinstance(asked, dict) or class_name(asked.get("type")) != "PolicyMappingFn":
        return False
    names = [str(name) for name in policies] if isinstance(policies, (list, dict)) else []
    if not names or not all(re.fullmatch(r"p\d+", name) for name in names):
        return False
    del multiagent["policy_mapping_fn"]
    multiagent["policy_mapping"] = {name[1:]: name for name in names}
    return True


def is_of_maddpg(multiagent: Mapping[str, Any]) -> bool:
    """Whether ``multiagent`` is what RLlib's MADDPG needs: policies that say nothing but whose, ``agent_id``, they are."""
    policies = multiagent.get("policies")
    own = (
        [value[-1] if isinstance(value, list) and value else value for value in (policies or {}).values()]
        if isinstance(policies, dict)
        else []
    )
    return bool(own) and all(isinstance(one, dict) and set(one) == {"agent_id"} for one in own)


def clashes(mapping: dict[str, Any], schema: type[Section]) -> list[tuple[tuple[str, ...], str]]:
    """Return (key, why) for each common default in ``mapping`` that the algorithm has the key for, and could not run with."""
    fields, found = fields_of(schema), []
    drawn = UNREAD[("exploration_config",)]
    exploring = section_of(fields["exploration_config"]) if "exploration_config" in fields else None
    if mapping.get("exploration_config") == drawn and exploring and drawn["type"] not in types_of(exploring):
        own = exploring.model_fields["type"].default
        found.append((("exploration_config",), f"a policy that draws no actions explores by {own}"))
    given = mapping.get("model")
    if isinstance(given, dict) and given.get("use_lstm") is False and issubclass(schema, RecurrentReplayKeys):
        text = f"this algorithm is the one with an LSTM; {schema.without_memory} is the same without"
        found.append((("model", "use_lstm"), text))
    if isinstance(given, dict) and given.get("vf_share_layers") is True and "cg_iterations" in fields:
        found.append(
            (("model", "vf_share_layers"), "the fit of the value would move TRPO's policy out of its trust region")
        )
    if isinstance(given, dict) and given.get("vf_share_layers") is True and "death_masking" in fields:
        found.append((("model", "vf_share_layers"), "the value of a team sees more than its agents do"))
    if (
        isinstance(given, dict)
        and given.get(_PASTED, "") is None
        and all(given.get(name, ()) == _ATARI[name] for name in _ATARI)
    ):
        found += [(("model", name), "preprocessor_pref makes Atari games ready") for name in _ATARI]
    if mapping.get("replay_sequence_length") == 1 and "replay_sequence_length" in fields:
        found.append((("replay_sequence_length",), "a sequence has the length of model.max_seq_len and its burn-in"))
    if (
        mapping.get("input_evaluation") == UNREAD[("input_evaluation",)]
        and mapping.get("input", "sampler") == "sampler"
    ):
        found.append((("input_evaluation",), "there are no recorded episodes to estimate from"))
    session = {"tf_session_args": _TF_SESSION, "local_tf_session_args": _LOCAL_TF_SESSION}
    for name, default in session.items() if "noise_stdev" in fields else ():
        if mapping.get(name) == default:
            found.append(((name,), "a step is made in NumPy"))
    return found
