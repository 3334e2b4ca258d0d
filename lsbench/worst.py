"""Search for the pair on which a provider errs most, and for bits that depend on the position.

Whole batches go through the provider; a float64 estimate of the exact value scores every element,
and mpmath judges what is reported. The search begins at structured points (all binades, specials,
the ends of the range of results), then climbs: the best pairs so far are moved by powers of two of
the ordinals of g, x or both, and pairs of random exponents keep coming. One seed gives one sequence
of batches; a budget of time cuts that sequence, and the number of rounds it reached repeats it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lsbench import accuracy
from lsbench.errors import ProviderError, UsageError
from lsbench.formats import Bits, Format
from lsbench.providers.base import Provider
from lsbench.records import Difference, Element, Options, Value
from lsbench.rounding import Rounding, shortest_decimal
from lsbench.verdicts import compute

BATCH = 1 << 16
"""Pairs that a provider is given at a time."""
ELITE = 512
"""Best pairs that are climbed from."""
LENGTHS = (1, 9, 67, 1031)
"""Tensors of equal pairs, in which a found pair is tried again: alone, with a tail, in a body."""
_DETERMINISM_EVERY = 8

Doubles = npt.NDArray[np.float64]
Observer = Callable[[int, int, float], None]
"""Told after each round: rounds, pairs and the largest error so far in ulp."""


@dataclass(frozen=True)
class Moved:
    """A pair whose bits depend on where it stands, or on the run."""

    axis: str
    """repeats or position."""
    g: Value
    x: Value
    difference: Difference


@dataclass(frozen=True)
class Found:
    """What a search found, judged by mpmath."""

    provider: str
    version: str
    dtype: str
    seed: int
    rounds: int
    pairs: int
    """How many pairs were tried."""
    seconds: float
    worst: Element | None
    """The pair of the largest error; None where no error is defined anywhere."""
    length: int | None
    """Length of the tensor of equal pairs that shows it; None where none does."""
    nonfinite: Element | None
    """The first pair with a NaN or an infinity where a number is right, or the reverse."""
    moved: Moved | None
    failure: str = ""
    """How the provider failed and ended the search early: what is here was found before."""


def search(
    provider: Provider,
    fmt: Format,
    *,
    budget: float = 30.0,
    rounds: int | None = None,
    seed: int = 0,
    options: Options | None = None,
    observer: Observer | None = None,
) -> Found:
    """Search for ``budget`` seconds after the first batch, or for exactly ``rounds`` rounds.

    A provider that fails later than on the first batch ends the search with what was found. Raises
    ProviderError where it is unavailable, refuses, or fails on the first batch.
    """
    options = options or Options()
    if Rounding(options.rounding) is Rounding.SR:
        raise UsageError("stochastic rounding depends on the position: expected another mode")
    reason = provider.unavailable()
    if reason is not None:
        raise ProviderError(reason)
    hunt, version = _Hunt(provider, fmt, options), provider.version()
    began, done, pairs, failure = time.monotonic(), 0, 0, ""
    for g, x in _batches(fmt, np.random.default_rng(seed), hunt):
        try:
            hunt.take(g, x, check=done % _DETERMINISM_EVERY == 0)
        except ProviderError as error:
            if done == 0:
                raise
            failure = f"failed in round {done + 1}: {error}"
            break
        done, pairs = done + 1, pairs + g.size
        if done == 1:  # what the first call imports and compiles is no part of the search
            began = time.monotonic()
        if observer is not None:
            observer(done, pairs, float(hunt.scores[0]) if hunt.scores.size else 0.0)
        if done == rounds or (rounds is None and time.monotonic() - began > budget):
            break
    worst, length = hunt.worst()
    return Found(
        provider=provider.name,
        version=version,
        dtype=fmt.name,
        seed=seed,
        rounds=done,
        pairs=pairs,
        seconds=round(time.monotonic() - began, 3),
        worst=worst,
        length=length,
        nonfinite=hunt.nonfinite,
        moved=hunt.moved,
        failure=failure,
    )


def estimate(fmt: Format, g: Bits, x: Bits) -> Doubles:
    """y of bit patterns in float64: off by a few units of 2^-52, which only ranks pairs."""
    with np.errstate(all="ignore"):
        gs, xs = _wide(fmt, g), _wide(fmt, x)
        y: Doubles = np.where(xs == -np.inf, gs, gs / (1 + np.exp(np.minimum(xs, 709))))
    return y


def errors(fmt: Format, g: Bits, x: Bits, y: Bits) -> Doubles:
    """Estimated errors in ulp; NaN where a NaN or an infinity stands on one side."""
    exact, computed = estimate(fmt, g, x), _wide(fmt, y)
    _, exponent = np.frexp(exact)
    ulp = np.ldexp(1.0, np.maximum(exponent - 1, fmt.emin) - fmt.p + 1)
    with np.errstate(all="ignore"):
        off: Doubles = np.abs(computed - exact) / ulp
    return off


def _wide(fmt: Format, bits: Bits) -> Doubles:
    with np.errstate(invalid="ignore"):  # a signalling NaN says so when it is widened
        wide: Doubles = fmt.values(bits).astype(np.float64)
    return wide


class _Hunt:
    """The best pairs so far, and what else was found."""

    def __init__(self, provider: Provider, fmt: Format, options: Options) -> None:
        self._provider, self.fmt, self._options = provider, fmt, options
        self.g = self.x = np.empty(0, fmt.bits_dtype)
        self.scores: Doubles = np.empty(0)
        self.nonfinite: Element | None = None
        self.moved: Moved | None = None

    def take(self, g: Bits, x: Bits, *, check: bool) -> None:
        """Let the provider compute a batch and keep what is worst."""
        y = self._compute(g, x)
        score = errors(self.fmt, g, x, y)
        if self.nonfinite is None:
            self._look_for_nonfinite(g, x, y)
        if check and self.moved is None:
            self._look_for_moved(g, x, y)
        known = np.flatnonzero(np.isfinite(score))
        if known.size > ELITE:
            known = known[np.argpartition(score[known], -ELITE)[-ELITE:]]
        self._merge(g[known], x[known], score[known])

    def _compute(self, g: Bits, x: Bits) -> Bits:
        values = self.fmt.values(g), self.fmt.values(x)
        return self.fmt.pattern(compute(self._provider, self.fmt, *values, self._options))

    def _merge(self, g: Bits, x: Bits, score: Doubles) -> None:
        g, x = np.concatenate([self.g, g]), np.concatenate([self.x, x])
        score = np.concatenate([self.scores, score])
        _, first = np.unique(_joined(g, x), return_index=True)
        best = first[np.argsort(-score[first], kind="stable")][:ELITE]
        self.g, self.x, self.scores = g[best], x[best], score[best]

    def _look_for_nonfinite(self, g: Bits, x: Bits, y: Bits) -> None:
        exact, computed = estimate(self.fmt, g, x), _wide(self.fmt, y)
        wrong = (np.isnan(exact) != np.isnan(computed)) | (
            ~np.isnan(exact) & (np.isinf(exact) | np.isinf(computed)) & (exact != computed)
        )
        for i in np.flatnonzero(wrong)[:1]:
            self.nonfinite = self._judged(g[i : i + 1], x[i : i + 1], y[i : i + 1])

    def _look_for_moved(self, g: Bits, x: Bits, y: Bits) -> None:
        trials: dict[str, tuple[str, Callable[[], Bits]]] = {
            "again": ("repeats", lambda: self._compute(g, x)),
            "rotated by 1": (
                "position",
                lambda: np.roll(self._compute(np.roll(g, 1), np.roll(x, 1)), -1),
            ),
            "the first alone": ("position", lambda: self._first_alone(g, x, y)),
        }
        for words, (axis, run) in trials.items():
            other = run()
            differs = np.flatnonzero(_plain(self.fmt, y) != _plain(self.fmt, other))
            if differs.size:
                i = int(differs[0])
                values = [self._value(a[i]) for a in (y, other)]
                difference = Difference(i, values[0], values[1], ("first run", words))
                self.moved = Moved(axis, self._value(g[i]), self._value(x[i]), difference)
                return

    def _first_alone(self, g: Bits, x: Bits, y: Bits) -> Bits:
        other = y.copy()
        other[:1] = self._compute(g[:1], x[:1])
        return other

    def worst(self) -> tuple[Element | None, int | None]:
        """The worst pair as mpmath judges it, and the length of tensor that shows it."""
        best: Element | None = None
        at: int | None = None
        for i in range(min(8, self.scores.size)):
            for length in LENGTHS:
                g, x = (np.full(length, a[i], self.fmt.bits_dtype) for a in (self.g, self.x))
                try:
                    element = self._judged(g, x, self._compute(g, x))
                except ProviderError:
                    continue  # it fails on this length; on the next one it may not
                if element is None or element.ulp is None:
                    continue
                if best is None or abs(element.ulp) > abs(best.ulp or 0.0):
                    best, at = replace(element, index=0), length
        return best, at

    def _judged(self, g: Bits, x: Bits, y: Bits) -> Element | None:
        options = self._options
        arrays = (self.fmt.values(a) for a in (g, x, y))
        judged = accuracy.judge(
            self.fmt, options.rounding, options.seed, *arrays, reference="mpmath", ftz=options.ftz
        )
        return judged.worst

    def _value(self, bits: int) -> Value:
        return Value(self.fmt.hex(int(bits)), shortest_decimal(self.fmt, int(bits)))


def _joined(g: Bits, x: Bits) -> npt.NDArray[np.uint64]:
    return g.astype(np.uint64) << np.uint64(32) | x.astype(np.uint64)


def _plain(fmt: Format, bits: Bits) -> Bits:
    """Every NaN as one: sign and payload are nobody's promise."""
    return np.where((bits & (fmt.sign_bit - 1)) > fmt.inf_bits, fmt.nan_bits, bits)


def _batches(fmt: Format, rng: np.random.Generator, hunt: _Hunt) -> Iterator[tuple[Bits, Bits]]:
    """Structured pairs first, then climbing and random ones by turns, without end."""
    yield from _structured(fmt, rng)
    while True:
        yield _climbed(fmt, rng, hunt)
        yield _random(fmt, rng, BATCH), _random(fmt, rng, BATCH)
        yield _climbed(fmt, rng, hunt)
        yield _random(fmt, rng, BATCH), _nearby(fmt, rng, BATCH)


def _structured(fmt: Format, rng: np.random.Generator) -> Iterator[tuple[Bits, Bits]]:
    """Every special g against x over all binades and over the range where results live."""
    one = fmt.encode(0, 1, 0)
    least = fmt.encode(0, 1, fmt.emin)
    specials = np.array([0, 1, least - 1, least, one, fmt.max_bits, fmt.inf_bits, fmt.nan_bits])
    signed = np.concatenate([specials, specials | fmt.sign_bit]).astype(fmt.bits_dtype)
    grid = [a.reshape(-1) for a in np.meshgrid(signed, signed)]
    yield grid[0], grid[1]
    thousand = fmt.pattern(np.array([1000], fmt.dtype))[0]
    for g in (one, thousand, fmt.max_bits, least, 1, one | fmt.sign_bit):
        gs = np.full(BATCH, g, fmt.bits_dtype)
        yield gs, np.linspace(0, (1 << fmt.bits) - 1, BATCH).astype(fmt.bits_dtype)
        yield gs, _nearby(fmt, rng, BATCH)


def _random(fmt: Format, rng: np.random.Generator, count: int) -> Bits:
    """Finite values of all exponents alike."""
    bits = rng.integers(0, fmt.inf_bits, count, dtype=np.uint64)
    return (bits | rng.integers(0, 2, count, dtype=np.uint64) << np.uint64(fmt.bits - 1)).astype(
        fmt.bits_dtype
    )


def _nearby(fmt: Format, rng: np.random.Generator, count: int) -> Bits:
    """x over the range on which no result is 0 or g itself, whatever the g."""
    span = float(np.log(2)) * (fmt.emax - fmt.emin + fmt.p + 2)
    return fmt.pattern(rng.uniform(-span / 2, span, count).astype(fmt.dtype))


def _climbed(fmt: Format, rng: np.random.Generator, hunt: _Hunt) -> tuple[Bits, Bits]:
    """The best pairs, moved by a power of two of ordinals in g, x or both; better ones more."""
    if not hunt.scores.size:
        return _random(fmt, rng, BATCH), _random(fmt, rng, BATCH)
    chosen = (rng.random(BATCH) ** 2 * hunt.scores.size).astype(np.int64)
    which = rng.integers(0, 3, BATCH)
    g = np.where(which != 0, _moved(fmt, rng, hunt.g[chosen]), hunt.g[chosen])
    x = np.where(which != 1, _moved(fmt, rng, hunt.x[chosen]), hunt.x[chosen])
    return g, x


def _moved(fmt: Format, rng: np.random.Generator, bits: Bits) -> Bits:
    """Patterns some steps away on the number line, of any size, still finite."""
    magnitude = (bits & (fmt.sign_bit - 1)).astype(np.int64)
    step = np.int64(1) << rng.integers(0, fmt.bits - 2, bits.size)
    step = rng.integers(-step, step + 1)
    moved = np.clip(np.abs(magnitude + step), 0, fmt.max_bits).astype(fmt.bits_dtype)
    signed: Bits = moved | (bits & fmt.sign_bit)
    return signed


def case_file(found: Found) -> str:
    """A case file that shows again what was found; its gates fail until the provider is mended."""
    blocks = []
    if found.worst is not None and found.length is not None:
        gate = "max_ulp: 1.0"
        blocks.append(_case("worst", found, found.worst.g, found.worst.x, found.length, gate))
    if found.nonfinite is not None:
        at = found.nonfinite
        blocks.append(_case("nonfinite", found, at.g, at.x, 1, "nonfinite: 0"))
    if found.moved is not None:
        moved = found.moved
        blocks.append(_case("moved", found, moved.g, moved.x, LENGTHS[-1], "deterministic: true"))
    ulp = found.worst.ulp if found.worst is not None else None
    head = (
        f"# Found by lsbench worst in {found.pairs} pairs, {found.rounds} rounds of seed "
        f"{found.seed}: {found.version}.\n"
        f"# Largest error: {'none defined' if ulp is None else f'{ulp:+.9g} ulp'}.\n"
        "schema: 1\ncases:\n"
    )
    return head + "".join(blocks)


def _case(what: str, found: Found, g: Value, x: Value, length: int, gate: str) -> str:
    provider = "'" + found.provider.replace("'", "''") + "'"
    return (
        f"  # g = {g.decimal}, x = {x.decimal}\n"
        f"  - name: {what}-{found.dtype}\n"
        f"    dtype: {found.dtype}\n"
        f"    shape: [{length}]\n"
        f"    providers: [{provider}]\n"
        "    throughput: false\n"
        "    input:\n"
        f"      grad_output: {{bits: [{g.hex}], repeat: true}}\n"
        f"      self: {{bits: [{x.hex}], repeat: true}}\n"
        f"    gates: {{{gate}}}\n"
    )
