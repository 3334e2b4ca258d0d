"""Case files: YAML → typed cases → arrays.

:func:`load` reads files, :func:`first_phase` asks the operator, :func:`tensors` builds the arrays.
"""

from __future__ import annotations

from lsbench.cases.arrays import Tensors, described, first_phase, tensors
from lsbench.cases.case import Case
from lsbench.cases.loader import load

__all__ = ["Case", "Tensors", "described", "first_phase", "load", "tensors"]
