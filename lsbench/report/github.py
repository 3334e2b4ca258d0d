"""GitHub Actions: annotations at the lines of the case files, and the step's summary.

GitHub shows ten annotations of a kind and step; so the worst nine are written and the tenth says
how many more there are. A summary may hold 1 MiB.
"""

from __future__ import annotations

import os
from pathlib import Path

from lsbench import output
from lsbench.records import Run
from lsbench.report.failures import Failure, failures, place
from lsbench.report.markdown import markdown

ANNOTATIONS = 10
SUMMARY_LIMIT = 1 << 20


def github(run: Run) -> str:
    """The workflow commands of a run, one annotation a line; empty where nothing failed."""
    found = failures(run)
    shown = found if len(found) <= ANNOTATIONS else found[: ANNOTATIONS - 1]
    lines = [_annotation(failure) for failure in shown]
    if len(shown) < len(found):
        lines.append(
            f"::error title=lsbench::{len(found) - len(shown)} more failed: see the summary"
        )
    return "".join(f"{line}\n" for line in lines)


def write_summary(run: Run) -> None:
    """Append the Markdown report to the step's summary, where GitHub names a file for it.

    Raises OutputError where that file cannot be written.
    """
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if path:
        output.append(path, markdown(run, SUMMARY_LIMIT) + "\n")


def _annotation(failure: Failure) -> str:
    path, line = place(failure.source)
    message = f"{failure.title}: {failure.message}"
    if failure.row is None and failure.source.startswith("--"):
        return f"::error title=lsbench::{_data(message)}"
    where = f"file={_property(_relative(path))},line={line}"
    return f"::error {where},title={_property(f'lsbench {failure.rule}')}::{_data(message)}"


def _relative(path: str) -> str:
    """The path as GitHub knows it: from the top of the repository."""
    top = os.environ.get("GITHUB_WORKSPACE")
    absolute = Path(path).absolute()
    if top and absolute.is_relative_to(top):
        return absolute.relative_to(top).as_posix()
    return Path(path).as_posix()


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
