"""Child processes under watch: started, limited, ended whole, and how they ended in words."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from lsbench.providers import watchdog

TICK = 0.02
"""Seconds between two looks at a child."""
SHARE = 0.8
"""Share of the memory that is free which a child may use where no limit is given."""
_KEPT = 1 << 14


class Tail:
    """The last of what a process writes to a pipe, read as it comes so that it never has to wait.

    A grandchild that left the process group may hold the pipe open: nobody waits for it long.
    """

    def __init__(self, stream: IO[bytes] | None) -> None:
        self._last = b""
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            while part := os.read(stream.fileno(), 1 << 12):
                self._last = (self._last + part)[-_KEPT:]

    def text(self) -> str:
        """What was written last, once the process is gone."""
        self._thread.join(1)
        return self._last.decode(errors="replace")


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a child that leads a process group, which ends with this process whatever happens.

    ``options`` are those of Popen. Raises OSError as it does. :func:`end` is to be called.
    """
    guard = _guard(os.getpid())
    child = subprocess.Popen(command, start_new_session=True, **options)
    guard.hold(child.pid)
    return child


def end(child: subprocess.Popen[bytes]) -> None:
    """Kill whatever is left of a child's group and wait for the child."""
    watchdog.kill_tree(child.pid, reaped=child.returncode is not None)
    _guard(os.getpid()).let_go(child.pid)
    child.wait()


@dataclass(frozen=True)
class Ended:
    """A process that is over."""

    status: int
    """Its return code; negative for a signal."""
    killed: str
    """Why it was killed at a limit, or nothing."""
    output: str
    """The last of its standard output, where that was asked for."""
    errors: str
    """The last of its standard error."""


def run(command: Sequence[str], *, timeout: float, memory: int = 0, output: bool = False) -> Ended:
    """Run a process to its end, or to a limit: ``timeout`` in seconds, ``memory`` in bytes or 0.

    What it started and left behind is ended with it. Raises OSError where it cannot be started.
    """
    child = start(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if output else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    tails = [Tail(stream) for stream in (child.stdout, child.stderr) if stream is not None]
    try:
        killed = _wait(child, timeout, memory)
    finally:
        end(child)
    texts = [tail.text() for tail in tails]
    return Ended(child.returncode, killed, texts[0] if output else "", texts[-1])


def _wait(child: subprocess.Popen[bytes], timeout: float, memory: int) -> str:
    deadline = time.monotonic() + timeout
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(TICK)
            return ""
        if time.monotonic() > deadline:
            return f"not done within {timeout:g} s, killed"
        reason = overstepped(child.pid, memory)
        if reason:
            return reason


class _Guard:
    """This process's watchdog (:mod:`lsbench.providers.watchdog`), which is told of its children.

    One that was killed is replaced when there is something to tell.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: set[int] = set()
        self._open()
        atexit.register(self.close)

    def _open(self) -> None:
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", watchdog.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def hold(self, pid: int) -> None:
        """End that child's group when this process is gone."""
        with self._lock:
            self._held.add(pid)
            self._tell(f"+{pid}\n")

    def let_go(self, pid: int) -> None:
        """That child is over."""
        with self._lock:
            self._held.discard(pid)
            self._tell(f"-{pid}\n")

    def _tell(self, line: str) -> None:
        try:
            self._write(line)
        except BrokenPipeError:
            self._watchdog.wait()
            self._open()
            self._write("".join(f"+{pid}\n" for pid in sorted(self._held)))

    def _write(self, lines: str) -> None:
        assert self._watchdog.stdin is not None
        self._watchdog.stdin.write(lines.encode())
        self._watchdog.stdin.flush()

    def close(self) -> None:
        """Let the watchdog go, and with it whoever was not ended."""
        with contextlib.suppress(BrokenPipeError):
            self._watchdog.communicate()


@cache
def _guard(process: int) -> _Guard:
    # A process that was forked is another one: it needs its own.
    return _Guard()


def how_it_ended(status: int | None) -> str:
    """A return code of a child as words: the signal that killed it, or its exit status.

    >>> how_it_ended(-11), how_it_ended(3)
    ('died of SIGSEGV (Segmentation fault)', 'ended with exit status 3')
    """
    if status is None:
        return "closed its connection, killed"
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    meaning = signal.strsignal(-status)
    return f"died of {name} ({meaning})" if meaning else f"died of {name}"


def limit(memory: int | None) -> int:
    """Bytes that a child may use: as given, or a share of what is free; 0 for no limit."""
    return memory if memory is not None else int(SHARE * _free_memory())


def overstepped(pid: int, allowed: int) -> str:
    """Why a child is to be killed: it and its descendants hold too much memory; or nothing."""
    used = private_memory(pid) if allowed else 0
    if used <= allowed:
        return ""
    return f"used {used >> 20} MiB of memory, expected at most {allowed >> 20} MiB: killed"


def private_memory(pid: int) -> int:
    """Bytes that a process and its descendants hold alone; 0 where the system does not tell."""
    total = 0
    for one in (pid, *watchdog.descendants(pid)):
        try:
            _, resident, shared_pages = Path(f"/proc/{one}/statm").read_text().split()[:3]
        except (OSError, ValueError):
            continue
        total += int(resident) - int(shared_pages)
    return total * os.sysconf("SC_PAGE_SIZE")


def _free_memory() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if "MemAvailable" in line)
    except (OSError, StopIteration):
        return 0
