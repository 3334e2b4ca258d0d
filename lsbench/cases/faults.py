"""Faults of case files: where, at which key, what was found and what was expected."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field

from lsbench.errors import CaseFileError

MAX_SHOWN = 50
"""Most faults that one error tells of each file."""


@dataclass(frozen=True, order=True)
class Mark:
    """A place in a file; line and column count from 1."""

    path: str
    line: int
    column: int
    width: int = field(default=1, compare=False)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


class Fault(Exception):
    """One fault at one place."""

    def __init__(self, mark: Mark, key: str, message: str) -> None:
        super().__init__(message)
        self.mark, self.key, self.message = mark, key, message

    def render(self, lines: list[str]) -> str:
        """``file:line:column: key: message``, the line itself and a caret below the place."""
        head = f"{self.mark}: {self.key + ': ' if self.key else ''}{self.message}"
        if not 1 <= self.mark.line <= len(lines):
            return head
        return f"{head}\n{_excerpt(lines[self.mark.line - 1], self.mark)}"


def _excerpt(line: str, mark: Mark) -> str:
    start = max(0, mark.column - 60)
    shown = "".join(c if c.isprintable() else " " for c in line[start : start + 100])
    column = mark.column - 1 - start
    width = max(1, min(mark.width, len(shown) - column))
    number = f"{mark.line:5}"
    return f"{number} | {shown}\n{' ' * len(number)} | {' ' * column}{'^' * width}"


def error(faults: Iterable[Fault], lines: list[str]) -> CaseFileError:
    """All faults of a file as one error, in the order of the file, each told once."""
    texts: dict[tuple[Mark, str], str] = {}
    ordered = sorted(faults, key=lambda f: f.mark)
    for fault in ordered:
        texts.setdefault((fault.mark, fault.message), fault.render(lines))
    shown = list(texts.values())
    if len(shown) > MAX_SHOWN:
        shown = [*shown[:MAX_SHOWN], f"and {len(shown) - MAX_SHOWN} more faults"]
    return CaseFileError("\n".join(shown))


def suggestion(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` where a known word is near, else an empty text.

    >>> suggestion("shapes", ["shape", "dtype"])
    "; did you mean 'shape'?"
    """
    close = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""
