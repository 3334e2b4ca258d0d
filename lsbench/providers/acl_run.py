"""One computation through the C interface: storages on the device, two phases, a clock."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lsbench.errors import ProviderError
from lsbench.formats import by_dtype
from lsbench.operator import DataType, Tensor
from lsbench.providers import acl_library
from lsbench.providers.acl_library import Session
from lsbench.providers.base import Array, Call, Prepared
from lsbench.providers.shared import Stretch, extent, stretches
from lsbench.views import View

ORDER = ("grad_output", "self", "buffer", "grad_input")
"""Tensors as the first phase takes them."""

CANARY = 0xA5
"""Bytes of a device's storage that belong to no tensor of the host."""

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class _Place:
    """A stretch of the host's memory and its storage on the device."""

    own: Bytes
    """The host's bytes; the stretch's extent and no more."""
    before: int
    """Bytes of the storage before it."""
    size: int
    """Bytes of the storage."""
    data: int
    """Address on the device."""
    written: bool
    names: tuple[str, ...]

    def filled(self) -> Bytes:
        """What the storage is to hold."""
        storage = np.full(self.size, CANARY, np.uint8)
        storage[self.before : self.before + self.own.size] = self.own
        return storage


class AclRun(Prepared):
    """The tensors of a call on the device, and the two phases on them."""

    def __init__(self, session: Session, call: Call) -> None:
        self._session, self._library, self._call = session, session.library, call
        self._places: list[_Place] = []
        self._tensors: list[int] = []
        self._workspace, self._room = 0, 0
        try:
            self._places += [self._placed(stretch) for stretch in stretches(call)]
            for name in ORDER:
                # Required but never read: whatever stands for a buffer that the call leaves out.
                array = call.self if getattr(call, name) is None else getattr(call, name)
                self._tensors.append(self._described(name, array))
        except ProviderError:
            self.close()
            raise

    def _placed(self, stretch: Stretch) -> _Place:
        call = self._call
        names = tuple(name for name in ORDER if _lies_in(getattr(call, name), stretch))
        before, size = 0, stretch.size
        if len(names) == 1:
            array = getattr(call, names[0])
            view = call.views.get(names[0])
            if view is not None and _fits(view, array):
                before, size = view.extent[0] * array.itemsize, view.storage * array.itemsize
        data = self._session.allocate(size)
        return _Place(stretch.own(), before, size, data, stretch.written, names)

    def _described(self, name: str, array: Array) -> int:
        strides = tuple(s // array.itemsize for s in array.strides)
        dtype = DataType.of(by_dtype(array.dtype).name)
        if array.size == 0:
            return self._library.tensor(Tensor(View(array.shape, strides, 0, 0), dtype), 0)
        start, _ = extent(array)
        held = next(p for p in self._places if 0 <= start - _address(p.own) < p.own.size)
        at = held.before + array.__array_interface__["data"][0] - _address(held.own)
        # Where tensors overlap at odd distances, the address carries what the offset cannot.
        offset, rest = divmod(at, array.itemsize)
        view = View(array.shape, strides, offset, (held.size - rest) // array.itemsize)
        return self._library.tensor(Tensor(view, dtype), held.data + rest)

    def run(self) -> None:
        """Upload the tensors as they are now, and compute by both phases."""
        for place in self._places:
            self._copy(place.data, place.filled(), acl_library.HOST_TO_DEVICE)
        self._launch(self._first_phase())
        self._session.wait()

    def fetch(self) -> None:
        """Bring the result back; ProviderError ("contract") for a write where none belongs."""
        breaches = []
        for place in self._places:
            storage = np.empty(place.size, np.uint8)
            self._copy(place.data, storage, acl_library.DEVICE_TO_HOST)
            end = place.before + place.own.size
            outside = (storage[: place.before], storage[end:])
            if any(bool((part != CANARY).any()) for part in outside):
                name = ", ".join(place.names)
                breaches.append(f"wrote outside the view of {name}")
            inside = storage[place.before : end]
            if place.written:
                place.own[:] = inside
            elif not np.array_equal(inside, place.own):
                breaches.append(f"changed {', '.join(place.names)}")
        if breaches:
            raise ProviderError("; ".join(breaches), verdict="contract", brought=True)

    def time(self, loops: int) -> float:
        """Seconds of ``loops`` second phases, by the device's events."""
        executors = self._executors(loops)
        start, end = (self._library.made("aclrtCreateEvent") for _ in range(2))
        try:
            self._library.call("aclrtRecordEvent", start, self._session.stream)
            for executor in executors:
                self._launch(executor)
            self._library.call("aclrtRecordEvent", end, self._session.stream)
            self._session.wait()
            return self._library.elapsed(start, end)
        finally:
            for event in (start, end):
                self._library.call("aclrtDestroyEvent", event)
            if len(set(executors)) < len(executors):
                self._library.call("aclDestroyAclOpExecutor", executors[0])

    def time_empty(self, loops: int) -> float:
        """Seconds of ``loops`` second phases on a tensor of one element."""
        one = np.zeros(1, self._call.fmt.dtype)
        call = Call(self._call.fmt, one, one, None, np.zeros_like(one), self._call.options)
        small = AclRun(self._session, call)
        try:
            return small.time(loops)
        finally:
            small.close()

    def close(self) -> None:
        """Give tensors and memory back."""
        for handle in self._tensors:
            self._library.call("aclDestroyTensor", handle)
        memory = [place.data for place in self._places] + [self._workspace] * (self._room > 0)
        for data in memory:
            self._library.call("aclrtFree", data)
        self._tensors, self._places, self._room = [], [], 0

    def _first_phase(self) -> int:
        status, size, executor = self._library.first_phase(self._tensors)
        if status != acl_library.SUCCESS:
            said = f"the first phase returned {status}: {self._library.message()}"
            raise ProviderError(said, verdict="contract")
        if size > self._room:
            if self._room:
                self._library.call("aclrtFree", self._workspace)
            self._room = 0
            self._workspace, self._room = self._workspace_of(size), size
        if not executor:
            raise ProviderError("the first phase returned no executor", verdict="contract")
        return executor

    def _workspace_of(self, size: int) -> int:
        try:
            return self._session.allocate(size)
        except ProviderError as error:
            said = f"the first phase asked for a workspace of {size} bytes: {error}"
            raise ProviderError(said, verdict="contract") from None

    def _executors(self, loops: int) -> list[int]:
        """As many as loops: one that may be repeated, or one for each."""
        first, repeatable = self._first_phase(), "aclSetAclOpExecutorRepeatable"
        if loops > 1 and self._library.find(repeatable) is not None:
            status = self._library.status(repeatable, first)
            if status == acl_library.SUCCESS:
                return [first] * loops
        return [first, *(self._first_phase() for _ in range(loops - 1))]

    def _launch(self, executor: int) -> None:
        status = self._library.second_phase(
            self._workspace, self._room, executor, self._session.stream
        )
        if status != acl_library.SUCCESS:
            said = f"the second phase returned {status}: {self._library.message()}"
            raise ProviderError(said, verdict="contract")

    def _copy(self, device: int, host: Bytes, kind: int) -> None:
        address, size = _address(host), host.size
        to, source = (device, address) if kind == acl_library.HOST_TO_DEVICE else (address, device)
        self._library.call("aclrtMemcpy", to, size, source, size, kind)


def _address(array: Bytes) -> int:
    return int(array.__array_interface__["data"][0])


def _lies_in(array: Array | None, stretch: Stretch) -> bool:
    return array is not None and array.size > 0 and stretch.start <= extent(array)[0] < stretch.stop


def _fits(view: View, array: Array) -> bool:
    """Whether the array still lies as the view says."""
    strides = tuple(s // array.itemsize for s in array.strides)
    return view.shape == array.shape and view.strides == strides
