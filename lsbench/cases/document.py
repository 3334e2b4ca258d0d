"""A case file as a tree of nodes that remember where they stand.

PyYAML's parser supplies events; the tree is built from them here, so that depth, aliases and sizes
are bounded while reading: a YAML bomb or a thousand brackets end in one line of error, not in
exhausted memory or recursion. Nothing of YAML's own object construction is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from lsbench.cases.faults import Fault, Mark
from lsbench.cases.scalars import Real, Scalar, resolve
from lsbench.errors import CaseFileError

MAX_BYTES = 16 << 20
"""Largest case file; data belongs into an .npz beside it."""
MAX_DEPTH = 40
MAX_NODES = 1_000_000
"""Most nodes that a file may stand for, every alias counted at the size of what it repeats."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Node:
    """A value and its place; shared where an alias repeats it."""

    mark: Mark


@dataclass(frozen=True)
class Leaf(Node):
    """A scalar; ``text`` is what stands in the file."""

    value: Scalar
    text: str


@dataclass(frozen=True)
class Items(Node):
    """A list."""

    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Entry:
    """One key of a mapping with the key's own place."""

    mark: Mark
    node: Node


@dataclass(frozen=True)
class Table(Node):
    """A mapping; keys are text whatever they look like."""

    entries: dict[str, Entry]

    def get(self, key: str) -> Node | None:
        """The node of a key, or None."""
        entry = self.entries.get(key)
        return entry.node if entry else None


@dataclass
class Document:
    """A file's tree, its lines for error messages, and the faults found so far."""

    path: str
    lines: list[str]
    root: Node
    faults: list[Fault] = field(default_factory=list)


def read(path: Path) -> Document:
    """Read and parse a case file; raises CaseFileError for what cannot be read or parsed at all.

    Faults that leave a tree (duplicate keys) are in ``Document.faults``.
    """
    text = _text(path)
    lines = text.splitlines()
    try:
        root, faults = _Builder(str(path)).build(text)
    except Fault as fault:
        raise CaseFileError(fault.render(lines)) from None
    return Document(str(path), lines, root, faults)


def _text(path: Path) -> str:
    try:
        if path.is_dir():
            raise CaseFileError(f"{path}: is a directory, expected a case file (YAML)")
        if path.exists() and not path.is_file():
            raise CaseFileError(f"{path}: is no regular file, expected a case file (YAML)")
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise CaseFileError(
                f"{path}: {size} bytes, expected at most {MAX_BYTES}; large data belongs into an "
                ".npz file beside it"
            )
        data = path.read_bytes()
    except FileNotFoundError:
        raise CaseFileError(f"{path}: no such file, expected a case file (YAML)") from None
    except CaseFileError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a name with a null character
        reason = getattr(error, "strerror", None) or str(error)
        raise CaseFileError(f"{path}: cannot be read: {reason}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise CaseFileError(
            f"{path}:{line}:{column}: found byte 0x{data[error.start]:02x}, expected UTF-8 text"
        ) from None


@dataclass
class _Open:
    """A collection that is being read."""

    mark: Mark
    mapping: bool
    anchor: str | None
    nodes: list[Node] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    key: tuple[str, Mark] | None = None
    size: int = 1


class _Builder:
    """Events → nodes, without recursion, within bounds."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.faults: list[Fault] = []
        self.anchors: dict[str, tuple[Node, int]] = {}
        self.stack: list[_Open] = []
        self.root: Node | None = None

    def build(self, text: str) -> tuple[Node, list[Fault]]:
        """The root node and the faults that left a tree; raises the first Fault that does not."""
        documents = 0
        for event in self._events(text):
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._fail(event, "found a second document, expected one in a file")
            self._take(event)
        if self.root is None or (isinstance(self.root, Leaf) and self.root.value is None):
            place = Mark(self.path, 1, 1)
            raise Fault(place, "", "the file is empty, expected 'schema: 1' and 'cases:'")
        return self.root, self.faults

    def _events(self, text: str) -> Iterator[yaml.Event]:
        try:
            yield from yaml.parse(text, Loader=_LOADER)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = Mark(self.path, mark.line + 1, mark.column + 1) if mark else None
            words = " ".join(w for w in (error.context, error.problem) if w)
            if mark and "cannot start any token" in words and _tab_at(text, mark.line):
                words = "found a tab, expected spaces: YAML does not indent by tabs"
            raise Fault(place or Mark(self.path, 1, 1), "", f"not YAML: {words}") from None
        except yaml.reader.ReaderError as error:
            before = text[: error.position] if isinstance(error.position, int) else ""
            place = Mark(self.path, before.count("\n") + 1, len(before) - before.rfind("\n"))
            code = error.character if isinstance(error.character, int) else ord(error.character)
            raise Fault(
                place, "", f"found the control character #x{code:02x}, expected text"
            ) from None
        except yaml.YAMLError as error:
            raise Fault(Mark(self.path, 1, 1), "", f"not YAML: {error}") from None
        except RecursionError:
            raise Fault(Mark(self.path, 1, 1), "", "nested too deeply") from None

    def _take(self, event: yaml.Event) -> None:
        match event:
            case yaml.ScalarEvent():
                self._untagged(event)
                leaf = self._leaf(event)
                self._anchor(event.anchor, leaf, 1)
                self._add(event, leaf, 1)
            case yaml.AliasEvent():
                self._alias(event)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._untagged(event)
                if len(self.stack) >= MAX_DEPTH:
                    self._fail(event, f"nested deeper than {MAX_DEPTH}, expected a flat file")
                mapping = isinstance(event, yaml.MappingStartEvent)
                self.stack.append(_Open(self._mark(event), mapping, event.anchor))
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                closed = self.stack.pop()
                node: Node = (
                    Table(closed.mark, closed.entries)
                    if closed.mapping
                    else Items(closed.mark, tuple(closed.nodes))
                )
                self._anchor(closed.anchor, node, closed.size)
                self._add(event, node, closed.size)

    def _leaf(self, event: yaml.ScalarEvent) -> Leaf:
        plain = event.style in (None, "")
        try:
            value = resolve(event.value) if plain else event.value
        except ValueError as error:
            self._fail(event, f"found {error}")
        return Leaf(self._mark(event), value, event.value)

    def _anchor(self, name: str | None, node: Node, size: int) -> None:
        if name is not None:
            self.anchors[name] = (node, size)

    def _alias(self, event: yaml.AliasEvent) -> None:
        name = event.anchor or ""
        if name not in self.anchors:
            within = any(o.anchor == name for o in self.stack)
            why = "stands inside its own anchor" if within else "has no anchor before it"
            self._fail(event, f"alias *{name} {why}")
        self._add(event, *self.anchors[name])

    def _add(self, event: yaml.Event, node: Node, size: int) -> None:
        if not self.stack:
            self.root = node
            return
        top = self.stack[-1]
        top.size += size
        if top.size > MAX_NODES:
            self._fail(event, f"the file stands for more than {MAX_NODES} values, expected fewer")
        if not top.mapping:
            top.nodes.append(node)
        elif top.key is None:
            top.key = (self._key(event, node), self._mark(event))
        else:
            (key, mark), top.key = top.key, None
            if key in top.entries:
                first = top.entries[key].mark
                self.faults.append(
                    Fault(mark, key, f"key given twice, first in line {first.line}, expected once")
                )
            else:
                top.entries[key] = Entry(mark, node)

    def _key(self, event: yaml.Event, node: Node) -> str:
        if not isinstance(node, Leaf):
            raise Fault(node.mark, "", "found a collection as a key, expected a word")
        if node.text == "<<":
            self._fail(event, "found a merge key '<<', expected 'defaults:' for what cases share")
        return node.text

    def _untagged(self, event: yaml.NodeEvent) -> None:
        tag = getattr(event, "tag", None)
        if tag is not None:
            self._fail(event, f"found the tag {tag!r}, expected a value without one")

    def _mark(self, event: yaml.Event) -> Mark:
        start, end = event.start_mark, event.end_mark
        assert start is not None
        one_line = end is not None and end.line == start.line
        width = end.column - start.column if end is not None and one_line else 1
        return Mark(self.path, start.line + 1, start.column + 1, max(width, 1))

    def _fail(self, event: yaml.Event, message: str) -> None:
        raise Fault(self._mark(event), "", message)


def _tab_at(text: str, line: int) -> bool:
    lines = text.splitlines()
    return line < len(lines) and "\t" in lines[line][: len(lines[line]) - len(lines[line].lstrip())]


def plain(node: Node) -> object:
    """The node as dicts, lists and scalars, for a validator."""
    match node:
        case Leaf():
            return node.value
        case Items():
            return [plain(n) for n in node.nodes]
        case Table():
            return {key: plain(entry.node) for key, entry in node.entries.items()}
    raise AssertionError(node)


def found(node: Node) -> str:
    """What a node is, in the words of an error message."""
    match node:
        case Leaf(value=None):
            return "nothing (null)"
        case Leaf(value=bool()):
            return f"{node.text!r} (true or false)"
        case Leaf(value=str()):
            return f"the text {_short(node.text)!r}"
        case Leaf(value=int() | Real()):
            return f"the number {_short(node.text)}"
        case Items():
            return f"a list of {len(node.nodes)}"
    return "a mapping"


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
