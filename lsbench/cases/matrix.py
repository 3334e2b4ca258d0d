"""Defaults, matrix and names: one case of a file → the tables of the cases that it stands for.

Defaults: what a case does not say is taken from ``defaults``. Mappings merge key by key (kernel,
gates at any depth; layout, input, dtypes and shapes tensor by tensor); everything else, a tensor's
layout or input included, is replaced as a whole. A null gate removes an inherited one.

Matrix: every combination of its values, the first key varying slowest. A key with dots reaches
inside: ``kernel.rounding``, ``input.self``. Each case is named ``name[key=value,...]``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from lsbench.cases.document import Entry, Items, Leaf, Node, Table, found
from lsbench.cases.faults import Fault, suggestion
from lsbench.cases.scalars import Real

MAX_CASES = 100_000
"""Most cases of one file."""
DEEP = ("gates",)
"""Keys that merge at any depth."""
SHALLOW = ("kernel", "layout", "input", "dtypes", "shapes")
"""Keys that merge key by key, one level down."""
LONGEST_LABEL = 32


@dataclass(frozen=True)
class Expanded:
    """One case of a matrix, before validation."""

    name: str
    table: Table
    """Keys of the case with defaults merged and matrix values set; no matrix key any more."""


def merge(defaults: Table | None, case: Table) -> Table:
    """A case over the defaults."""
    if defaults is None:
        return case
    entries = dict(defaults.entries)
    for key, entry in case.entries.items():
        under = entries.get(key)
        if under is not None and key in (*DEEP, *SHALLOW):
            entry = replace(entry, node=_over(under.node, entry.node, deep=key in DEEP))
        entries[key] = entry
    return Table(case.mark, entries)


def _over(under: Node, over: Node, *, deep: bool) -> Node:
    if not isinstance(under, Table) or not isinstance(over, Table):
        return over
    entries = dict(under.entries)
    for key, entry in over.entries.items():
        below = entries.get(key)
        if deep and below is not None:
            entry = replace(entry, node=_over(below.node, entry.node, deep=True))
        entries[key] = entry
    return Table(over.mark, entries)


def expand(name: str, merged: Table, known: list[str], faults: list[Fault]) -> Iterator[Expanded]:
    """The cases of a merged table; raises Fault for a matrix that is none.

    ``known`` holds the keys of a case, which the first part of a matrix key must be one of. What is
    wrong with one key of a matrix goes to ``faults``, and the others are expanded without it.
    """
    entry = merged.entries.get("matrix")
    bare = {key: e for key, e in merged.entries.items() if key != "matrix"}
    if entry is None:
        yield Expanded(name, Table(merged.mark, bare))
        return
    axes = _axes(entry, known, faults)
    count = prod(len(axis.values) for axis in axes)
    if count > MAX_CASES:
        raise Fault(entry.mark, "matrix", f"stands for {count} cases, expected at most {MAX_CASES}")
    for point in product(*(range(len(axis.values)) for axis in axes)):
        table = Table(merged.mark, bare)
        labels = []
        for axis, i in zip(axes, point, strict=True):
            table = _set(table, axis.key.split("."), Entry(axis.entry.mark, axis.values[i]))
            labels.append(f"{axis.short}={axis.labels[i]}")
        yield Expanded(f"{name}[{','.join(labels)}]", table)


@dataclass
class _Axis:
    key: str
    short: str
    entry: Entry
    values: tuple[Node, ...]
    labels: list[str]


def _axes(entry: Entry, known: list[str], faults: list[Fault]) -> list[_Axis]:
    matrix = entry.node
    if not isinstance(matrix, Table) or not matrix.entries:
        raise Fault(
            matrix.mark,
            "matrix",
            f"found {found(matrix)}, expected a mapping from keys to lists of values",
        )
    shorts = Counter(key.rsplit(".", 1)[-1] for key in matrix.entries)
    axes = []
    for key, values in matrix.entries.items():
        first = key.split(".")[0]
        if first not in known or first in ("name", "matrix") or not all(key.split(".")):
            hint = suggestion(first, known) or f"; known are {', '.join(known)}"
            faults.append(Fault(values.mark, f"matrix.{key}", f"unknown key {key!r}{hint}"))
            continue
        if not isinstance(values.node, Items) or not values.node.nodes:
            message = f"found {found(values.node)}, expected a list of one value or more"
            faults.append(Fault(values.node.mark, f"matrix.{key}", message))
            continue
        last = key.rsplit(".", 1)[-1]
        short = last if shorts[last] == 1 else key
        axes.append(_Axis(key, short, values, values.node.nodes, _labels(values.node)))
    return axes


def _set(table: Table, path: list[str], entry: Entry) -> Table:
    """A copy of the table with the value at a path set; tables are made where none is."""
    key, rest = path[0], path[1:]
    entries = dict(table.entries)
    if rest:
        below = entries.get(key)
        if below is not None and not isinstance(below.node, Table):
            what = f"{key!r} is no mapping to set {rest[0]!r} in"
            raise Fault(entry.mark, "matrix", what)
        inner = below.node if below else Table(entry.mark, {})
        assert isinstance(inner, Table)
        entry = Entry(below.mark if below else entry.mark, _set(inner, rest, entry))
    entries[key] = entry
    return Table(table.mark, entries)


def _labels(values: Items) -> list[str]:
    """Short texts that tell the values of one axis apart; by number where they would not."""
    labels = [label(node) for node in values.nodes]
    repeated = Counter(labels)
    return [
        f"{i}" if len(text) > LONGEST_LABEL or repeated[text] > 1 or not text else text
        for i, text in enumerate(labels)
    ]


def label(node: Node) -> str:
    """A value as a word of a case's name: 64x48 for a shape, uniform(low=-1,high=1) for a draw."""
    match node:
        case Leaf(value=None):
            return "null"
        case Leaf():
            return "".join(c if c.isalnum() or c in "._+-:" else "_" for c in node.text)
        case Items():
            numbers = all(isinstance(n, Leaf) and _is_count(n.value) for n in node.nodes)
            return ("x" if numbers else "+").join(label(n) for n in node.nodes) or "scalar"
        case Table():
            return ",".join(f"{key}{_arguments(e.node)}" for key, e in node.entries.items())
    raise AssertionError(node)


def _arguments(node: Node) -> str:
    if isinstance(node, Leaf) and node.value is None:
        return ""
    if isinstance(node, Table):
        return f"({','.join(f'{key}={label(e.node)}' for key, e in node.entries.items())})"
    return f"({label(node)})"


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool | Real)
