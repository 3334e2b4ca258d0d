"""The public names: what is there, and nothing else."""

from __future__ import annotations

import lsbench
from lsbench import errors

NAMES = ["LsbenchError", "load_cases", "load_results", "log_sigmoid_backward", "run", "select"]


def test_the_public_surface():
    assert lsbench.__all__ == NAMES
    assert all(getattr(lsbench, name) for name in NAMES)
    assert lsbench.LsbenchError is errors.LsbenchError


def test_every_error_is_one_of_the_tree_with_an_exit_code():
    tree = errors.__doc__ or ""
    kinds = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, Exception)]
    for kind in kinds:
        assert issubclass(kind, lsbench.LsbenchError)
        assert kind.__name__ in tree
        assert kind.exit_code in (2, 3, 4, 5)
