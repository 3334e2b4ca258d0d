"""Case files: YAML → typed cases → arrays.

:func:`load` reads files, :func:`first_phase` asks the operator, :func:`tensors` builds the arrays.
"""

from __future__ import annotations

from lsbench.cases.case import Case
from lsbench.cases.loader import load
from lsbench.cases.tensors import Tensors, first_phase, tensors

__all__ = ["Case", "Tensors", "first_phase", "load", "tensors"]
