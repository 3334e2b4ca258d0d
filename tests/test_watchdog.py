"""Nothing that lsbench starts outlives it, nor the limits that it was started under."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lsbench.providers import processes, watchdog

CASES = """
schema: 1
cases: [{name: one, dtype: fp32, shape: [5]}]
"""
HANGS = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], **{options})
with open({file!r} + ".part", "w") as told:
    told.write(f"{{os.getpid()}} {{child.pid}}")
os.rename({file!r} + ".part", {file!r})
while True:
    pass
"""
LINUX = pytest.mark.skipif(
    not os.path.exists("/proc/self/stat"), reason="needs /proc to see processes"
)


def alive(pid: int) -> bool:
    """Whether a process is there and no mere entry that waits to be collected."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def eventually(condition) -> bool:
    """Whether it comes true within half a minute."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.02)
    return False


def told(file: Path) -> list[int]:
    """The process and its child, once they said so."""
    assert eventually(file.exists)
    return [int(word) for word in file.read_text().split()]


def clear(started: list[int]) -> None:
    """End what a fault left behind."""
    for pid in started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def providers(tmp_path, file, options="dict()"):
    """A command and a function of a user, each of which starts a child and then hangs."""
    text = HANGS.format(file=str(file), options=options)
    (tmp_path / "hangs.py").write_text(text)
    body = "".join(f"    {line}\n" for line in text.splitlines())
    (tmp_path / "mine.py").write_text(f"def f(g, x):\n{body}")
    return {
        "command": f"command:{sys.executable} {tmp_path / 'hangs.py'}",
        "python": f"python:{tmp_path / 'mine.py'}:f",
    }


@LINUX
@pytest.mark.parametrize("kind", ["command", "python"])
def test_what_a_killed_run_had_started_goes_with_it(tmp_path, kind):
    """SIGKILL: nobody in the run gets to say goodbye."""
    (tmp_path / "cases.yaml").write_text(CASES)
    name = providers(tmp_path, tmp_path / "told")[kind]
    words = [sys.executable, "-m", "lsbench", "run", "cases.yaml", "-q", "--provider", name]
    run = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        started = told(tmp_path / "told")
        assert all(map(alive, started))
    finally:
        run.kill()
        run.wait()
    gone = eventually(lambda: not any(map(alive, started)))
    clear(started)
    assert gone


@LINUX
@pytest.mark.parametrize("kind", ["command", "python"])
@pytest.mark.parametrize("options", ["dict()", "dict(start_new_session=True)"])
def test_a_timeout_ends_grandchildren_too(tmp_path, kind, options):
    """Those in the group of the child, and those that made one of their own."""
    (tmp_path / "cases.yaml").write_text(CASES)
    name = providers(tmp_path, tmp_path / "told", options)[kind]
    words = [sys.executable, "-m", "lsbench", "run", "cases.yaml", "-q", "--timeout", "2"]
    done = subprocess.run([*words, "--provider", name], cwd=tmp_path, capture_output=True)
    assert done.returncode == 3
    started = told(tmp_path / "told")
    gone = eventually(lambda: not any(map(alive, started)))
    clear(started)
    assert gone


def sleeper():
    return processes.start([sys.executable, "-c", "import time; time.sleep(600)"])


@LINUX
def test_a_watchdog_that_was_killed_is_replaced_and_told_everything():
    first = sleeper()
    guard = processes._guard(os.getpid())
    guard._watchdog.kill()
    guard._watchdog.wait()
    second = sleeper()
    replacement = guard._watchdog
    guard.close()
    assert replacement.returncode == 0
    for child in (first, second):
        child.wait(30)
        assert child.returncode == -signal.SIGKILL
    processes._guard.cache_clear()


def test_a_child_that_was_let_go_is_left_alone(tmp_path):
    """Its number may be another's by then."""
    child = sleeper()
    watchdog.watch([f"+{child.pid}\n", f"-{child.pid}\n"])
    assert child.poll() is None
    watchdog.watch([f"+{child.pid}\n"])
    assert child.wait(30) == -signal.SIGKILL
    processes.end(child)
