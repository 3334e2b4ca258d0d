"""A user's own function: ``python:MODULE:FUNCTION`` or ``python:path/to/file.py:FUNCTION``.

The function takes (grad_output, self) and returns grad_input. What it is given says the prefix, or
else the annotation of its first parameter; NumPy arrays where both are silent:

=================  ============================================================================
``python:``        as annotated: ``torch.Tensor``, ``jax.Array``, else NumPy arrays
``python+numpy:``  NumPy arrays, bfloat16 as ml_dtypes.bfloat16
``python+torch:``  torch tensors on the CPU
``python+cuda:``   torch tensors on the current CUDA device, timed by its events
``python+jax:``    JAX arrays
``python+dlpack:`` objects with ``__dlpack__``; the result is taken through DLPack too
=================  ============================================================================
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from lsbench.errors import ProviderError, UsageError
from lsbench.providers import extras, flavours
from lsbench.providers.base import Array, Call, Prepared, Provider, follows

Function = Callable[[Any, Any], Any]


class CallableProvider(Provider):
    """A user's function, loaded when the first call needs it and isolated by default."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        prefix, _, target = name.partition(":")
        self._module, _, self._attribute = target.rpartition(":")
        self._flavour = prefix.partition("+")[2]
        if not self._module or not self._attribute:
            raise UsageError(
                f"provider {name!r}: expected {prefix}:MODULE:FUNCTION or "
                f"{prefix}:path/to/file.py:FUNCTION"
            )
        if self._is_file and not Path(self._module).is_file():
            raise UsageError(f"provider {name!r}: no file {self._module}")
        self._function: Function | None = None

    @property
    def _is_file(self) -> bool:
        return self._module.endswith(".py") or "/" in self._module or os.sep in self._module

    @property
    def isolated(self) -> bool:
        """A user's code may crash, hang or exit; it does so in a child process."""
        return True

    def unavailable(self) -> str | None:
        """Where what the prefix needs is not here; the user's code is not run for this."""
        return flavours.missing(self._flavour) if self._flavour else None

    def version(self) -> str:
        """A digest of the file; of a module, its package's version before that."""
        if self._is_file:
            return _digest(Path(self._module))
        module = self._import()
        package = sys.modules.get(self._module.partition(".")[0], module)
        words = [str(getattr(package, "__version__", "unversioned"))]
        file = getattr(module, "__file__", None)
        return ", ".join([*words, _digest(Path(file))] if file else words)

    def refuse(self, call: Call) -> str | None:
        """Options that only kernels take, and what the flavour cannot hold."""
        reason = follows(call.options)
        return reason or flavours.named(self._flavour_of(self._load())).refuse(call)

    def prepare(self, call: Call) -> Prepared:
        """Load the function and convert the inputs to what it takes."""
        function = self._load()
        return _UserCall(
            function, self._attribute, flavours.named(self._flavour_of(function)), call
        )

    def _flavour_of(self, function: Function) -> str:
        return self._flavour or _annotated(function)

    def _load(self) -> Function:
        if self._function is None:
            found: Any = self._import()
            for part in self._attribute.split("."):
                if not hasattr(found, part):
                    raise ProviderError(
                        f"{self._module} has no {self._attribute!r}: expected a function; "
                        f"it has {_functions(found)}"
                    )
                found = getattr(found, part)
            if not callable(found):
                raise ProviderError(
                    f"{self._module}:{self._attribute} is a {type(found).__name__}, "
                    "expected a function of (grad_output, self)"
                )
            self._function = found
        return self._function

    def _import(self) -> ModuleType:
        try:
            return _from_file(Path(self._module)) if self._is_file else _by_name(self._module)
        except ProviderError:
            raise
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            raise _failure(f"importing {self._module}", error) from None


def _digest(path: Path) -> str:
    return f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"


def _from_file(path: Path) -> ModuleType:
    path = path.resolve()
    name = f"_lsbench_user_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ProviderError(f"{path.name} cannot be imported: expected a .py file")
    module = module_from_spec(spec)
    # The file may import its neighbours, as a script could.
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _by_name(name: str) -> ModuleType:
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    top = name.partition(".")[0]
    if top not in sys.modules and find_spec(top) is None:
        raise ProviderError(f"no module {top!r}: expected it installed or in the current folder")
    return import_module(name)


def _functions(module: Any) -> str:
    named = [name for name, value in vars(module).items() if inspect.isroutine(value)]
    public = [name for name in named if not name.startswith("_")]
    return ", ".join(public[:8]) or "none"


def _annotated(function: Function) -> str:
    """The flavour that the annotation of the first parameter asks for."""
    try:
        parameter = next(iter(inspect.signature(function).parameters.values()))
    except (TypeError, ValueError, StopIteration):
        return "numpy"
    annotation = parameter.annotation
    if isinstance(annotation, str):
        annotation = getattr(function, "__globals__", {}).get(annotation, annotation)
    if not isinstance(annotation, str):
        annotation = f"{getattr(annotation, '__module__', '')}.{annotation}"
    if "torch" in annotation and "Tensor" in annotation:
        return "torch"
    return "jax" if "jax" in annotation and "Array" in annotation else "numpy"


class _UserCall(Prepared):
    def __init__(
        self, function: Function, name: str, flavour: flavours.Flavour, call: Call
    ) -> None:
        self._function, self._name, self._flavour, self._call = function, name, flavour, call
        self._inputs = tuple(flavour.give(call.fmt, a) for a in (call.grad_output, call.self))
        self._result: Any = None

    def run(self) -> None:
        """Call the function once; its result stays what it is."""
        try:
            self._result = self._function(*self._inputs)
            self._flavour.finish(self._result)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise _failure(self._name, error) from None

    def fetch(self) -> None:
        """Check what came back and copy it into grad_input; ProviderError ("contract") else."""
        call, flavour = self._call, self._flavour
        try:
            result = flavour.take(call.fmt, self._result)
        except flavours.Mismatch as mismatch:
            raise ProviderError(f"{self._name} {mismatch}", verdict="contract") from None
        _check(self._name, result, call)
        call.grad_input[...] = result
        changed = flavour.changed(call.fmt, self._inputs, (call.grad_output, call.self))
        if changed is not None:
            name = ("grad_output", "self")[changed]
            raise ProviderError(f"{self._name} changed {name}", verdict="contract", brought=True)

    def time(self, loops: int) -> float:
        """Seconds by the device's own events where it has them, by the clock elsewhere."""
        timer = self._flavour.timer()
        return super().time(loops) if timer is None else float(timer(self.run, loops))


def _check(name: str, result: Array, call: Call) -> None:
    for what, found, expected in (
        ("dtype", result.dtype, call.fmt.dtype),
        ("shape", result.shape, call.self.shape),
    ):
        if found != expected:
            raise ProviderError(
                f"{name} returned {what} {found}, expected {expected}", verdict="contract"
            )


def _failure(what: str, error: BaseException) -> ProviderError:
    """A foreign exception as one line with its place, the traceback in the details."""
    if isinstance(error, SystemExit):
        message = f"{what} called exit({error.code!r})"
    else:
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}: " if frames else ""
        message = f"{what}: {place}{extras.first_line(error)}"
    details = "".join(traceback.format_exception(error))
    return ProviderError(message, details=details)
