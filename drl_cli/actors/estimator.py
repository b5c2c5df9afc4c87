"""Estimator: what the newest policy would earn, by recorded episodes; the tester's neighbour in runs that read ``input``.

Used by ``actors.tester``. A sample of the recorded episodes is held, so that an evaluation costs a forward pass over them and
nothing else; it depends on the files and the seed alone, so that a resumed run estimates from the same ones. They are
among the episodes that are learnt from: estimates of a policy that overfits them are too high.
"""

from __future__ import annotations

from typing import Any

from drl_cli.config.sections.estimates import METHODS, methods
from drl_cli.config.sections.off_policy import BufferedKeys
from drl_cli.config.sections.offline import streams
from drl_cli.errors import ExperienceError
from drl_cli.experience.action_likelihood import drawing_of
from drl_cli.experience.recorded.pieces import Piece
from drl_cli.experience.recorded.read import Source
from drl_cli.experience.recorded_episodes import EpisodeCollector, layout_of_policy
from drl_cli.policies.numpy_policy import NumpyPolicy
from drl_cli.randomness import generator

MAX_STEPS = 500_000  # read for the sample, of larger files from the first ones in a shuffled order
MAX_BYTES = 256 * 2**20  # of observations in the sample
_NAMES = {"is": "IS", "wis": "WIS"}


class Estimator:
    """Judges versions of a policy by recorded episodes."""

    def __init__(self, config: BufferedKeys, policy: NumpyPolicy) -> None:
        """``config``: of the run; ``policy``: the NumpyPolicy whose weights are set from outside."""
        self._config, self._policy = config, policy
        self._sample = None

    def estimate(self, t: int) -> dict[str, Any]:
        """Return the estimates for the policy's weights at env step ``t`` of the run, as they stand in a result.

        episodes, effective_sample_size, and for each of ``input_evaluation`` (is, wis): V_prev (mean discounted return as
        recorded), V_step_IS and V_episode_IS (the policy's, in WIS for wis) with V_step_IS_low and V_step_IS_high (95 %), and
        V_gain_est, how many times V_prev V_step_IS is (None where V_prev is not above 0). Or {"text": why there are none}.
        """
        try:
            if self._sample is None:
                self._sample = self._drawn()
            recollection = EpisodeCollector(self._policy, drawing_of(self._config, t))
            for piece in self._sample:
                recollection.add(piece)
            found = recollection.estimate(self._config.gamma)
        except ExperienceError as error:
            return {"text": str(error)}
        wanted = methods(self._config)
        estimates = {method: _fields(found, method) for method in METHODS if method in wanted}
        return {"episodes": found["episodes"], "effective_sample_size": found["effective_sample_size"]} | estimates

    def _drawn(self) -> list[Piece]:
        """Return whole episodes, each as likely as any other; where there are none, what there is instead."""
        config, rng = self._config, generator(self._config.seed or 0, "estimates")
        paths = [path for stream in streams(config) for path in stream.paths or ()]
        layout = layout_of_policy(self._policy.spec, config.actions_in_input_normalized)
        source = Source(paths, layout, config.seed or 0, passes=1)
        sample, instead, seen, steps = [], [], 0, 0
        most = config.input_evaluation_num_episodes
        for piece in source:
            steps += piece.steps
            if not piece.is_whole or piece.logp is None:
                instead = instead or [piece]
            elif len(sample) < most and piece.obs.nbytes * (len(sample) + 1) <= MAX_BYTES:
                sample.append(piece)
                seen += 1
            else:
                seen += 1
                at = int(rng.integers(0, seen))  # Vitter 1985, algorithm R
                if at < len(sample):
                    sample[at] = piece
            if steps >= MAX_STEPS:
                break
        source.close()
        return sample or instead


def _fields(found: dict[str, Any], method: str) -> dict[str, float | None]:
    name, estimates, before = _NAMES[method], found[method], found["behaviour"]["mean"]
    step, episode = estimates["per_step"], estimates["per_episode"]
    gain = step["mean"] / before if step["mean"] is not None and before > 0.0 else None
    return {
        "V_prev": before,
        f"V_step_{name}": step["mean"],
        f"V_step_{name}_low": step["low"],
        f"V_step_{name}_high": step["high"],
        f"V_episode_{name}": episode["mean"],
        "V_gain_est": gain,
    }
