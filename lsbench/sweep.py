"""A sweep: shards run here or on a cluster, and totals kept as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

from lsbench import __version__, environment, gates, shards, verdicts
from lsbench.errors import ProviderError
from lsbench.exits import EXIT_INTERRUPTED, exit_code
from lsbench.gates import GateRule
from lsbench.parts import KEY, Part
from lsbench.providers.isolation import Limits, open_provider
from lsbench.records import Accuracy, Row, Run
from lsbench.shards import Lost, Outcome

PATIENCE = 3
"""Shards lost in a row after which a provider is given up: each may have cost a timeout."""


class Observer:
    """What a sweep tells while it goes on; this one says nothing. Calls come from any thread."""

    def started(self, elements: int) -> None:
        """The sweep begins: so many elements are ahead."""

    def row(self, label: str) -> None:
        """A row begins."""

    def judged(self, elements: int) -> None:
        """So many elements more are judged."""


def sweep(
    parts: Sequence[Part],
    *,
    threads: int | None = None,
    dask: str | None = None,
    rules: Sequence[GateRule] = (),
    command: str = "lsbench.sweep",
    observer: Observer | None = None,
    checkpoint: Callable[[Run], None] | None = None,
    limits: Limits | None = None,
) -> Run:
    """Do what is left of the parts, one after the other, and return the results document.

    Shards run on ``threads`` threads here (default: one per processor), or on the Dask cluster of
    that scheduler address. ``checkpoint`` is given the document after every shard. A shard on which
    the provider fails is recorded as lost and the others go on, until :data:`PATIENCE` in a row
    were lost. On KeyboardInterrupt the document so far is returned, ``complete`` False.
    """
    observer = observer or Observer()
    document = _Document(parts, rules, command, limits)
    observer.started(sum(part.elements_of(shard) for part in parts for shard in part.left))
    try:
        for part in parts:
            observer.row(f"{part.label} {part.plan.dtype} {part.plan.provider}")
            in_a_row = 0
            with closing(_outcomes(part, threads, dask, observer, limits)) as found:
                for outcome in found:
                    part.add(outcome)
                    if checkpoint is not None:
                        checkpoint(document.run(complete=False))
                    in_a_row = in_a_row + 1 if isinstance(outcome, Lost) else 0
                    if in_a_row == PATIENCE:
                        break
    except KeyboardInterrupt:
        return document.run(complete=False)
    return document.run(complete=True)


def document(parts: Sequence[Part], rules: Sequence[GateRule], command: str) -> Run:
    """The results document of parts that are done, as :func:`sweep` would return it."""
    return _Document(parts, rules, command).run(complete=True)


def _outcomes(
    part: Part,
    threads: int | None,
    dask: str | None,
    observer: Observer,
    limits: Limits | None,
) -> Generator[Outcome | Lost, None, None]:
    if dask is None:
        yield from shards.outcomes(
            part.plan, part.left, threads=threads, tick=observer.judged, limits=limits
        )
        return
    from lsbench import cluster

    for outcome in cluster.outcomes(dask, part.plan, part.left, limits):
        observer.judged(part.elements_of(outcome.shard))
        yield outcome


class _Document:
    """The results document while the parts grow."""

    def __init__(
        self,
        parts: Sequence[Part],
        rules: Sequence[GateRule],
        command: str,
        limits: Limits | None = None,
    ) -> None:
        self._parts, self._rules, self._command, self._limits = parts, rules, command, limits
        self._environment = environment.collect()
        self._commit = environment.git_commit()
        self._started, self._clock = datetime.now(UTC), time.monotonic()
        self._rows: dict[int, tuple[tuple[int, int], Row]] = {}

    def run(self, *, complete: bool) -> Run:
        """The document as it stands."""
        rows = tuple(self._row(i, part) for i, part in enumerate(self._parts))
        final = all(part.is_whole for part in self._parts)
        return Run(
            kind="sweep",
            lsbench=__version__,
            git_commit=self._commit,
            command=self._command,
            seed=self._parts[0].plan.options.seed if self._parts else 0,
            started=self._started.isoformat(timespec="seconds"),
            duration=round(time.monotonic() - self._clock, 3),
            environment=self._environment,
            rows=rows,
            complete=complete,
            exit_code=exit_code(rows) if complete else EXIT_INTERRUPTED,
            extra={KEY: [part.to_plain(final=final) for part in self._parts]},
        )

    def _row(self, i: int, part: Part) -> Row:
        state = len(part.done), len(part.lost)
        held, row = self._rows.get(i, (None, None))
        if row is None or held != state:
            row = _judged(part, self._rules, self._limits)
            self._rows[i] = state, row
        return row


def _judged(part: Part, rules: Sequence[GateRule], limits: Limits | None) -> Row:
    """A part's row with its gates and verdicts."""
    row = part.row()
    errors = row.accuracy
    if errors is None:
        return row
    row = replace(row, gates=(*row.gates, *gates.evaluate(rules, row)))
    failures = {verdict for verdict, _ in part.lost.values()}
    return replace(row, verdicts=verdicts.order(failures | _kinds(part, row, errors, limits)))


def _kinds(part: Part, row: Row, errors: Accuracy, limits: Limits | None) -> set[str]:
    flushes = reads_zero = False
    if errors.flushed > errors.spurious_zero and not row.options.ftz and not part.left:
        provider = open_provider(part.plan.provider, limits)
        try:
            flushes, reads_zero = verdicts.probe_subnormals(provider, part.plan.fmt, row.options)
        except ProviderError:
            pass  # it computed every shard; what it makes of these two pairs stays unknown
        finally:
            provider.close()
    return verdicts.of_accuracy(errors, row.gates, flushes=flushes, reads_zero=reads_zero)
