"""What a user's function is given and returns: NumPy arrays, torch tensors, JAX arrays, DLPack.

A flavour gives arrays to the function, waits for its result, takes that back as a NumPy array and,
where it handed out copies, finds out whether the function changed them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lsbench.formats import BF16, Format
from lsbench.providers import extras
from lsbench.providers.base import Array, Call

Timer = Callable[[Callable[[], None], int], float]


class Mismatch(Exception):
    """What a function returned instead of what was expected; reads on after its name."""


class Flavour:
    """NumPy arrays: the call's own, strides and all."""

    extra = ""
    modules: tuple[str, ...] = ()

    def missing(self) -> str | None:
        """What it lacks here, in one line, or None."""
        return extras.missing(self.extra, *self.modules)

    def refuse(self, call: Call) -> str | None:
        """Why these tensors cannot be given, or None."""
        return None

    def give(self, fmt: Format, array: Array) -> Any:
        """The array as the function takes it."""
        return array

    def finish(self, result: Any) -> None:
        """Wait until a result that was only promised is there."""

    def take(self, fmt: Format, result: Any) -> Array:
        """The result as a NumPy array; raises Mismatch for anything that is not one."""
        if not isinstance(result, np.ndarray | np.generic):
            raise Mismatch(f"returned {_kind(result)}, expected a NumPy array")
        return np.asarray(result)  # a function of 0-d arrays returns a scalar

    def changed(self, fmt: Format, given: Sequence[Any], held: Sequence[Array]) -> int | None:
        """Which of the inputs was changed, where copies were handed out and so nobody sees it."""
        return None

    def timer(self) -> Timer | None:
        """The device's own clock, or None for that of the process."""
        return None


class Torch(Flavour):
    """Torch tensors on the CPU, sharing the call's memory; strides are kept."""

    extra, modules = "torch", ("torch",)
    device = "cpu"

    def refuse(self, call: Call) -> str | None:
        """Negative strides."""
        from lsbench.providers import torch_

        return torch_.refuse_tensors(call)

    def give(self, fmt: Format, array: Array) -> Any:
        """A tensor over the very memory, or its copy on the device."""
        from lsbench.providers import torch_

        return torch_.Held(fmt, array, self.device).tensor

    def finish(self, result: Any) -> None:
        """Wait for a function that computes on a device of its own choice: the clock runs here."""
        from lsbench.providers import torch_

        torch_.wait_for(result)

    def take(self, fmt: Format, result: Any) -> Array:
        """The tensor's values."""
        from lsbench.providers import torch_

        if not isinstance(result, extras.load("torch").Tensor):
            raise Mismatch(f"returned {_kind(result)}, expected a torch tensor")
        return torch_.values(result)


class Cuda(Torch):
    """Torch tensors on the current CUDA device."""

    device = "cuda"

    def missing(self) -> str | None:
        """Torch, or the device; a function that needs it may fail to import without it."""
        from lsbench.providers import torch_

        return super().missing() or torch_.device_missing(self.device)

    def finish(self, result: Any) -> None:
        """Nothing: its events wait, and so does the copy of the result."""

    def changed(self, fmt: Format, given: Sequence[Any], held: Sequence[Array]) -> int | None:
        """Compare what is on the device with what was uploaded."""
        from lsbench.providers import torch_

        for i, (tensor, array) in enumerate(zip(given, held, strict=True)):
            if not np.array_equal(fmt.pattern(torch_.values(tensor)), fmt.pattern(array)):
                return i
        return None

    def timer(self) -> Timer | None:
        """Events of the device."""
        from lsbench.providers import torch_

        return torch_.event_timer(self.device)


class Jax(Flavour):
    """JAX arrays, packed; they cannot be changed."""

    extra, modules = "jax", ("jax",)

    def give(self, fmt: Format, array: Array) -> Any:
        """The values on JAX's default device."""
        return extras.load("jax.numpy").asarray(np.array(array))

    def finish(self, result: Any) -> None:
        """Block until the result is computed."""
        extras.load("jax").block_until_ready(result)

    def take(self, fmt: Format, result: Any) -> Array:
        """The array's values."""
        if not isinstance(result, extras.load("jax").Array):
            raise Mismatch(f"returned {_kind(result)}, expected a JAX array")
        return np.asarray(result)


class DLPack(Flavour):
    """Anything that speaks DLPack. NumPy cannot export bfloat16 that way: torch does it then."""

    def refuse(self, call: Call) -> str | None:
        """Bfloat16 without torch; negative strides with it."""
        if call.fmt is not BF16:
            return None
        return extras.missing("torch", "torch") or Torch().refuse(call)

    def give(self, fmt: Format, array: Array) -> Any:
        """A NumPy array, or for bfloat16 a torch tensor."""
        return Torch().give(fmt, array) if fmt is BF16 else array

    def finish(self, result: Any) -> None:
        """Wait for a result that was only promised, where it is known how: JAX's and torch's."""
        if hasattr(result, "block_until_ready"):
            result.block_until_ready()
        elif sys.modules.get("torch") is not None:
            from lsbench.providers import torch_

            torch_.wait_for(result)

    def take(self, fmt: Format, result: Any) -> Array:
        """The values, through DLPack, wherever the result lies."""
        if isinstance(result, np.ndarray):
            return result
        if not hasattr(result, "__dlpack__"):
            raise Mismatch(f"returned {_kind(result)}, expected an object with __dlpack__")
        if extras.missing("torch", "torch") is None:
            from lsbench.providers import torch_

            return torch_.values(extras.load("torch").from_dlpack(result))
        try:
            return np.from_dlpack(result)
        except (BufferError, RuntimeError, TypeError) as error:
            raise Mismatch(f"returned what NumPy cannot take: {extras.first_line(error)}") from None


FLAVOURS: dict[str, Flavour] = {
    "numpy": Flavour(),
    "torch": Torch(),
    "cuda": Cuda(),
    "jax": Jax(),
    "dlpack": DLPack(),
}
"""Word after ``python+`` → flavour."""


def named(name: str) -> Flavour:
    """The flavour of that name."""
    return FLAVOURS[name]


def missing(name: str) -> str | None:
    """What a flavour lacks here, in one line, or None."""
    return FLAVOURS[name].missing()


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
