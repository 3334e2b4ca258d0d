"""What the contestants of a benchmark compute: drawn tensors of a shape, or those of a case."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from lsbench import environment
from lsbench.cases import load, tensors
from lsbench.errors import ProviderError, UsageError
from lsbench.formats import by_name
from lsbench.providers.base import Call, Prepared, Provider
from lsbench.providers.isolation import Limits, open_provider
from lsbench.records import Options
from lsbench.rotation import Sets


@dataclass(frozen=True)
class Load:
    """Tensors and options, told in words, so that every process can make them for itself."""

    dtype: str = "fp32"
    shape: tuple[int, ...] = (1 << 20,)
    """Of contiguous tensors with x ~ N(0, 4^2) and g ~ N(0, 1)."""
    threads: int | None = 1
    """None: the case's own."""
    rounding: str = "rne"
    seed: int = 0
    cold: bool = False
    """Other tensors every run, so that no cache holds them."""
    case: str = ""
    """A case file; its tensors and options are taken then, threads and cold aside."""
    name: str = ""
    """The name of the case in that file."""

    def __post_init__(self) -> None:
        # From JSON a shape comes as a list.
        object.__setattr__(self, "shape", tuple(self.shape))

    def words(self) -> dict[str, Any]:
        """The fields that differ from their defaults, for a process whose build may be older.

        >>> Load(dtype="bf16").words()
        {'dtype': 'bf16'}
        """
        values = {f.name: (getattr(self, f.name), f.default) for f in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default}

    @cached_property
    def call(self) -> Call:
        """The tensors and options; the same values in every process, and made once in each."""
        return self._from_case() if self.case else self._drawn()

    def _drawn(self) -> Call:
        fmt = by_name(self.dtype)
        draw = np.random.default_rng(self.seed)
        g = draw.standard_normal(self.shape, np.float32).astype(fmt.dtype)
        x = (4 * draw.standard_normal(self.shape, np.float32)).astype(fmt.dtype)
        options = Options(rounding=self.rounding, threads=self.threads)
        return Call(fmt, g, x, None, np.empty_like(x), options)

    def _from_case(self) -> Call:
        found = [case for case in load([self.case]) if case.name == self.name]
        if not found:
            raise UsageError(f"{self.case} has no case {self.name!r}")
        (case,) = found
        held = tensors(case)
        options = replace(case.options, threads=self.threads or case.options.threads)
        fmt = by_name(case.dtype)
        return Call(fmt, held.grad_output, held.self, held.buffer, held.grad_input, options)

    def sets(self) -> Sets:
        """The tensors of the state: one, or many in turn; UsageError if too small for it."""
        return Sets(self.call, cold=self.cold, cache=environment.last_level_cache())

    def title(self) -> str:
        """The load in one line."""
        call = self.call
        shape = "x".join(map(str, call.self.shape)) or "()"
        elements = f"{call.self.size:,} elements"
        threads = call.options.threads
        words = [call.fmt.name, elements if call.self.ndim == 1 else f"{shape} = {elements}"]
        words += [f"{threads or 'all'} thread{'' if threads == 1 else 's'}", call.options.rounding]
        words += ["cold" if self.cold else "hot"]
        return ", ".join([self.name, *words] if self.name else words)


def prepare(
    name: str, load: Load, sets: Sets | None = None, limits: Limits | None = None
) -> Prepared:
    """A provider made ready, isolated as ``limits`` say; closing the computation closes it too.

    Raises UsageError for an unknown name, ProviderError, which names it, if it cannot run.
    """
    provider = open_provider(name, limits)
    try:
        with _named(name):
            reason = provider.unavailable() or provider.refuse(load.call)
            if reason is not None:
                raise ProviderError(reason)
            return _Owner(name, provider, (sets or load.sets()).prepare(provider.prepare))
    except BaseException:
        provider.close()
        raise


class _Owner(Prepared):
    """A computation with its provider; its failures bear the provider's name."""

    def __init__(self, name: str, provider: Provider, prepared: Prepared) -> None:
        self._name, self._provider, self._prepared = name, provider, prepared

    def run(self) -> None:
        """Compute once."""
        with _named(self._name):
            self._prepared.run()

    def fetch(self) -> None:
        """Write the result into the call's grad_input."""
        with _named(self._name):
            self._prepared.fetch()

    def time(self, loops: int) -> float:
        """Seconds that ``loops`` runs take."""
        with _named(self._name):
            return self._prepared.time(loops)

    def time_empty(self, loops: int) -> float:
        """Seconds that ``loops`` calls of nothing take."""
        with _named(self._name):
            return self._prepared.time_empty(loops)

    def close(self) -> None:
        """Close both."""
        self._prepared.close()
        self._provider.close()


@contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except ProviderError as error:
        message = f"{name}: {error}"
        raise ProviderError(message, verdict=error.verdict, details=error.details) from None
