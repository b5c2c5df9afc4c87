"""A3C: its keys and its row; the nets are ``actor_critic_nets``. The update is ``a3c_graph``, workers compute
``a3c_gradients``.

Names and meanings are RLlib's (1.0.1). Sources: Mnih et al. 2016, "Asynchronous Methods for Deep Reinforcement Learning"
(arXiv 1602.01783), algorithm S3.

Deviations:
- Losses are means over the steps of a fragment; RLlib's A3C takes sums. Of a sum over its 10 steps the gradient is ten
  times as long: its ``grad_clip`` 40 is 4 here. Adam's steps do not depend on the scale.
- A fragment holds the steps of ``num_envs_per_worker`` environments, 8 by default, so that a gradient is of more steps and
  less noisy than RLlib's at the price of one forward pass.
- ``num_workers: 0`` runs too, in one process and reproducible; RLlib wants at least one worker.
- ``opt_type`` may choose RMSProp, the paper's optimiser, with statistics that all workers share; RLlib has Adam alone.
"""

from __future__ import annotations

from pydantic import model_validator

from drl_cli.algorithms.actor_critic_nets import NETS
from drl_cli.algorithms.impala import OptimiserKeys
from drl_cli.algorithms.row import ALL_ACTIONS, ALL_OBSERVATIONS, Algorithm
from drl_cli.config.schema import MisfitError, Whole, default, key
from drl_cli.config.sections.iteration import least_seconds
from drl_cli.config.sections.on_policy import OnPolicyKeys


class A3CConfig(
    OptimiserKeys,
    OnPolicyKeys,
    defaults={
        "num_workers": default(2),
        "min_iter_time_s": least_seconds(5),
        "rollout_fragment_length": default(
            20,
            rllib=10,
            why=("every gradient is a message and a push of weights; this halves their number and doubles their steps"),
        ),
        "lr": default(1e-3, rllib=1e-4, why="gradients over 160 steps allow a larger step size than those over 10"),
        "grad_clip": default(
            0.5, rllib="40, for a sum over 10 steps: 4 for their mean", why="as in the other algorithms of this family"
        ),
        "lambda_": default(1.0),
        "entropy_coeff": default(0.01),
        "epsilon": default(4e-7),
        "xla": default(False),
    },
):
    """Workers compute gradients, each from a fragment of its own; the learner applies them as they arrive."""

    train_batch_size: Whole | None = key(  # pyright: ignore[reportIncompatibleVariableOverride]: null is of A3C alone
        None,
        "Env steps of one gradient: always those of one fragment, num_envs_per_worker x rollout_fragment_length, "
        "the meaning of null.",
        "env steps",
        "null, or num_envs_per_worker x rollout_fragment_length",
        rllib=200,
        why="RLlib's A3C has the key but always computes one gradient per fragment",
    )

    @model_validator(mode="after")
    def _takes_a_gradient_of_each_fragment(self) -> A3CConfig:
        steps = self.num_envs_per_worker * self.rollout_fragment_length
        if self.train_batch_size not in (None, steps):
            raise MisfitError(
                "train_batch_size",
                f"{self.train_batch_size} is not num_envs_per_worker {self.num_envs_per_worker} x rollout_fragment_length "
                f"{self.rollout_fragment_length}: a gradient covers one fragment. Omit the key",
            )
        if self.broadcast_dtype != "float32":
            raise MisfitError(
                "broadcast_dtype", f"{self.broadcast_dtype} rounds weights that workers differentiate; leave it out"
            )
        if self.num_gpus > 1:
            raise MisfitError(
                "num_gpus",
                f"{self.num_gpus:g} is more than 1: the learner applies gradients, and there is no batch to split over GPUs",
            )
        return self


A3C = Algorithm(
    name="A3C",
    config=A3CConfig,
    nets=NETS,
    graph="drl_cli.algorithms.a3c_graph",
    postprocess="trajectory",
    loop="gradients",
    actions=ALL_ACTIONS,
    observations=ALL_OBSERVATIONS,
)
