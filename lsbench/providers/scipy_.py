"""SciPy's expit: sigma(-x) without an overflow of exp, the 16-bit formats computed in fp32."""

from __future__ import annotations

from typing import Any

import numpy as np

from lsbench.providers import extras
from lsbench.providers.base import Call, Prepared, Provider, follows


class ScipyProvider(Provider):
    """``g * scipy.special.expit(-x)``; fp16 and bf16 are widened to fp32 and rounded once."""

    def unavailable(self) -> str | None:
        """Where SciPy is not installed."""
        return extras.missing("scipy", "scipy")

    def version(self) -> str:
        """Version of SciPy."""
        return f"scipy {extras.load('scipy').__version__}"

    def refuse(self, call: Call) -> str | None:
        """Options that only kernels take."""
        return follows(call.options)

    def prepare(self, call: Call) -> Prepared:
        """Import expit; widening is part of the computation, as it is for a user."""
        return _Expit(extras.load("scipy.special").expit, call)


class _Expit(Prepared):
    def __init__(self, expit: Any, call: Call) -> None:
        self._expit = expit
        self._call = call

    def run(self) -> None:
        """Evaluate into grad_input."""
        call = self._call
        g, x = (a.astype(np.float32, copy=False) for a in (call.grad_output, call.self))
        with np.errstate(all="ignore"):
            call.grad_input[...] = g * self._expit(-x)
