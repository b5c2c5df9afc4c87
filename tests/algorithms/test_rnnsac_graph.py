"""RNNSAC's update against one in float64, a sequence and a step at a time; padding counts for nothing; what is refused."""

import numpy as np
import pytest
from machine import Machine, spaces
from max_entropy_machine import ACTION, OBS, SEED
from pydantic import ValidationError
from slow import SlowUpdate, affine, compare, copy_of, follow_targets, squashed
from slow_sequences import CELLS, LEARNT, ROWS, compare_paddings, random_block, remember

from drl_cli.algorithms import rnnsac, rnnsac_graph
from drl_cli.algorithms.rnnsac import RNNSACConfig

pytestmark = pytest.mark.tensorflow

HIDDEN = {"fcnet_hiddens": [3], "fcnet_activation": "tanh"}


def config(**keys):
    small = {
        "policy_model": HIDDEN,
        "Q_model": HIDDEN,
        "train_batch_size": ROWS,
        "training_intensity": float(ROWS),
        "updates_per_call": 3,
        "burn_in": 2,
        "n_step": 2,
        "tau": 0.2,
        "xla": False,
    }
    model = {"lstm_cell_size": CELLS, "max_seq_len": LEARNT}
    return RNNSACConfig.model_validate(small | {"model": model} | keys)


def machine(made):
    return Machine(made, spaces(OBS, ACTION), SEED, modules=(rnnsac, rnnsac_graph))


class Losses:
    """The losses of actor, critics and temperature on a batch, for the weights at its beginning."""

    def __init__(self, made):
        self.made = made

    def __call__(self, present, batch, noises):
        made, rows = self.made, range(ROWS)
        target = {name.removeprefix("target_"): v for name, v in present.items() if name.startswith("target_")}
        zeros, skip = (np.zeros(CELLS), np.zeros(CELLS)), made.burn_in
        stored = [tuple(batch[f"state_{i}"][row] for i in (0, 1)) if "state_0" in batch else zeros for row in rows]

        def behind(weights, net, state, row):
            return remember(weights, net, batch["obs"][row][:skip], batch["begins"][row][:skip], state)[1]

        # no gradient flows into the burn-in: its states stay as they are while weights are varied
        policy_state = [behind(present, "policy", stored[row], row) for row in rows]
        critic_state = [behind(present, "critic_memory", zeros, row) for row in rows]
        target_state = [behind(target, "critic_memory", zeros, row) for row in rows]

        def memories(weights, net, state, row, steps):
            now = slice(skip, skip + steps)
            return remember(weights, net, batch["obs"][row][now], batch["begins"][row][now], state)[0]

        def q(weights, memory, action):
            found = []
            for copy in range(made.critics):
                own = copy_of(weights, "critic", copy, made.critics)
                hidden = np.tanh(affine(own, "critic/dense_0", np.concatenate([memory, action])))
                found.append(affine(own, "critic/q", hidden)[0])
            return np.array(found)

        def actions(weights, row, steps, noise):
            seen = memories(weights, "policy", policy_state[row], row, steps)
            std = np.exp(np.clip(affine(weights, "policy/log_std", seen), -20, 2))
            return squashed(affine(weights, "policy/mean", seen), std, noise.reshape(ROWS, steps, ACTION)[row])

        alpha, reach = np.exp(present["log_alpha"]), LEARNT + made.n_step
        goals = np.zeros((ROWS, LEARNT))
        for row in rows:
            action, logp = actions(present, row, reach, noises[0])
            seen = memories(target, "critic_memory", target_state[row], row, reach)
            entropy = alpha if made.backup_entropy else 0.0
            value = [q(target, seen[t], action[t]).min() - entropy * logp[t] for t in range(reach)]
            for t in range(LEARNT):
                later = value[t + int(batch["ahead"][row][t])]
                goals[row, t] = batch["reward"][row][t] + batch["discount"][row][t] * later
        share = batch["mask"] / batch["mask"].sum() * batch.get("weight", np.ones(ROWS))[:, None]

        def errors(weights):
            found = np.zeros((made.critics, ROWS, LEARNT))
            for row in rows:
                seen = memories(weights, "critic_memory", critic_state[row], row, LEARNT)
                for t in range(LEARNT):
                    found[:, row, t] = goals[row, t] - q(weights, seen[t], batch["action"][row][t])
            return found * batch["mask"]

        def actor(weights):
            total = 0.0
            for row in rows:
                action, logp = actions(weights, row, LEARNT, noises[1])
                seen = memories(present, "critic_memory", critic_state[row], row, LEARNT)
                terms = [alpha * logp[t] - q(present, seen[t], action[t]).min() for t in range(LEARNT)]
                total += (share[row] * terms).sum()
            return total

        logps = np.array([actions(present, row, LEARNT, noises[1])[1] for row in rows])
        wanted = -float(ACTION) if made.target_entropy == "auto" else made.target_entropy
        size = np.abs(errors(present)).mean(axis=0)
        eta = made.prioritized_replay_eta
        priority = eta * size.max(axis=1) + (1 - eta) * size.sum(axis=1) / batch["mask"].sum(axis=1)
        losses = {
            "critic": lambda weights: (0.5 * errors(present | weights) ** 2 * share).sum(),
            "actor": lambda weights: actor(present | weights),
            "entropy": lambda weights: -(weights["log_alpha"] * (logps + wanted) * share).sum(),
        }
        return losses, priority


CASES = {
    "as it comes": {},
    "no burn-in, one step": {"burn_in": 0, "n_step": 1, "twin_q": False},
    "zeros first, entropy not in the targets": {
        "zero_init_states": True,
        "backup_entropy": False,
        "target_entropy": 0.5,
    },
    "weights, clipped, delayed": {"prioritized_replay": True, "grad_clip": 0.05, "policy_delay": 2},
}


@pytest.mark.parametrize("keys", CASES.values(), ids=CASES)
def test_update_matches_the_papers_in_float64(keys):
    made = config(**keys)
    with machine(made) as started:
        slow = SlowUpdate(made, started.values(), Losses(made), follow_targets(0.2))
        drawn = (ROWS * (LEARNT + made.n_step), ROWS * LEARNT)
        assert compare(started, slow, random_block(made), updates=2, rows=drawn) == 2


def test_what_stands_in_padding_changes_nothing():
    made = config(prioritized_replay=True)
    compared = compare_paddings(lambda: machine(made), random_block(made))
    assert {"priority", "policy/lstm/kernel", "critic_memory/lstm/kernel"} <= compared


def test_policy_has_a_state_and_the_critics_an_lstm_of_their_own():
    with machine(config()) as running:
        spec, names = running.spec, set(running.values())
    assert spec.misfit() is None and spec.state == ((CELLS,), (CELLS,)) and spec.distribution == "squashed_gaussian"
    assert {"policy/lstm/kernel", "critic_memory/lstm/kernel", "target_critic_memory/lstm/kernel"} <= names


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"model": {"use_lstm": False}}, "without it the algorithm is SAC: use --run SAC"),
        ({"use_sde": True}, "true fits no LSTM"),
        ({"input": "recorded"}, "files hold no states of the LSTM"),
        ({"replay_sequence_length": 2}, "2 is not more than burn_in 2"),
    ],
)
def test_what_contradicts_itself_is_refused(keys, message):
    with pytest.raises(ValidationError, match=message):
        config(**keys)
