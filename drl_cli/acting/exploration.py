"""How training actions differ from greedy ones. One class a kind; the worker asks it once per step for all its envs."""


class StochasticSampling:
    """Uniform actions for the first ``random_steps`` steps of every environment, then draws from the policy.

    While no weights have come yet actions stay uniform: workers start before the learner has loaded.
    """

    def __init__(self, random_steps, explore):
        """``random_steps``: steps of each environment; ``explore`` False samples the greedy action after them."""
        self._random_steps = random_steps
        self._explore = explore

    def act(self, policy, obs, state, rng, steps):
        """Return (action [N, A], next state, columns) for ``obs`` [N, …]; ``steps``: env steps taken so far by each env."""
        if steps < self._random_steps or not policy.has_weights:
            return policy.random(len(obs), rng), state, {}
        return policy.act(obs, state, rng, self._explore)


BY_NAME = {"StochasticSampling": StochasticSampling}
