"""Provider names → providers: the project's own, optional ones, third parties' entry points."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points

from lsbench.errors import UsageError
from lsbench.providers.base import Provider

Factory = Callable[[str], Provider]

BUILTIN: dict[str, str] = {
    "fast": "lsbench.providers.kernels:KernelProvider",
    "exact": "lsbench.providers.kernels:KernelProvider",
    "textbook": "lsbench.providers.kernels:KernelProvider",
    "ascend": "lsbench.providers.kernels:KernelProvider",
    "buffered": "lsbench.providers.kernels:KernelProvider",
    "numpy": "lsbench.providers.numpy_:NumpyProvider",
    "scipy": "lsbench.providers.scipy_:ScipyProvider",
    "torch": "lsbench.providers.torch_:TorchProvider",
    "torch:": "lsbench.providers.torch_:TorchProvider",
    "torch-autograd": "lsbench.providers.torch_:TorchProvider",
    "torch-autograd:": "lsbench.providers.torch_:TorchProvider",
    "torch-compile": "lsbench.providers.torch_:TorchProvider",
    "torch-compile:": "lsbench.providers.torch_:TorchProvider",
    "jax": "lsbench.providers.jax_:JaxProvider",
    "jax:": "lsbench.providers.jax_:JaxProvider",
    "onnxruntime": "lsbench.providers.onnxruntime_:OnnxRuntimeProvider",
    "onnxruntime:": "lsbench.providers.onnxruntime_:OnnxRuntimeProvider",
    "python:": "lsbench.providers.callables:CallableProvider",
    "python+numpy:": "lsbench.providers.callables:CallableProvider",
    "python+torch:": "lsbench.providers.callables:CallableProvider",
    "python+cuda:": "lsbench.providers.callables:CallableProvider",
    "python+jax:": "lsbench.providers.callables:CallableProvider",
    "python+dlpack:": "lsbench.providers.callables:CallableProvider",
    "acl": "lsbench.providers.acl:AclProvider",
    "acl:": "lsbench.providers.acl:AclProvider",
    "command:": "lsbench.providers.commands:CommandProvider",
}
"""Name → "module:factory"; a name ending in ":" is a prefix (``python:``) before an argument."""

ENTRY_POINTS = "lsbench.providers"


def names() -> list[str]:
    """Every name that can be resolved here, prefixes with their colon."""
    return sorted({*BUILTIN, *(point.name for point in entry_points(group=ENTRY_POINTS))})


def resolve(name: str) -> Provider:
    """The provider of that name; raises UsageError with a suggestion for an unknown one."""
    key = name if name in BUILTIN else name.split(":", 1)[0] + ":" if ":" in name else name
    if key in BUILTIN:
        module, _, attribute = BUILTIN[key].partition(":")
        factory: Factory = getattr(import_module(module), attribute)
        return factory(name)
    for point in entry_points(group=ENTRY_POINTS):
        if point.name in (name, key, key.rstrip(":")):
            loaded: Factory = point.load()
            return loaded(name)
    close = difflib.get_close_matches(name, names(), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(names())}"
    raise UsageError(f"unknown provider {name!r}{hint}")
