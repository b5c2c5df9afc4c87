"""Every row that learns from a replay in a small shape, for tests over them: ``CASES``, ``config_of``, ``spaces_of``."""

from typing import NamedTuple

import numpy as np
from machine import Machine, discrete_spaces, spaces
from team_spaces import team_spaces

from drl_cli.algorithms import table
from drl_cli.extras import load

OBS, ACTIONS, IMAGE = 3, 2, (16, 16, 1)
COMMON = {"train_batch_size": 8, "updates_per_call": 8, "training_intensity": 8.0, "rollout_fragment_length": 5}
COMMON |= {"num_workers": 0, "num_replay_shards": 0, "xla": False, "learning_starts": 10, "n_step": 2, "seed": 3}
SMALL = {"fcnet_hiddens": (6,), "fcnet_activation": "tanh"}
SOFT = {"policy_model": SMALL, "Q_model": SMALL}
DETERMINISTIC = {
    "actor_hiddens": (6,),
    "actor_hidden_activation": "tanh",
    "critic_hiddens": (6,),
    "critic_hidden_activation": "tanh",
}
NO_FILTER = {"observation_filter": "NoFilter"}  # ``test_filters_of_rows`` has one
VALUES = {"model": SMALL, "hiddens": (5,)}
NETS = {"SAC": SOFT, "TQC": SOFT, "CROSSQ": SOFT, "CQL": SOFT | {"bc_iters": 2, "num_actions": 2}}
NETS |= dict.fromkeys(("TD3", "DDPG", "APEX_DDPG", "IQL"), DETERMINISTIC) | {"TD3BC": DETERMINISTIC | NO_FILTER}
NETS |= dict.fromkeys(("DQN", "QRDQN", "SimpleQ", "APEX"), VALUES)
NETS["XQC"] = SOFT | {"reward_scaling": False, "num_atoms": 5, "v_min": -2.0, "v_max": 3.0}
NETS["MADDPG"] = DETERMINISTIC | {"n_step": 1}
NETS |= dict.fromkeys(("QMIX", "VDN"), {"model": SMALL, "mixing_embed_dim": 3, "hypernet_hiddens": (4,)})
NETS["R2D2"] = VALUES | {"model": SMALL | {"lstm_cell_size": 4, "max_seq_len": 3}, "burn_in": 1}
NETS["RNNSAC"] = SOFT | {"model": {"lstm_cell_size": 4, "max_seq_len": 3}, "burn_in": 1}
NETS["RNNTD3"] = DETERMINISTIC | {"model": {"lstm_cell_size": 4, "max_seq_len": 3}, "burn_in": 1}
CONVS = {"conv_filters": ((4, 3, 2), (4, 3, 2))}
PARTS = ("actor", "critic", "entropy")
ATOMS = {"num_atoms": 5, "v_min": -2.0, "v_max": 3.0}


class Case(NamedTuple):
    """A row on a kind of actions, with keys over its defaults."""

    row: str
    actions: str
    keys: dict = {}
    image: bool = False
    frames: int = 1


REPLAYED = [row for row in table.built_in() if row.postprocess in ("n_step", "sequences")]
NOISY = {("MADDPG", "Box"): {"exploration_config": {"type": "GaussianNoise"}}}
CASES = {
    f"{row.name}-{kind}": Case(row.name, kind, NOISY.get((row.name, kind), {}))
    for row in REPLAYED
    for kind in row.actions
}
CASES |= {
    "SAC-Box-sde-prioritized": Case("SAC", "Box", {"use_sde": True, "prioritized_replay": True}),
    "SAC-Box-averaged": Case("SAC", "Box", {"policy_average": 0.9, "policy_delay": 2}),
    "SAC-Box-image-frames": Case("SAC", "Box", {}, True, 3),
    "SAC-Discrete-image-prioritized": Case("SAC", "Discrete", {"prioritized_replay": True}, True),
    "TQC-Box-image-prioritized": Case("TQC", "Box", {"prioritized_replay": True}, True),
    "CROSSQ-Box-image-averaged-prioritized": Case(
        "CROSSQ", "Box", {"policy_average": 0.9, "prioritized_replay": True}, True
    ),
    "XQC-Box-image-averaged-prioritized": Case("XQC", "Box", {"policy_average": 0.9, "prioritized_replay": True}, True),
    "CQL-Box-image-lagrangian-prioritized": Case("CQL", "Box", {"lagrangian": True, "prioritized_replay": True}, True),
    "CQL-Discrete-lagrangian-averaged": Case("CQL", "Discrete", {"lagrangian": True, "policy_average": 0.9}),
    "IQL-Box-averaged-prioritized": Case("IQL", "Box", {"policy_average": 0.9, "prioritized_replay": True}),
    "IQL-Discrete-image": Case("IQL", "Discrete", {}, True),
    "TD3BC-Box-image-prioritized": Case("TD3BC", "Box", {"prioritized_replay": True}, True),
    "TD3-Box-averaged-prioritized": Case("TD3", "Box", {"policy_average": 0.9, "prioritized_replay": True}),
    "TD3-Box-image": Case("TD3", "Box", {}, True),
    "APEX_DDPG-Box-image-frames": Case("APEX_DDPG", "Box", {}, True, 2),
    "DQN-Discrete-rainbow": Case("DQN", "Discrete", ATOMS | {"noisy": True}),
    "DQN-Discrete-image-frames": Case("DQN", "Discrete", {}, True, 2),
    "QRDQN-Discrete-dueling-prioritized": Case("QRDQN", "Discrete", {"dueling": True, "prioritized_replay": True}),
    "APEX-Discrete-atoms": Case("APEX", "Discrete", ATOMS),
    "QMIX-MultiDiscrete-own-weights-prioritized": Case(
        "QMIX", "MultiDiscrete", {"share_weights": False, "prioritized_replay": True, "double_q": False}
    ),
    "QMIX-MultiDiscrete-averaged": Case("QMIX", "MultiDiscrete", {"policy_average": 0.9, "hypernet_hiddens": ()}),
    "QMIX-MultiDiscrete-memory-prioritized": Case(
        "QMIX",
        "MultiDiscrete",
        {
            "model": SMALL | {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 3},
            "burn_in": 1,
            "prioritized_replay": True,
        },
    ),
    "VDN-MultiDiscrete-memory-zeros": Case(
        "VDN",
        "MultiDiscrete",
        {
            "model": SMALL | {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 3},
            "burn_in": 1,
            "zero_init_states": True,
        },
    ),
    "MADDPG-MultiDiscrete-twin-shared-averaged-prioritized": Case(
        "MADDPG",
        "MultiDiscrete",
        {"twin_q": True, "share_weights": True, "policy_average": 0.9, "prioritized_replay": True},
    ),
    "R2D2-Discrete-image-frames-prioritized": Case("R2D2", "Discrete", {"prioritized_replay": True}, True, 2),
}


def config_of(case, **keys):
    """Return the case's config; ``keys`` replaces keys."""
    made = COMMON | NETS[case.row] | case.keys | keys
    if case.image:
        made["model"] = made.get("model", {}) | CONVS
    return load(table.find(case.row).config).model_validate(made)


def spaces_of(case):
    """Return the case's spaces: three numbers or 16 x 16 pixels, two actions of either kind; of a team two such agents."""
    if table.find(case.row).team:
        return team_spaces((OBS, OBS - 1), (ACTIONS, ACTIONS), 2, case.actions == "Box")
    obs = discrete_spaces(IMAGE if case.image else OBS, ACTIONS)["obs"]
    action = (discrete_spaces(OBS, ACTIONS) if case.actions == "Discrete" else spaces(OBS, ACTIONS))["action"]
    if case.actions == "Composite":
        parts = [{"path": [at], **part} for at, part in enumerate((discrete_spaces(OBS, ACTIONS)["action"], action))]
        action = {"kind": "Composite", "parts": parts}
    return {"obs": obs, "action": action, "frames": case.frames}


def machine_of(case, beginning=5, **keys):
    """Return a Machine of the case's graph; every learning rate is 0.01, ``beginning`` draws its first weights."""
    row, made = table.find(case.row), config_of(case, **keys)
    names = ("lr", "actor_lr", "critic_lr", "value_lr", *(f"optimization.{part}_learning_rate" for part in PARTS))
    rates = dict.fromkeys(names, 1e-2)
    made = Machine(made, spaces_of(case), 5, modules=(load(row.nets), load(row.graph)), rates=rates)
    if beginning != 5:
        made.set(**load(row.nets).initial_weights(made.config, made.spec, beginning))
    return made


def block_of(machine, seed=0):
    """Return a block of random transitions with the columns that the graph of ``machine`` asks for."""
    rng, made, columns = np.random.default_rng(seed), machine.config, machine.graph.columns
    block = {}
    for name, (shape, dtype) in columns.items():
        whole = (made.updates_per_call, made.train_batch_size, *shape)
        if name == "discount":
            block[name] = rng.choice(np.float32([0.0, 0.9, 0.81]), whole)
        elif name in ("begins", "mask"):
            block[name] = (rng.random(whole) < (0.2 if name == "begins" else 0.8)).astype(np.float32)
        elif name == "weight":
            block[name] = rng.uniform(0.2, 1.0, whole).astype(np.float32)
        elif dtype == "uint8":
            block[name] = rng.integers(0, 256, whole, np.uint8)
        elif name == "action" and machine.spec.distribution == "hybrid":
            chosen = rng.integers(0, ACTIONS, (*whole[:-1], 1))
            drawn = np.clip(rng.normal(0, 0.5, (*whole[:-1], ACTIONS)), -1, 1)
            block[name] = np.concatenate([chosen, drawn], axis=-1, dtype=np.float32)
        elif dtype == "int32":
            block[name] = rng.integers(0, ACTIONS, whole, np.int32)
        else:
            block[name] = np.clip(rng.normal(0, 0.5, whole), -1, 1).astype(np.float32)
    return block
