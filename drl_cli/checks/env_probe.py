"""Makes and describes environments one by one, in a process of its own: ``python -m drl_cli.checks.env_probe``.

Started by ``checks.env_catalogue``, so that an environment that crashes or hangs takes only this process with it. Reads from
stdin one JSON object {"ids": [...], "imports": [...], "env_config": {}}; writes one JSON line per id:
{"id", "spaces", "fits": [names of algorithms], "max_episode_steps", "reward_threshold"}, or {"id", "error"}. With several
agents there are "agents": {agent: spaces}, "kind", "is_turn_based", "state": its numbers, and "notes" too.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from collections.abc import Mapping
from typing import Any

from drl_cli.algorithms import table
from drl_cli.algorithms.dqn import DQNConfig
from drl_cli.envs import make, preprocessors
from drl_cli.envs.env_spec import EnvSpec, SpaceSpec
from drl_cli.envs.multi_agent import open_envs
from drl_cli.envs.multi_agent.team import TeamEnv
from drl_cli.envs.spaces import misfit
from drl_cli.errors import DrlError, EnvError


def looked_at(env_id: str, env_config: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what is known of one environment, as above."""
    try:
        if ":" not in env_id:
            make.resolve(env_id)  # registers it where it is a game
        # As most algorithms see it by default: the sections of images are the same for all that have one.
        plan = preprocessors.plan(DQNConfig(env_config=dict(env_config or {})), env_id)
        with contextlib.redirect_stdout(io.StringIO()):
            kind = open_envs.kind_of(env_id, env_config or {})
            if kind is not None:
                found = open_envs.check(env_id, env_config or {}, kind, preprocessing=plan)
                return _with_agents(env_id, found, kind, _as_team(env_id, env_config or {}, kind))
            env = make.make(env_id, dict(env_config or {}), preprocessing=plan)
            spaces: EnvSpec = {**make.describe(env), "frames": preprocessors.frames_of(plan)}
            raw = {"obs": str(env.unwrapped.observation_space), "action": str(env.unwrapped.action_space)}
            env.close()
    except DrlError as error:
        return {"id": env_id, "error": shortened(str(error).removeprefix(f"{env_id} ").removeprefix(f"{env_id}: "))}
    except (Exception, SystemExit) as error:  # whatever an environment of a user's raises
        return {"id": env_id, "error": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
    return {
        "id": env_id,
        "spaces": spaces,
        "text": {name: " ".join(text.split())[:160] for name, text in raw.items()},
        "fits": [row.name for row in table.rows() if misfit(spaces, row) is None],
        "max_episode_steps": make.time_limit(env_id),
        "reward_threshold": make.reward_threshold(env_id),
    }


def _as_team(env_id: str, env_config: Mapping[str, Any], kind: str) -> EnvSpec | None:
    """Return the spaces of an environment's agents seen as one team; None where they cannot be one."""
    env = open_envs.open_env(env_id, env_config, kind)
    try:
        return make.describe(TeamEnv(env))
    except EnvError:  # no team: shown as an environment of several agents
        return None
    finally:
        env.close()


def _with_agents(env_id: str, found: open_envs.Checked, kind: str, team: EnvSpec | None) -> dict[str, Any]:
    """Return what is known of an environment with several agents: ``spaces`` are those of its first one."""
    every = list(found.spaces.values())
    fits = [
        row.name
        for row in table.rows()
        if (row.several and not any(misfit(each, row) for each in every))
        or (row.team and team is not None and misfit(team, row) is None)
    ]
    return {
        "id": env_id,
        "spaces": every[0],
        "text": {
            part: _text({agent: each[part] for agent, each in found.spaces.items()}) for part in ("obs", "action")
        },
        "agents": found.spaces,
        "kind": kind,
        "is_turn_based": found.is_turn_based,
        "state": found.state,
        "notes": list(found.notes),
        "fits": fits,
        "max_episode_steps": make.time_limit(env_id),
        "reward_threshold": None,
    }


def _text(spaces: Mapping[str, SpaceSpec]) -> str:
    """Return the spaces of agents in words: once where all are equal, else with the first agent of each kind."""
    who = {}
    for agent, space in spaces.items():
        size = space["n"] if "n" in space else space["shape"]
        who.setdefault(f"{space['kind']}({size})", agent)
    return next(iter(who)) if len(who) == 1 else ", ".join(f"{agent}: {text}" for text, agent in who.items())


def shortened(text: str) -> str:
    """Return an error's text without the file that raised it; a module that is missing is named alone."""
    text = re.sub(r" \([^()]*:\d+, in [^()]*\)\.?$", "", text)
    missing = re.search(r"No module named '([\w.]+)'", text)
    return f"needs a package that is not installed: pip install {missing[1].split('.')[0]}" if missing else text


def main() -> None:
    """Answer the question on stdin."""
    asked = json.load(sys.stdin)
    for module in asked["imports"]:
        make.import_module(module)
    for env_id in asked["ids"]:
        print(json.dumps(looked_at(env_id, asked.get("env_config"))), flush=True)


if __name__ == "__main__":
    main()
