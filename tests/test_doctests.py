"""The examples in the docstrings run."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

import lsbench

MODULES = ["lsbench"] + [
    module.name
    for module in pkgutil.walk_packages(lsbench.__path__, "lsbench.")
    if not module.name.endswith("__main__") and "_kernels." not in module.name
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name):
    assert doctest.testmod(import_module(name)).failed == 0
