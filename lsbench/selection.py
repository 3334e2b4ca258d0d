"""Choose cases: by an expression over names, by tags, by dtype."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from lsbench.errors import UsageError

_TOKEN = re.compile(r"\s*(\(|\)|[^\s()\[\]]*\[[^\]]*\][^\s()]*|[^\s()]+)")
_DEPTH = 50

Predicate = Callable[[str], bool]


class Named(Protocol):
    """What is chosen from."""

    @property
    def name(self) -> str: ...
    @property
    def tags(self) -> tuple[str, ...]: ...
    @property
    def dtype(self) -> str: ...


C = TypeVar("C", bound=Named)


def matcher(expression: str) -> Predicate:
    """Compile an expression: words are substrings of a name, with and, or, not and parentheses.

    Raises UsageError that shows the place for a malformed expression.

    >>> matches = matcher("flipped and not fp16")
    >>> matches("flipped[dtype=fp32]"), matches("flipped[dtype=fp16]")
    (True, False)
    """
    tokens = [m.group(1) for m in _TOKEN.finditer(expression)]
    if not tokens:
        raise UsageError("-k: empty expression: expected a part of a name")
    parser = _Parser(expression, tokens)
    result = parser.either(0)
    if parser.at < len(tokens):
        parser.fail("expected 'and', 'or' or the end")
    return result


@dataclass
class _Parser:
    source: str
    tokens: list[str]
    at: int = 0

    def fail(self, why: str) -> None:
        found = repr(self.tokens[self.at]) if self.at < len(self.tokens) else "the end"
        raise UsageError(f"-k {self.source!r}: found {found}, {why}")

    def next_is(self, word: str) -> bool:
        if self.at < len(self.tokens) and self.tokens[self.at] == word:
            self.at += 1
            return True
        return False

    def either(self, depth: int) -> Predicate:
        parts = [self.both(depth)]
        while self.next_is("or"):
            parts.append(self.both(depth))
        return lambda name: any(part(name) for part in parts)

    def both(self, depth: int) -> Predicate:
        parts = [self.term(depth)]
        while self.next_is("and"):
            parts.append(self.term(depth))
        return lambda name: all(part(name) for part in parts)

    def term(self, depth: int) -> Predicate:
        if depth > _DEPTH:
            self.fail(f"nested deeper than {_DEPTH}")
        if self.next_is("not"):
            inner = self.term(depth + 1)
            return lambda name: not inner(name)
        if self.next_is("("):
            inner = self.either(depth + 1)
            if not self.next_is(")"):
                self.fail("expected ')'")
            return inner
        if self.at >= len(self.tokens) or self.tokens[self.at] in ("and", "or", ")"):
            self.fail("expected a part of a name")
        word = self.tokens[self.at].lower()
        self.at += 1
        return lambda name: word in name.lower()


def choose(
    cases: Iterable[C],
    *,
    expression: str = "",
    tags: Sequence[str] = (),
    dtypes: Sequence[str] = (),
) -> list[C]:
    """The cases that match all that is given; an expression that is a case's very name picks it."""
    chosen = [
        case
        for case in cases
        if (not tags or set(tags) & set(case.tags)) and (not dtypes or case.dtype in dtypes)
    ]
    if not expression:
        return chosen
    named = [case for case in chosen if case.name == expression]
    if named:
        return named
    matches = matcher(expression)
    return [case for case in chosen if matches(case.name)]
