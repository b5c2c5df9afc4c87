"""A custom algorithm: reward-weighted regression, from its keys, a postprocess, a graph and a loop.

The log-likelihood of actions is maximised with weights exp(advantage / temperature); there is no critic, and the baseline is
the mean return of the batch. Source: Peters & Schaal 2007, "Reinforcement Learning by
Reward-Weighted Regression for Operational Space Control" (ICML), in the batch form of Peng et al. 2019 (arXiv 1910.00177).

    drl train --import own_algorithm --run RWR --env CartPole-v1 --stop episode_reward_mean=150
    drl algorithms RWR --import own_algorithm
    python own_algorithm.py
"""

import numpy as np

from drl_cli import Algorithm, Trainer, register_algorithm
from drl_cli.config.schema import default, key
from drl_cli.config.sections.on_policy import OnPolicyKeys


class RWRConfig(
    OnPolicyKeys,  # the keys of all on-policy algorithms, some with other defaults:
    defaults={
        "use_critic": default(False),
        "use_gae": default(False),
        "batch_mode": default("complete_episodes"),  # without a critic truncated returns cannot be bootstrapped
        "train_batch_size": default(1000),
        "lr": default(3e-3),
        "xla": default(False),  # batches differ in shape, and compiling each shape takes longer than learning does
    },
):
    """Reward-weighted regression: behavior cloning with weights that increase with the return."""

    temperature: float = key(1.0, "Temperature of the weights exp(advantage / temperature).", gt=0, le=1e3)
    passes: int = key(8, "Gradient steps on each batch.", "updates", ge=1, le=1000)


def weigh(batch, config):
    """The postprocess, in NumPy: from rewards [E, T] of E streams to the weight of each step, [E, T].

    ``discount`` is gamma, and 0 after termination; ``trace`` is 0 at the end of an episode; ``mask`` is 0 in padding.
    """
    returns, following = np.zeros_like(batch["reward"]), 0.0
    for t in reversed(range(returns.shape[1])):
        following = batch["reward"][:, t] + batch["discount"][:, t] * batch["trace"][:, t] * following  # [E]
        returns[:, t] = following
    steps = returns[batch["mask"] > 0]
    advantage = (returns - steps.mean()) / (steps.std() + 1e-8)
    return {"weight": np.minimum(np.exp(advantage / config.temperature), 20.0) * batch["mask"]}


def build(config, spec, initial, seed, scope):
    """Build the graph. TensorFlow is imported here, in the learner's process; workers and commands do not need it."""
    from drl_cli.algorithms.on_policy_graph import Descent, summed
    from drl_cli.policies.actor_critic_tf import ActorCritic
    from drl_cli.tf1.graph import BatchGraph, Learnt, trajectory_columns
    from drl_cli.tf1.tensorflow import tf

    net = ActorCritic(spec, initial, scope)  # the policy network as variables
    descent = Descent(config, net, scope)  # Adam, gradient clipping, and the counter of updates

    def loss(values, rows):
        seen = net.look(values, rows["obs"])
        logp = net.distribution.logp(seen.heads, rows["action"])  # [B]
        entropy = net.distribution.entropy(seen.heads)  # [B]
        return summed(-rows["weight"] * logp, {"entropy": entropy}, rows["mask"])  # a sum over steps; Descent divides

    def learn(batch, rates, number):
        names = ("obs", "action", "weight", "mask")
        rows = {name: tf.reshape(batch[name], [-1, *batch[name].shape[2:]]) for name in names}  # [E, T, …] → [B, …]
        reported = ("total_loss", "entropy", "grad_norm")

        def step(done, *_):
            stats, finite = descent.step(*descent.gradients(loss, rows), rates["lr"])
            return (done + tf.cast(finite, tf.int32), finite, *(stats[name] for name in reported))

        start = (tf.constant(0), tf.constant(True), *([tf.constant(0.0)] * len(reported)))
        done, finite, *stats = tf.while_loop(
            lambda done, finite, *_: tf.logical_and(done < config.passes, finite), step, start, parallel_iterations=1
        )
        return Learnt(dict(zip(reported, stats)), done, finite)

    columns = trajectory_columns(config, spec) | {"weight": ((), "float32", "step")}
    return BatchGraph(columns, ("lr",), descent.variables(), tuple(net.published), learn)


register_algorithm(
    Algorithm(
        name="RWR",
        config=RWRConfig,
        nets="drl_cli.algorithms.actor_critic_nets",  # the policy network as data, which workers evaluate in NumPy
        postprocess=weigh,
        graph=build,
        loop="sync",  # all workers sample with the same weights, then the learner trains on the batch
        actions=("Box", "Discrete"),
        observations=("Box1d", "Image"),
    )
)


def main(iterations=30):
    """Train on CartPole without Ray, and print the mean reward of each iteration."""
    with Trainer(
        "RWR", env="CartPole-v1", config={"num_workers": 0, "timesteps_per_iteration": 2000, "seed": 1}
    ) as trainer:
        for _ in range(iterations):
            result = trainer.train()
            print(f"{result['timesteps_total']:>7} steps: mean reward {result['episode_reward_mean']:.0f}")
        return result


if __name__ == "__main__":
    main()
