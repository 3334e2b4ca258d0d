"""Do the bits of gradInput depend on anything but the inputs?

One first run, then variants that must not matter: each axis is a generator of named variants of
the same call, and every variant's bits are compared with the first run's. NaNs are one value here:
their sign and payload are nobody's promise. Results are computed into memory that holds NaN for the
first run and ones for the variants, so that an element that is not written, or added to, shows as a
difference. Memory: one variant's tensors and result at a time.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from lsbench.errors import ProviderError
from lsbench.formats import Bits, Format
from lsbench.providers import processes
from lsbench.providers.base import Array, Call, Provider, compute_once
from lsbench.records import Axis, Determinism, Difference, Value
from lsbench.rounding import shortest_decimal

CHUNK = 1 << 20
"""Elements hashed or compared at a time."""


def canonical(fmt: Format, array: Array) -> Iterator[Bits]:
    """The logical bits in row-major order, in chunks, every NaN as the default one."""
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    for start in range(0, array.size, CHUNK):
        bits = fmt.pattern(np.ascontiguousarray(flat[start : start + CHUNK])).copy()
        bits[(bits & (fmt.sign_bit - 1)) > fmt.inf_bits] = fmt.nan_bits
        yield bits


def output_hash(fmt: Format, *arrays: Array) -> str:
    """SHA-256 over format, shapes and logical bits; strides and NaN payloads do not matter."""
    digest = hashlib.sha256(fmt.name.encode())
    for array in arrays:
        digest.update(repr(array.shape).encode())
        for bits in canonical(fmt, array):
            digest.update(bits.astype(bits.dtype.newbyteorder("<"), copy=False).tobytes())
    return digest.hexdigest()


def input_hash(fmt: Format, grad_output: Array, self: Array) -> str:
    """SHA-256 over the logical bits of both inputs."""
    return output_hash(fmt, grad_output, self)


AXES = ("repeats", "threads", "blocks", "alignment", "layout", "position", "isa", "process")
"""Every axis, in the order tried."""
IN_PROCESS = AXES[:-1]
"""The axes that every row tries; "process" starts an interpreter a row and is tried on request."""

THREADS = (1, 2, 3)
BLOCKS = (64, 1000, 16384)
TENSORS = ("grad_output", "self", "grad_input")
SHIFTS = (1, 3, 7)
"""Elements past a 64-byte border at which tensors are made to begin."""
POSITION_LIMIT = 1 << 16
"""Elements that the position axis moves; the first ones of a larger tensor."""
SINGLES = 8
"""Elements that are also computed as a batch of one."""
BATCH = 37
"""Places of a batch that holds one pair many times; no multiple of a vector."""
PROCESS_SECONDS = 300
"""What a fresh process may take to start and compute."""


class NotTried(Exception):
    """Why an axis has no variant; for use inside this module."""


@dataclass(frozen=True)
class Variant:
    """One way to compute elements again: which of them, and how."""

    name: str
    run: Callable[[], Array]
    """Computes and returns the elements, flat or in the tensor's shape."""
    start: int = 0
    """Row-major position of its first element in the tensor."""
    same: bool = False
    """Whether all that it computes is the element at ``start``, over and over."""


def check(
    provider: Provider, call: Call, *, axes: Sequence[str] = IN_PROCESS, repeats: int = 3
) -> Determinism:
    """Vary each axis and compare all bits with a first run; the call's tensors are left alone.

    ``repeats`` is the number of runs whose bits are compared, the first one included. An axis that
    the provider cannot vary, or that was not asked for, is recorded as not tried with its reason.
    """
    first = compute(provider, replace(call, grad_input=_output(call, np.nan)))
    found = []
    for name in AXES:
        if name not in axes:
            found.append(Axis(name, (), None, "not asked for"))
            continue
        try:
            found.append(_axis(name, call.fmt, first, _VARIANTS[name](provider, call, repeats)))
        except NotTried as reason:
            found.append(Axis(name, (), None, str(reason)))
    return Determinism(tuple(found))


def compute(provider: Provider, call: Call) -> Array:
    """Run a call once; returns its grad_input. Raises ProviderError if the provider refuses."""
    reason = provider.refuse(call)
    if reason is not None:
        raise ProviderError(reason)
    compute_once(provider, call)
    return call.grad_input


def _axis(name: str, fmt: Format, first: Array, variants: Iterable[Variant]) -> Axis:
    tried, refused = [], ""
    for variant in variants:
        try:
            result = variant.run()
        except ProviderError as error:
            refused = f"{variant.name}: {error}"
            continue
        tried.append(variant.name)
        difference = _compare(fmt, first, result, variant)
        if difference is not None:
            return Axis(name, tuple(tried), False, "", difference)
    return Axis(name, tuple(tried), True if tried else None, refused)


def _compare(fmt: Format, first: Array, result: Array, variant: Variant) -> Difference | None:
    at = variant.start
    expected = first.reshape(-1)[at : at + (1 if variant.same else result.size)]
    if variant.same:
        expected = np.repeat(expected, result.size)
    pairs = zip(canonical(fmt, expected), canonical(fmt, result.reshape(-1)), strict=True)
    for mine, other in pairs:
        moved = np.flatnonzero(mine != other)
        if moved.size:
            i = int(moved[0])
            return Difference(
                variant.start if variant.same else at + i,
                value(fmt, int(mine[i])),
                value(fmt, int(other[i])),
                ("first run", variant.name),
            )
        at += mine.size
    return None


def value(fmt: Format, bits: int) -> Value:
    """A bit pattern as a record."""
    return Value(fmt.hex(bits), shortest_decimal(fmt, bits))


def _output(call: Call, held: float = 1) -> Array:
    """Contiguous memory for a result, with one value in every element."""
    return np.full(call.self.shape, held, call.fmt.dtype)


def _plain(call: Call, **options: Any) -> Call:
    """The same values laid out contiguously, with some options changed."""
    return replace(
        call,
        grad_output=np.asarray(call.grad_output, order="C"),
        self=np.asarray(call.self, order="C"),
        grad_input=_output(call),
        options=replace(call.options, **options),
    )


def _repeats(provider: Provider, call: Call, repeats: int) -> Iterator[Variant]:
    prepared = provider.prepare(replace(call, grad_input=(again := _output(call))))

    def run() -> Array:
        prepared.run()
        prepared.fetch()
        return again

    try:
        for i in range(2, repeats + 1):
            yield Variant(f"run {i}", run)
    finally:
        prepared.close()


def _options(name: str, choices: Sequence[int]) -> Callable[..., Iterator[Variant]]:
    def variants(provider: Provider, call: Call, repeats: int) -> Iterator[Variant]:
        option = {"threads": "threads", "blocks": "block"}[name]
        if option not in provider.axes:
            raise NotTried(f"the provider takes no {option} option")
        for choice in choices:
            changed: dict[str, Any] = {option: choice}
            varied = replace(
                call,
                grad_input=_output(call),
                options=replace(call.options, **changed),
            )
            yield Variant(f"{option} {choice}", partial(compute, provider, varied))

    return variants


def shifted(array: Array, shift: int) -> Array:
    """A contiguous copy that begins ``shift`` elements past a 64-byte border."""
    storage = np.empty(array.size * array.itemsize + 64 + shift * array.itemsize, np.uint8)
    start = -storage.ctypes.data % 64 + shift * array.itemsize
    end = start + array.size * array.itemsize
    made = storage[start:end].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def _alignment(provider: Provider, call: Call, repeats: int) -> Iterator[Variant]:
    for shift in SHIFTS:
        for moved in (*((name,) for name in TENSORS), TENSORS):
            plain = _plain(call)
            arrays = {name: shifted(getattr(plain, name), shift) for name in moved}
            varied = replace(plain, **arrays)  # type: ignore[arg-type]
            name = f"{'all' if len(moved) > 1 else moved[0]} +{shift}"
            yield Variant(name, partial(compute, provider, varied))


def _stepped(array: Array) -> Array:
    storage = np.empty((*array.shape[:-1], array.shape[-1] * 2), array.dtype)
    storage[..., ::2] = array
    return storage[..., ::2]


def _column_major(array: Array) -> Array:
    return np.asfortranarray(array)


def _flipped(array: Array) -> Array:
    return np.ascontiguousarray(array[..., ::-1])[..., ::-1]


def _batch(provider: Provider, call: Call, g: Array, x: Array) -> Array:
    """The results of one pair that stands in every place of a batch."""
    held = np.ones(x.shape, call.fmt.dtype)
    return compute(provider, replace(call, grad_output=g, self=x, grad_input=held))


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "contiguous": np.ascontiguousarray,
    "every second": _stepped,
    "column-major": _column_major,
    "flipped": _flipped,
}


def _layout(provider: Provider, call: Call, repeats: int) -> Iterator[Variant]:
    if call.self.ndim == 0:
        raise NotTried("a single element has one layout")
    for name, lay in LAYOUTS.items():
        varied = replace(
            call,
            grad_output=lay(call.grad_output),
            self=lay(call.self),
            grad_input=lay(_output(call)),
        )
        yield Variant(name, partial(compute, provider, varied))
    if call.self.size and call.options.rounding != "sr":
        first = (a.flat[:1] for a in (call.grad_output, call.self))
        expanded = (np.broadcast_to(one, call.self.shape) for one in first)
        yield Variant("[0] expanded", partial(_batch, provider, call, *expanded), same=True)


def _position(provider: Provider, call: Call, repeats: int) -> Iterator[Variant]:
    if call.options.rounding == "sr":
        raise NotTried("stochastic rounding draws by the position")
    if call.self.size < 2:
        raise NotTried("a single element has one position")
    g, x = (np.asarray(a.flat[:POSITION_LIMIT]) for a in (call.grad_output, call.self))

    def run(g: Array, x: Array, back: int = 0) -> Array:
        part = replace(call, grad_output=g, self=x, grad_input=np.ones(g.shape, g.dtype))
        return np.roll(compute(provider, part), back)

    for by in (1, 5):
        moved = np.roll(g, by), np.roll(x, by)
        yield Variant(f"rotated by {by}", partial(run, *moved, -by))
    yield Variant("without the last", partial(run, g[:-1].copy(), x[:-1].copy()))
    yield Variant("without the first", partial(run, g[1:].copy(), x[1:].copy()), start=1)
    for i in np.linspace(0, g.size - 1, min(SINGLES, g.size), dtype=int).tolist():
        one = g[i : i + 1].copy(), x[i : i + 1].copy()
        yield Variant(f"[{i}] alone", partial(run, *one), start=i)
    last = g.size - 1
    batch = (np.repeat(a[last:], BATCH) for a in (g, x))
    run_all = partial(_batch, provider, call, *batch)
    yield Variant(f"[{last}] in all places of {BATCH}", run_all, start=last, same=True)


def _isa(provider: Provider, call: Call, repeats: int) -> Iterator[Variant]:
    siblings = provider.siblings()
    if not siblings:
        raise NotTried("the provider has one build")
    for name, sibling in siblings.items():
        varied = replace(call, grad_input=_output(call))
        yield Variant(name, partial(compute, sibling, varied))


_CHILD = """
import sys, numpy as np
from dataclasses import replace
from lsbench.determinism import compute
from lsbench.formats import by_name
from lsbench.providers.base import Call
from lsbench.providers.registry import resolve
from lsbench.records import Options
path, name, fmt, options = sys.argv[1:5]
fmt = by_name(fmt)
with np.load(path) as held:
    g, x = (fmt.values(held[k]) for k in "gx")
y = np.empty(g.shape, fmt.dtype)
call = Call(fmt, g, x, None, y, Options(**__import__("json").loads(options)))
np.save(path + ".y.npy", fmt.pattern(np.ascontiguousarray(compute(resolve(name), call))))
"""


def _process(provider: Provider, call: Call, repeats: int) -> Iterator[Variant]:
    yield Variant("a fresh process", partial(_in_a_process, provider, call))


def _in_a_process(provider: Provider, call: Call) -> Array:
    import json
    import tempfile
    from dataclasses import asdict
    from pathlib import Path

    fmt = call.fmt
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "inputs.npz")
        g, x = (fmt.pattern(np.ascontiguousarray(a)) for a in (call.grad_output, call.self))
        np.savez(path, g=g, x=x)
        options = json.dumps(asdict(call.options))
        words = [sys.executable, "-P", "-c", _CHILD, path, provider.name, fmt.name, options]
        done = processes.run(words, timeout=PROCESS_SECONDS, memory=processes.limit(None))
        if done.killed:
            raise ProviderError(f"a fresh process was {done.killed}")
        if done.status:
            last = (done.errors.strip().splitlines() or ["no message"])[-1]
            raise ProviderError(f"a fresh process {processes.how_it_ended(done.status)}: {last}")
        return fmt.values(np.load(path + ".y.npy", allow_pickle=False))


_VARIANTS: dict[str, Callable[..., Iterator[Variant]]] = {
    "repeats": _repeats,
    "threads": _options("threads", THREADS),
    "blocks": _options("blocks", BLOCKS),
    "alignment": _alignment,
    "layout": _layout,
    "position": _position,
    "isa": _isa,
    "process": _process,
}
