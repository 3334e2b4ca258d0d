"""Judge tensors that were computed elsewhere: rows as a run has them, without a computation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from lsbench import __version__, accuracy, determinism, environment, exchange, gates, standards
from lsbench import verdicts as verdict
from lsbench.errors import LsbenchError, TensorError
from lsbench.exchange import Entry
from lsbench.exits import exit_code
from lsbench.formats import Format, by_name
from lsbench.gates import GateRule
from lsbench.operator import DEFAULT_PRODUCT
from lsbench.providers.base import Array
from lsbench.records import Accuracy, Options, Row, Run
from lsbench.views import View


@dataclass(frozen=True)
class Dump:
    """Three tensors of one shape and format, and who is said to have computed the third."""

    fmt: Format
    grad_output: Array
    self: Array
    grad_input: Array
    provider: str = "dump"
    source: str = ""
    """Where grad_input came from."""
    options: Options = field(default_factory=Options)


def check(
    dump: Dump,
    rules: Sequence[GateRule] = (),
    *,
    reference: str = "certified",
    row: Row | None = None,
) -> Row:
    """Judge one dump; ``row`` gives what is known of its case.

    Raises TensorError for tensors that differ in shape or dtype.
    """
    named = {"grad_output": dump.grad_output, "self": dump.self, "grad_input": dump.grad_input}
    for name, array in named.items():
        if array.shape != dump.self.shape:
            raise TensorError(
                f"{name} has shape {list(array.shape)}, expected {list(dump.self.shape)}, "
                "the shape of self"
            )
    fmt, options = dump.fmt, dump.options
    tensors = (dump.grad_output, dump.self, dump.grad_input)
    mode, seed = options.rounding, options.seed
    errors = accuracy.judge(fmt, mode, seed, *tensors, reference=reference, ftz=options.ftz)
    row = row or blank(dump)
    row = replace(
        row,
        accuracy=errors,
        standards=standards.evaluate(fmt, errors, *tensors),
        input_hash=determinism.input_hash(fmt, dump.grad_output, dump.self),
        output_hash=determinism.output_hash(fmt, dump.grad_input),
    )
    row = replace(row, gates=gates.evaluate(rules, row))
    flushes, reads_zero = _subnormals(errors)
    found = verdict.of_accuracy(errors, row.gates, flushes=flushes, reads_zero=reads_zero)
    return replace(row, verdicts=verdict.order(found))


def _subnormals(errors: Accuracy) -> tuple[bool, bool]:
    """Whether a dump shows flushed results, or subnormal inputs read as zero.

    A provider can be probed, a dump cannot: losses that reading subnormal inputs as zero explains
    count as that, the others as a flush.
    """
    lost = errors.flushed - errors.spurious_zero
    return lost > errors.daz, 0 < lost <= errors.daz


def blank(dump: Dump, case: str = "check") -> Row:
    """The row of a dump before it is judged."""
    shape = dump.self.shape
    layout = {
        name: str(View.of(getattr(dump, name)))
        for name in ("grad_output", "self", "grad_input")
        if dump.self.size
    }
    return Row(
        case=case,
        dtype=dump.fmt.name,
        shape=shape,
        layout=layout,
        product=DEFAULT_PRODUCT,
        tags=(),
        source=dump.source,
        seed=dump.options.seed,
        provider=dump.provider,
        provider_version="",
        options=dump.options,
        input_hash="",
        output_hash="",
        verdicts=(),
        reason="",
        notes=(),
        status=None,
        expected_status=None,
        accuracy=None,
        standards=(),
        determinism=None,
        throughput=None,
        gates=(),
        reproduce="",
    )


def check_folder(
    folder: Path,
    *,
    provider: str = "dump",
    rules: Sequence[GateRule] = (),
    reference: str = "certified",
) -> tuple[list[Row], list[tuple[GateRule, ...]]]:
    """Judge what came back to an exported folder: a row for each case, and the rules of each.

    A case whose grad_input is not there is skipped, one whose files do not fit breaks the contract;
    both are rows with a reason. ``rules`` come after the cases' own. Raises ResultsError for a
    folder without a good manifest, TensorError for inputs that are not the exported ones.
    """
    rows, held = [], []
    for entry in exchange.load(folder).cases:
        own = (*exchange.rules_of(entry), *rules)
        rows.append(_entry_row(folder, entry, provider, own, reference))
        held.append(own)
    return rows, held


def _entry_row(
    folder: Path, entry: Entry, provider: str, rules: Sequence[GateRule], reference: str
) -> Row:
    grad_output, self = (exchange.read(folder, entry, name) for name in exchange.INPUTS)
    exchange.check_inputs(entry, grad_output, self)
    fmt = by_name(entry.dtype)
    nothing = Dump(fmt, grad_output, self, self, provider, entry.source, entry.options)
    row = replace(
        blank(nothing, entry.case),
        product=entry.product,
        tags=entry.tags,
        layout=dict(entry.layout),
        seed=entry.seed,
        source=entry.source,
    )
    path = folder / entry.files["grad_input"]
    if not path.exists():
        return _closed(row, rules, f"no gradInput came back: expected {path}", "skipped")
    try:
        found = exchange.read(folder, entry, "grad_input")
        return check(replace(nothing, grad_input=found), rules, reference=reference, row=row)
    except LsbenchError as error:
        return _closed(row, rules, str(error), "contract")


def _closed(row: Row, rules: Sequence[GateRule], reason: str, why: str) -> Row:
    row = replace(row, reason=reason, verdicts=(why,))
    return replace(row, gates=gates.evaluate(rules, row))


class Clock:
    """When a check began."""

    def __init__(self) -> None:
        self._started, self._clock = datetime.now(UTC), time.monotonic()

    def run(self, rows: Sequence[Row], command: str) -> Run:
        """The document of the checked rows."""
        return Run(
            kind="check",
            lsbench=__version__,
            git_commit=environment.git_commit(),
            command=command,
            seed=rows[0].seed if rows else 0,
            started=self._started.isoformat(timespec="seconds"),
            duration=round(time.monotonic() - self._clock, 3),
            environment=environment.collect(),
            rows=tuple(rows),
            complete=True,
            exit_code=exit_code(rows),
        )
