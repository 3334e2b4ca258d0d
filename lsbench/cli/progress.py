"""Progress on a terminal: one bar on standard error, drawn between measurements only."""

from __future__ import annotations

import time
from types import TracebackType

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lsbench.records import Row
from lsbench.report.console import console
from lsbench.report.labels import shortened
from lsbench.runner import Observer

_INTERVAL = 0.1
_WIDTH = 72


class Bar(Observer):
    """Draws nothing unless standard error is a terminal; never draws from a thread of its own."""

    def __init__(self, *, quiet: bool = False) -> None:
        out = console(stderr=True)
        self._on = out.is_terminal and not quiet
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            console=out,
            auto_refresh=False,
            transient=True,
            disable=not self._on,
        )
        self._task = self._progress.add_task("", total=None)
        self._drawn = 0.0

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def started(self, total: int) -> None:
        """Set the length of the bar."""
        self._progress.update(self._task, total=total)

    def row(self, case: str, provider: str) -> None:
        """Name the row that runs."""
        self._draw(f"{case[:34]} · {shortened(provider, 16)}")

    def step(self, what: str, done: int, total: int) -> None:
        """Say how far a long step is."""
        if time.monotonic() - self._drawn > _INTERVAL:
            self._draw(f"{what} {100 * done // total}%" if done else what)

    def finished(self, row: Row) -> None:
        """Advance by a row."""
        self._progress.advance(self._task)

    def _draw(self, words: str) -> None:
        if self._on:
            self._progress.update(self._task, description=words)
            self._progress.refresh()
            self._drawn = time.monotonic()


class Meter:
    """One line of progress on a terminal's standard error, between the lines that are printed."""

    def __init__(self) -> None:
        self._on = console(stderr=True).is_terminal
        self._name, self._drawn = "", 0.0

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *error: object) -> None:
        self._write("")

    def name(self, words: str) -> None:
        """What is measured from now on."""
        self._name = words
        self._write(words)

    def tell(self, share: float) -> None:
        """How much of it is done."""
        if time.monotonic() - self._drawn > _INTERVAL:
            self._write(f"{100 * share:3.0f} % {self._name}")
            self._drawn = time.monotonic()

    def say(self, text: str) -> None:
        """Print lines on standard output."""
        self._write("")
        click.echo(text)

    def _write(self, words: str) -> None:
        if self._on:
            click.echo(f"\r{words[:_WIDTH]:<{_WIDTH}}\r", err=True, nl=False)
