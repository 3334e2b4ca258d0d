"""Another build of lsbench: the one that some Python interpreter has installed, in a worker.

The worker makes the tensors for itself from the load's words, times itself, and is asked for one
sample after the other over a pipe; the time of the pipe is in no figure.
"""

from __future__ import annotations

import json
import subprocess
import tempfile

from lsbench.errors import ProviderError
from lsbench.load import Load
from lsbench.providers.base import Prepared

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
    """A computation in another interpreter's process, which times itself."""

    def __init__(self, interpreter: str, name: str, load: Load) -> None:
        words = json.dumps([name, load.words()])
        self._name = f"{name}@{interpreter}"
        # A file, not a pipe: what nobody reads must not stop the worker.
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        try:
            self._worker = subprocess.Popen(
                [interpreter, "-P", "-c", _WORKER, words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
            )
        except OSError as error:
            raise ProviderError(f"{self._name}: cannot be started: {error.strerror}") from None
        self._read()

    def _read(self) -> object:
        assert self._worker.stdout is not None
        line = self._worker.stdout.readline()
        if not line:
            self._worker.wait()
            self._errors.seek(0)
            text = last_line(self._errors.read())
            raise ProviderError(f"{self._name}: the worker ended: {text}")
        try:
            return json.loads(line)
        except ValueError:
            raise ProviderError(
                f"{self._name}: the worker printed {line.strip()!r}, expected a time"
            ) from None

    def _ask(self, what: str, loops: int) -> float:
        assert self._worker.stdin is not None
        try:
            self._worker.stdin.write(json.dumps([what, loops]) + "\n")
            self._worker.stdin.flush()
        except BrokenPipeError:
            pass  # what the worker said last is read below
        return float(str(self._read()))

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
        self._worker.communicate()
        self._errors.close()


def last_line(text: str) -> str:
    """The last line of what a process said: of a traceback, the error."""
    return (text.strip().splitlines() or ["no message"])[-1]
