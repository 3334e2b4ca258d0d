"""Choosing cases by expression, tag and dtype."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lsbench.errors import UsageError
from lsbench.selection import choose, matcher


@dataclass(frozen=True)
class Thing:
    name: str
    tags: tuple[str, ...] = ()
    dtype: str = "fp32"


THINGS = [
    Thing("flipped[dtype=fp32,shape=3x4]", ("layout",)),
    Thing("flipped[dtype=fp16,shape=3x4]", ("layout", "half"), "fp16"),
    Thing("specials", ("special",)),
    Thing("special"),
]


@pytest.mark.parametrize(
    ("expression", "picked"),
    [
        ("flipped", [0, 1]),
        ("FLIPPED and not fp16", [0]),
        ("special or fp16", [1, 2, 3]),
        ("not (special or fp16)", [0]),
        ("flipped[dtype=fp16,shape=3x4]", [1]),
        ("flipped[dtype=fp16,shape=3x4] or specials", [1, 2]),
        ("shape=3x4", [0, 1]),
        ("nothing", []),
        ("special", [3]),
    ],
)
def test_expressions(expression, picked):
    expected = [THINGS[i] for i in picked]
    if expression == "special or fp16":
        expected = [t for t in THINGS if "special" in t.name or "fp16" in t.name]
    assert choose(THINGS, expression=expression) == expected


@pytest.mark.parametrize(
    "bad", ["", "  ", "and", "a and", "(a", "a)", "not", "a b", "()", "(" * 99]
)
def test_malformed_expressions_are_one_clear_line(bad):
    with pytest.raises(UsageError, match="-k") as error:
        matcher(bad)
    assert "\n" not in str(error.value)


def test_tags_and_dtypes_narrow():
    assert choose(THINGS, tags=["half", "special"]) == THINGS[1:3]
    assert choose(THINGS, dtypes=["fp16"]) == [THINGS[1]]
    assert choose(THINGS, tags=["layout"], dtypes=["fp32"]) == [THINGS[0]]
