"""Inputs: named distributions, explicit values, captured files; the same for the same seed.

The stream of a tensor derives from (seed, case name, tensor name) alone, so that a case has the
same inputs alone, in any order and in any matrix. Every real number is rounded to the format once.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lsbench import captured
from lsbench.distributions import DISTRIBUTIONS as DISTRIBUTIONS
from lsbench.distributions import Draw
from lsbench.errors import TensorError
from lsbench.formats import FP32, Bits, Format
from lsbench.rounding import Rounding, round_fraction

CHUNK = 1 << 18
"""Elements drawn at a time: bounds the memory of the drawing in double precision."""


@dataclass(frozen=True)
class Drawn:
    """Values of a named distribution."""

    name: str
    parameters: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True)
class Explicit:
    """Bit patterns in row-major order; cycled where ``repeat`` is set."""

    patterns: tuple[int, ...]
    repeat: bool = False


@dataclass(frozen=True)
class Mixture:
    """Each element from one of several distributions, chosen at random by weight."""

    parts: tuple[tuple[float, Drawn], ...]


@dataclass(frozen=True)
class Captured:
    """An array of an .npy or .npz file (``key`` names it there)."""

    path: Path
    key: str | None = None
    repeat: bool = False


Spec = Drawn | Explicit | Mixture | Captured


@dataclass(frozen=True)
class Source:
    """Where a tensor's values come from.

    With an ``axis`` as many values are made as that axis is long, and each holds for all elements
    at its index: two tensors with different axes are crossed, every value with every other.
    """

    spec: Spec
    axis: int | None = None


def stream(seed: int, case: str, tensor: str) -> np.random.Generator:
    """The generator of one tensor of one case."""
    digest = hashlib.sha256(f"{seed}/{case}/{tensor}".encode()).digest()
    words = np.frombuffer(digest, dtype="<u4").tolist()
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))


def generate(
    source: Source, fmt: Format, shape: tuple[int, ...], rng: np.random.Generator
) -> npt.NDArray[Any]:
    """The values of a tensor: an array of that shape in the format's NumPy dtype.

    With an axis the result is a read-only broadcast of one value per index. Raises TensorError for
    a number of values that does not fit, and for a file that is missing, damaged or of another
    dtype or shape.
    """
    if source.axis is None:
        count = 1
        for n in shape:
            count *= n
        return fmt.values(_patterns(source.spec, fmt, shape, count, rng)).reshape(shape)
    if not -len(shape) <= source.axis < len(shape):
        raise TensorError(f"axis {source.axis} of {len(shape)} dimensions does not exist")
    axis = source.axis % len(shape)
    line = _patterns(source.spec, fmt, (shape[axis],), shape[axis], rng)
    lying = tuple(n if i == axis else 1 for i, n in enumerate(shape))
    return np.broadcast_to(fmt.values(line).reshape(lying), shape)


def _patterns(
    spec: Spec, fmt: Format, shape: tuple[int, ...], count: int, rng: np.random.Generator
) -> Bits:
    match spec:
        case Explicit():
            check_count(len(spec.patterns), count, spec.repeat)
            return np.resize(np.array(spec.patterns, fmt.bits_dtype), count)
        case Captured():
            stored = captured.read(spec.path, spec.key, shape, spec.repeat)
            return np.resize(as_patterns(fmt, stored), count)
    out = np.empty(count, fmt.bits_dtype)
    for start in range(0, count, CHUNK):
        draw = Draw(fmt, rng, start, min(CHUNK, count - start), count)
        out[start : start + draw.count] = as_patterns(fmt, _made(spec, draw))
    return out


def _made(spec: Drawn | Mixture, draw: Draw) -> npt.NDArray[Any]:
    if isinstance(spec, Drawn):
        return DISTRIBUTIONS[spec.name](draw, **dict(spec.parameters))
    weights = np.array([weight for weight, _ in spec.parts])
    chosen = draw.rng.choice(len(weights), draw.count, p=weights / weights.sum())
    out = np.empty(draw.count, draw.fmt.bits_dtype)
    for i, (_, part) in enumerate(spec.parts):
        out = np.where(chosen == i, as_patterns(draw.fmt, _made(part, draw)), out)
    return out


def check_count(given: int, wanted: int, repeat: bool) -> None:
    """Raise TensorError unless ``given`` values fill ``wanted`` elements."""
    if repeat and (given or not wanted):
        return
    if given != wanted:
        hint = "" if repeat or not given else "; 'repeat: true' cycles them"
        raise TensorError(f"found {given} values for {wanted} elements, expected {wanted}{hint}")


def as_patterns(fmt: Format, made: npt.NDArray[Any]) -> Bits:
    """Bit patterns of what was made: unsigned integers are patterns, floats are rounded once."""
    if made.dtype == fmt.bits_dtype:
        return made
    if made.dtype == fmt.dtype:
        return fmt.pattern(made)
    return nearest(fmt, made)


def nearest(fmt: Format, reals: npt.NDArray[Any]) -> Bits:
    """Round float16, float32 or float64 to nearest even in one step, as bit patterns.

    Formats without a direct conversion go through fp32 rounded to odd, from which a second rounding
    to at most 22 bits is innocent (Boldo and Melquiond, When double rounding is odd, 2005).
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if fmt.dtype in (np.dtype(np.float32), np.dtype(np.float16)):
            return fmt.pattern(np.ascontiguousarray(reals.astype(fmt.dtype)))
        odd = to_odd_fp32(np.asarray(reals, np.float64))
    shift = FP32.p - fmt.p
    low = np.uint32((1 << (shift - 1)) - 1)
    rounded = (odd + low + ((odd >> np.uint32(shift)) & np.uint32(1))) >> np.uint32(shift)
    nan = (odd & np.uint32(0x7FFFFFFF)) > np.uint32(FP32.inf_bits)
    quiet = np.uint32(1 << (fmt.p - 2))
    kept = np.where(nan, (odd >> np.uint32(shift)) | quiet, rounded)
    return kept.astype(fmt.bits_dtype)


def to_odd_fp32(reals: npt.NDArray[np.float64]) -> npt.NDArray[np.uint32]:
    """Patterns of float64 rounded to odd in fp32."""
    near = reals.astype(np.float32)
    bits = near.view(np.uint32).copy()
    inexact = (near != reals) & ~np.isnan(reals)
    even = (bits & np.uint32(1)) == 0
    above = np.abs(near.astype(np.float64)) > np.abs(reals)
    bits[inexact & even & above] -= np.uint32(1)
    bits[inexact & even & ~above] += np.uint32(1)
    return bits


WORDS: dict[str, Callable[[Format], int]] = {
    "max": lambda fmt: fmt.max_bits,
    "min_normal": lambda fmt: fmt.encode(0, 1, fmt.emin),
    "max_subnormal": lambda fmt: fmt.encode(0, 1, fmt.emin) - 1,
    "min_subnormal": lambda fmt: 1,
}
"""Values that every format has, by the names that explicit values may use; '-max' is negative."""


class Number(Protocol):
    """A number with its text and its exact value (a scalar of a case file)."""

    text: str

    def __float__(self) -> float: ...

    @property
    def exact(self) -> Fraction: ...


def word_pattern(fmt: Format, word: str) -> int:
    """The pattern of such a word; raises TensorError for an unknown one."""
    name = word.removeprefix("-")
    if name not in WORDS:
        raise TensorError(
            f"found the text {word!r}, expected a number or one of {', '.join(WORDS)}"
        )
    return WORDS[name](fmt) | (fmt.sign_bit if word.startswith("-") else 0)


def number_pattern(fmt: Format, number: Number) -> int:
    """The pattern of a number as written, rounded once from its exact value.

    Raises TensorError where a finite number overflows the format or a nonzero one becomes zero.
    """
    value, text = float(number), number.text
    negative = math.copysign(1, value) < 0
    if math.isnan(value):
        return fmt.nan_bits
    if math.isinf(value) and "inf" in text.lower():
        return fmt.inf_bits | (fmt.sign_bit if negative else 0)
    if math.isinf(value):
        bits = fmt.inf_bits
    else:
        bits = round_fraction(fmt, number.exact, Rounding.RNE, negative=negative)
    if not fmt.is_finite(bits):
        largest = float(fmt.max_finite)
        raise TensorError(f"found {text}, expected at most {largest:.9g} in {fmt.name}, or inf")
    if bits & ~fmt.sign_bit == 0 and _has_digits(text):
        least = float(fmt.min_subnormal)
        raise TensorError(
            f"found {text}, which rounds to zero in {fmt.name}: expected 0 or at least {least:.3g}"
        )
    return bits


def _has_digits(text: str) -> bool:
    """Whether a number's text has a nonzero digit before its exponent."""
    head = text.lower().lstrip("+-")
    hexadecimal = head.startswith("0x")
    significand = head[2:].split("p")[0] if hexadecimal else head.split("e")[0]
    return any(c not in "0." for c in significand)
