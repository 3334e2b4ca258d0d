"""The C interface called from Python, one function at a time: what its tests start from."""

from __future__ import annotations

import ctypes
import os
from contextlib import contextmanager

from lsbench import _acl
from lsbench.operator import FORMAT_ND, DataType, Tensor
from lsbench.providers import acl
from lsbench.providers.acl_library import Library
from lsbench.views import View

F32, F16, BF16 = DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16
OK, NULL, INVALID = 0, 161001, 161002
INVALID_PARAM, RUNTIME = 100000, 361001
INVALID_HANDLE, STILL_USED = 200005, 207002
TO_DEVICE, TO_HOST, ON_DEVICE = 1, 2, 3


class Acl:
    """The project's own library between aclInit and aclFinalize."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.stream = library.made("aclrtCreateStream")

    def call(self, name, *arguments):
        """Status of any function; whole numbers go as 64 bits."""
        function = getattr(ctypes.CDLL(self.library.paths[0]), name)
        function.restype = ctypes.c_int
        return function(*(ctypes.c_void_p(a) if isinstance(a, int) else a for a in arguments))

    def message(self):
        """The words that the last failing call left."""
        return self.library.message()

    def malloc(self, size):
        """Device memory."""
        return self.library.made("aclrtMalloc", size, 0)

    def tensor(
        self, data, shape=(2, 3), dtype=F32, strides=None, offset=0, storage=None, form=FORMAT_ND
    ):
        """A tensor on device memory, in the interface's format number ``form``."""
        view = View.contiguous(tuple(shape))
        view = View(view.shape, strides or view.strides, offset, storage or max(view.size, 1))
        return self.library.tensor(Tensor(view, dtype), data, form)

    def set(held, **changes):
        """Handles of gradOutput, self, buffer, gradInput, each of 6 floats on memory of its own."""
        names = ("grad_output", "self", "buffer", "grad_input")
        return [changes.get(name) or held.tensor(held.malloc(64)) for name in names]

    def first(self, tensors):
        """Status, workspace size and executor of the first phase."""
        return self.library.first_phase(tensors)

    def second(self, executor, workspace=0, size=0, stream=None):
        """Status of the second phase."""
        on = self.stream if stream is None else stream
        return self.library.second_phase(workspace, size, executor, on)

    def wait(self):
        """Synchronize the stream."""
        self.library.call("aclrtSynchronizeStream", self.stream)

    def upload(self, data, array):
        """Copy an array to device memory."""
        source = array.__array_interface__["data"][0]
        self.library.call("aclrtMemcpy", data, array.nbytes, source, array.nbytes, TO_DEVICE)

    def download(self, array, data):
        """Copy device memory into an array."""
        to = array.__array_interface__["data"][0]
        self.library.call("aclrtMemcpy", to, array.nbytes, data, array.nbytes, TO_HOST)


@contextmanager
def initialised(**environment):
    """The library, initialised under these environment variables."""
    library = Library([str(_acl.library())])
    # A provider's own use of the library in this process ends here, and begins anew later.
    acl._session.cache_clear()
    library.status("aclFinalize")
    kept = {name: os.environ.get(name) for name in environment}
    try:
        for name, value in environment.items():
            os.environ[name] = value
        library.call("aclInit", None)
        library.call("aclrtSetDevice", 0)
        yield Acl(library)
    finally:
        library.status("aclFinalize")
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
