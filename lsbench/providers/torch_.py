"""PyTorch: its own backward, its autograd and its compiler, on the CPU or another device.

======================  ==========================================================================
``torch``               ``aten.log_sigmoid_backward`` into grad_input, its buffer from the forward
``torch-autograd``      the backward of ``torch.nn.functional.logsigmoid``, by ``torch.autograd``
``torch-compile``       the same, compiled by ``torch.compile``
======================  ==========================================================================

A suffix names a device: ``torch:cuda``, ``torch-compile:cuda:1``. Copies to and from it are not
timed; its own events are the clock.
"""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from lsbench.errors import ProviderError
from lsbench.formats import BF16, Format
from lsbench.providers import extras
from lsbench.providers.base import Array, Call, Prepared, Provider, follows
from lsbench.views import View

TENSORS = ("grad_output", "self", "grad_input")


class TorchProvider(Provider):
    """One way to compute the backward in torch, on one device."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        way, _, device = name.partition(":")
        self._way = way
        self.device = device or "cpu"

    def unavailable(self) -> str | None:
        """Torch, the device, or the compiler that torch.compile needs is missing."""
        reason = extras.missing("torch", "torch")
        if reason is None and self._way == "torch-compile" and self.device == "cpu":
            reason = _compiler_missing()
        if reason is None and self.device != "cpu":
            reason = device_missing(self.device)
        return reason

    def version(self) -> str:
        """Version of torch, and the device's name where it is not the CPU."""
        torch = extras.load("torch")
        if self.device == "cpu":
            return f"torch {torch.__version__}"
        module = torch.get_device_module(torch.device(self.device))
        return f"torch {torch.__version__} on {module.get_device_name(torch.device(self.device))}"

    def refuse(self, call: Call) -> str | None:
        """Options that only kernels take, and negative strides."""
        return follows(call.options, threads=self.device == "cpu") or refuse_tensors(call)

    def prepare(self, call: Call) -> Prepared:
        """Upload, run the forward, compile; nothing of it is timed."""
        with _one_line(self.name):
            return _WAYS[self._way](call, self.device)

    @property
    def axes(self) -> frozenset[str]:
        """Threads, on the CPU."""
        return frozenset({"threads"}) if self.device == "cpu" else frozenset()


def refuse_tensors(call: Call) -> str | None:
    """Torch tensors have no negative strides."""
    for name in TENSORS:
        if min(getattr(call, name).strides, default=0) < 0:
            return f"torch has no negative strides, found them in {name}"
    return None


def device_missing(device: str) -> str | None:
    """Why torch cannot use a device, or None."""
    torch = extras.load("torch")
    try:
        kind = torch.device(device)
        if kind.type == "cpu":
            return None
        module = torch.get_device_module(kind)
    except (RuntimeError, AttributeError) as error:
        return f"torch knows no device {device!r}: {extras.first_line(error)}"
    if not module.is_available():
        return f"torch {torch.__version__} finds no {kind.type} device here"
    count = module.device_count()
    if (kind.index or 0) >= count:
        return f"torch finds {count} {kind.type} devices, expected one of number {kind.index}"
    return None


def _compiler_missing() -> str | None:
    """Why the compiler that torch.compile will call is not there, or None."""
    name = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    if shutil.which(name):
        return None
    return f"torch.compile needs a C++ compiler, found no {name!r}: install it, or set CXX"


class Held:
    """A tensor over an array's memory or, on a device, over a copy of its whole storage.

    Strides are kept in both cases, and what lies in the gaps of a storage travels with it.
    """

    def __init__(self, fmt: Format, array: Array, device: str) -> None:
        torch = extras.load("torch")
        bits = array.view(np.int16) if fmt is BF16 else array
        strides = tuple(s // array.itemsize for s in array.strides)
        with warnings.catch_warnings():
            # A read-only input is only read; torch warns of what a caller might do.
            warnings.simplefilter("ignore", UserWarning)
            if device == "cpu":
                self._storage = None
                tensor = torch.from_numpy(bits)
            else:
                count = max(View.of(array).storage, 0)
                self._flat = np.lib.stride_tricks.as_strided(bits, (count,), (bits.itemsize,))
                self._storage = torch.from_numpy(self._flat.copy()).to(device)
                tensor = torch.as_strided(self._storage, array.shape, strides)
        self.tensor = tensor.view(torch.bfloat16) if fmt is BF16 else tensor

    def fetch(self) -> None:
        """Copy the device's storage back, gaps included; nothing on the CPU."""
        if self._storage is not None:
            self._flat[...] = self._storage.cpu().numpy()


def values(tensor: Any) -> Array:
    """A torch tensor of any device as a NumPy array."""
    torch = extras.load("torch")
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        return BF16.values(tensor.contiguous().view(torch.int16).numpy().view(np.uint16))
    try:
        found: Array = tensor.numpy()
    except TypeError:
        # A dtype that NumPy lacks, such as float8: its name is all that matters here.
        return np.empty(tuple(tensor.shape), np.dtype([(str(tensor.dtype), "V1")]))
    return found


def event_timer(device: str) -> Callable[[Callable[[], None], int], float] | None:
    """A clock by the events of a device; None for the CPU, which has none.

    What runs between the events is work of the device's current stream; nothing is copied there.
    """
    if device == "cpu":
        return None
    torch = extras.load("torch")
    target = torch.device(device)
    module = torch.get_device_module(target)

    def timed(run: Callable[[], None], loops: int) -> float:
        # Events go to a stream of the current device, which need not be the one that computes.
        with module.device(target) if hasattr(module, "device") else nullcontext():
            start, stop = (module.Event(enable_timing=True) for _ in range(2))
            module.synchronize()
            start.record()
            for _ in range(loops):
                run()
            stop.record()
            module.synchronize()
            return float(start.elapsed_time(stop)) * 1e-3

    return timed


def wait_for(result: Any) -> None:
    """Wait until a tensor is computed, where it is one of a device."""
    torch = extras.load("torch")
    if isinstance(result, torch.Tensor) and result.device.type != "cpu":
        torch.get_device_module(result.device).synchronize(result.device)


class _TorchRun(Prepared):
    """What the three ways share: the tensors, the number of threads and the clock."""

    def __init__(self, call: Call, device: str) -> None:
        self._torch = extras.load("torch")
        self._call = call
        self._g, self._x = (Held(call.fmt, a, device).tensor for a in (call.grad_output, call.self))
        self._timer = event_timer(device)
        self._threads = call.options.threads

    def _compute(self) -> None:
        raise NotImplementedError

    def run(self) -> None:
        """Compute once, with the number of threads asked for."""
        with _one_line("torch"), self._limited():
            self._compute()

    def time(self, loops: int) -> float:
        """Seconds of ``loops`` computations: by events on a device, by the clock on the CPU."""
        with _one_line("torch"), self._limited():
            if self._timer is not None:
                return self._timer(self._compute, loops)
            return _Loop(self._compute).time(loops)

    @contextmanager
    def _limited(self) -> Iterator[None]:
        if self._threads is None:
            yield
            return
        before = self._torch.get_num_threads()
        self._torch.set_num_threads(self._threads)
        try:
            yield
        finally:
            self._torch.set_num_threads(before)


class _Loop(Prepared):
    def __init__(self, compute: Callable[[], None]) -> None:
        self.run = compute  # type: ignore[method-assign]


class _Aten(_TorchRun):
    def __init__(self, call: Call, device: str) -> None:
        super().__init__(call, device)
        aten = self._torch.ops.aten
        self._buffer = aten.log_sigmoid_forward(self._x)[1]
        self._y = Held(call.fmt, call.grad_input, device)
        self._backward = aten.log_sigmoid_backward.grad_input

    def _compute(self) -> None:
        self._backward(self._g, self._x, self._buffer, grad_input=self._y.tensor)

    def fetch(self) -> None:
        """Copy from the device; on the CPU the result is there."""
        self._y.fetch()


class _Autograd(_TorchRun):
    def __init__(self, call: Call, device: str) -> None:
        super().__init__(call, device)
        self._x = self._x.requires_grad_()
        self._forward = self._function()(self._x)
        self._result: Any = None

    def _function(self) -> Callable[[Any], Any]:
        function: Callable[[Any], Any] = self._torch.nn.functional.logsigmoid
        return function

    def _compute(self) -> None:
        (self._result,) = self._torch.autograd.grad(
            self._forward, self._x, self._g, retain_graph=True
        )

    def fetch(self) -> None:
        """Copy the gradient that autograd allocated."""
        self._call.grad_input[...] = values(self._result)


class _Compiled(_Autograd):
    def __init__(self, call: Call, device: str) -> None:
        super().__init__(call, device)
        # Compiled at the first backward, which is not to be timed.
        self._compute()

    def _function(self) -> Callable[[Any], Any]:
        torch = self._torch
        # A buffer donated to the first backward could not serve the second; a silent return to
        # uncompiled code after too many shapes would judge something else.
        extras.load("torch._functorch.config").donated_buffer = False
        settings = extras.load("torch._dynamo.config")
        settings.recompile_limit = max(settings.recompile_limit, 1 << 16)
        settings.fail_on_recompile_limit_hit = True
        compiled: Callable[[Any], Any] = torch.compile(torch.nn.functional.logsigmoid)
        return compiled


_WAYS: dict[str, type[_TorchRun]] = {
    "torch": _Aten,
    "torch-autograd": _Autograd,
    "torch-compile": _Compiled,
}


@contextmanager
def _one_line(name: str) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, NotImplementedError, TypeError) as error:
        said = f"{name}: {extras.first_line(error)}{_of_the_compiler(str(error))}"
        raise ProviderError(said, details=str(error)) from None


def _of_the_compiler(text: str) -> str:
    """What a C++ compiler said that torch called: its first error, which torch tells last."""
    _, _, output = text.partition("\nOutput:\n")
    return next((f": {line.strip()}" for line in output.splitlines() if "error" in line), "")
