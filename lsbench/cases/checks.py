"""Pydantic's errors as faults: each at its place in the file, in lsbench's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from lsbench.cases.document import Entry, Items, Leaf, Node, Table, found
from lsbench.cases.faults import Fault, Mark, suggestion

EXPECTED = {
    "string_type": "text",
    "int_type": "an integer",
    "bool_type": "true or false",
    "model_type": "a mapping",
    "dict_type": "a mapping",
    "list_type": "a list",
    "tuple_type": "a list",
}
"""Pydantic's kinds of error → what was expected."""
BOUNDED = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "string_pattern_mismatch": "letters, digits, '_', '.', '+' and '-' only",
    "string_too_short": "some text",
    "too_long": "at most {max_length} values",
    "too_short": "{min_length} values or more",
}


def faults(error: ValidationError, table: Table, model: type[BaseModel]) -> list[Fault]:
    """The faults of a table that a model refused; several at one place become one."""
    gathered: dict[tuple[Mark, str], tuple[Node, list[str]]] = {}
    made: list[Fault] = []
    for entry in error.errors(include_url=False):
        place, node, path = locate(table, entry["loc"])
        key = ".".join(path)
        if entry["type"] == "extra_forbidden":
            made.append(_unknown(key_mark(table, path), path, model))
        elif entry["type"] == "missing":
            name = str(entry["loc"][-1])
            made.append(Fault(place, key, f"key {name!r} is missing, expected a value"))
        else:
            gathered.setdefault((place, key), (node, []))[1].append(_expected(entry))
    for (place, key), (node, expected) in gathered.items():
        # A fault deeper inside tells which of two forms was meant.
        if any(other.startswith(f"{key}.") for _, other in gathered):
            continue
        made.append(Fault(place, key, _sentence(node, expected)))
    return made


def locate(table: Table, loc: tuple[int | str, ...]) -> tuple[Mark, Node, list[str]]:
    """The deepest place that a location names, and its path; what is no key there is left out."""
    node: Node = table
    mark, path = table.mark, []
    for part in loc:
        if isinstance(node, Table) and part == "start":
            part = "offset"
        if isinstance(node, Table) and isinstance(part, str) and part in node.entries:
            entry: Entry = node.entries[part]
            node = entry.node
            mark = entry.mark if isinstance(node, Table) else node.mark
        elif isinstance(node, Items) and isinstance(part, int) and part < len(node.nodes):
            node = node.nodes[part]
            mark = node.mark
        else:
            continue
        path.append(str(part))
    return mark, node, path


def key_mark(table: Table, path: list[str]) -> Mark:
    """The place of the key at a path of tables."""
    node: Node = table
    mark = table.mark
    for part in path:
        if isinstance(node, Table) and part in node.entries:
            mark, node = node.entries[part].mark, node.entries[part].node
        elif isinstance(node, Items) and part.isdigit():
            node = node.nodes[int(part)]
    return mark


def _unknown(place: Mark, path: list[str], model: type[BaseModel]) -> Fault:
    known = fields_at(model, path[:-1])
    hint = suggestion(path[-1], known) or f"; known are {', '.join(known)}"
    return Fault(place, ".".join(path), f"unknown key {path[-1]!r}{hint}")


def fields_at(model: type[BaseModel], path: list[str]) -> list[str]:
    """The keys that a model has at a path."""
    for part in path:
        if part.isdigit():
            continue
        field = {f.alias or n: f for n, f in model.model_fields.items()}.get(part)
        inner = _model_in(field.annotation) if field else None
        if inner is None:
            return []
        model = inner
    names = [f.alias or n for n, f in model.model_fields.items()]
    return [n for n in names if n != "start"]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        inner = _model_in(argument)
        if inner is not None:
            return inner
    return None


def _expected(entry: Mapping[str, Any]) -> str:
    kind, context = entry["type"], entry.get("ctx") or {}
    if kind == "expected":
        return str(context["expected"])
    if kind in ("literal_error", "enum"):
        words = str(context["expected"]).replace("'", "").replace(" or ", ", ")
        return f"one of {words}" if ", " in words else words
    if kind in BOUNDED:
        return BOUNDED[kind].format(**context)
    return EXPECTED.get(kind, str(entry["msg"]).lower())


def _sentence(node: Node, expected: list[str]) -> str:
    wanted = " or ".join(dict.fromkeys(expected))
    hint = ""
    if isinstance(node, Leaf) and isinstance(node.value, str):
        words = [w.strip(",") for text in expected for w in text.removeprefix("one of ").split()]
        hint = suggestion(node.value, [w for w in words if len(w) > 1])
    return f"found {found(node)}, expected {wanted}{hint}"
