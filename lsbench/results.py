"""Results on disk: one JSON document per run, written whole, read with suspicion.

The document is the tree of :mod:`lsbench.records`, one key a line and one row a line, so that two
documents can be compared by eye. Reading refuses, in one line that names the place, everything that
writing would not have written: duplicate keys, NaN tokens, numbers out of range, unknown or missing
keys, wrong types, impossible counts. An older schema is upgraded in memory, a newer one refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from lsbench import __version__, output
from lsbench.codec import Misfit, decode, encode, shown
from lsbench.errors import ResultsError
from lsbench.records import SCHEMA, VERDICTS, Accuracy, Row, Run, Throughput

LIMIT = 1 << 28
"""Largest document that is read, in bytes."""

check_writable = output.check_writable


def dumps(run: Run) -> str:
    """The JSON document of a run."""
    plain = encode(run)
    rows = plain.pop("rows")
    head = {"schema": plain.pop("schema"), **plain}
    lines = [f"  {_json(key)}: {_json(value)}," for key, value in head.items()]
    body = ",\n".join(f"    {_json(row)}" for row in rows)
    return "\n".join(["{", *lines, f'  "rows": [\n{body}\n  ]' if rows else '  "rows": []', "}\n"])


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def save(run: Run, path: str | Path) -> None:
    """Write a run's document atomically; raises OutputError where it cannot be written."""
    output.write(path, dumps(run))


def load(path: str | Path) -> Run:
    """Read a run's document; raises ResultsError, one line, for anything that is not one."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(LIMIT + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ResultsError(f"cannot read results {path}: {reason}") from None
    if len(data) > LIMIT:
        raise ResultsError(f"{path}: larger than {LIMIT >> 20} MiB: expected a results file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ResultsError(f"{path}: byte {error.start} is not UTF-8: expected JSON") from None
    return loads(text, str(path))


def loads(text: str, name: str = "results") -> Run:
    """Read a document from text; ``name`` is what errors call it. Raises ResultsError."""
    try:
        plain = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
        schema = _schema(plain)
        run = decode(Run, plain | {"schema": SCHEMA}, fill=schema < SCHEMA)
        _check(run)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise ResultsError(f"{name}: not JSON: {error.msg} at {place}") from None
    except RecursionError:
        raise ResultsError(f"{name}: nested too deeply: expected a results file") from None
    except Misfit as error:
        raise ResultsError(f"{name}: {error}") from None
    except ValueError:
        # What is left is Python's limit on the digits of an integer.
        raise ResultsError(f"{name}: found an integer beyond 64 bits") from None
    return run


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in made if keys.count(key) > 1)
        raise Misfit("", f"the key {shown(twice)} stands twice in one object")
    return made


def _constant(token: str) -> NoReturn:
    raise Misfit("", f"found {token}, which is not JSON: expected a number")


def _schema(plain: object) -> int:
    if not isinstance(plain, dict):
        raise Misfit("", f"found {shown(plain)}: expected an object, the results of a run")
    schema = plain.get("schema")
    if isinstance(schema, bool) or not isinstance(schema, int) or schema < 1:
        found = shown(schema) if "schema" in plain else "none"
        raise Misfit("schema", f"found {found}: expected a number from 1 to {SCHEMA}")
    if schema > SCHEMA:
        newer = shown(schema)
        raise Misfit(
            "schema",
            f"{newer} is newer than {SCHEMA}, the newest that lsbench {__version__} reads: "
            "upgrade lsbench, or record the results again",
        )
    return schema


def _check(run: Run) -> None:
    """Raise Misfit for what the types allow and no run writes."""
    if not 0 <= run.exit_code <= 255:
        raise Misfit("exit_code", f"found {run.exit_code}: expected 0 to 255")
    for i, row in enumerate(run.rows):
        for place, message in _faults(row):
            raise Misfit(f"rows[{i}].{place}", message)


_HASH = re.compile(r"[0-9a-f]{64}|")


def _faults(row: Row) -> Iterator[tuple[str, str]]:
    if any(length < 0 for length in row.shape):
        yield "shape", "found a negative length"
    for name in ("input_hash", "output_hash"):
        if not _HASH.fullmatch(getattr(row, name)):
            yield name, f"found {shown(getattr(row, name))}: expected 64 hex digits, or none"
    for verdict in row.verdicts:
        if verdict not in VERDICTS:
            yield "verdicts", f"unknown verdict {shown(verdict)}"
    if row.accuracy is not None:
        yield from _accuracy_faults(row.accuracy)
    if row.throughput is not None:
        yield from _throughput_faults(row.throughput)


_COUNTS = ("measured", "misrounded", "nonfinite", "nan_lost", "zero_sign", "flushed", "daz")
_ERRORS = ("max_ulp", "mean_ulp", "rms_ulp", "p50_ulp", "p99_ulp", "p999_ulp", "max_ulp_ftz")


def _accuracy_faults(errors: Accuracy) -> Iterator[tuple[str, str]]:
    for name in ("elements", *_COUNTS, "spurious_zero"):
        if not 0 <= getattr(errors, name) <= errors.elements:
            yield f"accuracy.{name}", f"found {getattr(errors, name)} of {errors.elements} elements"
    for name in _ERRORS:
        if getattr(errors, name) < 0:
            yield f"accuracy.{name}", f"found {getattr(errors, name)}: expected 0 or more"


def _throughput_faults(timed: Throughput) -> Iterator[tuple[str, str]]:
    if not timed.arms:
        yield "throughput.arms", "found none: expected the provider's"
    for i, arm in enumerate(timed.arms):
        if not all(0 < s < float("inf") for s in arm.seconds):
            yield f"throughput.arms[{i}].seconds", "expected positive times"
        if len(arm.seconds) != len(arm.blocks):
            count = f"{len(arm.seconds)} samples in {len(arm.blocks)} blocks"
            yield f"throughput.arms[{i}]", f"found {count}: expected a block for each sample"
        if arm.order and len(arm.order) != len(arm.seconds):
            count = f"{len(arm.seconds)} samples in {len(arm.order)} turns"
            yield f"throughput.arms[{i}]", f"found {count}: expected a turn for each sample"
