"""Child processes under watch: their output's tail, their memory, their end in words."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path
from typing import IO

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


def kill_group(pid: int) -> None:
    """Kill the process group that a child leads, whoever is left of it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


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
    for one in (pid, *_descendants(pid)):
        try:
            _, resident, shared_pages = Path(f"/proc/{one}/statm").read_text().split()[:3]
        except (OSError, ValueError):
            continue
        total += int(resident) - int(shared_pages)
    return total * os.sysconf("SC_PAGE_SIZE")


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        try:
            children = Path(f"/proc/{one}/task/{one}/children").read_text().split()
        except OSError:
            continue
        found += map(int, children)
        waiting += map(int, children)
    return found


def _free_memory() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if "MemAvailable" in line)
    except (OSError, StopIteration):
        return 0
