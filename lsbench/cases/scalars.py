"""Scalars of case files: YAML 1.2's core schema, and numbers as people write them.

YAML 1.1 readers take ``1e30`` for text, ``012`` for ten, ``12:30:00`` for 45000 and ``no`` for
false. Here a number is what looks like one, and beyond the core schema hexadecimal floats
(``0x1.8p-3``), ``inf`` and ``nan`` without a dot, and bit patterns (``0b0111110000000001``) are
read. Every number keeps its text, so that it can be rounded once to whatever format it is for.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

MAX_DIGITS = 1000
"""Longest number that is read; a longer one is a mistake or an attack."""


class Real(float):
    """A number that is no integer, with the text it was written as."""

    text: str

    def __new__(cls, text: str, value: float) -> Real:
        """Pair a value with its text."""
        self = super().__new__(cls, value)
        self.text = text
        return self

    def __getnewargs__(self) -> tuple[str, float]:  # type: ignore[override]
        return self.text, float(self)

    @property
    def exact(self) -> Fraction:
        """The number as written, before any rounding; only for a finite one.

        What is beyond the range of double precision, and hence of every format here, is returned
        as its rounded value: an exponent of nine digits must not become a number of that size.
        """
        if float(self) == 0 or math.isinf(self):
            return Fraction(0)
        if "0x" in self.text.lower():
            return _hex_fraction(self.text)
        return Fraction(self.text)


class Pattern(int):
    """A bit pattern."""


Scalar = None | bool | int | Real | Pattern | str

_INT = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o([0-7]+)")
_HEX = re.compile(r"[-+]?0x[0-9a-fA-F]+")
_BITS = re.compile(r"0b([01]+)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_HEX_FLOAT = re.compile(
    r"(?P<sign>[-+]?)0x(?P<whole>[0-9a-f]+)(\.(?P<part>[0-9a-f]*))?(p(?P<power>[-+]?[0-9]+))?",
    re.IGNORECASE,
)
_INF = re.compile(r"([-+]?)\.?inf(inity)?", re.IGNORECASE)
_NAN = re.compile(r"\.?nan", re.IGNORECASE)
_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def resolve(text: str) -> Scalar:
    """The value of a plain (unquoted) scalar; raises ValueError for a number of absurd length.

    >>> resolve("1e30"), resolve("0x1.8p-3"), resolve("012"), resolve("no"), resolve("12:30:00")
    (1e+30, 0.1875, 12, 'no', '12:30:00')
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789iInN":
        return text
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number of {len(text)} characters: expected at most {MAX_DIGITS}")
    return _number(text)


def _number(text: str) -> Scalar:
    if text == "-0":
        return Real(text, -0.0)
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return Real(text, float(text))
    if match := _OCTAL.fullmatch(text):
        return int(match[1], 8)
    if _HEX.fullmatch(text):
        return int(text, 16)
    if match := _BITS.fullmatch(text):
        return Pattern(match[1], 2)
    if match := _INF.fullmatch(text):
        return Real(text, -math.inf if match[1] == "-" else math.inf)
    if _NAN.fullmatch(text):
        return Real(text, math.nan)
    if _HEX_FLOAT.fullmatch(text):
        try:
            return Real(text, float.fromhex(text))
        except OverflowError:
            return Real(text, -math.inf if text.startswith("-") else math.inf)
    return text


def _hex_fraction(text: str) -> Fraction:
    match = _HEX_FLOAT.fullmatch(text)
    assert match is not None
    part = match["part"] or ""
    power = int(match["power"] or 0) - 4 * len(part)
    significand = int(match["whole"] + part, 16) * (-1 if match["sign"] == "-" else 1)
    return Fraction(significand) * Fraction(2) ** power
