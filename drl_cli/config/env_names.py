"""The environment of a run as screens, tables and folders name it."""

from collections.abc import Mapping
from typing import Any

TEAM_ID = "drl/Team-v1"
"""The id that shows all agents of another environment as one, see ``envs.multi_agent.team``."""

EXTERNAL_ID = "drl/External-v1"
"""The id that stands for simulators outside of the run; its spaces are keys of env_config, see ``envs.bundled_envs``."""


def displayed(env_id: str, env_config: Any) -> str:
    """Return the id to show for an environment: of a team that of the environment its agents are in, else ``env_id``."""
    inner = env_config.get("env") if env_id == TEAM_ID and isinstance(env_config, Mapping) else None
    return inner if isinstance(inner, str) else env_id
