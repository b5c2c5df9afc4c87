"""The environment of a run as screens, tables and folders name it, and the names of its wrappers."""

from collections.abc import Mapping, Sequence
from typing import Any

TEAM_ID = "drl/Team-v1"
"""The id that shows all agents of another environment as one, see ``envs.multi_agent.team``."""

EXTERNAL_ID = "drl/External-v1"
"""The id that stands for simulators outside of the run; its spaces are keys of env_config, see ``envs.bundled_envs``."""


def displayed(env_id: str, env_config: Any) -> str:
    """Return the id to show for an environment: of a team that of the environment its agents are in, else ``env_id``."""
    inner = env_config.get("env") if env_id == TEAM_ID and isinstance(env_config, Mapping) else None
    return inner if isinstance(inner, str) else env_id


Wrapper = tuple[str, dict[str, Any]]
"""(name, keyword arguments) of one wrapper."""


def named_wrappers(value: Sequence[str | Mapping[str, Any]]) -> list[Wrapper]:
    """Return [(name, keywords)] of a list of names, and of mappings of one name to its keywords.

    Raises ValueError for an entry that is neither.
    """
    found: list[Wrapper] = []
    for entry in value:
        if isinstance(entry, str):
            found.append((entry, {}))
            continue
        if len(entry) != 1:
            raise ValueError(
                f"an entry is a name, or a mapping of one name to its keywords, not {str(dict(entry))[:80]}"
            )
        ((name, keywords),) = entry.items()
        if keywords is not None and not isinstance(keywords, Mapping):
            raise ValueError(f"the keywords of {name[:60]} are a mapping, not {str(keywords)[:60]!r}")
        found.append((name, dict(keywords or {})))
    return found
