"""Progress of a sweep on a terminal: share, rate and time left on standard error."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from lsbench.report.console import console
from lsbench.sweep import Observer

_INTERVAL = 0.2


class Rate(Observer):
    """Draws nothing unless standard error is a terminal; threads only add to a counter."""

    def __init__(self, *, quiet: bool = False) -> None:
        out = console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
            console=out,
            transient=True,
            auto_refresh=False,
            disable=quiet or not out.is_terminal,
        )
        self._task = self._progress.add_task("", total=None, rate="")
        self._lock = threading.Lock()
        self._judged, self._began, self._drawn = 0, time.monotonic(), 0.0

    def __enter__(self) -> Rate:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def started(self, elements: int) -> None:
        """Set the length of the bar."""
        self._began = time.monotonic()
        self._progress.update(self._task, total=elements)

    def row(self, label: str) -> None:
        """Name the row that runs."""
        self._progress.update(self._task, description=label[:40])

    def judged(self, elements: int) -> None:
        """Advance; drawn a few times a second."""
        with self._lock:
            self._judged += elements
            now = time.monotonic()
            if now - self._drawn < _INTERVAL:
                return
            self._drawn = now
            words = f"{self._judged / max(now - self._began, 1e-9) / 1e6:.1f} Melem/s"
            self._progress.update(self._task, completed=self._judged, rate=words)
            self._progress.refresh()
