"""Whether an environment follows gymnasium's interface and is reproducible: ``drl env check ID``.

``check`` plays it in a process of its own (this file as ``python -m drl_cli.checks.env_check``, which writes stages and
findings line by line), so that a crash or a hang is a finding too. Checked are seeds and processes, spaces, non-finite
numbers, how episodes end, reset, and speed.

Sources: gymnasium's interface (Env.reset, Env.step) and its ``utils.env_checker``, which checks two steps; Pardo et al.
2018 (arXiv:1712.00378) for the cost of reporting a time limit as termination.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drl_cli.checks import random_episodes
from drl_cli.checks.agents_check import AgentsCheck
from drl_cli.checks.env_probe import looked_at, shortened
from drl_cli.checks.findings import FAIL, NOTE, OK, Finding
from drl_cli.checks.subprocess_probe import SILENT, SubprocessProbe
from drl_cli.envs import carry_over, make
from drl_cli.envs.carry_over import first_difference, hashes
from drl_cli.envs.env_smoke_test import try_out
from drl_cli.envs.multi_agent import open_envs
from drl_cli.errors import DrlError, failure

if TYPE_CHECKING:
    import gymnasium

TRACED = 300  # steps that are compared
SILENCE_S = 60.0  # for any stage to say something
OTHER = "drl_cli.checks.env_trace"


def check(
    env_id: str, question: Mapping[str, Any], progress: Callable[[str], object] = lambda stage: None
) -> dict[str, Any]:
    """Return the report of an environment that ``envs.resolve`` knows: {"id", "findings", …}, see ``drl env check``.

    ``question``: dict(env_config, imports, seed, episodes, seconds). ``progress(text)`` is called as stages begin.
    """
    report = {"id": env_id, "findings": [], "random_policy": None, "spaces": None, "fits": []}
    stage = "starting"
    with SubprocessProbe("drl_cli.checks.env_check", {**question, "id": env_id}) as asked:
        while True:
            answer, problem = asked.next(SILENCE_S + question["seconds"])
            if answer is None:
                hung = f"nothing happened for {SILENCE_S + question['seconds']:.0f} s"
                text = f"{stage}: {hung if problem == SILENT else f'the process ended, {asked.end()}'}"
                report["findings"].append(Finding("process", FAIL, text))
                return report
            if "stage" in answer:
                stage = answer["stage"]
                progress(stage)
            elif "finding" in answer:
                report["findings"].append(Finding(*answer["finding"]))
            elif "done" in answer:
                return report
            else:
                report.update(answer)


class _Check:
    """The stages; each sends its findings with ``send(dict)``."""

    def __init__(self, question: Mapping[str, Any], send: Callable[[Mapping[str, Any]], object]) -> None:
        self._asked, self._send = question, send
        self._id, self._env_config = question["id"], question["env_config"]

    def run(self) -> None:
        """Go through all stages; what breaks one of them is a finding, and the last one where nothing can follow it."""
        for stage, method in self._stages():
            self._send({"stage": stage})
            try:
                if method() is False:
                    break
            except DrlError as error:
                self._find(stage, FAIL, str(error))
                break
            except (Exception, SystemExit) as error:  # the environment's own
                self._find(stage, FAIL, f"it raised {failure(error)}")
                break
        self._send({"done": True})

    def _stages(self) -> Sequence[tuple[str, Callable[[], object]]]:
        kind = open_envs.kind_of(self._id, self._env_config)
        if kind is not None:
            return AgentsCheck(self._asked, kind, self._send).stages()
        return (
            ("making it", self._interface),
            ("playing the same steps twice", self._repeats),
            ("playing them in another process", self._repeats_elsewhere),
            ("playing at random", self._plays),
        )

    def _find(self, what: str, state: str, text: str) -> None:
        self._send({"finding": Finding(what, state, text)})

    def _new(self) -> gymnasium.Env:
        return make.make_raw(self._id, self._env_config)

    def _interface(self) -> bool:
        env = make.make(self._id, self._env_config)
        try:
            try_out(env, self._id, make.describe(env).get("mask"))
        finally:
            env.close()
        seen = looked_at(self._id, self._env_config)
        if "error" in seen:
            self._find("interface", FAIL, shortened(seen["error"]))
            return False
        self._send({"spaces": seen["spaces"], "text": seen["text"], "fits": seen["fits"]})
        self._find("interface", OK, "reset and step follow gymnasium's interface")
        fits = (
            ", ".join(seen["fits"]) or "none; make the actions one Box with finite bounds or one Discrete in a wrapper"
        )
        self._find("algorithms", OK if seen["fits"] else FAIL, fits)
        return True

    def _repeats(self) -> None:
        seed = self._asked["seed"]
        first, again = self._new(), self._new()
        self._before = hashes(first, seed, TRACED)
        place = first_difference(self._before, hashes(again, seed, TRACED))
        if place is not None:
            text = (
                f"two new instances with seed {seed} and equal actions differ {place}: reset must seed all randomness"
            )
            self._find("same seed", FAIL, text)
        else:
            self._find("same seed", OK, f"two new instances agree for {TRACED} steps")
        starts = {hashes(self._new(), seed + i, 0)[0] for i in range(5)}
        if len(starts) == 1:
            later = {hashes(self._new(), seed + i, 50)[-1] for i in range(3)}
            text = "every episode starts the same, whatever the seed"
            self._find("other seeds", NOTE, text if len(later) > 1 else f"{text}, and equal actions give equal steps")
        else:
            self._find("other seeds", OK, f"5 seeds give {len(starts)} initial states")
        first.close()
        again.close()
        self._carries_over(place is None)

    def _carries_over(self, repeats: bool) -> None:
        """Whether a reset with a seed forgets all that was before; ``repeats``: whether new ones do the same."""
        found = carry_over.tried(self._new, self._asked["seed"])
        if found.is_nothing:
            text = "a seeded reset clears all earlier state: a resumed run continues bit for bit"
            self._find("used again", OK, text)
        elif found.differs is None:
            text = f"a seeded reset keeps {found}, as counters and curricula do; a resumed run starts them from scratch"
            self._find("used again", NOTE, text)
        elif repeats:
            cost = random_episodes.duration(found.make_s)
            text = f"{found}: a seeded reset keeps some state, so a resumed run does not continue bit for bit"
            self._find("used again", NOTE, f"{text}. With fresh_envs: true it does, at {cost} per episode")

    def _repeats_elsewhere(self) -> None:
        question = {name: self._asked[name] for name in ("id", "env_config", "imports", "seed")}
        with SubprocessProbe(OTHER, {**question, "steps": TRACED}) as other:
            answer, problem = other.next(SILENCE_S)
        if answer is None:
            text = "it did not answer" if problem == SILENT else other.end()
            self._find("another process", FAIL, f"it cannot be played there: {text}")
            return
        place = first_difference(self._before, answer["hashes"])
        text = f"with seed {self._asked['seed']} and equal actions it differs {place}: something depends on string hashes, "
        if place is not None:
            self._find("another process", FAIL, text + "the clock, or a generator that reset does not seed")
        else:
            self._find("another process", OK, f"it does the same there for {TRACED} steps")

    def _plays(self) -> None:
        asked = self._asked
        env = self._new()
        began = time.perf_counter()
        self._new().close()
        making = time.perf_counter() - began
        try:
            played = random_episodes.play(env, asked["seed"], asked["episodes"], asked["seconds"])
        finally:
            env.close()
        limit = make.time_limit(self._id)
        for finding in random_episodes.judged(played, limit, env.observation_space):
            self._send({"finding": finding})
        self._send({"random_policy": played.score(making)})
        self._find("speed", *random_episodes.speed(played, making))


def main() -> None:
    """Check what stdin asks for."""
    asked = json.load(sys.stdin)
    for module in asked["imports"]:
        make.import_module(module)
    make.resolve(asked["id"], trusted=True)
    _Check(asked, lambda line: print(json.dumps(line), flush=True)).run()


if __name__ == "__main__":
    main()
