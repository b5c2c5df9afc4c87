"""The stages of ``drl env check`` for an environment with several agents. Used by ``checks.env_check``.

Checked are how agents act and end, seeds, the environment's state, speed, and, for PettingZoo's, its own API and seed tests.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from drl_cli.checks.env_probe import looked_at, shortened
from drl_cli.checks.findings import FAIL, NOTE, OK, WARN, Finding
from drl_cli.envs.multi_agent import names, open_envs
from drl_cli.envs.multi_agent.agents_smoke_test import sampled
from drl_cli.envs.multi_agent.multi_agent_env import AgentsStep
from drl_cli.errors import failure
from drl_cli.extras import load

TRACED = 300  # steps that are compared
_COLOURED = re.compile(r"\x1b\[\d*m(WARN: )?")  # how gymnasium begins and ends its warnings
CYCLES = 50  # steps that PettingZoo's tests take


class AgentsCheck:
    """The stages for one environment."""

    def __init__(self, question: Mapping[str, Any], kind: str, send: Callable[[Mapping[str, Any]], object]) -> None:
        """``question``: as of ``env_check.check``, with "id"; ``kind``: of ``open_envs``; ``send(part of the report)``."""
        self._asked, self._kind, self._send = question, kind, send
        self._id, self._env_config = question["id"], question["env_config"]

    def stages(self) -> list[tuple[str, Callable[[], object]]]:
        """Return (name, method) of the stages; one that returns False is the last."""
        own = [("running PettingZoo's tests", self._pettingzoo)] if names.is_pettingzoo(self._id) else []
        return [
            ("making it", self._interface),
            ("playing the same steps twice", self._repeats),
            *own,
            ("playing at random", self._plays),
        ]

    def _find(self, what: str, state: str, text: str) -> None:
        self._send({"finding": Finding(what, state, text)})

    def _interface(self) -> bool:
        seen = looked_at(self._id, self._env_config)
        if "error" in seen:
            self._find("interface", FAIL, shortened(seen["error"]))
            return False
        self._send({name: seen[name] for name in ("spaces", "text", "fits", "agents")})
        agents = list(seen["agents"])
        who = f"{len(agents)} agents ({', '.join(agents[:6])}{', …' if len(agents) > 6 else ''})"
        how = "one acts at a time" if seen["is_turn_based"] else "those that are observed act at once"
        self._find("interface", OK, f"{who}; {how}")
        for note in seen["notes"]:
            self._find("agents", WARN, note)
        state = f"{seen['state']:,} numbers" if seen["state"] else "none; central critics see all observations instead"
        self._find("state", OK if seen["state"] else NOTE, state)
        fits = ", ".join(seen["fits"]) or "none"
        self._find("algorithms", OK if seen["fits"] else FAIL, fits)
        return True

    def _repeats(self) -> None:
        seed = self._asked["seed"]
        first, again = self._trace(seed), self._trace(seed)
        at = next((step for step, (one, other) in enumerate(zip(first, again, strict=False)) if one != other), None)
        if at is not None:
            text = f"two new instances with seed {seed} and equal actions differ at step {at}: reset must seed all randomness"
            self._find("same seed", FAIL, text)
        else:
            self._find("same seed", OK, f"two new instances agree for {min(len(first), TRACED)} steps")
        starts = {next(self._steps(seed + other))[1] for other in range(5)}
        same = "every episode starts the same, whatever the seed"
        self._find(
            "other seeds", *((NOTE, same) if len(starts) == 1 else (OK, f"5 seeds give {len(starts)} initial states"))
        )

    def _trace(self, seed: int) -> list[str]:
        return [digest for _, digest, _ in self._steps(seed)]

    def _steps(self, seed: int, count: int = TRACED) -> Iterator[tuple[AgentsStep, str, float]]:
        """Yield up to ``count`` (step, its hash, seconds that it took) of a new instance, for the seconds asked for at most.

        Episodes have the seeds ``seed``, ``seed`` + 1, …, since every episode of a run is seeded.
        """
        env, rng = open_envs.open_env(self._id, self._env_config, self._kind), np.random.default_rng(seed)
        deadline = time.perf_counter() + self._asked["seconds"]
        try:
            step, taken = env.reset(seed), 0.0
            for _ in range(count):
                yield step, _hash(step), taken
                if step.is_over:
                    seed += 1
                    step, taken = env.reset(seed), 0.0
                    continue
                if time.perf_counter() > deadline:
                    break
                actions = {agent: sampled(env.spaces(agent), step.obs[agent], rng) for agent in step.acting()}
                began = time.perf_counter()
                step = env.step(actions)
                taken = time.perf_counter() - began
        finally:
            env.close()

    def _pettingzoo(self) -> None:
        """Run the tests that PettingZoo has for its environments; what they warn of is a note."""
        tests = {
            "parallel": ("pettingzoo.test:parallel_api_test", "pettingzoo.test:parallel_seed_test"),
            "aec": ("pettingzoo.test:api_test", "pettingzoo.test:seed_test"),
        }[self._kind]
        for what, test, argument in (
            ("PettingZoo's API test", tests[0], self._own()),
            ("PettingZoo's seed test", tests[1], self._own),
        ):
            with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(io.StringIO()):
                warnings.simplefilter("always")
                warnings.simplefilter("ignore", DeprecationWarning)  # of PettingZoo's own modules
                warnings.simplefilter("ignore", ResourceWarning)  # of whatever the garbage collector finds meanwhile
                try:
                    load(test)(argument, CYCLES)
                except Exception as error:  # an assertion of the test, or whatever the environment raises
                    self._find(what, FAIL, failure(error))
                    continue
            said = list(dict.fromkeys(_COLOURED.sub("", " ".join(str(one.message).split()))[:160] for one in warned))
            self._find(what, NOTE if said else OK, f"passed, and warns: {'; '.join(said[:3])}" if said else "passed")

    def _own(self) -> Any:
        return open_envs.raw(self._id, self._env_config, self._kind)

    def _plays(self) -> None:
        asked = self._asked
        returns, lengths, total, length, seconds, steps = [], [], 0.0, 0, 0.0, 0
        began = time.perf_counter()
        open_envs.open_env(self._id, self._env_config, self._kind).close()
        making = time.perf_counter() - began
        for step, _, taken in self._steps(asked["seed"], 10**9):
            total, seconds, is_new = total + sum(step.rewards.values()), seconds + taken, taken == 0.0
            length, steps = length + (not is_new), steps + (not is_new)
            if step.is_over:
                returns.append(total)
                lengths.append(length)
                total, length = 0.0, 0
            if len(returns) >= asked["episodes"]:
                break
        pace = steps / seconds if seconds else 0.0
        text = f"{len(returns)} episodes ended" if returns else f"no episode ended within {steps:,} steps"
        self._find("episodes", OK if returns else WARN, text)
        self._find("speed", OK, f"{pace:,.0f} env steps/s")
        score = {"rewards": returns, "lengths": lengths, "steps_per_s": pace, "reset_s": None, "make_s": making}
        self._send({"random_policy": score})


def _hash(step: AgentsStep) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for agent in sorted(step.obs):
        digest.update(agent.encode() + np.ascontiguousarray(step.obs[agent]).tobytes())
    digest.update(repr((sorted(step.rewards.items()), sorted(step.terminated), sorted(step.truncated))).encode())
    return digest.hexdigest()
