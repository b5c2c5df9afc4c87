"""Keys in ``evaluation_config`` that evaluations do not read: any key of the algorithm may stand there, as in RLlib.

Used by ``config.parse``. A score depends on the policy, the environment and the seeds alone, so that most keys have no effect
there, which a notice says; those that would change what is scored are refused unless they have the value of training.
"""

from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from drl_cli.config.key_description import allowed, fields_of, section_of
from drl_cli.config.origins import Where
from drl_cli.config.rllib.aliases import renamed
from drl_cli.config.schema import Section, type_of
from drl_cli.errors import shown

SECTION = "evaluation_config"
_OF_POLICY = "it is part of the evaluated policy; use the value of training"
_OF_RUN = "evaluations use that of the run; omit it here"
_DRAWN = "evaluations are not rendered. Record videos with: drl rollout CHECKPOINT --video-dir DIR"

REFUSED = {
    "env": "score on another environment with: drl evaluate RUN --env ID",
    **dict.fromkeys(("model", "Q_model", "policy_model", "observation_filter", "preprocessor_pref"), _OF_POLICY),
    "env_wrappers": _OF_POLICY,
    **dict.fromkeys(("normalize_actions", "clip_actions"), _OF_POLICY),
    **dict.fromkeys(("callbacks", "custom_eval_function"), _OF_RUN),
}
"""Key → why a value that is not training's is refused."""


def settled(
    mapping: dict[str, Any], schema: type[Section], where: Where
) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return (``mapping`` whose ``evaluation_config`` has only keys of its own and unknown ones, problems, notices)."""
    given = mapping.get(SECTION)
    fields = fields_of(schema)
    section = section_of(fields[SECTION]) if SECTION in fields else None
    own = fields_of(section) if section else {}
    if not isinstance(given, dict) or not own or set(given) <= set(own):
        return mapping, [], []
    others = {
        name: value for name, value in given.items() if name not in own and (name, value) != ("in_evaluation", True)
    }
    others, _, problems, _ = renamed(others, where.inside(SECTION), schema)
    kept = {name: value for name, value in given.items() if name in own} | {
        name: value for name, value in others.items() if name not in fields
    }
    idle, notices = [], []
    for name in fields.keys() & others.keys():
        value, place = others[name], f"({where.place((SECTION, name))})"
        wrong = _wrong(fields[name], value)
        same = value == mapping.get(name, fields[name].default)
        if wrong or (name in REFUSED and not same):
            why = wrong or f"not supported: {REFUSED[name]}"
            problems.append(f"{SECTION}.{name}: {why} {place}.")
        elif name == "exploration_config" and kept.get("explore") is True and not same:
            why = "evaluations with explore sample from the policy itself, without further exploration"
            problems.append(f"{SECTION}.{name}: not supported: {why} {place}.")
        elif name in ("render_env", "record_env") and value:
            notices.append(f"{SECTION}.{name} {shown(value)} has no effect: {_DRAWN}.")
        else:
            idle.append(name)
    if idle:
        verb = "has" if len(idle) == 1 else "have"
        names = ", ".join(f"{SECTION}.{name}" for name in sorted(idle))
        notices.append(f"{names} {verb} no effect: a score depends only on the policy, the environment and the seeds.")
    return {**mapping, SECTION: kept}, problems, notices


def _wrong(field: FieldInfo, value: object) -> str | None:
    """Return what is wrong with the value of a key, or None."""
    try:
        TypeAdapter(type_of(field)).validate_python(value, strict=True)
    except ValidationError:
        return f"{shown(value)} is not allowed; it takes {allowed(field)}"
    return None
