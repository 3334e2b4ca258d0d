"""Optional packages: looked for without an import, imported only when they are asked for."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from lsbench.errors import ProviderError


def missing(extra: str, *modules: str) -> str | None:
    """One line that names the extra to install where a module is not there, or None."""
    for module in modules:
        if find_spec(module) is None:
            return f"{module} is not installed: pip install 'lsbench[{extra}]'"
    return None


def load(module: str) -> Any:
    """Import a module that is installed; raises ProviderError, one line, where that fails."""
    try:
        return import_module(module)
    except Exception as error:
        raise ProviderError(f"{module} cannot be imported: {first_line(error)}") from None


def first_line(error: BaseException) -> str:
    """An exception as one line: its type, and the first line of its text that says something."""
    lines = [line.strip() for line in str(error).splitlines()]
    said = next((line for line in lines if line), "")
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
