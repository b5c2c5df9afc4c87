"""The keys of a schema as plain rows: what ``drl algorithms``, ``drl explain`` and tables of the documentation print."""

from drl_cli.config.key_description import allowed, key_name, leaves
from drl_cli.config.sections.exploration import ExplorationConfig


def keys(schema):
    """Return one dict for each key of a Section class, those of its sections included: what is most its own first.

    key: dotted name. default: plain data. unit: text or None. allowed: in words. meaning. section: first part of the name
    or None. needs: [other key, least value] without which it has no effect, or None. rllib and why: RLlib 1.0.1's default
    where ours differs, and the reason; both missing where it does not.
    """
    defaults = schema().model_dump(mode="json", by_alias=True)
    rows = []
    for path, field in leaves(schema):
        notes = field.json_schema_extra or {}
        row = {
            "key": ".".join(path),
            "default": value_at(defaults, path),
            "unit": notes.get("unit"),
            "allowed": allowed(field),
            "meaning": field.description,
            "section": path[0] if len(path) > 1 else None,
            "needs": list(notes["needs"]) if notes.get("needs") else None,
        }
        if "rllib" in notes:
            row |= {"rllib": notes["rllib"], "why": notes["why"]}
        rows.append(row)
    return sorted(rows, key=lambda row: _depth(schema, row["key"].partition(".")[0]))


def own_keys(config):
    """Return rows, as ``keys``, for keys in a recorded ``config`` (plain data) that no schema of an algorithm lists.

    They are those of a registered exploration; where it is not registered in this process, only names are known.
    """
    given = config.get("exploration_config")
    if not isinstance(given, dict):
        return []
    schema = ExplorationConfig.schema_for(given)
    known = {row["key"]: row for row in keys(schema)}
    meaning = f"A key of {given.get('type')}, which is registered by a module: --import MODULE."
    unknown = {"default": None, "unit": None, "allowed": None, "meaning": meaning, "needs": None}
    rows = [known.get(name, {"key": name, **unknown}) for name in given if name not in ExplorationConfig.model_fields]
    return [{**row, "key": f"exploration_config.{row['key']}", "section": "exploration_config"} for row in rows]


def _depth(schema, name):
    """Return how far up the bases of ``schema`` the class is that says something of the key ``name``."""
    fields = {key_name(own, field): own for own, field in schema.model_fields.items()}
    own = fields[name]
    return next(n for n, base in enumerate(schema.__mro__) if own in base.__dict__.get("__annotations__", {}))


def value_at(mapping, path):
    """Return what nested mappings hold at ``path``, None where there is nothing."""
    for name in path:
        mapping = mapping.get(name) if isinstance(mapping, dict) else None
    return mapping
