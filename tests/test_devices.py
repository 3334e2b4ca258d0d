"""What can be known of devices without one: whose clock is read, who is waited for, who is missing.

The fakes keep time and silence as the frameworks' documentation says that devices do; the
computations themselves need a device and are not tested here.
"""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from calls import drawn

from lsbench.formats import FP32
from lsbench.providers import extras, flavours, onnxruntime_, torch_
from lsbench.providers.registry import resolve


class Devices:
    """Two devices, each with a clock that only its own work moves; events read the current one."""

    def __init__(self):
        self.now, self.current, self.waited = {0: 0.0, 1: 0.0}, 0, []

    @contextmanager
    def device(self, device):
        before, self.current = self.current, device.index or 0
        yield
        self.current = before

    def synchronize(self, device=None):
        self.waited.append(self.current if device is None else device.index)

    def Event(self, enable_timing):
        assert enable_timing
        devices = self

        class Event:
            def record(self):
                self.at, self.of = devices.now[devices.current], devices.current

            def elapsed_time(self, stop):
                assert self.of == stop.of
                assert devices.waited[-1] == stop.of, "read before it was recorded"
                return 1e3 * (stop.at - self.at)

        return Event()


@pytest.fixture
def devices(monkeypatch):
    """Fake devices behind torch's own interface to them."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    made = Devices()
    monkeypatch.setattr(torch, "get_device_module", lambda device: made)
    return made


@pytest.mark.parametrize("index", [0, 1])
def test_the_events_are_those_of_the_device_that_computes(devices, index):
    timer = torch_.event_timer(f"cuda:{index}")

    def run():
        devices.now[index] += 0.25
        devices.now[1 - index] += 7

    assert timer(run, 8) == 2.0
    assert devices.current == 0


def test_the_cpu_has_no_events():
    assert torch_.event_timer("cpu") is None


def test_a_function_that_computes_on_a_device_by_itself_is_waited_for(devices, monkeypatch):
    """Its clock is that of the process, which would stop before the device does."""
    torch = extras.load("torch")

    class Tensor:
        device = torch.device("cuda:1")

    monkeypatch.setattr(torch, "Tensor", Tensor)
    for name in ("torch", "dlpack"):
        flavours.named(name).finish(Tensor())
    assert devices.waited == [1, 1]
    Tensor.device = torch.device("cpu")
    flavours.named("torch").finish(Tensor())
    assert devices.waited == [1, 1]


def test_a_promised_result_that_comes_by_dlpack_is_waited_for():
    waited = []
    result = SimpleNamespace(block_until_ready=lambda: waited.append(True))
    flavours.named("dlpack").finish(result)
    assert waited == [True]


class Runtime:
    """ONNX Runtime as built for CUDA, on a machine without it: it lists it, and takes the CPU."""

    def __init__(self, granted):
        self.granted, self.entries = granted, {}

    def get_available_providers(self):
        return ["CUDAExecutionProvider", "CPUExecutionProvider"]

    def SessionOptions(self):
        return SimpleNamespace(add_session_config_entry=self.entries.__setitem__)

    def InferenceSession(self, model, options, providers, enable_fallback):
        assert (providers, enable_fallback) == (["CUDAExecutionProvider"], 0)
        return SimpleNamespace(get_providers=lambda: self.granted)


@pytest.fixture
def runtime(monkeypatch):
    """Makes a fake runtime whose sessions get some execution providers."""

    def make(*granted):
        made = Runtime(list(granted))
        monkeypatch.setattr(extras, "find_spec", lambda module: True)
        monkeypatch.setattr(extras, "load", lambda module: made)
        monkeypatch.setattr(onnxruntime_, "graph", lambda name: b"")
        return made

    return make


def test_a_runtime_that_quietly_took_the_cpu_is_not_judged_as_cuda(runtime):
    runtime("CPUExecutionProvider")
    assert resolve("onnxruntime:cuda").unavailable() == (
        "onnxruntime cannot use CUDAExecutionProvider here: a session got CPUExecutionProvider"
    )


def test_no_operator_falls_back_to_the_cpu(runtime):
    made = runtime("CUDAExecutionProvider", "CPUExecutionProvider")
    assert resolve("onnxruntime:cuda").unavailable() is None
    assert made.entries == {"session.disable_cpu_ep_fallback": "1"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("torch:cuda", "finds no cuda device here"),
        ("torch-compile:cuda", "finds no cuda device here"),
        ("jax:cuda", "jax has no backend 'cuda' here: "),
        ("onnxruntime:cuda", "onnxruntime has no CUDAExecutionProvider here: it has "),
    ],
)
def test_without_a_device_there_is_one_line(name, said):
    module = name.partition(":")[0].partition("-")[0]
    pytest.importorskip(module, reason=f"{module} is not installed")
    if resolve(f"{module}:cuda").unavailable() is None:
        pytest.skip("there is a device")
    reason = resolve(name).unavailable()
    assert said in reason
    assert "\n" not in reason


def test_a_function_for_a_missing_device_is_not_even_loaded(tmp_path):
    """It may import what is there only with the device."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if torch.cuda.is_available():
        pytest.skip("there is a device")
    (tmp_path / "kernel.py").write_text("import no_such_module_triton\n")
    reason = resolve(f"python+cuda:{tmp_path / 'kernel.py'}:f").unavailable()
    assert reason == f"torch {torch.__version__} finds no cuda device here"


def test_jax_computes_on_inputs_that_have_arrived():
    jax = pytest.importorskip("jax", reason="jax is not installed")
    provider, made = resolve("jax"), drawn(FP32)
    waited = []
    block = jax.block_until_ready
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "block_until_ready", lambda tree: waited.append(block(tree)))
        prepared = provider.prepare(made)
    ((g, x),) = waited
    assert (g == made.grad_output).all()
    assert (x == made.self).all()
    prepared.close()
