"""ONNX Runtime: the graph Mul(g, Sigmoid(Neg(x))) of standard operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from lsbench.errors import ProviderError
from lsbench.formats import BF16, FP16, FP32, Format
from lsbench.providers import extras
from lsbench.providers.base import Array, Call, Prepared, Provider, follows
from lsbench.providers.jax_ import refuse_strides

OPSET = 13
"""The first that lists bfloat16 for all three operators."""


class OnnxRuntimeProvider(Provider):
    """A session per dtype and number of threads, on the CPU or, as ``onnxruntime:cuda``, a GPU."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._device = name.partition(":")[2] or "cpu"
        self._sessions: dict[tuple[str, int | None], Any] = {}

    @property
    def _execution(self) -> str:
        return {"cpu": "CPU", "cuda": "CUDA"}.get(self._device, self._device) + "ExecutionProvider"

    def unavailable(self) -> str | None:
        """The packages, the execution provider or its device are missing."""
        reason = extras.missing("onnxruntime", "onnxruntime", "onnx")
        if reason is None and self._device != "cpu":
            known = extras.load("onnxruntime").get_available_providers()
            if self._execution not in known:
                return f"onnxruntime has no {self._execution} here: it has {', '.join(known)}"
            try:
                # Listed is what was built in; only a session tells whether there is a device.
                self._open(FP32.name, None)
            except ProviderError as error:
                return str(error)
        return reason

    def version(self) -> str:
        """Version of ONNX Runtime."""
        return f"onnxruntime {extras.load('onnxruntime').__version__}"

    def refuse(self, call: Call) -> str | None:
        """Options and strides, and a dtype that the runtime has no kernels for."""
        reason = follows(call.options, threads=True) or refuse_strides("onnxruntime", call)
        if reason is None:
            try:
                self._session(call)
            except ProviderError as error:
                return str(error)
        return reason

    def prepare(self, call: Call) -> Prepared:
        """Bind inputs and output to a session; copies are not timed."""
        try:
            return _Bound(self._session(call), call, self._device)
        except (RuntimeError, ValueError) as error:
            raise ProviderError(f"{self.name}: {extras.first_line(error)}") from None

    @property
    def axes(self) -> frozenset[str]:
        """Threads of the session, on the CPU."""
        return frozenset({"threads"}) if self._device == "cpu" else frozenset()

    def close(self) -> None:
        """Give the sessions back."""
        self._sessions.clear()

    def _session(self, call: Call) -> Any:
        key = (call.fmt.name, call.options.threads)
        if key not in self._sessions:
            self._sessions[key] = self._open(*key)
        return self._sessions[key]

    def _open(self, name: str, threads: int | None) -> Any:
        runtime = extras.load("onnxruntime")
        options = runtime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = threads or 0
        if self._device != "cpu":
            # An operator without a kernel there would be computed on the CPU, and judged as its.
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        try:
            session = runtime.InferenceSession(
                graph(name), options, providers=[self._execution], enable_fallback=0
            )
        except Exception as error:  # the runtime's exceptions have no base of their own
            said = extras.first_line(error)
            raise ProviderError(f"onnxruntime has no kernel for {name}: {said}") from None
        # Without a device or its libraries the runtime goes on with the CPU and says nothing.
        found = session.get_providers()
        if self._execution not in found:
            raise ProviderError(
                f"onnxruntime cannot use {self._execution} here: a session got {', '.join(found)}"
            )
        return session


def graph(name: str) -> bytes:
    """The serialised model for a format's name; any shape of that rank-free graph will do."""
    onnx = extras.load("onnx")
    kind = _element_type(name)
    helper = onnx.helper
    g, x, y = (helper.make_tensor_value_info(n, kind, None) for n in ("g", "x", "y"))
    nodes = [
        helper.make_node("Neg", ["x"], ["negated"]),
        helper.make_node("Sigmoid", ["negated"], ["sigma"]),
        helper.make_node("Mul", ["g", "sigma"], ["y"]),
    ]
    made = helper.make_graph(nodes, "log_sigmoid_backward", [g, x], [y])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    serialised: bytes = model.SerializeToString()
    return serialised


def _element_type(name: str) -> int:
    kinds = extras.load("onnx").TensorProto
    return int({FP32.name: kinds.FLOAT, FP16.name: kinds.FLOAT16, BF16.name: kinds.BFLOAT16}[name])


class _Bound(Prepared):
    def __init__(self, session: Any, call: Call, device: str) -> None:
        self._session, self._call = session, call
        self._binding = session.io_binding()
        self._held = [np.asarray(a, order="C") for a in (call.grad_output, call.self)]
        kind = _element_type(call.fmt.name)
        for name, array in zip(("g", "x"), self._held, strict=True):
            self._binding.bind_input(name, *_place(call.fmt, kind, array))
        self._on_cpu = device == "cpu"
        if self._on_cpu:
            self._binding.bind_output("y", *_place(call.fmt, kind, call.grad_input))
        else:
            self._binding.bind_output("y", device)
            self._binding.synchronize_inputs()

    def run(self) -> None:
        """Run the session on what is bound."""
        if self._call.self.size:
            try:
                self._session.run_with_iobinding(self._binding)
                self._binding.synchronize_outputs()
            except Exception as error:
                raise ProviderError(f"onnxruntime: {extras.first_line(error)}") from None

    def fetch(self) -> None:
        """Copy from a device; on the CPU the result is there."""
        if not self._on_cpu and self._call.self.size:
            try:
                self._call.grad_input[...] = self._binding.copy_outputs_to_cpu()[0]
            except Exception as error:
                raise ProviderError(f"onnxruntime: {extras.first_line(error)}") from None


def _place(fmt: Format, kind: int, array: Array) -> tuple[str, int, int, list[int], int]:
    """Device, its number, element type, shape and address: what a binding takes."""
    return "cpu", 0, kind, list(array.shape), array.ctypes.data
