/* g / (1 + e^x) in fp32 arithmetic, for the 16-bit formats. */
#ifndef LSBENCH_QUOTIENT_H
#define LSBENCH_QUOTIENT_H

#include "lanes.h"

/* Within 2^-20.7 relative, or 2^-149, for x in [-20, 88]; a zero for x in [88.9, 89], where 1 + e^x
 * becomes infinite.
 *
 * e^x = 2^k p(r), r = x - k ln2 in one operation: ln2 is rounded to 24 bits, which moves r by k 2^-29,
 * 2^-22 at most. p has degree 5 and a relative error below 2^-23.1 (derivations/exp_polynomials.py);
 * its evaluation adds less than 2^-23.2, the sum and the quotient 2^-24 each. x = 0 is exact: e^0 = 1. */
LS_INLINE ls_vf ls_quotient_line(ls_vf g, ls_vf x) {
    const ls_vf shifter = LS_ALL_F(0x1.8p+23f), one = LS_ALL_F(1.0f);
    const ls_vf shifted = ls_fma(x, LS_ALL_F(0x1.715476p+0f), shifter), k = shifted - shifter;
    const ls_vf r = ls_fma(k, LS_ALL_F(-0x1.62e430p-1f), x);
    ls_vf p = LS_ALL_F(0x1.106288p-7f);
    p = ls_fma(p, r, LS_ALL_F(0x1.5729f0p-5f));
    p = ls_fma(p, r, LS_ALL_F(0x1.5557aep-3f));
    p = ls_fma(p, r, LS_ALL_F(0x1.fffdfcp-2f));
    p = ls_fma(p, r, one);
    p = ls_fma(p, r, one);
    const ls_vf power = (ls_vf)(((ls_vu)shifted << 23) + 0x3f800000u);
    return g / ls_fma(power, p, one);
}

/* One quotient, for those who look at it. */
LS_INLINE float ls_quotient_one(float g, float x) { return ls_quotient_line(LS_ALL_F(g), LS_ALL_F(x))[0]; }

/* A way to the quotient, and the largest x that it is asked for. */
typedef struct {
    ls_vf (*quotient)(ls_vf g, ls_vf x);
    float most[LS_FORMATS];
} ls_way;

/* Beyond 40 in fp16 y is below half of every number, and y(40) stands for it. */
#define LS_BY_FLOATS ((ls_way){ls_quotient_line, {0, 40, 89}})

/* The quotient for every x, with `low` for what is below, and in *left the lanes that are left to doubles:
 * where y is no number, and where bf16 has a result and fp32 no 1 + e^x. Beyond 190 bf16 has none. */
LS_INLINE ls_vf ls_line_16(ls_vf g, ls_vf x, ls_format format, float low, ls_way way, uint32_t *left) {
    const ls_vf inside = ls_at_most(LS_ALL_F(way.most[format]), ls_at_least(LS_ALL_F(low), x));
    const ls_vf y = way.quotient(g, inside);
    *left = ls_not_finite(y);
    if (format == LS_BF16)
        *left |= ls_beyond(x, LS_ALL_F(88.0f)) & ~ls_beyond(x, LS_ALL_F(190.0f));
    return y;
}

#endif
