"""The end of a run: its verdict in words, and the gates that no row exercised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lsbench import gates
from lsbench.exits import EXIT_GATE, EXIT_NOT_RUN, EXIT_PASS, exit_code
from lsbench.gates import GateRule
from lsbench.records import Gate, Row, Run

Rules = Sequence[Sequence[GateRule]]
"""The rules of every row that was selected, in the order of the rows."""


def settle(run: Run, rules: Rules, *, allow_unused: bool = False, narrowed: bool = False) -> Run:
    """The run with its verdict, and with the gates that no row exercised, which fail.

    A run that ended early is not held to its unused gates, nor, if it was ``narrowed`` to some of a
    file's cases or providers, to those of the file; a gate of the command line is always meant for
    what runs.
    """
    unused: tuple[Gate, ...] = ()
    if run.complete and len(run.rows) == len(rules) and not allow_unused:
        unused = gates.unused(zip(rules, run.rows, strict=True))
        if narrowed:
            unused = tuple(gate for gate in unused if gate.source == gates.COMMAND_LINE)
    code = EXIT_GATE if unused and run.exit_code in (EXIT_PASS, EXIT_NOT_RUN) else run.exit_code
    words = verdict(run.rows, unused, complete=run.complete)
    return replace(run, gates=unused, exit_code=code, verdict=words)


def verdict(rows: Sequence[Row], unused: Sequence[Gate], *, complete: bool) -> str:
    """The outcome in one line."""
    failed = sum(not row.passed for row in rows)
    unrun = sum(bool({"crashed", "skipped"} & set(row.verdicts)) for row in rows)
    counted = f"{len(rows)} row{'s' * (len(rows) != 1)}"
    words = [f"{failed} of {counted} failed" if failed else f"{counted}, none failed"]
    words += [f"{unrun} could not be run"] if unrun else []
    words += [f"gate {gate.name} {gate.rule} {gate.found}" for gate in unused]
    words += [] if complete else ["interrupted"]
    return ", ".join(words)


def judge_again(run: Run, rules: Rules) -> Run:
    """The run with its gates evaluated anew, after its figures were changed on purpose."""
    rows = []
    for own, row in zip(rules, run.rows, strict=False):
        again = gates.evaluate(own, row)
        # Gates of the contract stand before those of the rules.
        contract = row.gates[: len(row.gates) - len(again)]
        rows.append(replace(row, gates=(*contract, *again)))
    return replace(run, rows=tuple(rows), exit_code=exit_code(rows))
