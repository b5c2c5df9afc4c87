"""RNNTD3's update against one in float64, a sequence and a step at a time; padding counts for nothing; what is refused."""

import numpy as np
import pytest
from machine import Machine, spaces
from pydantic import ValidationError
from slow import affine, copy_of
from slow_ddpg import ACTION, OBS, RATES, SEED, Slow, compare
from slow_sequences import CELLS, LEARNT, ROWS, compare_paddings, random_block, remember

from drl_cli.algorithms import rnntd3, rnntd3_graph
from drl_cli.algorithms.rnntd3 import RNNTD3Config

pytestmark = pytest.mark.tensorflow


def config(**keys):
    small = {
        "actor_hiddens": (3,),
        "critic_hiddens": (3,),
        "actor_hidden_activation": "tanh",
        "critic_hidden_activation": "tanh",
        "train_batch_size": ROWS,
        "training_intensity": float(ROWS),
        "updates_per_call": 4,
        "burn_in": 2,
        "n_step": 2,
        "tau": 0.2,
        "xla": False,
    }
    model = {"lstm_cell_size": CELLS, "max_seq_len": LEARNT}
    return RNNTD3Config.model_validate(small | {"model": model} | keys)


def machine(made):
    return Machine(made, spaces(OBS, ACTION), SEED, modules=(rnntd3, rnntd3_graph), rates=RATES)


class SlowSequences(Slow):
    """The update over sequences: losses are means over the learnt steps, each with the weight of its sequence."""

    CRITIC = ("critic/", "critic_memory/")

    def memories(self, weights, net, batch, row, steps):
        """What the LSTM of ``net`` says of ``steps`` steps; no gradient flows into the burn-in, so its weights stay."""
        skip, stored = self.config.burn_in, net.endswith("policy") and "state_0" in batch
        state = tuple(batch[f"state_{i}"][row] for i in (0, 1)) if stored else (np.zeros(CELLS), np.zeros(CELLS))
        obs, begins = batch["obs"][row], batch["begins"][row]
        _, state = remember(self.before[net], net, obs[:skip], begins[:skip], state)
        return remember(weights, net, obs[skip : skip + steps], begins[skip : skip + steps], state)[0]

    def acts(self, weights, net, batch, row, steps):
        return np.tanh(affine(weights, f"{net}/mean", self.memories(weights, net, batch, row, steps)))

    def of_critics(self, weights, scope, memory, action):
        found = []
        for copy in range(2 if self.config.twin_q else 1):
            own = copy_of(weights, scope, copy, 2 if self.config.twin_q else 1)
            hidden = np.tanh(affine(own, f"{scope}/dense_0", np.concatenate([memory, action])))
            found.append(affine(own, f"{scope}/q", hidden)[0])
        return np.array(found)

    def targets(self, batch, noise):
        """The target of each learnt step, [ROWS, LEARNT]."""
        made, reach = self.config, LEARNT + self.config.n_step
        target = self.of(("target_",))
        self.before = {
            "policy": self.of(self.learnt + "policy/"),
            "critic_memory": self.of("critic_memory/"),
            "target_policy": target,
            "target_critic_memory": target,
        }
        noise, goals = noise.reshape(ROWS, reach, ACTION), np.zeros((ROWS, LEARNT))
        for row in range(ROWS):
            action = self.acts(target, "target_policy", batch, row, reach)
            if made.smooth_target_policy:
                clipped = np.clip(made.target_noise * noise[row], -made.target_noise_clip, made.target_noise_clip)
                action = np.clip(action + clipped, -1, 1)
            seen = self.memories(target, "target_critic_memory", batch, row, reach)
            value = [self.of_critics(target, "target_critic", seen[t], action[t]).min() for t in range(reach)]
            for t in range(LEARNT):
                later = value[t + int(batch["ahead"][row][t])]
                goals[row, t] = batch["reward"][row][t] + batch["discount"][row][t] * later
        return goals

    def errors(self, critic, batch, targets):
        """[C, ROWS, LEARNT], 0 in padding."""
        found = np.zeros((2 if self.config.twin_q else 1, ROWS, LEARNT))
        for row in range(ROWS):
            seen = self.memories(critic, "critic_memory", batch, row, LEARNT)
            for t in range(LEARNT):
                found[:, row, t] = targets[row, t] - self.of_critics(critic, "critic", seen[t], batch["action"][row][t])
        return found * batch["mask"]

    def share(self, batch):
        return batch["mask"] / batch["mask"].sum() * batch.get("weight", np.ones(ROWS))[:, None]

    def critic_loss(self, critic, batch, targets):
        return (0.5 * self.errors(critic, batch, targets) ** 2 * self.share(batch)).sum() + self.decay(critic)

    def actor_loss(self, policy, batch):
        critic, total, share = self.of(self.CRITIC), 0.0, self.share(batch)
        for row in range(ROWS):
            action = self.acts(policy, "policy", batch, row, LEARNT)
            seen = self.memories(critic, "critic_memory", batch, row, LEARNT)
            for t in range(LEARNT):
                total -= share[row, t] * self.of_critics(critic, "critic", seen[t], action[t])[0]
        return total + self.decay(policy)

    def priority(self, critic, batch, targets):
        size, eta = np.abs(self.errors(critic, batch, targets)).mean(axis=0), self.config.prioritized_replay_eta
        return eta * size.max(axis=1) + (1 - eta) * size.sum(axis=1) / batch["mask"].sum(axis=1)


CASES = {
    "as it comes": {},
    "no burn-in, one step, one critic": {"burn_in": 0, "n_step": 1, "twin_q": False, "smooth_target_policy": False},
    "zeros first, average, decay": {"zero_init_states": True, "policy_average": 0.9, "l2_reg": 0.1},
    "weights, delay of three": {"prioritized_replay": True, "policy_delay": 3},
}


@pytest.mark.parametrize("keys", CASES.values(), ids=CASES)
def test_update_matches_the_papers_in_float64(keys):
    made = config(**keys)
    with machine(made) as started:
        slow = SlowSequences(made, started.values(), -1.0, 1.0)
        found = compare(started, slow, random_block(made), updates=4, rows=ROWS * (LEARNT + made.n_step))
    assert found["actor_adam/count"] == 4 // made.policy_delay
    assert found["num_updates"] == 4


def test_what_stands_in_padding_changes_nothing():
    made = config(prioritized_replay=True)
    compared = compare_paddings(lambda: machine(made), random_block(made))
    assert {"priority", "policy/lstm/kernel", "critic_memory/lstm/kernel"} <= compared


def test_policy_has_a_state_and_the_critics_an_lstm_of_their_own():
    with machine(config()) as running:
        spec, names = running.spec, set(running.values())
    assert spec.misfit() is None and spec.state == ((CELLS,), (CELLS,)) and spec.distribution == "deterministic"
    assert {"policy/lstm/kernel", "critic_memory/lstm/kernel", "target_policy/lstm/kernel"} <= names


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"model": {"use_lstm": False}}, "without it the algorithm is TD3: use --run TD3"),
        (
            {"exploration_config": {"type": "ParameterNoise"}},
            "that is for policies without noise of their own or an LSTM",
        ),
        ({"input": "recorded"}, "files hold no states of the LSTM"),
        ({"replay_sequence_length": 2}, "2 is not more than burn_in 2"),
    ],
)
def test_what_contradicts_itself_is_refused(keys, message):
    with pytest.raises(ValidationError, match=message):
        config(**keys)
