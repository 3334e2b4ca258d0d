"""Ends child processes when the process that started them is gone, however it went.

Run as a script of its own, by path and without site packages, so that it is small and quick to
start. Standard input is a pipe of which the starting process alone holds the other end: ``+PID``
and ``-PID``, a line each, say whose group is to be ended and whose no more. At the end of input,
which a SIGKILL brings as well, the groups that are left are killed.

A watch from outside, because it holds for any program, hung ones and their children too, on every
POSIX system. Linux's PR_SET_PDEATHSIG tells one process, not its children, and fires when the
*thread* ends that started it; a thread inside the child that watches a pipe cannot run while the
child's code holds the interpreter's lock.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterable


def kill_tree(pid: int, *, reaped: bool = False) -> None:
    """Kill the group that a process leads and, on Linux, descendants that left the group.

    ``reaped``: the process was waited for. Its number may be another's then, so that only what is
    left of its group is killed.
    """
    family = [] if reaped else descendants(pid)
    _kill(os.killpg, pid)
    for one in family:
        _kill(os.kill, one)


def descendants(pid: int) -> list[int]:
    """Children, their children and so on; none where the system has no /proc."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        try:
            with open(f"/proc/{one}/task/{one}/children") as file:
                children = [int(word) for word in file.read().split()]
        except OSError:
            continue
        found += children
        waiting += children
    return found


def _kill(kill: Callable[[int, int], None], pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        kill(pid, signal.SIGKILL)


def watch(lines: Iterable[str]) -> None:
    """Follow the lines to their end, then kill what is still held."""
    held: set[int] = set()
    for line in lines:
        pid = int(line[1:])
        held = held | {pid} if line[0] == "+" else held - {pid}
    for pid in held:
        kill_tree(pid)


if __name__ == "__main__":
    watch(sys.stdin)
