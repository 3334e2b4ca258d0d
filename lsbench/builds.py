"""Another build of lsbench: the one that some Python interpreter has installed, in a worker.

The worker makes the tensors for itself from the load's words, times itself, and is asked for one
sample after the other over a pipe; the time of the pipe is in no figure.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
import time

from lsbench.errors import ProviderError
from lsbench.load import Load
from lsbench.providers import processes
from lsbench.providers.base import Prepared
from lsbench.providers.isolation import START, Limits

_WORKER = """
import json, sys
from lsbench.load import Load, prepare
name, load = json.loads(sys.argv[1])
run = prepare(name, Load(**load))
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    what, loops = json.loads(line)
    print(json.dumps(getattr(run, what)(loops)), flush=True)
"""


class Remote(Prepared):
    """A computation in another interpreter's process, which times itself.

    An answer that takes longer than the limits allow, or too much memory, ends the process.
    """

    def __init__(
        self, interpreter: str, name: str, load: Load, limits: Limits | None = None
    ) -> None:
        words = json.dumps([name, load.words()])
        self._name = f"{name}@{interpreter}"
        limits = limits or Limits()
        self._timeout, self._memory = limits.timeout, processes.limit(limits.memory)
        try:
            self._worker = processes.start(
                [interpreter, "-P", "-c", _WORKER, words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise ProviderError(f"{self._name}: cannot be started: {error.strerror}") from None
        self._errors = processes.Tail(self._worker.stderr)
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()
        try:
            self._read(max(START, self._timeout))
        except BaseException:
            self.close()
            raise

    def _listen(self) -> None:
        assert self._worker.stdout is not None
        with self._worker.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(b"")

    def _read(self, timeout: float) -> object:
        line = self._next(timeout)
        if not line:
            self._worker.wait()
            raise ProviderError(f"{self._name}: {self._ended()}")
        try:
            return json.loads(line)
        except ValueError:
            said = line.decode(errors="replace").strip()
            raise ProviderError(
                f"{self._name}: the worker printed {said!r}, expected a time"
            ) from None

    def _next(self, timeout: float) -> bytes:
        """The next line, or nothing at the worker's end; the worker is held to its limits."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                return self._lines.get(timeout=processes.TICK)
            except queue.Empty:
                reason = processes.overstepped(self._worker.pid, self._memory)
                if time.monotonic() > deadline:
                    reason = f"no answer within {timeout:g} s, killed"
            if reason:
                processes.end(self._worker)
                raise ProviderError(f"{self._name}: {reason}")

    def _ended(self) -> str:
        if self._worker.returncode < 0:
            return processes.how_it_ended(self._worker.returncode)
        return f"the worker ended: {last_line(self._errors.text())}"

    def _ask(self, what: str, loops: int) -> float:
        assert self._worker.stdin is not None
        try:
            self._worker.stdin.write(json.dumps([what, loops]).encode() + b"\n")
            self._worker.stdin.flush()
        except BrokenPipeError:
            pass  # what the worker said last is read below
        return float(str(self._read(self._timeout)))

    def run(self) -> None:
        """Compute once, over there."""
        self._ask("time", 1)

    def time(self, loops: int) -> float:
        """Seconds that ``loops`` runs take, by the worker's clock."""
        return self._ask("time", loops)

    def time_empty(self, loops: int) -> float:
        """Seconds that ``loops`` empty calls take, by the worker's clock."""
        return self._ask("time_empty", loops)

    def close(self) -> None:
        """End the worker."""
        processes.end(self._worker)
        assert self._worker.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._worker.stdin.close()


def last_line(text: str) -> str:
    """The last line of what a process said: of a traceback, the error."""
    return (text.strip().splitlines() or ["no message"])[-1]
