"""What every critic learns from real fragments through the real replay: returns known beforehand.

A world without end that gives 1 a step, seen through episodes that a time limit cuts at five steps, is worth
1 / (1 − 0.9) = 10 everywhere. One that ends with its fifth step (and at that very step the time limit strikes as well) is
worth the sum of what is left. Both at once, by a linear critic that tells them apart.
"""

import counting_envs
import numpy as np
import pytest
from rows import COMMON, NETS, REPLAYED

from drl_cli.actors.learner import Learner
from drl_cli.actors.replay_buffer import ReplayBuffer
from drl_cli.actors.rollout_worker import RolloutWorker
from drl_cli.algorithms import table
from drl_cli.envs import make
from drl_cli.extras import load
from drl_cli.policies.forward import Forward
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.runtime.cluster import LocalHandle

pytestmark = pytest.mark.tensorflow

LEFT = [4.0951, 3.439, 2.71, 1.9, 1.0]  # of five steps, γ = 0.9
CALLS, PER_CALL = 40, 50
RATE = [[0, 0.3], [CALLS // 2, 0.1], [CALLS, 0.003]]  # by the number of the call, which is told as the env steps
FREE = {"optimization": {"actor_learning_rate": 0.0, "critic_learning_rate": RATE, "entropy_learning_rate": 0.0}}
FREE |= {"initial_alpha": 1e-6}  # entropy is worth nothing
KEYS = {"SAC": FREE, "TQC": FREE | {"top_quantiles_to_drop_per_net": 0, "n_quantiles": 5}}
KEYS |= {"CROSSQ": FREE | {"train_batch_size": 256}}  # what it judges by is normalised by what it happens to draw
ATOMS = {"num_atoms": 26, "v_min": 0.0, "v_max": 12.5}
KEYS |= {"XQC": FREE | ATOMS | {"train_batch_size": 256}}
KEYS |= {"CQL": FREE | {"min_q_weight": 0.0}}  # what is held down is worth less than it is
KEYS |= {name: {"actor_lr": 0.0, "critic_lr": RATE, "l2_reg": 0.0} for name in ("TD3", "DDPG", "APEX_DDPG", "TD3BC")}
KEYS |= {"IQL": {"actor_lr": 0.0, "critic_lr": RATE, "value_lr": RATE, "expectile": 0.5}}
KEYS |= {name: {"lr": RATE, "hiddens": ()} for name in ("DQN", "SimpleQ", "APEX")}
KEYS |= {"QRDQN": {"lr": RATE, "hiddens": (), "n_quantiles": 5}}
LINEAR = {
    "SAC": {"Q_model": {"fcnet_hiddens": ()}},
    "TD3": {"critic_hiddens": ()},
    "DQN": {"model": {"fcnet_hiddens": ()}},
}
# Recurrent critics are told by sequences what they are worth: see ``test_r2d2``.
ROWS = [row for row in REPLAYED if row.postprocess != "sequences" and not row.team]
KINDS = [(row.name, kind, n, {}) for row in ROWS for kind in row.actions for n in (1, 3)]
KINDS += [("DQN", "Discrete", 3, ATOMS)]


def linear(row):
    """The keys that make the row's critic linear."""
    (keys,) = [keys for name, keys in LINEAR.items() if NETS[name].items() <= NETS[row].items()]
    return keys


@pytest.mark.parametrize(
    ("name", "kind", "n_step", "more"),
    KINDS,
    ids=lambda value: ("-".join(value) or "plain") if isinstance(value, dict) else None,
)
def test_every_critic_learns_what_an_endless_world_and_an_ending_one_are_worth(name, kind, n_step, more):
    row = table.find(name)
    keys = {"gamma": 0.9, "n_step": n_step, "horizon": 5, "rollout_fragment_length": 7, "train_batch_size": 32}
    keys |= {"updates_per_call": PER_CALL, "grad_clip": None, "buffer_size": 5000}
    keys |= {} if name == "CROSSQ" else {"tau": 0.5, "target_network_update_freq": 0}
    made = load(row.config).model_validate(COMMON | NETS[name] | linear(name) | keys | KEYS[name] | more)
    env_config = {"discrete": kind == "Discrete", "composite": kind == "Composite"}
    assert made.horizon == counting_envs.STEPS
    spaces = make.check("CountedReward-v0", env_config, row)
    spec = load(row.nets).policy_spec(made, spaces)
    initial = load(row.nets).initial_weights(made, spec, 3)
    server = LocalHandle("server", "drl_cli.actors.parameter_server:ParameterServer", ())
    server.call("push", {"default_policy": {name: initial[name] for name in spec.weight_names()}})
    place = {"seed": 7, "index": 0, "incarnation": 0, "random_steps": 10**9, "stream": 0, "streams": 1, "base": 0}
    env = {"id": "CountedReward-v0", "env_config": env_config, "imports": ()}
    worker, replay = RolloutWorker(made, env, spec, place, server), ReplayBuffer(made, spec, 7)
    learner = Learner(made, spec, row.graph, initial, {"seed": 3, "with_ray": False}, server)
    learner.prepare()
    for _ in range(60):
        replay.add(*worker.collect())
    for call in range(CALLS):
        result = learner.learn(replay.sample(PER_CALL)[0], PER_CALL, call)
        if made.prioritized_replay:
            replay.prioritize(result["serial"], result["priority"])
    values = {n.removeprefix("default_policy/"): value for n, value in learner.state().items()}
    expected = np.array([10.0, *LEFT])[:, None]
    found = judged(row, made, spec, values)
    np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=0.03, atol=0.05)


def judged(row, made, spec, values):
    """The values of the six states by every critic and action, [6, several]."""
    seen = np.concatenate([counting_envs.FOR_EVER[None], counting_envs.COUNTING])
    if spec.distribution == "q":
        return NumpyPolicy(spec, values).q_values(seen)
    family = load(table.ROWS[row.name].partition(":")[0])
    of_nets = load(row.nets.policy_spec.__module__)  # CQL has SAC's critics, TD3+BC those of TD3
    critic = getattr(family, "critic_spec", None) or of_nets.critic_spec
    critic = critic(made, spec)
    given = [[seen]] if spec.distribution == "categorical" else [[seen, np.full((6, 1), a, "f4")] for a in (-0.5, 0.5)]
    columns = []
    for inputs in given:
        (head,) = Forward(critic, values)(inputs if len(inputs) > 1 else inputs[0]).values()
        head = head.reshape(critic.copies, len(seen), -1)
        if row.name == "XQC":
            chances = np.exp(head - head.max(axis=-1, keepdims=True))
            head = (chances / chances.sum(axis=-1, keepdims=True)) @ np.linspace(0.0, 12.5, 26)[:, None]
        columns.append(head.mean(axis=-1).T if row.name == "TQC" else np.concatenate(list(head), axis=-1))
    return np.concatenate(columns, axis=-1)
