"""Records to plain values and back, strictly, by the type hints of the dataclasses.

Encoding never loses a bit: floats stay floats (JSON writes the shortest decimal that reads back),
and an infinity or a NaN, which JSON has no number for, becomes the text ``inf``, ``-inf`` or
``nan`` where a float is expected. Decoding takes exactly what encoding gives and names the place
of anything else.

>>> from lsbench.records import Value
>>> encode(Value("0x3c00", "1"))
{'hex': '0x3c00', 'decimal': '1'}
>>> decode(Value, {"hex": 5, "decimal": "1"})
Traceback (most recent call last):
lsbench.codec.Misfit: hex: found 5: expected text
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

INTEGERS = range(-(2**63), 2**64)
"""What an integer may be: anything that 64 bits hold."""

_WORDS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}

T = TypeVar("T")


class Misfit(ValueError):
    """A value that does not fit its place; the text holds the place, the value and the expected."""

    def __init__(self, place: str, message: str) -> None:
        super().__init__(f"{place}: {message}" if place else message)


def encode(value: object) -> Any:
    """A record tree as dicts, lists, text, numbers, truth values and None.

    Text that is not valid Unicode (a file name's undecodable bytes) is written with escapes.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_valid(str(key)): encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else _word(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return _valid(value)
    raise TypeError(f"a record holds a {type(value).__name__}: expected JSON's types")


def _word(value: float) -> str:
    return next(word for word, known in _WORDS.items() if repr(known) == repr(value))


def _valid(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def decode(cls: type[T], value: object, *, fill: bool = False) -> T:
    """The record of that type; raises Misfit with the place of what does not fit.

    Every field must be there and no other; with ``fill`` a missing one takes its default.
    """
    made = _decode(cls, value, "", fill)
    assert isinstance(made, cls)
    return made


def _decode(hint: Any, value: object, place: str, fill: bool) -> object:
    if dataclasses.is_dataclass(hint):
        return _record(typing.cast(type, hint), value, place, fill)
    origin = typing.get_origin(hint)
    if origin is types.UnionType:
        return _optional(hint, value, place, fill)
    if origin is tuple:
        return _tuple(hint, value, place, fill)
    if origin is dict:
        item = typing.get_args(hint)[1]
        found = _expect(dict, value, place, "an object")
        return {_text(k, place): _decode(item, v, _key(place, k), fill) for k, v in found.items()}
    return _LEAVES[hint](value, place)


def _record(cls: type, value: object, place: str, fill: bool) -> object:
    found = _expect(dict, value, place, "an object")
    fields, hints = _shape(cls)
    for key in found:
        if key not in fields:
            close = difflib.get_close_matches(str(key), fields, n=1)
            hint = f": did you mean {close[0]!r}?" if close else ""
            raise Misfit(place, f"unknown key {shown(key)}{hint}")
    made = {}
    for name, default in fields.items():
        if name in found:
            made[name] = _decode(hints[name], found[name], _key(place, name), fill)
        elif not (fill and default):
            raise Misfit(place, f"the key {name!r} is missing")
    return cls(**made)


@cache
def _shape(cls: type) -> tuple[dict[str, bool], dict[str, Any]]:
    """Fields, with whether they have a default, and their types."""
    missing = dataclasses.MISSING
    fields = {
        f.name: f.default is not missing or f.default_factory is not missing
        for f in dataclasses.fields(cls)
    }
    return fields, typing.get_type_hints(cls)


def _optional(hint: Any, value: object, place: str, fill: bool) -> object:
    (inner,) = (arm for arm in typing.get_args(hint) if arm is not types.NoneType)
    return None if value is None else _decode(inner, value, place, fill)


def _tuple(hint: Any, value: object, place: str, fill: bool) -> tuple[object, ...]:
    found = _expect(list, value, place, "a list")
    arms = typing.get_args(hint)
    if arms[-1] is Ellipsis:
        arms = (arms[0],) * len(found)
    elif len(arms) != len(found):
        raise Misfit(place, f"found {len(found)} items: expected {len(arms)}")
    return tuple(
        _decode(arm, item, f"{place}[{i}]", fill)
        for i, (arm, item) in enumerate(zip(arms, found, strict=True))
    )


def _expect(cls: type[T], value: object, place: str, expected: str) -> T:
    if not isinstance(value, cls):
        raise Misfit(place, f"found {shown(value)}: expected {expected}")
    return value


def _text(value: object, place: str) -> str:
    text = _expect(str, value, place, "text")
    if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
        raise Misfit(place, "found half of a surrogate pair: expected valid Unicode")
    return text


def _truth(value: object, place: str) -> bool:
    return _expect(bool, value, place, "true or false")


def _integer(value: object, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Misfit(place, f"found {shown(value)}: expected an integer")
    if value not in INTEGERS:
        raise Misfit(place, "found an integer beyond 64 bits")
    return value


def _float(value: object, place: str) -> float:
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Misfit(place, f"found {shown(value)}: expected a number")
    if not math.isfinite(_integer(value, place) if isinstance(value, int) else value):
        raise Misfit(place, "found a number beyond the range of a double")
    return float(value)


def _anything(value: object, place: str) -> object:
    if isinstance(value, dict):
        return {_text(k, place): _anything(v, _key(place, k)) for k, v in value.items()}
    if isinstance(value, list):
        return [_anything(item, f"{place}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, str):
        return _text(value, place)
    if isinstance(value, float):
        return _float(value, place)
    return value


_LEAVES: dict[Any, Callable[[object, str], object]] = {
    str: _text,
    bool: _truth,
    int: _integer,
    float: _float,
    object: _anything,
}


def _key(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def shown(value: object) -> str:
    """A value as an error message shows it: short, on one line."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, int) and value not in INTEGERS:
        return "an integer beyond 64 bits"
    text = ascii(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
