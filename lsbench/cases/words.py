"""Models of layouts and inputs, made from the functions that a case file names.

A function's keyword-only parameters become the keys of its model and its docstring the text that
editors show: a new layout or distribution needs its function and nothing here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    StrictBool,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError

from lsbench.cases.scalars import Pattern, Real
from lsbench.distributions import DISTRIBUTIONS
from lsbench.inputs import WORDS
from lsbench.layouts import LAYOUTS

STRICT = ConfigDict(strict=True, extra="forbid", frozen=True)

_HEX_FLOAT = r"[-+]?0[xX][0-9a-fA-F]+(\.[0-9a-fA-F]*)?([pP][-+]?[0-9]+)?"
_SPECIAL = r"[-+]?\.?(inf|Inf|INF)(inity)?|\.?(nan|NaN|NAN)"


def wrong(expected: str) -> PydanticCustomError:
    """An error that says what was expected; what was found is added with its place."""
    return PydanticCustomError("expected", "{expected}", {"expected": expected})


def _number(value: object) -> float:
    if isinstance(value, bool | Pattern) or not isinstance(value, int | float):
        raise wrong("a number")
    try:
        return float(value)
    except OverflowError:
        raise wrong("a number within double precision") from None


Number = Annotated[
    float,
    PlainValidator(_number),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number"},
                {"type": "string", "pattern": f"^({_HEX_FLOAT}|{_SPECIAL})$"},
            ]
        }
    ),
]
"""A number as people write it: 6e4, 0x1.8p-3, inf."""


def integer(value: object) -> int:
    """Check that a value is an integer of 64 bits."""
    if isinstance(value, bool | Pattern) or not isinstance(value, int):
        raise wrong("an integer")
    if not -(1 << 63) <= value < 1 << 63:
        raise wrong("an integer of at most 63 bits")
    return value


Integer = Annotated[int, PlainValidator(integer), WithJsonSchema({"type": "integer"})]


class Bits(BaseModel):
    """A bit pattern: {bits: 0x7c01}."""

    model_config = STRICT

    bits: Annotated[int, Field(ge=0, lt=1 << 32, description="The pattern, all bits of the dtype.")]


def _entry(value: object) -> object:
    if isinstance(value, dict):
        return Pattern(Bits.model_validate(value).bits)
    if isinstance(value, Real | Pattern):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Real(str(value), float(integer(value)))
    if isinstance(value, str) and value.removeprefix("-") in WORDS:
        return value
    raise wrong(f"a number, a bit pattern, or one of {', '.join(WORDS)}")


Value = Annotated[
    Any,
    PlainValidator(_entry),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number"},
                {
                    "type": "string",
                    "pattern": f"^({_HEX_FLOAT}|{_SPECIAL}|0b[01]+|-?({'|'.join(WORDS)}))$",
                },
                {
                    "type": "object",
                    "properties": {"bits": {"type": "integer", "minimum": 0}},
                    "required": ["bits"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
"""One explicit value: a number, inf, nan, max, min_normal, ..., 0b..., {bits: 0x...}."""


class Parameters(BaseModel):
    """Parameters of a layout or distribution; a scalar or list stands for the first of them."""

    model_config = STRICT

    @model_validator(mode="before")
    @classmethod
    def _first(cls, given: object) -> object:
        if given is None:
            return {}
        if isinstance(given, dict) or not cls.model_fields:
            return given
        return {next(iter(cls.model_fields)): given}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        whole = handler.resolve_ref_schema(handler(core))
        forms: list[dict[str, Any]] = [whole]
        fields = whole.get("properties", {})
        required = whole.get("required", [])
        if fields and set(required) <= {next(iter(fields))}:
            forms.append(next(iter(fields.values())))
        if not required:
            forms.append({"type": "null"})
        return {"description": whole.get("description", ""), "anyOf": forms}


def parameters(name: str, function: Callable[..., Any]) -> type[Parameters]:
    """The model of a function's keyword-only parameters."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        p.name: (_strict(hints[p.name]), ... if p.default is p.empty else p.default)
        for p in inspect.signature(function).parameters.values()
        if p.kind is p.KEYWORD_ONLY
    }
    made = create_model(f"Parameters_{name}", __base__=Parameters, **fields)
    made.__doc__ = first_line(function)
    return made


def first_line(function: Callable[..., Any]) -> str:
    """The first line of a docstring."""
    return inspect.cleandoc(function.__doc__ or "").split("\n")[0]


def _strict(hint: Any) -> Any:
    """A parameter's type as a model checks it: numbers by the rules of case files."""
    replaced = {float: Number, int: Integer, bool: StrictBool}
    if hint in replaced:
        return replaced[hint]
    arguments = get_args(hint)
    if get_origin(hint) is Sequence:
        item: Any = _strict(arguments[0])
        return Annotated[tuple.__class_getitem__((item, ...)), BeforeValidator(_tuple)]
    if get_origin(hint) in (Union, UnionType):
        return reduce(or_, (_strict(a) for a in arguments))
    return hint


def _tuple(value: object) -> object:
    if not isinstance(value, list):
        raise wrong("a list")
    return tuple(value)


LAYOUT_MODELS = {name: parameters(name, made) for name, made in LAYOUTS.items()}
DISTRIBUTION_MODELS = {name: parameters(name, made) for name, made in DISTRIBUTIONS.items()}
