"""lsbench: verify and benchmark implementations of LogSigmoid backward, every element judged.

>>> import numpy as np, lsbench
>>> lsbench.log_sigmoid_backward(np.float32([1.0]), np.float32([0.0]))
array([0.5], dtype=float32)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lsbench.cases import load as load_cases
    from lsbench.errors import LsbenchError
    from lsbench.providers.kernels import log_sigmoid_backward
    from lsbench.results import load as load_results
    from lsbench.runner import run, select

__version__ = "0.1.0"

__all__ = ["LsbenchError", "load_cases", "load_results", "log_sigmoid_backward", "run", "select"]

_HOME = {
    "LsbenchError": ("lsbench.errors", "LsbenchError"),
    "load_cases": ("lsbench.cases", "load"),
    "load_results": ("lsbench.results", "load"),
    "log_sigmoid_backward": ("lsbench.providers.kernels", "log_sigmoid_backward"),
    "run": ("lsbench.runner", "run"),
    "select": ("lsbench.runner", "select"),
}


def __getattr__(name: str) -> Any:
    # Public names are imported when they are used: `lsbench --help` must not load NumPy.
    if name not in _HOME:
        raise AttributeError(f"module 'lsbench' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _HOME[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value
