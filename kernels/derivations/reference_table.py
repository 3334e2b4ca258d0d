"""Write kernels/reference_table.h: 2^(i/128) and how the certified reference reduces its argument.

Run: python kernels/derivations/reference_table.py > kernels/reference_table.h
"""

from __future__ import annotations

import mpmath

STEPS = 128
HIGH_BITS = 36
"""Bits of the upper part of ln2/128: its product with any 17-bit integer is a double."""

context = mpmath.MPContext()
context.prec = 300


def nearest(value: mpmath.mpf) -> str:
    """The double nearest to a value, as a hex float."""
    return float(value).hex()


def upper_bits(value: mpmath.mpf, bits: int) -> mpmath.mpf:
    """A positive value truncated to that many significant bits."""
    exponent = context.floor(context.log(value, 2)) - bits + 1
    return context.floor(context.ldexp(value, -int(exponent))) * context.ldexp(1, int(exponent))


def main() -> None:
    """Print the header."""
    step = context.log(2) / STEPS
    high = upper_bits(step, HIGH_BITS)
    print("/* Written by derivations/reference_table.py; every value is the double nearest to its")
    print(" * definition, but LS_REF_STEP_HIGH, which is ln2/128 cut to 36 bits. */")
    print("#ifndef LSBENCH_REFERENCE_TABLE_H")
    print("#define LSBENCH_REFERENCE_TABLE_H")
    print()
    print(f"#define LS_REF_STEPS_PER_UNIT {nearest(1 / step)} /* 128/ln2 */")
    print(f"#define LS_REF_STEP_HIGH {nearest(high)}")
    print(f"#define LS_REF_STEP_LOW {nearest(step - high)} /* ln2/128 - LS_REF_STEP_HIGH */")
    print()
    print("/* 2^(i/128) */")
    print(f"static const double ls_ref_powers[{STEPS}] = {{")
    powers = [nearest(context.mpf(2) ** (context.mpf(i) / STEPS)) for i in range(STEPS)]
    for i in range(0, STEPS, 4):
        print("    " + ", ".join(powers[i : i + 4]) + ",")
    print("};")
    print()
    print("#endif")


if __name__ == "__main__":
    main()
