"""The errors that lsbench raises for what a user can mend.

LsbenchError
├── UsageError          a wrong argument of the command line or of a function      (exit 2)
│   ├── CaseFileError   a case file that cannot be read or is not valid            (exit 2)
│   ├── TensorError     shapes, dtypes, strides or memory that do not fit          (exit 2)
│   └── ResultsError    a results file that cannot be read or is not valid         (exit 2)
├── SelectionError      the options select no case                                 (exit 5)
├── BaselineError       a baseline that is missing                                 (exit 4)
├── ProviderError       a provider that failed on a case                           (exit 3)
├── OutputError         a file that cannot be written                              (exit 3)
└── BuildError          the compiled part is missing or cannot run here            (exit 3)
"""

from __future__ import annotations


class LsbenchError(Exception):
    """Base of all errors that lsbench raises on purpose; its text is one clear line."""

    exit_code = 3


class UsageError(LsbenchError, ValueError):
    """An argument is wrong; nothing was run."""

    exit_code = 2


class CaseFileError(UsageError):
    """A case file is unreadable or invalid; the text holds one line per fault, with its place."""


class TensorError(UsageError):
    """Shape, dtype, strides, storage or overlap of a tensor is wrong."""


class ResultsError(UsageError):
    """A results file is unreadable, of an unknown schema, or damaged."""


class SelectionError(LsbenchError):
    """The options select nothing; nothing was run."""

    exit_code = 5


class BaselineError(LsbenchError):
    """There is no baseline to compare with."""

    exit_code = 4


class ProviderError(LsbenchError):
    """A provider raised, returned something else than a gradient, or died.

    ``verdict`` says what the row is recorded as: "crashed", or "contract" for a wrong shape or
    dtype or for changed inputs. ``details`` is longer text, such as the user's traceback.
    ``brought`` tells that the result is in place all the same: it can be judged.
    """

    def __init__(
        self, message: str, *, verdict: str = "crashed", details: str = "", brought: bool = False
    ) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.details = details
        self.brought = brought


class OutputError(LsbenchError):
    """A file could not be written."""


class BuildError(LsbenchError):
    """The compiled part of lsbench is missing, or the processor cannot run it."""
