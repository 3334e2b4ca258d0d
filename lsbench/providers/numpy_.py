"""The textbook expression in NumPy, every operation in the dtype of the tensors."""

from __future__ import annotations

import numpy as np

from lsbench.providers.base import Call, Prepared, Provider, follows


class NumpyProvider(Provider):
    """``g * (1 / (1 + exp(x)))`` as NumPy (and ml_dtypes for bfloat16) computes it."""

    def unavailable(self) -> str | None:
        """Never: lsbench needs NumPy itself."""
        return None

    def version(self) -> str:
        """Version of NumPy."""
        return f"numpy {np.__version__}"

    def refuse(self, call: Call) -> str | None:
        """Options that only kernels take."""
        return follows(call.options)

    def prepare(self, call: Call) -> Prepared:
        """Nothing to convert: NumPy computes on the call's own arrays."""
        return _Expression(call)


class _Expression(Prepared):
    def __init__(self, call: Call) -> None:
        self._call = call
        self._one = call.fmt.dtype.type(1)

    def run(self) -> None:
        """Evaluate the expression into grad_input."""
        call, one = self._call, self._one
        with np.errstate(all="ignore"):
            np.multiply(call.grad_output, one / (one + np.exp(call.self)), out=call.grad_input)
