"""The vendor's contract of aclnnLogSigmoidBackward: products, status codes, the two phases.

The first phase checks four tensors and returns an executor; the second runs it, once. Null is
checked first, then dtypes, then shapes. The published check reads neither shape nor dtype of
``buffer``, though the page says that they must match: a mismatched buffer is accepted here and said
in a note.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum

from lsbench.errors import UsageError
from lsbench.formats import FORMATS
from lsbench.views import Array, Overlap, View, overlap

MAX_DIMENSIONS = 8
FORMAT_ND = 2
"""ACL_FORMAT_ND, the only format of the operator's tensors."""


class Status(IntEnum):
    """Return codes of the two phases."""

    SUCCESS = 0
    ACLNN_ERR_PARAM_NULLPTR = 161001
    ACLNN_ERR_PARAM_INVALID = 161002


def status_of(number: int) -> Status | int:
    """A status code by its number; one of another interface stays a number."""
    return Status(number) if number in set(Status) else number


class DataType(IntEnum):
    """The operator's data types, with their numbers in the C interface."""

    FLOAT = 0
    FLOAT16 = 1
    BFLOAT16 = 27

    @classmethod
    def of(cls, name: str) -> DataType:
        """The data type of an lsbench format name (fp32, fp16, bf16)."""
        return cls[FORMATS[name].acl]


ALL_TYPES = frozenset({DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16})
TWO_TYPES = frozenset({DataType.FLOAT, DataType.FLOAT16})

PRODUCTS: dict[str, frozenset[DataType]] = {
    "Atlas A2": ALL_TYPES,
    "Atlas A3": ALL_TYPES,
    "Atlas inference": TWO_TYPES,
    "Atlas training": TWO_TYPES,
    "Ascend 950PR": frozenset(),
    "Ascend 950DT": frozenset(),
    "Atlas 200I/500 A2": frozenset(),
}
"""Product → supported data types; none where the product does not have the operator."""

DEFAULT_PRODUCT = "Atlas A2"


@dataclass(frozen=True)
class Tensor:
    """What aclCreateTensor is told: view dims, strides and offset in elements, dtype, format."""

    view: View
    dtype: DataType
    format: int = FORMAT_ND


@dataclass(frozen=True)
class FirstPhase:
    """What aclnnLogSigmoidBackwardGetWorkspaceSize returns."""

    status: Status | int
    workspace_size: int
    executor: Executor | None
    message: str
    """Which argument, what was found and what was expected; empty on success."""
    notes: tuple[str, ...] = ()


@dataclass
class Executor:
    """The validated computation; it runs once, as the interface's executors do by default."""

    empty: bool
    workspace_size: int = 0
    spent: bool = field(default=False, init=False)

    def run(self, compute: Callable[[], None], workspace: int | None = None) -> Status:
        """The second phase: call ``compute`` unless the tensors are empty.

        Raises UsageError for an executor that has run already. The operator needs no workspace,
        so that any address is accepted for one of size 0.
        """
        if self.spent:
            raise UsageError("executor has run already: expected a new one from the first phase")
        self.spent = True
        if not self.empty:
            compute()
        return Status.SUCCESS


def get_workspace_size(
    grad_output: Tensor | None,
    self: Tensor | None,
    buffer: Tensor | None,
    grad_input: Tensor | None,
    *,
    product: str = DEFAULT_PRODUCT,
    workspace_size: bool = True,
    executor: bool = True,
) -> FirstPhase:
    """The first phase: check the tensors in the vendor's order and make an executor.

    ``workspace_size`` and ``executor`` tell whether the caller passed those two addresses. Raises
    UsageError for a product that no page names; a product without the operator supports no dtype.

    >>> one = Tensor(View.contiguous((2, 2)), DataType.FLOAT)
    >>> get_workspace_size(one, one, one, one).status.name
    'SUCCESS'
    >>> get_workspace_size(one, one, None, one).message
    'buffer is null: expected a tensor'
    """
    if product not in PRODUCTS:
        raise UsageError(f"unknown product {product!r}: expected one of {', '.join(PRODUCTS)}")
    given: dict[str, object] = {
        "gradOutput": grad_output,
        "self": self,
        "buffer": buffer,
        "gradInput": grad_input,
        "workspaceSize": workspace_size or None,
        "executor": executor or None,
    }
    for name, value in given.items():
        if value is None:
            wanted = "an address" if name in ("workspaceSize", "executor") else "a tensor"
            return _refused(Status.ACLNN_ERR_PARAM_NULLPTR, f"{name} is null: expected {wanted}")
    assert grad_output is not None
    assert self is not None
    assert grad_input is not None
    checked = {"gradOutput": grad_output, "self": self, "gradInput": grad_input}
    message = _dtype_fault(checked, product) or _shape_fault(checked)
    if message:
        return _refused(Status.ACLNN_ERR_PARAM_INVALID, message)
    made = Executor(empty=self.view.size == 0)
    return FirstPhase(Status.SUCCESS, made.workspace_size, made, "", _buffer_notes(self, buffer))


def _refused(status: Status, message: str) -> FirstPhase:
    return FirstPhase(status, 0, None, message)


def _dtype_fault(tensors: dict[str, Tensor], product: str) -> str:
    supported = PRODUCTS[product]
    for name, tensor in tensors.items():
        if tensor.dtype not in supported:
            names = ", ".join(t.name for t in sorted(supported))
            wanted = names or "nothing: it does not have the operator"
            return f"{name} is {tensor.dtype.name}, {product} supports {wanted}"
    reference = tensors["gradOutput"].dtype
    for name, tensor in tensors.items():
        if tensor.dtype != reference:
            return f"{name} is {tensor.dtype.name}, expected {reference.name} as gradOutput"
    return ""


def _shape_fault(tensors: dict[str, Tensor]) -> str:
    for name, tensor in tensors.items():
        rank = len(tensor.view.shape)
        if not 1 <= rank <= MAX_DIMENSIONS:
            return f"{name} has {rank} dimensions, expected 1 to {MAX_DIMENSIONS}"
    reference = tensors["gradOutput"].view.shape
    for name, tensor in tensors.items():
        if tensor.view.shape != reference:
            found, wanted = list(tensor.view.shape), list(reference)
            return f"{name} has shape {found}, expected {wanted} as gradOutput"
    return ""


def _buffer_notes(self: Tensor, buffer: Tensor | None) -> tuple[str, ...]:
    assert buffer is not None
    notes = []
    if buffer.dtype != self.dtype:
        notes.append(f"buffer is {buffer.dtype.name}, self {self.dtype.name}")
    if buffer.view.shape != self.view.shape:
        notes.append(f"buffer has shape {list(buffer.view.shape)}, self {list(self.view.shape)}")
    return tuple(f"{note}: accepted, as the published check does" for note in notes)


def check_memory(grad_output: Array, self: Array, grad_input: Array) -> str:
    """What is wrong with how the arrays share memory, or "" where nothing is.

    Inputs may overlap each other; gradInput may be the very view of an input; everything else is an
    error: two of its indices at one address, or a partial overlap with an input.
    """
    if View.of(grad_input).overlaps_itself:
        return "gradInput has two indices at one address, expected one address each"
    for name, array in (("gradOutput", grad_output), ("self", self)):
        if overlap(grad_input, array) is Overlap.PARTIAL:
            return f"gradInput overlaps {name} in part, expected apart or the very same view"
    return ""
