"""What a provider is: anything that can produce gradInput.

A provider knows tensors and options, never a case file. It says what it cannot do (:meth:`refuse`)
instead of failing at it, and hands out a :class:`Prepared` computation that can be run, fetched and
timed. A third party subclasses :class:`Provider` and registers it with the entry-point group
``lsbench.providers``.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lsbench.errors import LsbenchError, ProviderError
from lsbench.formats import Format
from lsbench.operator import FirstPhase, Tensor
from lsbench.providers.extras import first_line
from lsbench.records import Options
from lsbench.views import View

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Call:
    """One computation: arrays of one shape and dtype, any strides, in the format's NumPy dtype.

    ``grad_input`` is allocated by the caller (NaN-filled storage, guarded gaps) and is written by
    :meth:`Prepared.fetch` at the latest; ``buffer`` must not be read and may be None.
    """

    fmt: Format
    grad_output: Array
    self: Array
    buffer: Array | None
    grad_input: Array
    options: Options
    views: Mapping[str, View | None] = field(default_factory=dict)
    """How tensors lie in their storages, where the caller knows; arrays may have moved since."""


class Prepared:
    """A computation made ready: inputs converted or uploaded, code compiled, nothing timed yet."""

    def run(self) -> None:
        """Compute once; the result may stay where the provider left it."""
        raise NotImplementedError

    def fetch(self) -> None:
        """Write the result of the last run into ``call.grad_input``; nothing where it is there."""

    def time(self, loops: int) -> float:
        """Seconds that ``loops`` runs take; compiled providers time in compiled code."""
        start = time.perf_counter_ns()
        for _ in range(loops):
            self.run()
        return (time.perf_counter_ns() - start) * 1e-9

    def time_empty(self, loops: int) -> float:
        """Seconds that ``loops`` calls of nothing take in the same loop."""
        start = time.perf_counter_ns()
        for _ in range(loops):
            _nothing()
        return (time.perf_counter_ns() - start) * 1e-9

    def close(self) -> None:
        """Give back what the computation holds."""


def _nothing() -> None:
    return None


class Provider(ABC):
    """One implementation under test."""

    def __init__(self, name: str) -> None:
        self.name = name
        """The name as the user wrote it: fast, torch, python:my_module:my_function."""

    @abstractmethod
    def unavailable(self) -> str | None:
        """Why it cannot run here (one line, naming the extra to install), or None."""

    def check(self) -> None:  # noqa: B027 - a default for names that ask for nothing
        """Raise UsageError where what the name or the environment asks for is not there.

        Called before anything runs: a user's slip is no row.
        """

    @abstractmethod
    def version(self) -> str:
        """Version of what is under test, for the record; called only if available."""

    @abstractmethod
    def refuse(self, call: Call) -> str | None:
        """Why it cannot do this call (dtype, strides, options, emptiness), or None."""

    @abstractmethod
    def prepare(self, call: Call) -> Prepared:
        """Make a computation ready; raises ProviderError where the implementation fails."""

    def first_phase(
        self, tensors: Mapping[str, Tensor | None], product: str, null: Sequence[str]
    ) -> FirstPhase | None:
        """What the implementation's own first phase says to tensors, None among them, by name.

        ``null`` names the other arguments that are null, "workspace_size" and "executor". None:
        the implementation has no such phase, and the operator's own (:mod:`lsbench.operator`)
        speaks for it.
        """
        return None

    @property
    def axes(self) -> frozenset[str]:
        """Options that may be varied to test determinism: of "threads", "block"."""
        return frozenset()

    def siblings(self) -> dict[str, Provider]:
        """The same computation by other builds, by name; their bits are compared."""
        return {}

    @property
    def isolated(self) -> bool:
        """Whether it should run in a child process by default."""
        return False

    def confined(self, timeout: float, memory: int | None) -> Provider | None:
        """This provider under limits of its own, where it runs outside this process anyway.

        None: it runs in this process, and a child process must hold it to the limits.
        """
        return None

    def close(self) -> None:  # noqa: B027 - a default for providers that hold nothing
        """Give back what the provider holds."""


def compute_once(provider: Provider, call: Call) -> None:
    """Prepare, run and fetch a call, so that its grad_input is there.

    Raises ProviderError where the provider fails: a third party's may raise anything.
    """
    try:
        prepared = provider.prepare(call)
        try:
            prepared.run()
            prepared.fetch()
        finally:
            prepared.close()
    except LsbenchError:
        raise
    except Exception as error:
        raise ProviderError(first_line(error)) from error


def follows(options: Options, *, threads: bool = False) -> str | None:
    """Why a provider that rounds to nearest in its own arithmetic cannot follow the options.

    ``threads`` says whether it takes a number of threads. None where it can follow all of them.
    """
    defaults = Options()
    for name in ("arithmetic", "rounding", "ftz", "block"):
        asked = getattr(options, name)
        if asked != getattr(defaults, name):
            return f"takes no {name} option, asked for {asked}"
    if not threads and options.threads not in (None, 1):
        return f"takes no threads option, asked for {options.threads}"
    return None
