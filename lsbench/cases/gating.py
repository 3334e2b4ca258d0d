"""The gates of a case file → rules: plain ones, and those of providers and dtypes."""

from __future__ import annotations

from lsbench.cases.document import Entry, Leaf, Table, found
from lsbench.cases.faults import Fault, suggestion
from lsbench.errors import UsageError
from lsbench.figures import FIGURES
from lsbench.formats import FORMATS
from lsbench.gates import GateRule

NESTED = ("providers", "dtypes")
"""Keys under gates that hold gates of one provider or dtype, in either order of nesting."""


def rules(entry: Entry, faults: list[Fault]) -> tuple[GateRule, ...]:
    """The rules of a merged ``gates`` table; what is wrong goes to ``faults``.

    Which rule decides where several name one figure is told in :mod:`lsbench.gates`.
    """
    if isinstance(entry.node, Leaf) and entry.node.value is None:
        return ()
    if not isinstance(entry.node, Table):
        message = f"found {found(entry.node)}, expected a mapping from figures to limits"
        faults.append(Fault(entry.node.mark, "gates", message))
        return ()
    made: list[GateRule] = []
    _collect(entry.node, "gates", None, None, made, faults)
    return tuple(made)


def _collect(
    table: Table,
    path: str,
    provider: str | None,
    dtype: str | None,
    made: list[GateRule],
    faults: list[Fault],
) -> None:
    for key, entry in table.entries.items():
        here = f"{path}.{key}"
        if key in NESTED and {"providers": provider, "dtypes": dtype}[key] is None:
            _nested(entry, here, key, provider, dtype, made, faults)
        elif key not in FIGURES:
            hint = suggestion(key, [*FIGURES, *NESTED])
            hint = hint or f"; known are {', '.join(FIGURES)}"
            faults.append(Fault(entry.mark, here, f"unknown figure {key!r}{hint}"))
        elif not (isinstance(entry.node, Leaf) and entry.node.value is None):
            _rule(entry, here, key, provider, dtype, made, faults)


def _nested(
    entry: Entry,
    path: str,
    key: str,
    provider: str | None,
    dtype: str | None,
    made: list[GateRule],
    faults: list[Fault],
) -> None:
    what = "provider" if key == "providers" else "dtype"
    if not isinstance(entry.node, Table):
        message = f"found {found(entry.node)}, expected a mapping from {what}s to gates"
        faults.append(Fault(entry.node.mark, path, message))
        return
    for name, inner in entry.node.entries.items():
        if key == "dtypes" and name not in FORMATS:
            hint = suggestion(name, FORMATS) or f"; known are {', '.join(FORMATS)}"
            faults.append(Fault(inner.mark, f"{path}.{name}", f"unknown dtype {name!r}{hint}"))
        elif not isinstance(inner.node, Table):
            message = f"found {found(inner.node)}, expected a mapping from figures to limits"
            faults.append(Fault(inner.node.mark, f"{path}.{name}", message))
        elif key == "providers":
            _collect(inner.node, f"{path}.{name}", name, dtype, made, faults)
        else:
            _collect(inner.node, f"{path}.{name}", provider, name, made, faults)


def _rule(
    entry: Entry,
    path: str,
    name: str,
    provider: str | None,
    dtype: str | None,
    made: list[GateRule],
    faults: list[Fault],
) -> None:
    node = entry.node
    if not isinstance(node, Leaf):
        faults.append(Fault(node.mark, path, f"found {found(node)}, expected a limit"))
        return
    source = f"{entry.mark.path}:{entry.mark.line}"
    value = float(node.value) if isinstance(node.value, float) else node.value
    assert value is not None
    try:
        made.append(GateRule(name, value, provider, dtype, source))
    except UsageError as error:
        message = str(error).removeprefix(f"{source}: ").removeprefix(f"gate {name}: ")
        faults.append(Fault(node.mark, path, message))
