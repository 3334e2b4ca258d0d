"""Run a provider in a child process, so that its death, hang or hunger is a row and not the end.

One child serves all calls of a provider, so that a framework is imported once; after a death the
next call starts another. The child leads a process group of its own, which is killed whole: after a
timeout, when the memory limit is passed, when the provider is closed, and when this process dies
(:mod:`lsbench.providers.watchdog`).

Memory is limited by what the group really holds (resident and private), looked at every
fiftieth of a second: frameworks reserve address space far beyond that, which a limit on addresses
(RLIMIT_AS) would forbid. Where the system has no ``/proc`` that limit is set instead, if asked for.
"""

from __future__ import annotations

import contextlib
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lsbench.errors import ProviderError
from lsbench.operator import FirstPhase, Tensor, status_of
from lsbench.providers import channel
from lsbench.providers.base import Call, Prepared, Provider
from lsbench.providers.processes import TICK, Tail, end, how_it_ended, limit, overstepped, start
from lsbench.providers.registry import resolve
from lsbench.providers.shared import Block, plain_tensor

START = 120.0
"""Seconds that a child may take to start and to import what the provider needs."""


def isolate(provider: Provider, *, timeout: float = 60.0, memory: int | None = None) -> Provider:
    """The same provider in a child process.

    ``timeout`` is in seconds for each call of the provider, ``memory`` in bytes for the process and
    what it starts; None takes :data:`SHARE` of what is free. The provider's name must resolve in
    the registry: that is how the child finds it.
    """
    return provider.confined(timeout, memory) or IsolatedProvider(provider, timeout, memory)


@dataclass(frozen=True)
class Limits:
    """Whether providers get child processes, and what each may take there."""

    isolate: bool | None = None
    """None: as the provider prefers."""
    timeout: float = 60.0
    """Seconds for each call of a provider."""
    memory: int | None = None
    """Bytes; None: a share of what is free."""

    def among(self, count: int) -> Limits:
        """Limits for each of several at once, which share what is free."""
        if self.memory is not None or count < 2:
            return self
        return replace(self, memory=limit(None) // count or None)


def open_provider(name: str, limits: Limits | None = None) -> Provider:
    """The provider of a name, in a child process where it prefers that or ``limits`` say so.

    Raises UsageError for a name nobody knows and for what the provider's own check finds. One that
    is unavailable stays as it is.
    """
    limits = limits or Limits()
    provider = resolve(name)
    provider.check()
    wanted = provider.isolated if limits.isolate is None else limits.isolate
    if not wanted or provider.unavailable() is not None:
        return provider
    return isolate(provider, timeout=limits.timeout, memory=limits.memory)


@contextlib.contextmanager
def opened(names: Iterable[str], limits: Limits | None = None) -> Iterator[list[Provider]]:
    """Providers by name as :func:`open_provider` gives them, closed at the end."""
    providers: list[Provider] = []
    try:
        for name in names:
            providers.append(open_provider(name, limits))
        yield providers
    finally:
        for provider in providers:
            provider.close()


class IsolatedProvider(Provider):
    """Speaks for a provider that lives in a child process."""

    def __init__(
        self,
        inner: Provider,
        timeout: float,
        memory: int | None,
        *,
        sibling: str | None = None,
        worker: Worker | None = None,
    ) -> None:
        super().__init__(inner.name)
        self._inner, self._timeout, self._memory, self._sibling = inner, timeout, memory, sibling
        self._worker = worker or Worker(inner.name, timeout, memory)
        self._seen: _Loaded | None = None

    @property
    def isolated(self) -> bool:
        """It is."""
        return True

    @property
    def axes(self) -> frozenset[str]:
        """Those of the provider."""
        return self._inner.axes

    def unavailable(self) -> str | None:
        """The provider's own reason."""
        return self._inner.unavailable()

    def version(self) -> str:
        """The provider's version, asked in the child: it may import a framework."""
        return str(self._worker.ask("version"))

    def refuse(self, call: Call) -> str | None:
        """The provider's own reason, asked in the child."""
        loaded = self._load(call)
        reason = self._worker.ask("refuse", loaded.generation, **loaded.named(self._sibling))
        return None if reason is None else str(reason)

    def first_phase(
        self, tensors: Mapping[str, Tensor | None], product: str, null: Sequence[str]
    ) -> FirstPhase | None:
        """The provider's own first phase, asked in the child."""
        if type(self._inner).first_phase is Provider.first_phase:
            return None
        told = {name: None if t is None else plain_tensor(t) for name, t in tensors.items()}
        said = self._worker.ask("first_phase", tensors=told, product=product, null=list(null))
        if said is None:
            return None
        status, size, message = said
        return FirstPhase(status_of(int(status)), int(size), None, str(message))

    def prepare(self, call: Call) -> Prepared:
        """Share the tensors with the child and make its computation ready."""
        loaded, self._seen = self._load(call), None
        loaded.block.fill()
        try:
            self._worker.ask("prepare", loaded.generation, **loaded.named(self._sibling))
        except ProviderError:
            loaded.close()
            raise
        return loaded

    def siblings(self) -> dict[str, Provider]:
        """The provider's siblings, in the same child."""
        return {
            name: IsolatedProvider(
                inner, self._timeout, self._memory, sibling=name, worker=self._worker
            )
            for name, inner in self._inner.siblings().items()
        }

    def close(self) -> None:
        """End the child."""
        self._forget()
        self._worker.close()

    def _load(self, call: Call) -> _Loaded:
        # Asked whether it can do a call, a provider is mostly told to do that call next.
        seen = self._seen
        if seen is not None and seen.call is call and seen.generation == self._worker.generation:
            return seen
        self._forget()
        self._seen = _Loaded(self._worker, call)
        return self._seen

    def _forget(self) -> None:
        if self._seen is not None:
            self._seen.close()
            self._seen = None


class _Loaded(Prepared):
    """A call whose tensors the child shares, and the computation on them."""

    _count = 0

    def __init__(self, worker: Worker, call: Call) -> None:
        _Loaded._count += 1
        self.call, self._worker, self._number = call, worker, _Loaded._count
        self.block = Block(call)
        self.block.fill()
        try:
            described = {"number": self._number, "description": self.block.description()}
            worker.ask("load", None, descriptor=self.block.file.fileno(), **described)
        except ProviderError:
            self.block.close()
            raise
        self.generation = worker.generation

    def named(self, sibling: str | None) -> dict[str, Any]:
        """What a request about this call says."""
        return {"number": self._number, "sibling": sibling}

    def run(self) -> None:
        """Compute once in the child."""
        self._worker.ask("run", self.generation, number=self._number)

    def fetch(self) -> None:
        """Bring the result here; ProviderError ("contract") for writes outside the tensors."""
        breaches = []
        for bring in (self._ask_fetch, self.block.take):
            try:
                bring()
            except ProviderError as error:
                if not error.brought:
                    raise
                breaches.append(str(error))
        if breaches:
            raise ProviderError("; ".join(breaches), verdict="contract", brought=True)

    def _ask_fetch(self) -> None:
        self._worker.ask("fetch", self.generation, number=self._number)

    def time(self, loops: int) -> float:
        """Seconds of ``loops`` computations, measured in the child."""
        return float(self._worker.ask("time", self.generation, number=self._number, loops=loops))

    def time_empty(self, loops: int) -> float:
        """Seconds of ``loops`` calls of nothing, measured in the child."""
        asked = self._worker.ask("time_empty", self.generation, number=self._number, loops=loops)
        return float(asked)

    def close(self) -> None:
        """Let both sides go of the tensors."""
        with contextlib.suppress(ProviderError):
            if self.generation == self._worker.generation:
                self._worker.ask("drop", self.generation, number=self._number)
        self.block.close()


class Worker:
    """A child process that serves one provider, started when it is first asked."""

    def __init__(self, name: str, timeout: float, memory: int | None) -> None:
        self._name, self._timeout, self._memory = name, timeout, memory
        self._child: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._limit = 0
        self._output: Tail | None = None
        self.generation = 0
        """Grows with each start and each end of a child; what an earlier one held is lost."""

    def ask(
        self,
        what: str,
        generation: int | None = None,
        *,
        descriptor: int | None = None,
        **details: Any,
    ) -> Any:
        """Send a request and wait for its reply.

        Raises ProviderError with the child's own words, or with how it died; the text is one line.
        """
        if generation is not None and generation != self.generation:
            raise ProviderError("the process that held this computation has died")
        if self._child is None:
            self._start()
        slow = what in ("open", "version", "refuse", "prepare")
        return self._exchange(what, details, descriptor, max(self._timeout, START * slow))

    def close(self) -> None:
        """Kill the child and everything that it started."""
        if self._child is not None:
            self._end()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        self._limit = limit(self._memory)
        command = [sys.executable, "-P", "-m", "lsbench.providers.worker"]
        with theirs:
            self._child = start(
                [*command, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        self._output = Tail(self._child.stdout)
        self._link = ours
        self.generation += 1
        path = [entry for entry in sys.path if entry]
        details = {"name": self._name, "path": path, "memory": self._memory}
        self._exchange("open", details, None, START)

    def _exchange(
        self, what: str, details: dict[str, Any], descriptor: int | None, timeout: float
    ) -> Any:
        assert self._link is not None
        try:
            channel.send(self._link, {"do": what, "with": details}, descriptor)
            self._wait(timeout)
            reply, _ = channel.receive(self._link)
        except channel.Closed:
            raise self._died() from None
        except KeyboardInterrupt:
            self._end()
            raise
        if "error" in reply:
            details_text = str(reply.get("details", ""))
            verdict = str(reply.get("verdict"))
            verdict = verdict if verdict in ("contract", "unsupported") else "crashed"
            brought = reply.get("brought") is True
            raise ProviderError(
                str(reply["error"]), verdict=verdict, details=details_text, brought=brought
            )
        return reply.get("result")

    def _wait(self, timeout: float) -> None:
        """Return when there is something to read; kill the child at the limits."""
        assert self._child is not None
        assert self._link is not None
        deadline = time.monotonic() + timeout
        while not select.select([self._link], [], [], TICK)[0]:
            reason = overstepped(self._child.pid, self._limit)
            if time.monotonic() > deadline:
                reason = f"no answer within {timeout:g} s, killed"
            if reason:
                raise self._ended(reason)

    def _died(self) -> ProviderError:
        assert self._child is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(5)
        return self._ended(how_it_ended(self._child.returncode))

    def _ended(self, reason: str) -> ProviderError:
        self._end()
        return ProviderError(reason, details=self._output.text() if self._output else "")

    def _end(self) -> None:
        assert self._child is not None
        assert self._link is not None
        child, self._child = self._child, None
        self.generation += 1
        end(child)
        self._link.close()
