"""An external command: ``command:PROGRAM ARGUMENTS``, which reads and writes .npy files.

The protocol: the command is split as a shell would split it (no shell runs), and these words in it
are replaced: ``{grad_output}`` and ``{self}`` by paths of .npy files to read, ``{grad_input}`` by
the path of the .npy file to write, ``{dtype}`` by fp32, fp16 or bf16, ``{threads}`` by the number
of threads (0 for the command's own choice). Without any ``{...}`` path the three paths are appended
in the order of this list. Arrays are row-major, in the shape of the tensors; NumPy's format has no
bfloat16, so that bf16 travels as its bit patterns in uint16, both ways. An exit status other than 0
is a failure, and the last line of standard error its reason.
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
import time
from pathlib import Path

from lsbench import dumps
from lsbench.errors import ProviderError, TensorError, UsageError
from lsbench.providers import processes
from lsbench.providers.base import Call, Prepared, Provider, follows
from lsbench.providers.processes import how_it_ended, limit

PATHS = ("grad_output", "self", "grad_input")
TIMEOUT = 60.0


class CommandProvider(Provider):
    """Runs the command once for each computation, in a process group of its own."""

    def __init__(self, name: str, timeout: float = TIMEOUT, memory: int | None = None) -> None:
        super().__init__(name)
        text = name.partition(":")[2]
        try:
            self._words = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"provider {name!r}: {error}") from None
        if not self._words:
            raise UsageError(f"provider {name!r}: expected command:PROGRAM ARGUMENTS")
        if not any("{" + path + "}" in word for word in self._words for path in PATHS):
            self._words += ["{" + path + "}" for path in PATHS]
        self._timeout, self._memory = timeout, memory

    @property
    def isolated(self) -> bool:
        """A command is a process of its own."""
        return True

    def confined(self, timeout: float, memory: int | None) -> Provider:
        """The same command under these limits."""
        return CommandProvider(self.name, timeout, memory)

    def unavailable(self) -> str | None:
        """Where there is no such program."""
        program = self._words[0]
        return None if shutil.which(program) else f"no program {program!r} that can be run"

    def version(self) -> str:
        """Nothing that could be asked of every command: its size and time of change."""
        found = Path(shutil.which(self._words[0]) or self._words[0])
        status = found.stat()
        changed = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(status.st_mtime))
        return f"{found.name}, {status.st_size} bytes of {changed}"

    def refuse(self, call: Call) -> str | None:
        """Options of the kernels, but the number of threads where the command takes it."""
        return follows(call.options, threads=self._takes_threads)

    @property
    def _takes_threads(self) -> bool:
        return any("{threads}" in word for word in self._words)

    @property
    def axes(self) -> frozenset[str]:
        """Threads, where the command takes their number."""
        return frozenset({"threads"}) if self._takes_threads else frozenset()

    def prepare(self, call: Call) -> Prepared:
        """Write the input files."""
        limits = self._timeout, limit(self._memory)
        try:
            return _CommandRun(self._words, call, *limits)
        except OSError as error:
            raise ProviderError(f"cannot write the inputs: {error.strerror}") from None


class _CommandRun(Prepared):
    def __init__(self, words: list[str], call: Call, timeout: float, memory: int) -> None:
        self._call, self._timeout, self._memory = call, timeout, memory
        self._folder = tempfile.TemporaryDirectory(prefix="lsbench-")
        self._paths = {name: Path(self._folder.name) / f"{name}.npy" for name in PATHS}
        for name in PATHS[:2]:
            dumps.write_npy(self._paths[name], call.fmt, getattr(call, name))
        meant = {name: str(path) for name, path in self._paths.items()}
        meant |= {"dtype": call.fmt.name, "threads": str(call.options.threads or 0)}
        self._words = [_filled(word, meant) for word in words]

    def run(self) -> None:
        """Run the command; ProviderError for its failure, its timeout, or its hunger."""
        self._paths["grad_input"].unlink(missing_ok=True)
        try:
            done = processes.run(self._words, timeout=self._timeout, memory=self._memory)
        except OSError as error:
            raise ProviderError(f"cannot run {self._words[0]}: {error.strerror}") from None
        if done.killed:
            raise ProviderError(done.killed, details=done.errors)
        if done.status:
            raise ProviderError(_failed(done.status, done.errors), details=done.errors)

    def fetch(self) -> None:
        """Read the file that the command wrote; ProviderError ("contract") if it is none."""
        call, path = self._call, self._paths["grad_input"]
        if not path.exists():
            raise ProviderError("wrote no gradInput", verdict="contract")
        try:
            found = dumps.read(path, fmt=call.fmt)
        except TensorError as error:
            said = str(error).replace(str(path), "its gradInput")
            raise ProviderError(said, verdict="contract") from None
        if found.shape != call.self.shape:
            raise ProviderError(
                f"wrote shape {list(found.shape)}, expected {list(call.self.shape)}",
                verdict="contract",
            )
        call.grad_input[...] = found

    def close(self) -> None:
        """Delete the files."""
        self._folder.cleanup()


def _filled(word: str, meant: dict[str, str]) -> str:
    for name, value in meant.items():
        word = word.replace("{" + name + "}", value)
    return word


def _failed(status: int, said: str) -> str:
    if status < 0:
        return how_it_ended(status)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return f"ended with exit status {status}" + (f": {lines[-1]}" if lines else "")
