"""A validated case → a :class:`Case`: views, values and gates, checked against one another."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from lsbench import captured
from lsbench.cases.case import NULLABLE, TENSORS, Case
from lsbench.cases.document import Items, Leaf, Node, Table
from lsbench.cases.faults import Fault, Mark, suggestion
from lsbench.cases.gating import rules
from lsbench.cases.scalars import Pattern, Real
from lsbench.distributions import DISTRIBUTIONS, Draw
from lsbench.errors import TensorError
from lsbench.formats import Format, by_name
from lsbench.gates import GateRule
from lsbench.inputs import (
    Captured,
    Drawn,
    Explicit,
    Mixture,
    Source,
    Spec,
    check_count,
    number_pattern,
    stream,
    word_pattern,
)
from lsbench.layouts import LAYOUTS, strided
from lsbench.providers.registry import names
from lsbench.records import Options
from lsbench.views import MAX_ELEMENTS, View

DEFAULT_INPUTS = {
    "self": Source(Drawn("normal", (("std", 4.0),))),
    "grad_output": Source(Drawn("normal")),
}


@dataclass
class Builder:
    """Makes one case; faults are gathered, and a case with faults must not be used."""

    name: str
    family: str
    table: Table
    model: Any
    """The CaseModel that the table was validated as."""
    faults: list[Fault]
    left_out: set[str]
    """Keys that the model refused, at least in part; their faults are told already."""

    def build(self) -> Case | None:
        """The case; None where something essential is missing or wrong."""
        providers, gates = self._providers(), self._gates()
        dtype = self._needed("dtype", "fp32, fp16 or bf16")
        shape = self._needed("shape", "a list of extents")
        if dtype is None or shape is None:
            return None
        model = self.model
        null = tuple(n for n in NULLABLE if n in self.table.entries)
        dtypes = {name: getattr(model.dtypes, name, None) or dtype for name in TENSORS}
        views, words = self._views(shape, dtypes, null)
        inputs = self._inputs(views, dtypes)
        kernel = model.kernel
        options = Options(
            kernel.arithmetic,
            kernel.rounding,
            kernel.ftz,
            kernel.block,
            kernel.threads,
            model.seed if kernel.seed is None else kernel.seed,
        )
        timing = model.throughput
        return Case(
            name=self.name,
            family=self.family,
            dtype=dtype,
            shape=shape,
            product=model.product,
            seed=model.seed,
            tags=model.tags,
            providers=providers,
            options=options,
            expect=model.expect,
            gates=gates,
            layout=words,
            views=views,
            dtypes=dtypes,
            inputs=inputs,
            null=null,
            operator=model.operator,
            throughput=bool(timing),
            budget=None if isinstance(timing, bool) else timing.budget,
            cold=not isinstance(timing, bool) and timing.state == "cold",
            reference=model.reference,
            source=f"{self.table.mark.path}:{self.table.mark.line}",
        )

    def _fault(self, mark: Mark, key: str, message: str) -> None:
        self.faults.append(Fault(mark, key, message))

    def _at(self, *path: str) -> tuple[Mark, str]:
        """The deepest place that a path of keys has in the file, and the path as text."""
        node: Node = self.table
        mark = self.table.mark
        for key in path:
            inner = node.get(key) if isinstance(node, Table) else None
            if inner is None:
                break
            node, mark = inner, inner.mark
        return mark, ".".join(path)

    def _needed(self, key: str, expected: str) -> Any:
        value = getattr(self.model, key)
        if value is None and key not in self.left_out:
            message = f"key {key!r} is missing in case {self.family!r}, expected {expected}"
            self._fault(self.table.mark, "", message)
        return value

    def _views(
        self, shape: tuple[int, ...], dtypes: dict[str, str], null: tuple[str, ...]
    ) -> tuple[dict[str, View | None], dict[str, str]]:
        views: dict[str, View | None] = {}
        words: dict[str, str] = {}
        for name in TENSORS:
            if name in null:
                views[name] = None
                continue
            own = getattr(self.model.shapes, name, None)
            place = ("shapes", name) if own is not None else ("shape",)
            extents = shape if own is None else own
            if prod(extents) * by_name(dtypes[name]).itemsize > MAX_ELEMENTS:
                mark, key = self._at(*place)
                self._fault(mark, key, f"{prod(extents)} elements exceed the address space")
                continue
            layout = getattr(self.model.layout, name, None)
            view = self._view(name, extents, layout)
            if view is not None:
                views[name] = view
                if name != "buffer" or layout is not None:
                    words[name] = _in_words(layout)
        return views, words

    def _view(self, name: str, shape: tuple[int, ...], layout: Any) -> View | None:
        mark, key = self._at("layout", name)
        try:
            if layout is None:
                view = View.contiguous(shape)
            elif layout.kind == "strides":
                view = strided(shape, layout.strides, layout.start, layout.storage)
            else:
                view = LAYOUTS[layout.kind](shape, **_given(getattr(layout, layout.kind)))
            view.check(name)
        except TensorError as error:
            self._fault(mark, key, str(error).removeprefix("view: ").removeprefix(f"{name}: "))
            return None
        if name == "grad_input" and view.overlaps_itself:
            self._fault(
                mark, key, "two indices of grad_input share an address, expected one address each"
            )
        return view

    def _inputs(self, views: dict[str, View | None], dtypes: dict[str, str]) -> dict[str, Source]:
        made = dict(DEFAULT_INPUTS)
        for name in TENSORS[:3]:
            given = getattr(self.model.input, name, None)
            view = views.get(name)
            if given is None or view is None:
                continue
            source = self._source(name, given, by_name(dtypes[name]), view)
            if source is not None:
                made[name] = source
        return made

    def _source(self, name: str, given: Any, fmt: Format, view: View) -> Source | None:
        shape = view.shape
        try:
            if given.axis is not None:
                if not -len(shape) <= given.axis < len(shape):
                    mark, key = self._at("input", name, "axis")
                    last = len(shape) - 1
                    self._fault(mark, key, f"found axis {given.axis}, expected at most {last}")
                    return None
                shape = (shape[given.axis],)
            spec = self._spec(name, given, fmt)
            if isinstance(spec, Explicit):
                check_count(len(spec.patterns), prod(shape), spec.repeat)
            elif isinstance(spec, Captured):
                stored = captured.header(spec.path, spec.key)
                captured.check_shape(spec.path, spec.key, stored, shape, spec.repeat)
        except TensorError as error:
            mark, key = self._at("input", name, given.kind)
            self._fault(mark, key, str(error))
            return None
        return None if spec is None else Source(spec, given.axis)

    def _spec(self, name: str, given: Any, fmt: Format) -> Spec | None:
        kind = given.kind
        if kind in ("values", "constant", "bits"):
            return self._explicit(name, given, fmt)
        if kind == "file":
            folder = Path(self.table.mark.path).parent
            return Captured(folder / given.file, given.key, given.repeat)
        if kind == "mixture":
            for part in given.mixture:
                if not 0 < part.weight < float("inf"):
                    raise TensorError(f"found weight {part.weight}, expected more than 0")
            return Mixture(tuple((p.weight, _drawn(p, fmt)) for p in given.mixture))
        return _drawn(given, fmt)

    def _explicit(self, name: str, given: Any, fmt: Format) -> Explicit | None:
        kind = given.kind
        value = getattr(given, kind)
        entries = [value] if kind == "constant" else value
        convert = pattern_of_bits if kind == "bits" else pattern
        node = self._node("input", name, kind)
        nodes = node.nodes if isinstance(node, Items) else [node] * len(entries)
        patterns, wrong = [], len(self.faults)
        for entry, at in zip(entries, nodes, strict=True):
            try:
                patterns.append(convert(fmt, entry))
            except TensorError as error:
                self._fault(at.mark, f"input.{name}.{kind}", str(error))
        if len(self.faults) > wrong:
            return None
        return Explicit(tuple(patterns), given.repeat or kind == "constant")

    def _node(self, *path: str) -> Node:
        node: Node = self.table
        for key in path:
            inner = node.get(key) if isinstance(node, Table) else None
            assert inner is not None
            node = inner
        return node

    def _providers(self) -> tuple[str, ...]:
        entry = self.table.entries.get("providers")
        known = names()
        for node in entry.node.nodes if entry and isinstance(entry.node, Items) else ():
            name = node.text if isinstance(node, Leaf) else ""
            prefix = name.split(":")[0]
            if name in known or (":" in name and (prefix in known or f"{prefix}:" in known)):
                continue
            hint = suggestion(name, known) or f"; known are {', '.join(known)}"
            self._fault(node.mark, "providers", f"unknown provider {name!r}{hint}")
        providers: tuple[str, ...] = self.model.providers
        return tuple(dict.fromkeys(providers))

    def _gates(self) -> tuple[GateRule, ...]:
        entry = self.table.entries.get("gates")
        if entry is None:
            return ()
        made = rules(entry, self.faults)
        # A case that must be refused computes nothing: what defaults ask of figures is not for it.
        return () if self.model.expect else made


def pattern(fmt: Format, entry: object) -> int:
    """The bit pattern of one explicit value; raises TensorError where the format has none."""
    if isinstance(entry, Pattern):
        return pattern_of_bits(fmt, entry)
    if isinstance(entry, str):
        return word_pattern(fmt, entry)
    assert isinstance(entry, Real)
    return number_pattern(fmt, entry)


def pattern_of_bits(fmt: Format, bits: int) -> int:
    """A pattern given as an integer; raises TensorError for one wider than the format."""
    if not 0 <= bits < 1 << fmt.bits:
        raise TensorError(f"found the pattern {int(bits):#x}, expected {fmt.bits} bits at most")
    return int(bits)


def _drawn(given: Any, fmt: Format) -> Drawn:
    """A named distribution, its parameters tried on a draw of nothing."""
    made = _given(getattr(given, given.kind))
    DISTRIBUTIONS[given.kind](Draw(fmt, stream(0, "", ""), 0, 0, 0), **made)
    return Drawn(given.kind, tuple(made.items()))


def _given(parameters: Any) -> dict[str, Any]:
    return {key: getattr(parameters, key) for key in sorted(parameters.model_fields_set)}


def _in_words(layout: Any) -> str:
    """A layout as results name it: transposed, slice(steps=null,2), strides [1, 1024] offset 3."""
    if layout is None:
        return "contiguous"
    if layout.kind == "strides":
        storage = "" if layout.storage is None else f" storage {layout.storage}"
        start = "" if layout.start is None else f" offset {layout.start}"
        return f"strides {list(layout.strides)}{start}{storage}"
    given = _given(getattr(layout, layout.kind))
    words = [_word(value) for value in given.values()]
    return f"{layout.kind}({', '.join(words)})" if words else str(layout.kind)


def _word(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_word, value))}]"
    return "null" if value is None else str(value)
