"""What a schema is made of: ``Section`` (a frozen mapping of keys), ``key`` (one documented key) and value types.

Used wherever keys are declared; ``config.key_description`` reads the declarations back for messages and listings. A default
lives in the ``key(...)`` line, or in the ``default(...)`` line of the algorithm that starts from another value,
and nowhere else. Sources: pydantic 2 (strict mode), RLlib's key names.
"""

import itertools
import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, Protocol, TypeAlias, TypedDict, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.fields import FieldInfo
from typing_extensions import NotRequired, dataclass_transform

from drl_cli.config.plain_data import MAX_DEPTH, MAX_TEXT

MAX_WHOLE = 2**53  # a whole number beyond this changes when it passes through JSON readers that hold floats


SectionType: TypeAlias = "type[Section]"


class KeyNotes(TypedDict):
    """What the declaration of a key says beside its type, bounds and meaning; see ``key``."""

    unit: str | None
    allowed: str | None
    needs: tuple[str, float] | None
    rllib: NotRequired[Any]
    why: NotRequired[str]


class SchemaRow(Protocol):
    """A row of the table of algorithms: its name, and the schema of its keys or the dotted name of that."""

    @property
    def name(self) -> str: ...

    @property
    def config(self) -> object: ...


class Default(NamedTuple):
    """Another default of a key that a section inherits; see ``default``."""

    value: Any
    notes: dict[str, Any]


class MisfitError(ValueError):
    """Values of a section that do not go together: ``key`` is the one to look at, the message says what is wrong."""

    def __init__(self, key: str, text: str) -> None:
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
    def schema_for(cls, mapping: Mapping[str, Any]) -> "type[Section]":
        """Return the schema that a ``mapping`` for this section is read by: another one where its values ask for it."""
        return cls

    def __init_subclass__(cls, defaults: Mapping[str, Default] | None = None, **kwargs: Any) -> None:
        """Declare each key of ``defaults`` ({name: Default}) anew, with its type, bounds, meaning and unit as they were."""
        super().__init_subclass__(**kwargs)
        for name, (value, notes) in (defaults or {}).items():
            field = next(base.model_fields[name] for base in cls.__mro__[1:] if name in base.model_fields)
            before = notes_of(field)
            kept = {"unit": before["unit"], "allowed": before["allowed"], "needs": before["needs"]}
            cls.__annotations__[name] = type_of(field)
            changed = Field(
                value,
                description=field.description,
                alias=field.alias,
                json_schema_extra={**kept, **notes},
                validate_default=False,
            )
            setattr(cls, name, changed)


def notes_of(field: FieldInfo) -> KeyNotes:
    """Return the notes of a key that ``key`` or ``default`` declared."""
    if not isinstance(field.json_schema_extra, dict):
        return KeyNotes(unit=None, allowed=None, needs=None)
    return cast(KeyNotes, field.json_schema_extra)


def type_of(field: FieldInfo) -> Any:
    """Return the type of a key with its bounds, as an annotation."""
    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation


def key(default: Any, meaning: str, unit: str | None = None, allowed: str | None = None, **bounds: Any) -> Any:
    """Declare one key.

    ``meaning`` is a sentence, ``unit`` that of the value, ``allowed`` the accepted values in words where type and
    bounds do not say them. ``bounds`` are pydantic's (ge, gt, le, lt, min_length, max_length, alias), and
    ``rllib`` with ``why``: RLlib 1.0.1's default where ours differs, and the reason. ``needs`` is (name, least): the key
    has no effect while the key ``name`` of the config is below ``least`` (a bool counts as 0 or 1). Every
    config gets a copy of a mutable default.
    """
    notes = {"unit": unit, "allowed": allowed, "needs": bounds.pop("needs", None)}
    if "rllib" in bounds:
        notes["rllib"] = bounds.pop("rllib")
        notes["why"] = bounds.pop("why")
    return Field(default, description=meaning, json_schema_extra=notes, validate_default=False, **bounds)


def default(value: Any, **notes: Any) -> Default:
    """Return the default that an inherited key has in this section; ``rllib`` with ``why`` as in ``key``.

    Notes of the inherited declaration are dropped: they compared another default with RLlib's for another algorithm.
    """
    return Default(value, notes)


def _whole(value: object) -> object:
    """Let ``1e6`` be the whole number that it is; leave everything else to the strict check."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_WHOLE:
        return int(value)
    return value


def _fits(value: int) -> int:
    if abs(value) > MAX_WHOLE:
        raise ValueError("beyond 2**53")
    return value


Points: TypeAlias = tuple[tuple[int, float], ...]


def rising(points: Points) -> Points:
    """Refuse [env_step, value] points whose steps do not rise."""
    steps = [step for step, _ in points]
    if any(later <= earlier for earlier, later in itertools.pairwise(steps)):
        raise ValueError("the env steps of a schedule must rise")
    return points


def _plain(mapping: dict[str, Any]) -> dict[str, Any]:
    """Refuse what JSON cannot hold: the mapping is recorded, and sent to workers."""
    waiting: list[tuple[Any, int]] = [(mapping, 1)]
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, dict):
            if not all(isinstance(name, str) for name in value):
                raise ValueError("its keys must be strings")
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
"""A mapping of strings to plain data (what JSON can hold)."""

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
"""A learning rate, or ``[[env_step, value], …]``: linear between the points, constant before the first and after the last."""
RATE_ALLOWED = "a number in [0, 10], or a list of [env_step, value] pairs whose steps rise"


def _rising_returns(points: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    if any(later <= earlier for (earlier, _), (later, _) in itertools.pairwise(points)):
        raise ValueError("the returns must rise")
    return points


_Factor = Annotated[tuple[float, Annotated[float, Field(ge=0, le=10)]], Field(strict=False)]
FactorByReturn = Annotated[
    tuple[_Factor, ...], Field(strict=False, min_length=2, max_length=1000), AfterValidator(_rising_returns)
]
"""``[[return, factor], …]``: linear between the points, constant before the first and after the last."""
