"""Any library with the operator's C interface: ``acl`` (the project's own), ``acl:LIB[,LIB...]``.

Every computation goes through the two phases with the strides and offsets of the case, on memory
of the device that the library drives. What lies in the gaps of a storage travels with it, and is
looked at when it comes back: a write outside gradInput's elements is found. The device's events are
the clock, and executors that may be repeated keep the first phase out of the time, where the
library has them.

A library of another maker drives one product, which LSBENCH_ACL_PRODUCT names (default: Atlas A2),
and the device whose number is in LSBENCH_ACL_DEVICE (default: 0).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from lsbench import _acl
from lsbench.errors import BuildError, ProviderError, UsageError
from lsbench.operator import DEFAULT_PRODUCT, DataType, FirstPhase, Tensor, status_of
from lsbench.providers import acl_library, processes
from lsbench.providers.acl_library import Session
from lsbench.providers.acl_run import ORDER, AclRun
from lsbench.providers.base import Call, Prepared, Provider, follows
from lsbench.providers.processes import how_it_ended

PROBE = 120.0
"""Seconds that a library may take to load and to find its device."""


class AclProvider(Provider):
    """One library, on the device that it drives."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        listed = name.partition(":")[2]
        self._paths = libraries(listed) if listed else ()
        if not all(self._paths):
            raise UsageError(f"provider {name!r}: expected acl:LIBRARY[,LIBRARY...]")

    def check(self) -> None:
        """A library that was named can be loaded, and the environment makes sense."""
        if self._paths:
            _probed(self._paths)
        else:
            _obstacle(())

    def unavailable(self) -> str | None:
        """Where a library cannot be loaded, or there is no device."""
        try:
            return _probed(self._paths) if self._paths else _obstacle(())
        except UsageError as error:
            return str(error)

    def version(self) -> str:
        """What the library says of itself."""
        library = self._session.library
        said = library.text("lsbenchAclDescribe") or library.text("aclrtGetSocName")
        return said or ", ".join(Path(path).name for path in library.paths)

    def refuse(self, call: Call) -> str | None:
        """Options that the interface does not have, and negative strides."""
        for name in ORDER:
            array = getattr(call, name)
            if array is not None and min(array.strides, default=0) < 0:
                return f"the interface has no negative strides, found them in {name}"
        return follows(call.options)

    def first_phase(
        self, tensors: Mapping[str, Tensor | None], product: str, null: Sequence[str]
    ) -> FirstPhase | None:
        """The library's first phase, on memory of the device.

        Raises ProviderError ("unsupported") for a product that the library does not drive. None for
        negative strides, which cannot be told to it.
        """
        if any(t is not None and min(t.view.strides, default=0) < 0 for t in tensors.values()):
            return None
        session = self._session
        session.choose(product)
        library, made, memory = session.library, [], []
        try:
            for name in ORDER:
                tensor = tensors.get(name)
                data = 0
                if tensor is not None and tensor.view.storage > 0:
                    data = session.allocate(tensor.view.storage * _itemsize(tensor.dtype))
                    memory.append(data)
                made.append(None if tensor is None else library.tensor(tensor, data))
            status, size, executor = library.first_phase(
                made, size="workspace_size" not in null, executor="executor" not in null
            )
            message = library.message() if status else ""
            if executor:
                library.call("aclDestroyAclOpExecutor", executor)
        finally:
            for handle in made:
                if handle is not None:
                    library.call("aclDestroyTensor", handle)
            for data in memory:
                library.call("aclrtFree", data)
        return FirstPhase(status_of(status), size, None, message)

    def prepare(self, call: Call) -> Prepared:
        """Make storages and tensors on the device; nothing is computed yet."""
        session = self._session
        # The case's own product was asked for in the first phase: here all data types may come.
        if session.takes_products:
            session.choose(DEFAULT_PRODUCT)
        return AclRun(session, call)

    @property
    def isolated(self) -> bool:
        """A library of another maker may take the process with it."""
        return bool(self._paths)

    @property
    def _session(self) -> Session:
        return _session(self._paths, os.getpid())


def libraries(listed: str) -> tuple[str, ...]:
    """The paths of a list with commas; a file whose own name has some is found whole.

    A leading ~ is the user's home.

    >>> libraries("libascendcl.so,./libnnopbase.so")
    ('libascendcl.so', './libnnopbase.so')
    """
    parts, found = listed.split(","), []
    while parts:
        joined = [os.path.expanduser(",".join(parts[:n])) for n in range(1, len(parts) + 1)]
        there = [n for n, path in enumerate(joined, 1) if os.path.exists(path)]
        taken = max(there, default=1)
        found.append(joined[taken - 1])
        del parts[:taken]
    return tuple(found)


def own_description() -> str:
    """What computes behind the project's own library, in one line.

    Raises UsageError for a variable of the environment that makes no sense.
    """
    library = acl_library.opened((str(_acl.library()),))
    said = library.text("lsbenchAclDescribe")
    if said is None:
        raise UsageError(library.message())
    return said


@cache
def _session(paths: tuple[str, ...], process: int) -> Session:
    # Once per process, as the interface is initialised; a forked one sets its device anew.
    return Session(acl_library.opened(paths or (str(_acl.library()),)))


def _obstacle(paths: tuple[str, ...]) -> str | None:
    """Why a library does not work in this process, or None; UsageError for a user's slip."""
    try:
        _session(paths, os.getpid())
    except (ProviderError, BuildError) as error:
        return str(error)
    return None


@cache
def _probed(paths: tuple[str, ...]) -> str | None:
    """What :func:`_obstacle` says, found out by a process that the library may take with it."""
    command = [sys.executable, "-P", "-m", __name__, *paths]
    done = processes.run(command, timeout=PROBE, memory=processes.limit(None), output=True)
    if done.killed:
        return f"{', '.join(paths)}: a process that loads it was {done.killed}"
    if done.status == UsageError.exit_code and done.output:
        raise UsageError(done.output.strip())
    if done.status:
        return f"{', '.join(paths)}: a process that loads it {how_it_ended(done.status)}"
    return done.output.strip() or None


def _itemsize(dtype: DataType) -> int:
    return 4 if dtype is DataType.FLOAT else 2


def _probe(paths: tuple[str, ...]) -> int:
    """Say on standard output what is in the way of a library, and nothing that it says there."""
    answer = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        words, status = _obstacle(paths) or "", 0
    except UsageError as error:
        words, status = str(error), error.exit_code
    os.write(answer, words.encode())
    return status


if __name__ == "__main__":
    sys.exit(_probe(tuple(sys.argv[1:])))
