"""TRPO's graph in a session of its own, batches of trajectories for it, and its update in float64 as the papers write it."""

import numpy as np
from machine import SCOPE, Shared
from slow import affine, differences, hidden

from drl_cli.algorithms import actor_critic_nets, trpo_graph
from drl_cli.algorithms.trpo import TRPOConfig
from drl_cli.tf1.epochs import Plan, orders
from drl_cli.tf1.tensorflow import function, tf

OBS, ACTION, SEED = 2, 2, 5
STREAMS, STEPS, ENDS = 3, 6, 6
GAMMA, LR = 0.9, 1e-2
BOX = {"kind": "Box", "shape": [ACTION], "low": [-1.0] * ACTION, "high": [1.0] * ACTION}


def config(**keys):
    """Return a TRPOConfig of small nets and a small batch."""
    model = {"fcnet_hiddens": (3,), "fcnet_activation": "tanh"} | keys.pop("model", {})
    small = {
        "train_batch_size": 18,
        "sgd_minibatch_size": 5,
        "vf_iterations": 2,
        "max_kl": 0.05,
        "fisher_fraction": 1.0,
    }
    # as many iterations as it takes: rounding would show in the directions that fewer leave half done
    small["cg_iterations"] = 60
    return TRPOConfig.model_validate({"model": model, "xla": False, "seed": SEED} | small | keys)


def spaces(action=None):
    """Return spaces with vectors of two numbers and actions of two numbers, or the described ``action``."""
    return {"obs": {"kind": "Box", "shape": [OBS], "dtype": "float32"}, "action": action or BOX}


class Machine(Shared):
    """The graph for ``made`` (TRPOConfig); weights are drawn wide, so that heads say something."""

    def __init__(self, made, of_spaces=None):
        super().__init__(made, of_spaces)

    def _build(self, made, of_spaces):
        self.spec, self._max_kl = actor_critic_nets.policy_spec(made, of_spaces or spaces()), made.max_kl
        rng = np.random.default_rng(SEED)
        initial = {
            name: rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in self.spec.weight_shapes().items()
        }
        with tf.Graph().as_default() as graph:
            self.graph = trpo_graph.build(made, self.spec, initial, SEED, SCOPE)
            lead = {"step": (STREAMS, STEPS), "end": (ENDS,)}
            self._batch = {
                name: tf.placeholder(dtype, lead[kind] + tuple(trailing))
                for name, (trailing, dtype, kind) in self.graph.columns.items()
            }
            self._rates = {name: tf.placeholder(tf.float32, []) for name in self.graph.rates}
            number = self.graph.variables["num_updates"]
            learn = function(
                lambda batch, rates: self.graph.learn(batch, rates, number.read_value()),
                jit_compile=True if made.xla else None,
                autograph=False,
            )
            self._fetches = learn(self._batch, self._rates)
            self._start(graph)

    def learn(self, batch, lr=LR, entropy_coeff=0.0):
        """Learn once; returns (stats, updates, finite)."""
        feeds = {placeholder: batch[name] for name, placeholder in self._batch.items()}
        rates = {"lr": lr, "entropy_coeff": entropy_coeff, "max_kl": self._max_kl}
        feeds |= {placeholder: rates[name] for name, placeholder in self._rates.items()}
        return self.session.run(self._fetches, feeds)

    def values(self):
        """Return {name without the scope: array} of every variable."""
        return {name.removeprefix(SCOPE): value for name, value in self._weights.get().items()}

    def set(self, values):
        """Give all variables the ``values`` {name without the scope: array}."""
        self._weights.set({SCOPE + name: value for name, value in values.items()})

    def changed(self, batch, **rates):
        """Learn once; returns (the names of variables of which a bit changed, what learning returned)."""
        before = self.values()
        learnt = self.learn(batch, **rates)
        after = self.values()
        return {name for name in before if before[name].tobytes() != after[name].tobytes()}, learnt


def batch(seed=0, action=None):
    """Return three streams of six steps: one with a real end and one cut inside, one plain, one that is padded after four."""
    rng = np.random.default_rng(seed)
    lead = (STREAMS, STEPS)
    discount, trace, mask = np.full(lead, GAMMA), np.ones(lead), np.ones(lead)
    discount[0, 1], trace[0, 1] = 0.0, 0.0  # a real end
    trace[0, 3] = 0.0  # a truncation: it has a bootstrap of its own
    mask[2, 4:] = 0.0
    discount[2, 4:], trace[2, 3:] = 0.0, 0.0
    made = {
        "obs": rng.normal(0, 1, (*lead, OBS)),
        "reward": rng.normal(0, 1, lead) * mask,
        "discount": discount,
        "trace": trace,
        "mask": mask,
        "logp": rng.normal(-2.5, 0.3, lead),
        "end_obs": rng.normal(0, 1, (ENDS, OBS)),
    }
    made = {name: value.astype(np.float32) for name, value in made.items()}
    made["action"] = rng.normal(0, 1, (*lead, ACTION)).astype(np.float32) if action is None else action(rng, lead)
    made["end_at"] = np.int32([5, 11, 15, 3, 18, 18])  # the three streams' last steps, the cut one, padding
    return made


def heads(weights, obs):
    """Return (mean, log_std) of a Gaussian policy with one hidden layer, [B, A] each."""
    x = hidden(weights, "policy", obs)
    return affine(weights, "policy/mean", x), affine(weights, "policy/log_std", x)


def value(weights, obs):
    """Return the value of each observation, [B]."""
    return affine(weights, "value/value", hidden(weights, "value", obs))[..., 0]


def logp(weights, obs, action):
    """Return log π(a|s), [B]."""
    mean, log_std = heads(weights, obs)
    gaps = (action - mean) / np.exp(log_std)
    return np.sum(-0.5 * gaps**2 - log_std - 0.5 * np.log(2 * np.pi), axis=-1)


def kl(old, new, obs):
    """Return KL(old ‖ new) of each row, [B], for two sets of weights."""
    (mean, log_std), (other, log_other) = heads(old, obs), heads(new, obs)
    each = log_other - log_std + (np.exp(2 * log_std) + (mean - other) ** 2) / (2 * np.exp(2 * log_other)) - 0.5
    return each.sum(axis=-1)


class Slow:
    """One update of TRPO over ``weights`` {name: float64 array}, from ``batch`` as above."""

    def __init__(self, made, weights, batch):
        self.config = made
        self.weights = {
            name: np.float64(array) for name, array in weights.items() if name.startswith(("policy/", "value/"))
        }
        self.batch = {name: np.float64(array) if array.dtype.kind == "f" else array for name, array in batch.items()}
        self.real = [tuple(at) for at in np.argwhere(batch["mask"] > 0)]
        self.names = sorted(name for name in self.weights if name.startswith("policy/"))
        self.rows = {name: self._column(name) for name in ("obs", "action", "logp")}

    def _column(self, name):
        return np.array([self.batch[name][at] for at in self.real])

    def advantages(self):
        """Return (advantages, targets of the value), a number for each real step, by eq. 16 of the paper on GAE."""
        batch, lambda_ = self.batch, self.config.lambda_
        ends = {int(at): obs for at, obs in zip(batch["end_at"], batch["end_obs"], strict=True)}
        found = {}
        for stream, step in reversed(self.real):
            at = stream * STEPS + step
            following = ends[at] if at in ends else batch["obs"][stream, step + 1]
            here = value(self.weights, batch["obs"][stream, step])
            delta = (
                batch["reward"][stream, step] + batch["discount"][stream, step] * value(self.weights, following) - here
            )
            flow = batch["discount"][stream, step] * batch["trace"][stream, step] * lambda_
            found[stream, step] = delta + flow * found.get((stream, step + 1), 0.0)
        each = np.array([found[at] for at in self.real])
        return each, each + value(self.weights, self.rows["obs"])

    def surrogate(self, weights, advantage):
        """Return the mean of ρA."""
        ratio = np.exp(logp(weights, self.rows["obs"], self.rows["action"]) - self.rows["logp"])
        return np.mean(ratio * advantage)

    def flat(self, arrays):
        """Return the policy's arrays as one vector."""
        return np.concatenate([arrays[name].ravel() for name in self.names])

    def shaped(self, vector):
        """Return all weights, the policy's from ``vector``."""
        made, at = dict(self.weights), 0
        for name in self.names:
            size = made[name].size
            made[name] = vector[at : at + size].reshape(made[name].shape)
            at += size
        return made

    def fisher(self, step=1e-5):
        """Return E[Jᵀ·M·J]: J of mean and log σ by central differences, M = diag(1/σ², 2) of a Gaussian."""
        start = self.flat(self.weights)
        _, log_std = heads(self.weights, self.rows["obs"])
        metric = np.concatenate([np.exp(-2 * log_std), np.full(log_std.shape, 2.0)], axis=1)
        slopes = []
        for index in range(len(start)):
            side = np.zeros_like(start)
            side[index] = step
            more, less = (
                np.concatenate(heads(self.shaped(start + s), self.rows["obs"]), axis=1) for s in (side, -side)
            )
            slopes.append((more - less) / (2 * step))
        slopes = np.array(slopes)  # [P, B, 2A]
        return np.einsum("ibh,jbh,bh->ij", slopes, slopes, metric) / len(self.real)

    def step(self):
        """Return (new weights, fraction of the full step); the direction by ``cg_iterations`` of conjugate gradients."""
        config = self.config
        advantage, _ = self.advantages()
        advantage = (advantage - advantage.mean()) / advantage.std()
        own = {name: self.weights[name] for name in self.names}
        gradient = self.flat(differences(lambda new: self.surrogate(self.weights | new, advantage), own))
        matrix = self.fisher() + config.cg_damping * np.eye(len(gradient))
        direction = conjugate_gradients(matrix, gradient, config.cg_iterations)
        full = direction * np.sqrt(2 * config.max_kl / (direction @ matrix @ direction))
        start, before = self.flat(self.weights), self.surrogate(self.weights, advantage)
        for index in range(config.line_search_steps):
            fraction = config.line_search_shrink**index
            new = self.shaped(start + fraction * full)
            inside = kl(self.weights, new, self.rows["obs"]).mean() <= config.max_kl
            if inside and self.surrogate(new, advantage) > before:
                return new, fraction
        return dict(self.weights), 0.0

    def fitted(self, number):
        """Return the weights of the value after ``vf_iterations`` passes in the graph's order, by Adam as its paper has it."""
        config, (_, target) = self.config, self.advantages()
        names = [name for name in self.weights if name.startswith("value/")]
        weights = {name: self.weights[name] for name in names}
        first, second, t = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0), 0
        of_step = {stream * STEPS + step: index for index, (stream, step) in enumerate(self.real)}
        for order in _orders(config, self.batch["mask"], number):
            rows = [of_step[at] for at in order[: len(self.real)]]
            for part in np.array_split(rows, -(-len(rows) // config.sgd_minibatch_size)):
                t += 1

                def loss(new, part=part):
                    return np.mean((value(new, self.rows["obs"][part]) - target[part]) ** 2)

                for name, g in differences(loss, weights).items():
                    first[name] = 0.9 * first[name] + 0.1 * g
                    second[name] = 0.999 * second[name] + 0.001 * g**2
                    rate = LR * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
                    moved = rate * first[name] / (np.sqrt(second[name]) + config.adam_epsilon)
                    weights = weights | {name: weights[name] - moved}
        return weights, t


def conjugate_gradients(matrix, right, iterations):
    """Hestenes & Stiefel 1952, as any book has it."""
    x, residual = np.zeros_like(right), right.copy()
    direction = residual.copy()
    for _ in range(iterations):
        moved = matrix @ direction
        share = residual @ residual / (direction @ moved)
        x, left = x + share * direction, residual - share * moved
        if np.linalg.norm(left) <= 1e-5 * np.linalg.norm(right):
            break
        direction = left + (left @ left) / (residual @ residual) * direction
        residual = left
    return x


def _orders(made, mask, number):
    with tf.Graph().as_default(), tf.Session() as session:
        plan = Plan(made.vf_iterations, made.sgd_minibatch_size, made.sgd_minibatch_size, shuffle=True)
        present = tf.constant(mask.ravel() > 0)
        return session.run(orders(present, plan, SEED, tf.constant(number, tf.int64)))
