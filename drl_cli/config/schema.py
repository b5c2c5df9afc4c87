"""What a schema is made of: ``Section`` (a frozen mapping of keys), ``key`` (one documented key) and value types.

Used by every file of this folder that declares keys; ``config.parse`` reads the declarations back for its messages.
A default lives in the ``key(...)`` line, or in the ``default(...)`` line of the algorithm that starts from another value,
and nowhere else. Sources: pydantic 2 (strict mode), RLlib's key names.
"""

import itertools
import math
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from typing_extensions import dataclass_transform

MAX_TEXT = 4096  # characters of a string value
MAX_DEPTH = 32  # of a value that is plain data
MAX_WHOLE = 2**53  # a whole number beyond this changes when it passes through JSON readers that hold floats


class Default(NamedTuple):
    """Another default of a key that a section inherits; see ``default``."""

    value: Any
    notes: dict


class MisfitError(ValueError):
    """What is wrong with the values of a section together: ``key`` is the one to look at, the text says what is wrong."""

    def __init__(self, key, text):
        super().__init__(text)
        self.key = key


@dataclass_transform(kw_only_default=True, frozen_default=True)
class _FrozenType(type(BaseModel)):
    """The type of sections. Adds nothing when the program runs; type checkers learn that values never change."""


class Section(BaseModel, metaclass=_FrozenType):
    """A mapping with known keys: frozen, unknown keys forbidden, no silent conversion (a bool is not a number).

    A subclass adds keys, and may start inherited ones from other values: ``class TD3Config(DDPGConfig, defaults={"twin_q":
    default(True)})``.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        str_max_length=MAX_TEXT,
        protected_namespaces=(),
        validate_by_name=True,  # in Python, a key that is a word of the language goes by the name of its field
        validate_by_alias=True,
        use_attribute_docstrings=False,
    )

    @classmethod
    def schema_for(cls, mapping):
        """Return the schema that a ``mapping`` for this section is read by: another one where its values ask for it."""
        return cls

    def __init_subclass__(cls, defaults=None, **kwargs):
        """Declare each key of ``defaults`` ({name: Default}) anew, with its type, bounds, meaning and unit as they were."""
        super().__init_subclass__(**kwargs)
        for name, (value, notes) in (defaults or {}).items():
            field = next(base.model_fields[name] for base in cls.__mro__[1:] if name in base.model_fields)
            kept = {note: field.json_schema_extra[note] for note in ("unit", "allowed", "needs")}
            kind = field.annotation
            cls.__annotations__[name] = Annotated[(kind, *field.metadata)] if field.metadata else kind
            changed = Field(
                value,
                description=field.description,
                alias=field.alias,
                json_schema_extra={**kept, **notes},
                validate_default=False,
            )
            setattr(cls, name, changed)


def key(default, meaning, unit=None, allowed=None, **bounds):
    """Declare one key.

    ``meaning`` is a sentence, ``unit`` that of the value, ``allowed`` the accepted values in words where type and
    bounds do not say them. ``bounds`` are pydantic's (ge, gt, le, lt, min_length, max_length, alias), and
    ``rllib`` with ``why``: RLlib 1.0.1's default where ours differs, and the reason. ``needs`` is (name, least): the key
    has no effect while the key ``name`` of the config is below ``least`` (a bool counts as 0 or 1). A mutable default is
    copied.
    """
    notes = {"unit": unit, "allowed": allowed, "needs": bounds.pop("needs", None)}
    if "rllib" in bounds:
        notes["rllib"] = bounds.pop("rllib")
        notes["why"] = bounds.pop("why")
    return Field(default, description=meaning, json_schema_extra=notes, validate_default=False, **bounds)


def default(value, **notes):
    """Return the default that an inherited key has in this section; ``rllib`` with ``why`` as in ``key``.

    Notes of the inherited declaration are dropped: they compared another default with RLlib's for another algorithm.
    """
    return Default(value, notes)


def _whole(value):
    """Let ``1e6`` be the whole number that it is; leave everything else to the strict check."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_WHOLE:
        return int(value)
    return value


def _fits(value):
    if abs(value) > MAX_WHOLE:
        raise ValueError("beyond 2**53")
    return value


def rising(points):
    """Refuse [env_step, value] points whose steps do not rise."""
    steps = [step for step, _ in points]
    if any(later <= earlier for earlier, later in itertools.pairwise(steps)):
        raise ValueError("the env steps of a schedule must rise")
    return points


def _plain(mapping):
    """Refuse what JSON cannot hold: the mapping is recorded, and sent to workers."""
    waiting = [(mapping, 1)]
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, dict):
            if not all(isinstance(name, str) for name in value):
                raise ValueError("its keys must be text")
            children = value.values()
        elif isinstance(value, (list, tuple)):
            children = value
        elif (
            value is None or isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value))
        ):
            continue
        else:
            raise ValueError(f"{str(value)[:60]!r} is not plain data")
        if depth > MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
        waiting.extend((child, depth + 1) for child in children)
    return mapping


PlainMapping = Annotated[dict[str, Any], AfterValidator(_plain)]
"""A mapping of texts to plain data (what JSON can hold)."""

Whole = Annotated[int, BeforeValidator(_whole), AfterValidator(_fits)]
"""A whole number; ``1e6`` is one, ``true`` and ``1.5`` are not."""

Range = Annotated[tuple[float, float], Field(strict=False)]
"""``[low, high]``."""

Widths = Annotated[tuple[Annotated[Whole, Field(ge=1, le=65536)], ...], Field(strict=False, max_length=32)]
"""Units of each hidden layer; a list in files, a tuple in Python. Empty: no hidden layer."""

_Rate = Annotated[float, Field(ge=0, le=10)]
_Point = Annotated[tuple[Annotated[Whole, Field(ge=0)], _Rate], Field(strict=False)]
_Points = Annotated[tuple[_Point, ...], Field(strict=False, min_length=1, max_length=1000), AfterValidator(rising)]

Rate = _Rate | _Points
"""A learning rate, or ``[[env_step, value], …]``: linear between the points, constant before and behind them."""
RATE_ALLOWED = "a number in [0, 10], or a list of [env_step, value] pairs whose steps rise"
