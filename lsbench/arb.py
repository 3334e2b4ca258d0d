"""A second judge: y = g/(1 + e^x) in ball arithmetic (Arb, through python-flint).

It shares no arithmetic with :mod:`lsbench.exact` and :mod:`lsbench.rounding`: values are read and
written by the platform's floats, special values follow IEEE multiplication, enclosures come from
Arb, and rounding compares balls. Precision rises until every comparison is certain; where x = 0 the
ball is a point and a tie can occur, elsewhere it cannot.

python-flint keeps its working precision in one global context: threads take turns.
"""

from __future__ import annotations

import math
import struct
import threading
from typing import Any

from lsbench.errors import UsageError
from lsbench.formats import Format
from lsbench.reference import Truth

FIRST_PRECISION = 128
_LAST_PRECISION = 1 << 20
_LARGEST_ARGUMENT = 4096.0
_TURN = threading.Lock()


class ArbOracle:
    """Truth of single elements by Arb; an :class:`lsbench.reference.Oracle`.

    Raises UsageError where python-flint is missing.
    """

    def __init__(self, fmt: Format, mode: str) -> None:
        try:
            import flint
        except ImportError:
            raise UsageError(
                "reference arb needs python-flint: pip install 'lsbench[arb]'"
            ) from None
        self._flint: Any = flint
        self._fmt, self._mode = fmt, mode
        self._least = fmt.emin - fmt.p + 1

    def truth(self, g: int, x: int, computed: int, draw: int) -> Truth:
        """The correctly rounded result and the error of the computed one, as bit patterns."""
        g_value, x_value, c_value = (self._read(b) for b in (g, x, computed))
        limit = self._special(g_value, x_value)
        if limit is not None:
            return Truth(self._write(limit), self._error_of_special(c_value, limit))
        precision = FIRST_PRECISION
        with _TURN:
            while precision <= _LAST_PRECISION:
                self._flint.ctx.prec = precision
                found = self._decide(abs(g_value), x_value, c_value, g_value < 0, draw)
                if found is not None:
                    return found
                precision *= 2
        raise AssertionError(f"undecided at {_LAST_PRECISION} bits: g = {g_value}, x = {x_value}")

    def _special(self, g: float, x: float) -> float | None:
        if math.isnan(g) or math.isnan(x):
            return math.nan
        if math.isinf(x):
            return g * (0.0 if x > 0 else 1.0)
        return g if math.isinf(g) or g == 0 else None

    def _error_of_special(self, computed: float, limit: float) -> float | None:
        if math.isnan(computed) or not math.isfinite(limit):
            return None
        unit = max((math.frexp(limit)[1] - self._fmt.p) if limit else self._least, self._least)
        return _toward_zero((self._finite(computed) - self._ball(limit)) * self._power(-unit))

    def _decide(
        self, g: float, x: float, computed: float, negative: bool, draw: int
    ) -> Truth | None:
        # Beyond 2^12 every x gives the same answer: y lies between y(g, +-2^12) and its limit, g
        # or 0, a value of the format, and nothing to round to lies in that gap of 2^-5000.
        clamped = max(-_LARGEST_ARGUMENT, min(x, _LARGEST_ARGUMENT))
        y = self._ball(g) / (1 + self._ball(clamped).exp())
        exponent = self._unit(y)
        if exponent is None:
            return None
        scaled = y * self._power(-exponent)
        whole = self._floor(scaled)
        up = None if whole is None else self._goes_up(scaled - whole, whole, negative, draw)
        if whole is None or up is None:
            return None
        correct = math.copysign(math.ldexp(whole + up, exponent), -1.0 if negative else 1.0)
        if math.isnan(computed):
            return Truth(self._write(correct), None)
        error = self._finite(computed) * self._power(-exponent) * (-1 if negative else 1) - scaled
        return Truth(self._write(correct), _toward_zero(error) * (-1.0 if negative else 1.0))

    def _unit(self, y: Any) -> int | None:
        if y < self._power(self._fmt.emin):
            return self._least
        exponents = {self._exponent(bound) for bound in (y.abs_lower(), y.abs_upper())}
        return max(exponents.pop(), self._least) if len(exponents) == 1 else None

    def _exponent(self, point: Any) -> int:
        significand, exponent = point.mid().man_exp()
        return int(significand).bit_length() + int(exponent) - self._fmt.p

    def _floor(self, scaled: Any) -> int | None:
        if scaled < self._power(-30):
            return 0  # y > 0, however the ball may reach below
        whole = scaled.floor().unique_fmpz()
        return None if whole is None else int(whole)

    def _goes_up(self, rest: Any, whole: int, negative: bool, draw: int) -> bool | None:
        half = self._power(-1)
        if rest.is_exact():
            return self._exact_goes_up(rest, whole, negative, draw)
        if self._mode in ("rne", "rna"):
            return self._above(rest, half)
        if self._mode == "sr":
            return self._above(rest, (2 * draw + 1) * self._power(-25))
        directed = {"rtz": False, "rup": not negative, "rdn": negative, "rto": whole % 2 == 0}
        # A floor that is unique and a ball that is no point leave 0 < rest < 1.
        return directed[self._mode]

    def _exact_goes_up(self, rest: Any, whole: int, negative: bool, draw: int) -> bool:
        odd, some = whole % 2 == 1, bool(rest > 0)
        twice = rest * 2
        return {
            "rne": bool(twice > 1 or (twice == 1 and odd)),
            "rna": bool(twice >= 1),
            "rtz": False,
            "rup": some and not negative,
            "rdn": some and negative,
            "rto": some and not odd,
            "sr": bool(rest > (2 * draw + 1) * self._power(-25)),
        }[self._mode]

    @staticmethod
    def _above(rest: Any, threshold: Any) -> bool | None:
        if rest > threshold:
            return True
        return False if rest < threshold else None

    def _power(self, exponent: int) -> Any:
        return self._flint.arb((1, exponent))

    def _ball(self, value: float) -> Any:
        significand, exponent = math.frexp(value)
        return self._flint.arb((int(significand * 2.0**53), exponent - 53))

    def _finite(self, computed: float) -> Any:
        if math.isinf(computed):
            return self._power(self._fmt.emax + 1) * (1 if computed > 0 else -1)
        return self._ball(computed)

    def _read(self, bits: int) -> float:
        if self._fmt.bits == 32:
            value: float = struct.unpack("<f", struct.pack("<I", bits))[0]
        elif self._fmt.p == 11:
            value = struct.unpack("<e", struct.pack("<H", bits))[0]
        else:
            value = struct.unpack("<f", struct.pack("<I", bits << 16))[0]
        return value

    def _write(self, value: float) -> int:
        if math.isnan(value):
            return self._fmt.nan_bits
        if self._fmt.p == 11:
            pattern: int = struct.unpack("<H", struct.pack("<e", value))[0]
            return pattern
        pattern = struct.unpack("<I", struct.pack("<f", value))[0]
        return pattern if self._fmt.bits == 32 else pattern >> 16


def _toward_zero(ball: Any) -> float:
    """The double at or next below the least magnitude in a ball, with the ball's sign."""
    significand, exponent = ball.abs_lower().mid().man_exp()
    size = int(significand)
    drop = max(size.bit_length() - 53, 0)
    value = math.ldexp(size >> drop, int(exponent) + drop)
    return -value if ball < 0 else value
