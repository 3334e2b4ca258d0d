"""The child's side of isolation: one provider, served over a socket until it closes.

Started as ``python -P -m lsbench.providers.worker DESCRIPTOR``; loads nothing but the
provider that it is told to.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import socket
import sys
from collections.abc import Callable
from typing import Any

from lsbench.errors import LsbenchError, ProviderError
from lsbench.providers import channel, shared
from lsbench.providers.base import Call, Prepared, Provider
from lsbench.providers.extras import first_line
from lsbench.providers.registry import resolve


def main(descriptor: int) -> None:
    """Serve requests until the parent closes the socket or is gone."""
    # Where memory runs out on Linux, the child is to be chosen and not the run.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    faulthandler.enable()
    serve(socket.socket(fileno=descriptor))


def serve(link: socket.socket) -> None:
    """Answer every request with one reply: a result, or an error as plain text."""
    held = _Held()
    while True:
        try:
            request, descriptor = channel.receive(link)
        except channel.Closed:
            return
        reply = _answer(held, request, descriptor)
        channel.send(link, reply)


def _answer(held: _Held, request: channel.Message, descriptor: int | None) -> channel.Message:
    try:
        action: Callable[..., Any] = getattr(held, request["do"])
        arguments = request.get("with", {})
        if descriptor is not None:
            arguments["descriptor"] = descriptor
        return {"result": action(**arguments)}
    except ProviderError as error:
        told = {"verdict": error.verdict, "details": error.details, "brought": error.brought}
        return {"error": str(error), **told}
    except LsbenchError as error:
        return {"error": str(error), "verdict": "crashed", "details": ""}
    except KeyboardInterrupt:
        raise
    except SystemExit as error:
        return {"error": f"called exit({error.code!r})", "verdict": "crashed", "details": ""}
    except BaseException as error:
        return {"error": first_line(error), "verdict": "crashed", "details": repr(error)}


class _Held:
    """What the child holds: the provider, calls by number, computations by number."""

    def __init__(self) -> None:
        self._provider: Provider | None = None
        self._siblings: dict[str, Provider] | None = None
        self._calls: dict[int, Call] = {}
        self._prepared: dict[int, Prepared] = {}

    def open(self, name: str, path: list[str], memory: int | None) -> None:
        """Resolve the provider; modules are looked for where the parent would."""
        if memory is not None and not os.path.exists("/proc/self/statm"):
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        sys.path.extend(entry for entry in path if entry not in sys.path)
        self._provider = resolve(name)

    def version(self) -> str:
        """The provider's version."""
        return self._named(None).version()

    def first_phase(
        self, tensors: dict[str, Any], product: str, null: list[str]
    ) -> tuple[int, int, str] | None:
        """Status, workspace size and message of the provider's own first phase, if it has one."""
        held = {name: None if t is None else shared.full_tensor(t) for name, t in tensors.items()}
        said = self._named(None).first_phase(held, product, null)
        return None if said is None else (int(said.status), said.workspace_size, said.message)

    def load(self, number: int, description: dict[str, Any], descriptor: int) -> None:
        """Attach the block of a call."""
        self._calls[number] = shared.attach(descriptor, description)

    def refuse(self, number: int, sibling: str | None) -> str | None:
        """Why the provider cannot do a call."""
        return self._named(sibling).refuse(self._calls[number])

    def prepare(self, number: int, sibling: str | None) -> None:
        """Make a call's computation ready."""
        self._prepared[number] = self._named(sibling).prepare(self._calls[number])

    def run(self, number: int) -> None:
        """Compute once."""
        self._prepared[number].run()

    def fetch(self, number: int) -> None:
        """Write the result into the block."""
        self._prepared[number].fetch()

    def time(self, number: int, loops: int) -> float:
        """Seconds of ``loops`` computations, without the way here and back."""
        return self._prepared[number].time(loops)

    def time_empty(self, number: int, loops: int) -> float:
        """Seconds of ``loops`` calls of nothing."""
        return self._prepared[number].time_empty(loops)

    def drop(self, number: int) -> None:
        """Let go of a call and its computation."""
        prepared = self._prepared.pop(number, None)
        if prepared is not None:
            prepared.close()
        self._calls.pop(number, None)

    def _named(self, sibling: str | None) -> Provider:
        assert self._provider is not None
        if sibling is None:
            return self._provider
        if self._siblings is None:
            self._siblings = self._provider.siblings()
        return self._siblings[sibling]


if __name__ == "__main__":
    main(int(sys.argv[1]))
