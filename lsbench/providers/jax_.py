"""JAX: the vector-Jacobian product of ``jax.nn.log_sigmoid``, jitted by XLA."""

from __future__ import annotations

from typing import Any

import numpy as np

from lsbench.errors import ProviderError
from lsbench.providers import extras
from lsbench.providers.base import Call, Prepared, Provider, follows
from lsbench.views import View


class JaxProvider(Provider):
    """``jit(vjp(jax.nn.log_sigmoid))`` on the CPU or, as ``jax:cuda``, on another backend."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._backend = name.partition(":")[2] or "cpu"

    def unavailable(self) -> str | None:
        """JAX or the backend is missing."""
        reason = extras.missing("jax", "jax", "jaxlib")
        if reason is None and self._backend != "cpu":
            try:
                extras.load("jax").devices(self._backend)
            except RuntimeError as error:
                return f"jax has no backend {self._backend!r} here: {extras.first_line(error)}"
        return reason

    def version(self) -> str:
        """Versions of jax and jaxlib."""
        jax, jaxlib = (extras.load(name).__version__ for name in ("jax", "jaxlib"))
        return f"jax {jax}" if jax == jaxlib else f"jax {jax}, jaxlib {jaxlib}"

    def refuse(self, call: Call) -> str | None:
        """Options that only kernels take, and strides: JAX arrays have none."""
        return follows(call.options) or refuse_strides("jax", call)

    def prepare(self, call: Call) -> Prepared:
        """Upload and compile; neither is timed."""
        jax = extras.load("jax")
        try:
            return _Jitted(jax, jax.devices(self._backend)[0], call)
        except (RuntimeError, TypeError, ValueError) as error:
            raise ProviderError(f"{self.name}: {extras.first_line(error)}") from None


def refuse_strides(name: str, call: Call) -> str | None:
    """Why a provider whose arrays are packed cannot take the call's layout, or None."""
    for tensor in ("grad_output", "self", "grad_input"):
        if not View.of(getattr(call, tensor)).is_contiguous:
            return f"{name} has packed arrays only, found strides in {tensor}"
    return None


class _Jitted(Prepared):
    def __init__(self, jax: Any, device: Any, call: Call) -> None:
        def backward(g: Any, x: Any) -> Any:
            return jax.vjp(jax.nn.log_sigmoid, x)[1](g)[0]

        self._jax, self._call = jax, call
        self._g, self._x = (
            jax.device_put(np.array(a), device) for a in (call.grad_output, call.self)
        )
        jax.block_until_ready((self._g, self._x))  # an upload is only promised till then
        self._backward = jax.jit(backward).lower(self._g, self._x).compile()
        self._result: Any = None

    def run(self) -> None:
        """Compute and wait for the result."""
        self._result = self._backward(self._g, self._x).block_until_ready()

    def fetch(self) -> None:
        """Copy the result."""
        self._call.grad_input[...] = np.asarray(self._result)
