"""The exit status of a run or a sweep, from its rows."""

from __future__ import annotations

from collections.abc import Sequence

from lsbench.records import Row

EXIT_PASS, EXIT_GATE, EXIT_NOT_RUN, EXIT_NOTHING, EXIT_INTERRUPTED = 0, 1, 3, 5, 130


def exit_code(rows: Sequence[Row]) -> int:
    """0 all gates pass, 1 a gate failed, 3 a row could not be run, 5 there is none."""
    if not rows:
        return EXIT_NOTHING
    if any(not row.passed for row in rows):
        return EXIT_GATE
    if any({"crashed", "skipped"} & set(row.verdicts) for row in rows):
        return EXIT_NOT_RUN
    return EXIT_PASS
