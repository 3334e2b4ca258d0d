"""A library with the operator's C interface, by ctypes: its functions, its words, its tensors.

Names and signatures are those of the interface; one library may export them all, or a set of
libraries each its part, as the vendor's do.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Sequence
from ctypes import POINTER, byref, c_float, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from functools import cache
from typing import Any

from lsbench.errors import ProviderError, UsageError
from lsbench.operator import DEFAULT_PRODUCT, FORMAT_ND, PRODUCTS, Tensor

SUCCESS = 0
INVALID_PARAM = 100000
REPEAT_INITIALIZE = 100002
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
HUGE_FIRST = 0

_PHASE_ONE = "aclnnLogSigmoidBackwardGetWorkspaceSize"
_PHASE_TWO = "aclnnLogSigmoidBackward"
_DIMS = POINTER(c_int64)

SIGNATURES: dict[str, tuple[Any, ...]] = {
    "aclInit": (ctypes.c_char_p,),
    "aclFinalize": (),
    "aclrtSetDevice": (c_int32,),
    "aclrtResetDevice": (c_int32,),
    "aclrtCreateStream": (POINTER(c_void_p),),
    "aclrtDestroyStream": (c_void_p,),
    "aclrtSynchronizeStream": (c_void_p,),
    "aclrtMalloc": (POINTER(c_void_p), c_size_t, c_int),
    "aclrtFree": (c_void_p,),
    "aclrtMemcpy": (c_void_p, c_size_t, c_void_p, c_size_t, c_int),
    "aclrtCreateEvent": (POINTER(c_void_p),),
    "aclrtDestroyEvent": (c_void_p,),
    "aclrtRecordEvent": (c_void_p, c_void_p),
    "aclrtEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "aclDestroyTensor": (c_void_p,),
    "aclSetAclOpExecutorRepeatable": (c_void_p,),
    "aclDestroyAclOpExecutor": (c_void_p,),
    _PHASE_ONE: (c_void_p,) * 4 + (c_void_p, c_void_p),
    _PHASE_TWO: (c_void_p, c_uint64, c_void_p, c_void_p),
    "lsbenchAclSetProduct": (ctypes.c_char_p,),
}
"""Functions that return a status, and the types of their arguments."""

_CREATE = (_DIMS, c_uint64, c_int, _DIMS, c_int64, c_int, _DIMS, c_uint64, c_void_p)


class Library:
    """The interface of one library or of a set of them; raises UsageError where one cannot be
    loaded, ProviderError for what is missing.

    Libraries are loaded in the order given, each for those after it to link with.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(paths)
        mode = ctypes.RTLD_GLOBAL if len(paths) > 1 else ctypes.RTLD_LOCAL
        self._loaded = [_load(path, mode) for path in paths]

    def find(self, name: str) -> Any:
        """A function by name, or None where no library exports it."""
        for library in self._loaded:
            try:
                function = library[name]
            except AttributeError:
                continue
            if name in SIGNATURES:
                function.argtypes, function.restype = SIGNATURES[name], c_int
            return function
        return None

    def status(self, name: str, *arguments: Any) -> int:
        """Call a function and return its status."""
        function = self.find(name)
        if function is None:
            raise ProviderError(f"{', '.join(self.paths)}: expected a function {name}, found none")
        return int(function(*arguments))

    def call(self, name: str, *arguments: Any, verdict: str = "crashed") -> None:
        """Call a function that is to succeed; raises ProviderError with its own words if not."""
        status = self.status(name, *arguments)
        if status != SUCCESS:
            said = f"{name} returned {status}: {self.message()}"
            raise ProviderError(said, verdict=verdict)

    def message(self) -> str:
        """What the library says about the last error, and forgets with that."""
        function = self.find("aclGetRecentErrMsg")
        if function is None:
            return "no message"
        function.argtypes, function.restype = (), ctypes.c_char_p
        text: bytes | None = function()
        return plain(text) if text else "no message"

    def text(self, name: str) -> str | None:
        """What a function of no arguments says, or None where there is none."""
        function = self.find(name)
        if function is None:
            return None
        function.argtypes, function.restype = (), ctypes.c_char_p
        said: bytes | None = function()
        return None if said is None else plain(said)

    def made(self, name: str, *arguments: Any, verdict: str = "crashed") -> int:
        """What a function writes to the address that is its first argument."""
        place = c_void_p()
        self.call(name, byref(place), *arguments, verdict=verdict)
        return place.value or 0

    def tensor(self, tensor: Tensor, data: int, form: int = FORMAT_ND) -> int:
        """aclCreateTensor of a view of ``data``, a device address (0: none)."""
        view = tensor.view
        create = self.find("aclCreateTensor")
        if create is None:
            raise ProviderError(f"{', '.join(self.paths)}: expected aclCreateTensor, found none")
        create.argtypes, create.restype = _CREATE, c_void_p
        made: int | None = create(
            _dims(view.shape),
            len(view.shape),
            int(tensor.dtype),
            _dims(view.strides),
            view.offset,
            form,
            _dims((view.storage,)),
            1,
            data or None,
        )
        if not made:
            said = f"aclCreateTensor returned no tensor: {self.message()}"
            raise ProviderError(said, verdict="contract")
        return made

    def first_phase(
        self, tensors: Sequence[int | None], *, size: bool = True, executor: bool = True
    ) -> tuple[int, int, int]:
        """Status, workspace size and executor for gradOutput, self, buffer, gradInput."""
        bytes_, made = c_uint64(), c_void_p()
        status = self.status(
            _PHASE_ONE,
            *tensors,
            ctypes.addressof(bytes_) if size else None,
            ctypes.addressof(made) if executor else None,
        )
        return status, bytes_.value, made.value or 0

    def second_phase(self, workspace: int, size: int, executor: int, stream: int) -> int:
        """Status of putting an executor on a stream."""
        return self.status(_PHASE_TWO, workspace or None, size, executor or None, stream or None)

    def elapsed(self, start: int, end: int) -> float:
        """Seconds between two recorded events."""
        milliseconds = c_float()
        self.call("aclrtEventElapsedTime", byref(milliseconds), start, end)
        return milliseconds.value * 1e-3


class Session:
    """A library whose device is set, with one stream.

    Raises UsageError for a variable that makes no sense, ProviderError where there is no device.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self.product = _chosen_product()
        device = _chosen_device()
        status = library.status("aclInit", None)
        if status == INVALID_PARAM and self.takes_products:
            # The project's own reads the environment: its words name the variable.
            raise UsageError(library.message())
        if status not in (SUCCESS, REPEAT_INITIALIZE):
            raise ProviderError(f"aclInit returned {status}: {library.message()}")
        library.call("aclrtSetDevice", device)
        self.stream = library.made("aclrtCreateStream")

    @property
    def takes_products(self) -> bool:
        """Whether the library can stand for any product, as the project's own can."""
        return self.library.find("lsbenchAclSetProduct") is not None

    def choose(self, product: str) -> None:
        """Take the data types of a product; ProviderError for one that the device is not."""
        if self.takes_products:
            self.library.call("lsbenchAclSetProduct", product.encode())
        elif product != self.product:
            raise ProviderError(
                f"the device is {self.product} (LSBENCH_ACL_PRODUCT), the case is for {product}",
                verdict="unsupported",
            )

    def allocate(self, size: int) -> int:
        """Device memory of so many bytes."""
        return self.library.made("aclrtMalloc", size, HUGE_FIRST)

    def wait(self) -> None:
        """Wait for all that was put on the stream; ProviderError ("contract") where that fails."""
        self.library.call("aclrtSynchronizeStream", self.stream, verdict="contract")


def _dims(numbers: tuple[int, ...]) -> Any:
    return (c_int64 * len(numbers))(*numbers)


def _chosen_product() -> str:
    product = os.environ.get("LSBENCH_ACL_PRODUCT") or DEFAULT_PRODUCT
    if product not in PRODUCTS:
        known = ", ".join(PRODUCTS)
        raise UsageError(f"LSBENCH_ACL_PRODUCT is {product}: expected one of {known}")
    return product


def _chosen_device() -> int:
    device = os.environ.get("LSBENCH_ACL_DEVICE") or "0"
    if not re.fullmatch("[0-9]{1,9}", device):
        raise UsageError(f"LSBENCH_ACL_DEVICE is {device}: expected the number of a device")
    return int(device)


def plain(text: bytes) -> str:
    r"""What a library says, as one line without the codes that a terminal would follow.

    >>> print(plain(b"no \x1b[31mred\n line"))
    no \x1b[31mred line
    """
    words = " ".join(text.decode(errors="replace").split())
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in words)


def _load(path: str, mode: int) -> ctypes.CDLL:
    if os.path.isdir(path):
        raise UsageError(f"{path} is a directory: expected a shared library in it, acl:DIR/LIB.so")
    try:
        return ctypes.CDLL(path, mode=mode)
    except OSError as error:
        reason = str(error).removeprefix(f"{path}: ")
        here = "/" not in path and os.path.exists(path)
        hint = f"; for the file in this directory write ./{path}" if here else ""
        raise UsageError(f"{path} cannot be loaded: {reason}{hint}") from None


@cache
def opened(paths: tuple[str, ...]) -> Library:
    """A library, loaded once per process."""
    return Library(paths)
