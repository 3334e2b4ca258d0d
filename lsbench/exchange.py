"""Carry cases to a machine without lsbench and their results back: a folder with a manifest.

``manifest.json`` holds one entry a case: its name, dtype, shape, options, the files of its inputs
relative to the folder, where grad_input is expected, a SHA-256 over the logical bits of the inputs,
and the gates. What came back is judged against the case as exported, whatever became of the case
file since.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lsbench import __version__, determinism, dumps, output
from lsbench.cases import Case, first_phase, tensors
from lsbench.codec import Misfit, decode, encode
from lsbench.errors import OutputError, ResultsError, TensorError
from lsbench.formats import by_name
from lsbench.gates import GateRule
from lsbench.providers.base import Array
from lsbench.records import Options
from lsbench.views import View

MANIFEST = "manifest.json"
SCHEMA = 1
INPUTS = ("grad_output", "self")


@dataclass(frozen=True)
class Rule:
    """A gate of the case."""

    name: str
    value: str
    """With its operator: "<= 1.0"."""
    provider: str | None
    dtype: str | None
    source: str


@dataclass(frozen=True)
class Lying:
    """How a tensor lies in the elements of its file; the file is row-major where there is none."""

    strides: tuple[int, ...]
    offset: int
    storage: int


@dataclass(frozen=True)
class Entry:
    """One case."""

    case: str
    dtype: str
    shape: tuple[int, ...]
    product: str
    seed: int
    tags: tuple[str, ...]
    source: str
    options: Options
    layout: dict[str, str]
    """Layout of each tensor in words, as the case has it."""
    files: dict[str, str]
    """Tensor → file, relative to the folder; that of grad_input is to be made."""
    lying: dict[str, Lying]
    """Tensor → strides in elements, for tensors that were exported as their storage."""
    input_hash: str
    """SHA-256 over shapes and logical bits of grad_output and self."""
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Manifest:
    """The folder's table of contents."""

    schema: int
    lsbench: str
    form: str
    """Suffix of the files: npy, npz, bin, safetensors, pt."""
    bf16: str
    """How bf16 lies in the files: "bfloat16", or "uint16 bit patterns"."""
    cases: tuple[Entry, ...]


def export(
    cases: Sequence[Case], folder: Path, *, form: str = "npy", strided: bool = False
) -> Manifest:
    """Write the inputs of cases and the manifest.

    Negative cases and those that the operator refuses have nothing to compute and are left out.
    With ``strided`` a tensor that is not contiguous is written as its storage, in one dimension.
    Raises OutputError where the folder cannot be written or holds something else already.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OutputError(f"cannot write {folder}: it exists and is not empty")
    computable = [case for case in cases if not case.expect and first_phase(case).status == 0]
    entries = []
    try:
        for number, case in enumerate(computable, 1):
            entries.append(_export(case, folder, f"{number:04d}-{case.family}", form, strided))
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from None
    packed = "uint16 bit patterns" if form in ("npy", "npz", "bin") else "bfloat16"
    manifest = Manifest(SCHEMA, __version__, form, packed, tuple(entries))
    text = json.dumps(encode(manifest), indent=1, ensure_ascii=False)
    output.write(folder / MANIFEST, text + "\n")
    return manifest


def _export(case: Case, folder: Path, stem: str, form: str, strided: bool) -> Entry:
    fmt, held = by_name(case.dtype), tensors(case)
    arrays = {"grad_output": held.grad_output, "self": held.self}
    written: dict[str, Array] = {}
    lying: dict[str, Lying] = {}
    for name, array in arrays.items():
        written[name] = array
        if strided and _is_strided(array):
            written[name], lying[name] = _storage(array)
    if strided and _is_strided(held.grad_input):
        _, lying["grad_input"] = _storage(held.grad_input)
    (folder / stem).mkdir(parents=True)
    files = {name: f"{stem}/{name}.{form}" for name in (*INPUTS, "grad_input")}
    if f".{form}" in dumps.SINGLE:
        for name, array in written.items():
            dumps.write(folder / files[name], fmt, {name: array})
    else:
        files |= dict.fromkeys(INPUTS, f"{stem}/inputs.{form}")
        dumps.write(folder / files["self"], fmt, written)
    return Entry(
        case=case.name,
        dtype=case.dtype,
        shape=case.shape,
        product=case.product,
        seed=case.seed,
        tags=case.tags,
        source=case.source,
        options=case.options,
        layout=dict(case.layout),
        files=files,
        lying=lying,
        input_hash=determinism.input_hash(fmt, held.grad_output, held.self),
        rules=tuple(Rule(r.name, r.text, r.provider, r.dtype, r.source) for r in case.gates),
    )


def _is_strided(array: Array) -> bool:
    return array.size > 0 and not View.of(array).is_contiguous


def _storage(array: Array) -> tuple[Array, Lying]:
    """The stretch of memory that an array covers, and how it lies in it."""
    view = View.of(array)
    lowest = array[tuple(slice(None, None, -1 if s < 0 else 1) for s in array.strides)]
    flat = np.lib.stride_tricks.as_strided(lowest, (view.storage,), (array.itemsize,))
    return flat, Lying(view.strides, view.offset, view.storage)


def rules_of(entry: Entry) -> tuple[GateRule, ...]:
    """The gates of an entry."""
    return tuple(GateRule(r.name, r.value, r.provider, r.dtype, r.source) for r in entry.rules)


def load(folder: Path) -> Manifest:
    """Read a folder's manifest; raises ResultsError, one line, for anything that is not one."""
    path = folder / MANIFEST
    try:
        plain: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ResultsError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise ResultsError(f"{path}: not JSON: {str(error).splitlines()[0]}") from None
    schema = plain.get("schema") if isinstance(plain, dict) else None
    if schema != SCHEMA:
        raise ResultsError(f"{path}: found schema {schema!r}, expected {SCHEMA}")
    try:
        manifest = decode(Manifest, plain)
    except Misfit as error:
        raise ResultsError(f"{path}: {error}") from None
    for entry in manifest.cases:
        for name in (*INPUTS, "grad_input"):
            _check_file(path, folder, entry, name)
    return manifest


def _check_file(path: Path, folder: Path, entry: Entry, name: str) -> None:
    if name not in entry.files:
        raise ResultsError(f"{path}: case {entry.case}: found no file for {name}")
    target = (folder / entry.files[name]).resolve()
    if not target.is_relative_to(folder.resolve()):
        raise ResultsError(
            f"{path}: case {entry.case}: {entry.files[name]} lies outside the folder"
        )


def read(folder: Path, entry: Entry, name: str) -> Array:
    """A tensor of a case from its file, in the case's shape.

    Raises TensorError for a file that does not hold it, and, for an input, one whose bits are not
    the exported ones (see :func:`check_inputs`).
    """
    fmt = by_name(entry.dtype)
    lying = entry.lying.get(name)
    if lying is None:
        found = dumps.read(
            folder / entry.files[name], fmt=fmt, shape=_if_raw(entry, name), name=name
        )
        if found.shape != entry.shape:
            raise TensorError(
                f"{folder / entry.files[name]}: found shape {list(found.shape)}, "
                f"expected {list(entry.shape)}"
            )
        return found
    return dumps.read(
        folder / entry.files[name],
        fmt=fmt,
        shape=entry.shape,
        strides=lying.strides,
        offset=lying.offset,
        name=name,
    )


def _if_raw(entry: Entry, name: str) -> tuple[int, ...] | None:
    return entry.shape if Path(entry.files[name]).suffix in dumps.RAW else None


def check_inputs(entry: Entry, grad_output: Array, self: Array) -> None:
    """Raise TensorError unless the inputs have the very bits that were exported."""
    found = determinism.input_hash(by_name(entry.dtype), grad_output, self)
    if found != entry.input_hash:
        raise TensorError(
            f"the inputs of {entry.case} have SHA-256 {found[:12]}..., expected "
            f"{entry.input_hash[:12]}...: the files were changed"
        )
