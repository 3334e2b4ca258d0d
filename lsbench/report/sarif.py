"""SARIF 2.1.0: a result per failed gate, at the line of the case, for code-scanning services."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lsbench.figures import FIGURES
from lsbench.records import Run
from lsbench.report.failures import Failure, failures, figures_text, one_line, place

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(run: Run) -> str:
    """The SARIF document of a run."""
    found = failures(run)
    rules = list(dict.fromkeys(failure.rule for failure in found))
    document = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "lsbench",
                        "semanticVersion": run.lsbench,
                        "rules": [_rule(name) for name in rules],
                    }
                },
                "invocations": [_invocation(run)],
                "results": [_result(failure, rules.index(failure.rule)) for failure in found],
                "columnKind": "unicodeCodePoints",
                "properties": {"seed": run.seed, "gitCommit": run.git_commit},
            }
        ],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _rule(name: str) -> dict[str, Any]:
    doc = FIGURES[name].doc if name in FIGURES else _OTHER.get(name, f"gate {name}")
    return {
        "id": name,
        "shortDescription": {"text": doc},
        "defaultConfiguration": {"level": "error"},
    }


_OTHER = {
    "crashed": "the provider gave no result",
    "contract": "the operator's contract holds: shapes, dtypes, inputs and gaps untouched",
    "baseline": "the row can be compared with the baseline",
    "baseline.accuracy": "accuracy is no worse than the baseline's",
    "baseline.determinism": "determinism is no worse than the baseline's",
    "baseline.speed": "speed is no worse than the baseline's",
    "baseline.waiver": "no waiver of the baseline has expired",
}


def _result(failure: Failure, index: int) -> dict[str, Any]:
    path, line = place(failure.source)
    text = f"{failure.title}: {failure.message}"
    result: dict[str, Any] = {
        "ruleId": failure.rule,
        "ruleIndex": index,
        "level": "error",
        "message": {"text": text},
        # The identity without the figures: the same failure of a later run is the same finding.
        "partialFingerprints": {"case/v1": _fingerprint(failure)},
    }
    if not path.startswith("--"):
        location = {"artifactLocation": {"uri": _uri(path)}, "region": {"startLine": line}}
        result["locations"] = [{"physicalLocation": location}]
    if failure.row is not None:
        result["properties"] = {
            "verdicts": list(failure.row.verdicts),
            "figures": figures_text(failure.row),
        }
    return result


def _fingerprint(failure: Failure) -> str:
    identity = (*(failure.row.identity if failure.row else ()), failure.rule)
    return hashlib.sha256("\0".join(identity).encode("utf-8", "backslashreplace")).hexdigest()


def _uri(path: str) -> str:
    """A relative reference for a relative path, as services expect; a file URI otherwise."""
    file = Path(path)
    quoted = quote(file.as_posix().encode("utf-8", "backslashreplace"))
    return f"file://{quoted}" if file.is_absolute() else quoted


def _invocation(run: Run) -> dict[str, Any]:
    made: dict[str, Any] = {
        "commandLine": one_line(run.command),
        "executionSuccessful": run.complete,
        "exitCode": run.exit_code,
    }
    try:
        start = datetime.fromisoformat(run.started)
    except ValueError:
        return made
    end = start + timedelta(seconds=run.duration)
    for key, time in (("startTimeUtc", start), ("endTimeUtc", end)):
        made[key] = time.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    return made
