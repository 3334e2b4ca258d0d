"""Calls made by hand, and providers run on them: what tests of providers start from."""

from __future__ import annotations

import numpy as np

from lsbench import exact
from lsbench.formats import Format
from lsbench.providers.base import Array, Call, Provider
from lsbench.records import Options


def call(fmt: Format, g: Array, x: Array, *, out: Array | None = None, **options: object) -> Call:
    """A call on these arrays; its result is NaN until somebody writes it."""
    if out is None:
        out = np.full(x.shape, np.nan, fmt.dtype)
    return Call(fmt, g, x, None, out, Options(**options))  # type: ignore[arg-type]


def drawn(fmt: Format, shape: tuple[int, ...] = (5, 7), seed: int = 1) -> Call:
    """A call on normal values."""
    rng = np.random.default_rng(seed)
    g, x = (np.array(rng.standard_normal(shape) * scale, fmt.dtype) for scale in (1, 3))
    return call(fmt, g, x)


def computed(provider: Provider, made: Call) -> Array:
    """Run a provider once and return the call's grad_input."""
    assert provider.unavailable() is None
    assert provider.refuse(made) is None
    prepared = provider.prepare(made)
    try:
        prepared.run()
        prepared.fetch()
    finally:
        prepared.close()
    return made.grad_input


def worst_ulp(made: Call) -> float:
    """The largest error of a call's grad_input by mpmath; inf where none is defined."""
    bits = [made.fmt.pattern(a).reshape(-1) for a in (made.grad_output, made.self)]
    found = made.fmt.pattern(np.ascontiguousarray(made.grad_input)).reshape(-1)
    errors = [
        exact.ulp_error(made.fmt, int(g), int(x), int(y))
        for g, x, y in zip(*bits, found, strict=True)
    ]
    return max((abs(e.ulp) if e is not None else np.inf for e in errors), default=0.0)
