"""Cases × providers → rows → a run.

A row is the operator's first phase, the provider's own refusals, one computation, then the judge,
the standards, determinism, throughput, the gates and at last the verdicts (:mod:`lsbench.row`).
Nothing here prints; progress goes to an :class:`Observer`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from lsbench import __version__, environment
from lsbench.cases import Case
from lsbench.exits import EXIT_INTERRUPTED, EXIT_PASS, exit_code
from lsbench.gates import GateRule
from lsbench.providers.isolation import open_provider
from lsbench.records import Row, Run
from lsbench.row import Settings, run_row

CHECKPOINT_SECONDS = 5.0


class Observer:
    """What a run tells while it goes on; this one says nothing."""

    def started(self, total: int) -> None:
        """The run begins: ``total`` rows are ahead."""

    def row(self, case: str, provider: str) -> None:
        """A row begins."""

    def step(self, what: str, done: int, total: int) -> None:
        """A long step of the row has come so far."""

    def finished(self, row: Row) -> None:
        """A row is done."""


@dataclass(frozen=True)
class Selection:
    """One row to be run."""

    case: Case
    provider: str


def select(cases: Sequence[Case], providers: Sequence[str] = ()) -> list[Selection]:
    """Cross every case with its own providers, or with the given ones instead."""
    return [Selection(case, name) for case in cases for name in (providers or case.providers)]


def override(case: Case, rules: Sequence[GateRule] = (), **options: object) -> Case:
    """The case with more gates and some of its options replaced; None leaves one as it is."""
    given = {name: value for name, value in options.items() if value is not None}
    case = replace(case, gates=(*case.gates, *rules))
    return replace(case, options=replace(case.options, **given))  # type: ignore[arg-type]


def run(
    selections: Sequence[Selection],
    settings: Settings | None = None,
    *,
    command: str = "lsbench.run",
    fail_fast: bool = False,
    observer: Observer | None = None,
    checkpoint: Callable[[Run], None] | None = None,
) -> Run:
    """Run the selected rows in order and return the results document.

    A row that fails is recorded and the next one runs; KeyboardInterrupt ends the run with what is
    finished (``complete`` is False then). ``checkpoint`` is given the document so far every few
    seconds, so that even a kill loses little. Raises UsageError for a provider name nobody knows,
    before anything runs.
    """
    settings, observer = settings or Settings(), observer or Observer()
    names = dict.fromkeys(selection.provider for selection in selections)
    providers = {name: open_provider(name, settings.limits) for name in names}
    document = _Document(command, selections)
    saved = time.monotonic()
    observer.started(len(selections))
    try:
        for selection in selections:
            observer.row(selection.case.name, selection.provider)
            row = run_row(selection.case, providers[selection.provider], settings, observer.step)
            document.rows.append(row)
            observer.finished(row)
            if checkpoint is not None and time.monotonic() - saved > CHECKPOINT_SECONDS:
                checkpoint(document.run(complete=False))
                saved = time.monotonic()
            if fail_fast and exit_code([row]) != EXIT_PASS:
                break
    except KeyboardInterrupt:
        return document.run(complete=False)
    finally:
        for provider in providers.values():
            provider.close()
    return document.run(complete=True)


class _Document:
    """The results document while it grows."""

    def __init__(self, command: str, selections: Sequence[Selection]) -> None:
        self.rows: list[Row] = []
        self._command = command
        self._seed = selections[0].case.seed if selections else 0
        self._environment = environment.collect()
        files = dict.fromkeys(s.case.source.rpartition(":")[0] for s in selections)
        self._commit = environment.git_commit(list(files))
        self._started, self._clock = datetime.now(UTC), time.monotonic()

    def run(self, *, complete: bool) -> Run:
        """The document as it stands."""
        return Run(
            kind="run",
            lsbench=__version__,
            git_commit=self._commit,
            command=self._command,
            seed=self._seed,
            started=self._started.isoformat(timespec="seconds"),
            duration=round(time.monotonic() - self._clock, 3),
            environment=self._environment,
            rows=tuple(self.rows),
            complete=complete,
            exit_code=exit_code(self.rows) if complete else EXIT_INTERRUPTED,
        )
