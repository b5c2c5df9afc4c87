"""What is made of a batch of trajectories before the first gradient step: values, advantages, and rows to learn from.

Used by the graphs of PPO, A2C and PG. A row is a step, or with an LSTM a sequence of L steps with the state before it; an
"[S(, L), …]" below is either.

Source: Schulman et al. 2016 (arXiv 1506.02438), eq. 16; with λ = 1 an advantage is the whole return less the value.
"""

from typing import NamedTuple

from drl_cli.algorithms.losses.policy_gradient import explained_variance, standardized
from drl_cli.algorithms.losses.returns import gae, returns_to_go
from drl_cli.policies.actor_critic_tf import look_at, state_of
from drl_cli.tf1.tensorflow import tf

OLD = "old/"  # before the names of the heads of the policy that sampled


class Estimates(NamedTuple):
    """A batch, judged."""

    rows: dict  # column -> [S(, L), …]: obs, action, logp, mask, advantage, with a critic value, target, …
    stats: dict  # name -> scalar


def estimates(config, net, batch, standardize, heads=False):
    """Judge ``batch`` (``experience.trajectories``) with the present weights of the ActorCritic ``net``; returns Estimates.

    ``standardize``: advantages have mean 0 and deviation 1 over the whole batch. ``heads``: rows have the policy's heads
    (``old/<head>``) as well. Nothing here has a gradient.
    """
    old, value, next_value = look_at(net, net.values(), batch)  # [E·T, …], [E, T], [E, T]
    mask = batch["mask"]  # [E, T]
    columns = {name: batch[name] for name in ("obs", "action", "logp", "mask")}
    stats = {}
    if config.use_critic:
        weight = config.lambda_ if config.use_gae else 1.0
        advantage = gae(batch, value, next_value, weight)  # [E, T]
        columns |= {"value": value, "target": advantage + value}
        stats["vf_explained_var"] = explained_variance(columns["target"], value, mask)
    else:
        advantage = returns_to_go(batch)  # [E, T]
    columns["advantage"] = standardized(advantage, mask) if standardize else advantage
    if heads:
        columns |= {
            OLD + name: tf.reshape(y, [*mask.shape, *y.shape[1:]]) for name, y in old.items() if name != "features"
        }
    if net.spec.state:
        columns["begins"] = batch["begins"]
    rows = {name: tf.stop_gradient(_in_rows(net, batch, x)) for name, x in columns.items()}
    if net.spec.state:
        sequences = rows["mask"].shape[0]
        rows |= {f"state_{index}": part for index, part in enumerate(state_of(net, batch, "state", sequences))}
    return Estimates(rows, stats)


def looked(net, values, minibatch):
    """Return (what ``net`` with ``values`` sees in rows, as Seen, [B(·L), …]; the other columns, [B(·L), …] each)."""
    if not net.spec.state:
        return net.look(values, minibatch["obs"]), minibatch
    state = state_of(net, minibatch, "state", minibatch["mask"].shape[0])
    steps = {name: tf.reshape(x, [-1, *x.shape[2:]]) for name, x in minibatch.items() if not name.startswith("state_")}
    return net.look(values, minibatch["obs"], state, minibatch["begins"]), steps


def _in_rows(net, batch, x):
    """[E, T, …] as [E·T, …], or with an LSTM as [E·T/L, L, …]."""
    streams, steps = x.shape[:2].as_list()
    if not net.spec.state:
        return tf.reshape(x, [streams * steps, *x.shape[2:]])
    sequences = batch["state_0"].shape[1]
    return tf.reshape(x, [streams * sequences, steps // sequences, *x.shape[2:]])
