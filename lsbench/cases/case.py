"""A case, ready to run: what a case file says after defaults, matrix and checks."""

from __future__ import annotations

from dataclasses import dataclass, field

from lsbench.gates import GateRule
from lsbench.inputs import Source
from lsbench.operator import DEFAULT_PRODUCT
from lsbench.records import Options
from lsbench.views import View

TENSORS = ("grad_output", "self", "buffer", "grad_input")
"""The operator's tensors, in its order."""
NULLABLE = (*TENSORS, "workspace_size", "executor")
"""Arguments that a negative case may leave null."""


@dataclass(frozen=True)
class Case:
    """One computation to be judged, the same for every provider."""

    name: str
    """Unique; a case of a matrix carries its coordinates: name[dtype=fp16,shape=64x48]."""
    family: str
    """The name as written: inputs derive from it, so that all cases of a matrix share them."""
    dtype: str
    shape: tuple[int, ...]
    product: str = DEFAULT_PRODUCT
    seed: int = 0
    tags: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)
    expect: int | None = None
    """Status that the first phase must return; None: success, and the computation is judged."""
    gates: tuple[GateRule, ...] = ()
    layout: dict[str, str] = field(default_factory=dict)
    """Tensor → layout in words."""
    views: dict[str, View | None] = field(default_factory=dict)
    """Tensor → view; None for a null one."""
    dtypes: dict[str, str] = field(default_factory=dict)
    """Tensor → format; all the case's own but in negative cases."""
    inputs: dict[str, Source] = field(default_factory=dict)
    null: tuple[str, ...] = ()
    """Arguments of the first phase that are null, of :data:`NULLABLE`."""
    operator: bool = True
    """Whether the operator's first phase comes before the computation."""
    throughput: bool = True
    budget: float | None = None
    """Seconds of timing; None: the run's own."""
    cold: bool = False
    """Time with caches that hold none of the tensors."""
    reference: str | None = None
    """Judge of this case; None: the run's own."""
    source: str = ""
    """file:line of the case."""
