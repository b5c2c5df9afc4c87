"""JSON Schema (draft 7) of files of experiments, for editors: keys, types, bounds and meanings, from the declared keys.

User: ``drl schema``. A schema cannot say all that ``drl train`` checks: whether values go together, fit the environment, or
name result fields. RLlib's other spellings of keys, which are read with a notice, are accepted with any value; a value that is
searched over is accepted in the place of any other. Source: json-schema.org, draft-07.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from drl_cli.algorithms import table
from drl_cli.config.experiment_keys import ExperimentKeys
from drl_cli.config.rllib import experiment_aliases
from drl_cli.config.rllib.aliases import ALIASES, LAID_OVER
from drl_cli.config.rllib.ignored_keys import ANYWAY, IDLE
from drl_cli.config.search_space import FORMS
from drl_cli.config.sections.evaluation_overrides import SECTION as EVALUATION_SECTION
from drl_cli.extras import load

DRAFT = "http://json-schema.org/draft-07/schema#"
SEARCHED, EXPERIMENT = "searched", "experiment"
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_ALSO = {
    ("multiagent", "policies"): {"type": "array", "items": {"type": "string"}},
    ("model", "conv_filters"): {"type": "array"},
    ("input_evaluation",): {"type": "string"},
}
"""Other forms that keys of a config are read in, which pydantic's schema does not show."""
_KEPT = (
    *("type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"),
    *("minItems", "maxItems", "pattern"),
)
"""Keywords of pydantic's schemas that mean the same in draft 7."""


def of_files(names: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the schema of files of experiments; ``names``: of these algorithms only, None for all."""
    rows = [table.find(name) for name in (table.names() if names is None else names)]
    shared = _Definitions()
    for row in rows:
        shared.add_section(f"config.{row.name}", load(row.config).model_json_schema(by_alias=True))
    shared.add_section(EXPERIMENT, ExperimentKeys.model_json_schema(by_alias=True), is_config=False)
    experiment = shared.found[EXPERIMENT]
    experiment["properties"]["run"]["enum"] = [row.name for row in rows]
    experiment["properties"]["run"].pop("type", None)
    formats = experiment["properties"]["export_formats"]
    experiment["properties"]["export_formats"] = {"anyOf": [formats, {"type": "string"}]}
    experiment["properties"].update({name: {} for name in _other_spellings_of_experiments()})
    experiment["allOf"] = [
        {
            "if": {"properties": {"run": {"const": row.name}}, "required": ["run"]},
            "then": {"properties": {"config": {"$ref": f"#/definitions/config.{row.name}"}}},
        }
        for row in rows
    ]
    return {
        "$schema": DRAFT,
        "title": "Experiments of drl"
        if names is None
        else f"Experiments of drl: {', '.join(row.name for row in rows)}",
        "description": "A file of experiments by name, as drl train -f reads it.",
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {"$ref": f"#/definitions/{EXPERIMENT}"},
        "definitions": {**shared.found, SEARCHED: _searched()},
    }


def written(schema: Mapping[str, Any]) -> str:
    """Return a schema as JSON with a line for each definition."""
    head = json.dumps({name: value for name, value in schema.items() if name != "definitions"}, indent=1)
    lines = (f"  {json.dumps(n)}: {json.dumps(one, ensure_ascii=False)}" for n, one in schema["definitions"].items())
    return head.removesuffix("\n}") + ',\n "definitions": {\n' + ",\n".join(lines) + "\n }\n}"


class _Definitions:
    """``found``: {name: schema}; equal keys of several algorithms share one."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, Any]] = {}
        self._names: dict[str, str] = {}  # JSON of a key's schema -> its name

    def add_section(self, name: str, source: Mapping[str, Any], is_config: bool = True) -> None:
        """Add what pydantic says of a Section as the definition ``name``."""
        inner = source.get("$defs", {})
        made = self._section(source, inner, () if is_config else None)
        made["description"] = str(source.get("description", ""))
        self.found[name] = made

    def _section(
        self, source: Mapping[str, Any], inner: Mapping[str, Any], path: tuple[str, ...] | None
    ) -> dict[str, Any]:
        """Return the schema of a mapping with known keys; ``path``: of it in a config, None outside of one."""
        keys = {name: self._key(name, one, inner, path) for name, one in source["properties"].items()}
        if path is not None:
            keys = {**{name: {} for name in _other_spellings(path)}, **keys}
        return {"type": "object", "properties": keys, "additionalProperties": path == (EVALUATION_SECTION,)}

    def _key(
        self, name: str, source: Mapping[str, Any], inner: Mapping[str, Any], path: tuple[str, ...] | None
    ) -> dict[str, Any]:
        made = self._value(source, inner, None if path is None else (*path, name))
        meaning = [str(source.get("description", ""))]
        meaning += [f"Unit: {source['unit']}."] if source.get("unit") else []
        meaning += [f"Allowed: {source['allowed']}."] if source.get("allowed") else []
        about: dict[str, Any] = {"description": " ".join(meaning)}
        if "default" in source and not isinstance(source["default"], dict):
            about["default"] = source["default"]
        if path is None:
            return {**made, **about}
        also = [_ALSO[(*path, name)]] if (*path, name) in _ALSO else []
        return self._shared(name, {"anyOf": [made, *also, {"$ref": f"#/definitions/{SEARCHED}"}], **about})

    def _shared(self, name: str, made: dict[str, Any]) -> dict[str, Any]:
        written = json.dumps(made, sort_keys=True)
        if written not in self._names:
            number = sum(known.partition(".")[2].partition("#")[0] == name for known in self._names.values())
            self._names[written] = f"key.{name}" if not number else f"key.{name}#{number + 1}"
            self.found[self._names[written]] = made
        return {"$ref": f"#/definitions/{_pointer(self._names[written])}"}

    def _value(
        self, source: Mapping[str, Any], inner: Mapping[str, Any], path: tuple[str, ...] | None
    ) -> dict[str, Any]:
        """Return the schema of a value in draft 7."""
        if "$ref" in source:
            source = inner[source["$ref"].rpartition("/")[2]]
        if "properties" in source:
            return self._section(source, inner, path)
        made = {name: source[name] for name in _KEPT if name in source}
        made |= {_BOUNDS[name]: source[name] for name in _BOUNDS if name in source}
        if "anyOf" in source:
            made["anyOf"] = [self._value(one, inner, path) for one in source["anyOf"]]
        if "prefixItems" in source:
            made["items"] = [self._value(one, inner, path) for one in source["prefixItems"]]
        elif isinstance(source.get("items"), dict):
            made["items"] = self._value(source["items"], inner, path)
        if isinstance(source.get("additionalProperties"), dict):
            made["additionalProperties"] = self._value(source["additionalProperties"], inner, path)
        return made


def _pointer(name: str) -> str:
    """Return ``name`` as a part of a reference: # has a meaning there."""
    return name.replace("#", "%23")


def _other_spellings(path: tuple[str, ...]) -> list[str]:
    """Return the keys of RLlib, not ours, that may stand at ``path`` of a config, () for its top."""
    known = [*ALIASES, *ANYWAY, *IDLE, *((name,) for name in LAID_OVER)]
    return sorted({one[len(path)] for one in known if len(one) > len(path) and one[: len(path)] == path})


def _other_spellings_of_experiments() -> list[str]:
    known = {*experiment_aliases.ANYWAY, *experiment_aliases.IDLE_KEYS, experiment_aliases.BUDGET}
    return sorted(known - set(ExperimentKeys.model_fields))


def _searched() -> dict[str, Any]:
    """Return the schema of a value to search over, such as {"uniform": [0, 1]}."""
    return {
        "description": "Values to search over: a mapping of one of these names to its arguments.",
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "properties": {
            spelling: {"description": takes, "type": ["array", "integer"] if name == "randint" else "array"}
            for name, takes in FORMS.items()
            for spelling in (name, f"tune.{name}")
        },
        "additionalProperties": False,
    }
