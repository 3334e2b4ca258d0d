"""The acceptance standards that users know, applied beside the ulp figures.

Each compares computed values a with expected ones e: the correctly rounded results, in float64. For
each it is also measured, on the very data, whether a provider that returned all zeros would pass
(the tolerance is larger than the signal) and whether the tolerance is below half an ulp somewhere
(so that not even the best answer is sure to pass).

Sources of the rules: ``torch.testing.assert_close`` and its default tolerances; the single-operator
and dual-benchmark precision standards of the CANN operator projects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lsbench.formats import Format
from lsbench.providers.base import Array
from lsbench.records import Accuracy, Standard

CHUNK = 1 << 18
"""Elements compared at a time; a chunk in float64 with its temporaries stays below 32 MiB."""

Doubles = npt.NDArray[np.float64]


class Measure(Protocol):
    """A standard while it runs over the chunks."""

    def add(self, a: Doubles, e: Doubles, ulp: Doubles) -> None:
        """Take in computed and expected values and the ulp at the expected ones."""

    def figures(self) -> dict[str, float]:
        """The numbers that the rule compares."""

    def passed(self) -> bool:
        """Whether the rule holds."""


def _distance(a: Doubles, e: Doubles) -> Doubles:
    """abs(a - e), 0 for equal infinities; NaN where either is NaN."""
    with np.errstate(all="ignore"):
        return np.where(a == e, 0.0, np.abs(a - e))


@dataclass
class Close:
    """assert_close: abs(a - e) <= atol + rtol * abs(e) for every element.

    A NaN never passes, not even where NaN is right: assert_close has equal_nan=False by default.
    """

    rtol: float
    atol: float
    failing: int = 0
    worst: float = 0.0
    below_half_ulp: int = 0

    def add(self, a: Doubles, e: Doubles, ulp: Doubles) -> None:
        """Count the elements out of tolerance."""
        tolerance = self.atol + self.rtol * np.abs(e)
        error = _distance(a, e)
        self.failing += int(np.count_nonzero(~(error <= tolerance) | (np.isinf(e) & (a != e))))
        self.below_half_ulp += int(np.count_nonzero(tolerance < ulp / 2))
        finite = np.isfinite(error)
        self.worst = max(self.worst, float(error[finite].max(initial=0.0)))

    def figures(self) -> dict[str, float]:
        """Elements out of tolerance and the largest finite absolute error."""
        return {"failing": float(self.failing), "max_abs": self.worst}

    def passed(self) -> bool:
        """Whether no element is out of tolerance."""
        return self.failing == 0


@dataclass
class MereMare:
    """MERE = mean of abs(a - e) / (abs(e) + 1e-7) < T and MARE = its maximum < 10 T."""

    threshold: float
    total: float = 0.0
    count: int = 0
    largest: float = 0.0

    def add(self, a: Doubles, e: Doubles, ulp: Doubles) -> None:
        """Add relative errors; one that is not a number where e is makes both figures infinite."""
        with np.errstate(all="ignore"):
            relative = _distance(a, e) / (np.abs(e) + 1e-7)
        relative = np.where(np.isnan(e) & np.isnan(a), 0.0, relative)
        relative = np.where(np.isnan(relative), np.inf, relative)
        self.total += float(relative.sum())
        self.count += relative.size
        self.largest = max(self.largest, float(relative.max(initial=0.0)))

    def figures(self) -> dict[str, float]:
        """MERE and MARE."""
        return {"mere": self.total / max(self.count, 1), "mare": self.largest}

    def passed(self) -> bool:
        """Whether both are below their thresholds."""
        figures = self.figures()
        return figures["mere"] < self.threshold and figures["mare"] < 10 * self.threshold


@dataclass
class Mixed:
    """99 % within atol + rtol * abs(e); largest finite error within max(limit, 32 ulp there)."""

    rtol: float
    atol: float
    limit: float
    within: int = 0
    count: int = 0
    below_half_ulp: int = 0
    largest: tuple[float, float] = (0.0, 0.0)
    """The largest absolute error over finite pairs, and the ulp at that point."""

    def add(self, a: Doubles, e: Doubles, ulp: Doubles) -> None:
        """Count the elements within, and keep the largest error."""
        tolerance = self.atol + self.rtol * np.abs(e)
        same = (a == e) | (np.isnan(a) & np.isnan(e))
        error = np.where(same, 0.0, _distance(a, e))
        self.within += int(np.count_nonzero(same | (error <= tolerance) & np.isfinite(e)))
        self.count += e.size
        self.below_half_ulp += int(np.count_nonzero(tolerance < ulp / 2))
        finite = np.where(np.isfinite(error), error, 0.0)
        if finite.size:
            i = int(finite.argmax())
            self.largest = max(self.largest, (float(finite[i]), float(ulp[i])))

    def figures(self) -> dict[str, float]:
        """The share within tolerance, the largest absolute error and what it may be."""
        share = self.within / self.count if self.count else 1.0
        return {"share": share, "max_abs": self.largest[0], "allowed": self.allowed()}

    def allowed(self) -> float:
        """The bound on the largest error."""
        return max(self.limit, 32 * self.largest[1])

    def passed(self) -> bool:
        """Whether both conditions hold."""
        return self.figures()["share"] >= 0.99 and self.largest[0] <= self.allowed()


def _row(**by_format: tuple[float, ...]) -> dict[str, tuple[float, ...]]:
    return by_format


@dataclass(frozen=True)
class Rule:
    """A standard that compares values: its name, its words, and its parameters by format."""

    name: str
    text: str
    measure: Callable[..., Measure]
    parameters: dict[str, tuple[float, ...]] = field(default_factory=dict)

    def start(self, fmt: Format) -> Measure:
        """The measure with the parameters of a format."""
        return self.measure(*self.parameters[fmt.name])


TORCH = Rule(
    "torch",
    "torch.testing.assert_close with its defaults",
    Close,
    _row(fp32=(1.3e-6, 1e-5), fp16=(1e-3, 1e-5), bf16=(1.6e-2, 1e-5)),
)
MERE_MARE = Rule(
    "cann-mere-mare",
    "mean relative error < T and largest < 10 T, relative to abs(e) + 1e-7",
    MereMare,
    _row(fp32=(2.0**-13,), fp16=(2.0**-10,), bf16=(2.0**-7,)),
)
MIXED = Rule(
    "cann-mixed",
    "99 % within atol + rtol * abs(e), largest absolute error bounded",
    Mixed,
    _row(
        fp32=(2.0**-10, 2.0**-16, 1e-2),
        fp16=(2.0**-9, 2.0**-14, 1e-1),
        bf16=(2.0**-6, 2.0**-10, 1.0),
    ),
)
RULES = (TORCH, MERE_MARE, MIXED)

RATIO_LEVELS = {"L2": (2.0, 1.2, 1.2), "L1": (5.0, 1.5, 1.5), "L0": (10.0, 2.0, 2.0)}
"""Level → largest MARE, MERE and RMSE ratios, strictest first."""

NAMES = {
    **{rule.name: rule.text for rule in RULES},
    "cann-ratio": "errors at most 10/2/2 times a second implementation's (MARE/MERE/RMSE; L0)",
    "faithful": "every error below 1 ulp",
    "exact": "every result correctly rounded",
}
"""Every standard with its rule in words."""


def evaluate(
    fmt: Format,
    accuracy: Accuracy,
    grad_output: Array,
    self: Array,
    grad_input: Array,
    second: Array | None = None,
) -> tuple[Standard, ...]:
    """Apply every standard to a result; arrays of one shape, any strides.

    ``second`` is another implementation's result on the same inputs; without it ``cann-ratio`` is
    left out. Memory beyond the arrays: a few chunks.
    """
    runs = [(rule, rule.start(fmt), rule.start(fmt)) for rule in RULES]
    ratio = Ratio() if second is not None else None
    largest = 0.0
    for e, a, b in _chunks(fmt, grad_output, self, grad_input, second):
        ulp = ulps(fmt, e)
        finite = np.abs(e[np.isfinite(e)])
        largest = max(largest, float(finite.max(initial=0.0)))
        for _, measure, zeros in runs:
            measure.add(a, e, ulp)
            zeros.add(np.where(np.isfinite(e), 0.0, e), e, ulp)
        if ratio is not None:
            ratio.add(a, b, e)
    found = [
        Standard(rule.name, measure.passed(), measure.figures(), _note(measure, zeros, largest))
        for rule, measure, zeros in runs
    ]
    if ratio is not None:
        found.append(ratio.standard())
    clean = accuracy.nonfinite == 0 and accuracy.zero_sign == 0
    faithful = clean and accuracy.max_ulp < 1
    found.append(Standard("faithful", faithful, {"max_ulp": accuracy.max_ulp}))
    exact = accuracy.misrounded == 0
    found.append(Standard("exact", exact, {"misrounded": float(accuracy.misrounded)}))
    return tuple(found)


def _note(measure: Measure, zeros: Measure, largest: float) -> str:
    if largest and zeros.passed():
        return f"larger than the signal: all zeros would pass (largest value {largest:.3g})"
    below = getattr(measure, "below_half_ulp", 0)
    words = "an unrounded reference would fail even the best answer"
    return f"below half an ulp on {below} elements: {words}" if below else ""


def _chunks(
    fmt: Format, grad_output: Array, self: Array, grad_input: Array, second: Array | None
) -> Iterator[tuple[Doubles, Doubles, Doubles]]:
    arrays = [grad_output, self, grad_input, grad_input if second is None else second]
    flats = [a.reshape(-1) if a.flags.c_contiguous else a.flat for a in arrays]
    for start in range(0, self.size, CHUNK):
        with np.errstate(all="ignore"):
            g, x, a, b = (
                np.asarray(flat[start : start + CHUNK]).astype(np.float64) for flat in flats
            )
        yield expected(fmt, g, x), a, b


def expected(fmt: Format, g: Doubles, x: Doubles) -> Doubles:
    """The results rounded to the format, as float64, from g and x in float64.

    NumPy's float64 exp and division are good to 2^-50 of the value, far below every tolerance here;
    the clamp at 700 keeps e^x finite, so that an infinite g stays infinite for every finite x.
    """
    with np.errstate(all="ignore"):
        finite = np.where(np.isposinf(x), x, np.minimum(x, 700.0))
        return nearest(fmt, g / (1 + np.exp(finite)))


def nearest(fmt: Format, values: Doubles) -> Doubles:
    """float64 values rounded once to a format's values, ties to even; NaN and infinities stay."""
    unit = ulps(fmt, values)
    with np.errstate(all="ignore"):
        rounded = np.rint(values / unit) * unit
        top = float(fmt.max_finite)
        rounded = np.where(np.abs(rounded) > top, np.copysign(np.inf, values), rounded)
    return np.where(np.isfinite(values), rounded, values)


def ulps(fmt: Format, values: Doubles) -> Doubles:
    """The spacing of the format at float64 values, as float64; NaN where a value is not finite."""
    _, exponent = np.frexp(values)
    clipped = np.maximum(exponent.astype(np.int64) - 1, fmt.emin)
    clipped = np.where(values == 0, fmt.emin, clipped)
    return np.where(np.isfinite(values), np.ldexp(1.0, (clipped - fmt.p + 1).astype(int)), np.nan)


@dataclass
class Ratio:
    """MARE, MERE and RMSE of one implementation over those of a second on the same inputs."""

    sums: Any = field(default_factory=lambda: np.zeros((2, 3)))
    """For each of the two: the largest relative error, their sum, the sum of squared errors."""
    count: int = 0

    def add(self, a: Doubles, b: Doubles, e: Doubles) -> None:
        """Add the elements that are finite in all three."""
        kept = np.isfinite(a) & np.isfinite(b) & np.isfinite(e)
        for i, y in enumerate((a[kept], b[kept])):
            error = np.abs(y - e[kept])
            relative = error / (np.abs(e[kept]) + 1e-7)
            self.sums[i, 0] = max(self.sums[i, 0], relative.max(initial=0.0))
            self.sums[i, 1] += relative.sum()
            self.sums[i, 2] += (error**2).sum()
        self.count += int(kept.sum())

    def standard(self) -> Standard:
        """The three ratios; passed at L0, with the strictest level that holds in the note."""
        mine, other = self.sums
        ratios = [_ratio(m, o) for m, o in zip(mine, other, strict=True)]
        ratios[2] = float(np.sqrt(ratios[2]))
        met = [
            level
            for level, bounds in RATIO_LEVELS.items()
            if all(r <= bound for r, bound in zip(ratios, bounds, strict=True))
        ]
        figures = dict(zip(("mare_ratio", "mere_ratio", "rmse_ratio"), ratios, strict=True))
        return Standard("cann-ratio", bool(met), figures, f"meets {met[0]}" if met else "")


def _ratio(mine: float, other: float) -> float:
    if other == 0:
        return 1.0 if mine == 0 else float("inf")
    return float(mine / other)
