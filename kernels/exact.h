/* The correctly rounded result, for every g and x, in every format and rounding mode.
 *
 * Guarantee: 0 misrounded results. Bits are the same on every machine, as there is one right answer.
 *
 * There are three tiers. Lines of floats or doubles settle nearly every element (here fp32 by doubles,
 * exact_16.h the 16-bit formats by floats); what a line leaves open goes, one by one, to a better
 * double; and what that leaves open, to integers.
 *
 * Second tier. Where x is -inf, +inf or NaN, y is g, 0 * g or NaN. A finite x is first moved into a
 * range where a double can hold what matters, without moving y across any boundary:
 *
 *   - x < -A becomes -A. Every y in the open interval (g (1 - e^-A), g) rounds alike.
 *   - 0 < |x| < T becomes T with the sign of x. y stays on its side of g/2, nearer than T/4 g to it.
 *   - x > 250 becomes 250. Then 0 < y < 2^-360 g, below a quarter of every subnormal.
 *
 *   With A = 20 and T = 2^-28 the intervals hold no boundary of fp32: y is within 2^-28.8 g of g, or
 *   within 2^-30 g of g/2, and the nearest other midpoint or value is at least 2^-26 g away. The
 *   thresholds of stochastic rounding are denser, 2^-25 ulp >= 2^-49 of y apart from a value, so
 *   that sr takes A = 40 and T = 2^-60 (e^-40 < 2^-57).
 *
 * e^x = 2^k p(r), |r| <= ln2/2 + 2^-30, with k ln2 subtracted in two parts: r is within 2^-45 for
 * |k| <= 361. p has degree 9 and a relative error below 2^-45.7 (derivations/exp_polynomials.py); its
 * evaluation, 1 + e^x and the quotient add less than 2^-50. As e^x / (1 + e^x) < 1, y is known to a
 * relative error below 2^-45.7 + 2^-45 + 2^-50 < 2^-43 = W/2. x = 0 needs no test: e^0 = 1 and
 * y = g/2 are exact, ties included.
 *
 * Rounding test. rounding.h splits y exactly into k ulps and a residual. The mode's boundary is the
 * midpoint (rne, rna), a value of the format (rtz, rup, rdn, rto) or the drawn threshold (sr). If
 * |y - boundary| >= W y, the true y lies on the same side, and the rounding of y is right. Near a power
 * of two, where the ulp changes, the only new boundary is the power itself, a value: under rne and
 * rna both sides round to it. Under sr, y near a value rounds to that value whichever side it is on,
 * unless the draw is within 2^-18 of 0 or 1: then it counts as undecided, too.
 *
 * Third tier. decide.h tells with integers whether the true y is above a boundary; it ends for every
 * x != 0. The double next to the boundary on the true side is then rounded in place of y: it lies in
 * the same interval.
 *
 * First tier, fp32. The same with degree 8: p within 2^-39.6, y within 2^-39 = V. Under rne and rna both
 * ends of y (1 -+ V) must become the same float (a tie never does). x < -40 is -40: y is then within
 * 2^-57 g of g, a float, and so are both ends. Tiny x needs no move: y is next to g/2, a float or a tie.
 *
 * Under the other modes |y| is a sign and an integer, its bits: the 29 lowest are the fraction F of an ulp
 * (where |y| is subnormal as a float, 2^-126 more makes the unit right). The magnitude goes up where F
 * reaches a boundary B: 1 or never under the directed modes, one more than the drawn threshold under sr;
 * adding 2^29 - B carries just then. y is within V y, less than 2^14 units of its last place, and the
 * sum with 2^-126 rounds by half a unit: what lies within LS_LINE_STEPS = 2^15 of the carry is open. A
 * directed mode needs y apart from g and g/2: x is moved as above, with A = 20 and T = 2^-28, which leaves
 * 2^22 units. There y below 2^-152 is 2^-152, and g = 0 gives 0.
 */
#ifndef LSBENCH_EXACT_H
#define LSBENCH_EXACT_H

#include "decide.h"
#include "formulas.h"
#include "lines.h"

/* Fused or not, the rounding test holds: the bits do not depend on it. */
#ifdef __FMA__
#define LS_FMA(a, b, c) __builtin_fma(a, b, c)
#else
#define LS_FMA(a, b, c) ((a) * (b) + (c))
#endif

/* Twice the relative error of the fast path. */
#define LS_EXACT_WIDTH 0x1p-42

/* x moved into the range of the fast path; NaN stays. */
LS_INLINE double ls_exact_argument(double x, ls_rounding mode) {
    const double least = mode == LS_SR ? 0x1p-60 : 0x1p-28, low = mode == LS_SR ? -40.0 : -20.0;
    const double inside = x > 250.0 ? 250.0 : x < low ? low : x;
    const double side = copysign(least, x);
    return fabs(inside) < least && x != 0 ? side : inside;
}

/* g / (1 + e^x) for x in [-40, 250], within 2^-43 relative; g/2 exactly for x = 0. */
LS_INLINE double ls_exact_quotient(double g, double x) {
    const double shifted = LS_FMA(x, 0x1.71547652b82fep+0, 0x1.8p+52), k = shifted - 0x1.8p+52;
    const double r = LS_FMA(k, -0x1.a39ef35793c76p-33, LS_FMA(k, -0x1.62e42fee00000p-1, x));
    double q = 0x1.710187381191dp-19;
    q = LS_FMA(q, r, 0x1.a16e328b110b9p-16);
    q = LS_FMA(q, r, 0x1.a01b737f4fae3p-13);
    q = LS_FMA(q, r, 0x1.6c163be94a566p-10);
    q = LS_FMA(q, r, 0x1.1111108e2e26bp-7);
    q = LS_FMA(q, r, 0x1.5555557deedcfp-5);
    q = LS_FMA(q, r, 0x1.5555555589ef8p-3);
    q = LS_FMA(q, r, 0x1.fffffffff13f6p-2);
    const double p = 1.0 + LS_FMA(r * r, q, r);
    return g / (1.0 + ls_bits_double(ls_double_bits(p) + (ls_double_bits(shifted) << 52)));
}

/* The same for every x: the clamps, and the two values of x that need no arithmetic. */
LS_INLINE double ls_exact_double(double g, double x, ls_rounding mode) {
    const double quotient = ls_exact_quotient(g, ls_exact_argument(x, mode));
    const double finite = x == -INFINITY ? g : quotient;
    return x == INFINITY ? g * 0.0 : finite;
}

/* The doubles that a rounding leaves behind: a magnitude, its residual and the ulp. */
typedef struct {
    double magnitude, nearest, residual, ulp;
} ls_split;

LS_INLINE ls_split ls_split_at(double y, ls_format format) {
    const double magnitude = fabs(y), least = ls_power_of_two(ls_emin(format));
    const double normal = magnitude > least ? magnitude : least;
    const uint64_t binade = ls_double_bits(normal) & (uint64_t)0x7ff << 52;
    const double shifter = ls_bits_double(binade + ((uint64_t)(53 - ls_precision(format)) << 52));
    const double nearest = (magnitude + shifter) - shifter;
    return (ls_split){magnitude, nearest, magnitude - nearest, shifter * 0x1p-52};
}

/* The threshold of stochastic rounding, as a part of an ulp. */
LS_INLINE double ls_sr_threshold(uint32_t draw) { return 0x1p-25 * (2.0 * (double)(int32_t)draw + 1.0); }

/* Whether the rounding of y leaves open how the true value, within LS_EXACT_WIDTH y, rounds. */
LS_INLINE int ls_undecided(double y, double x, ls_format format, ls_rounding mode, uint32_t draw) {
    const ls_split at = ls_split_at(y, format);
    const double width = at.magnitude * LS_EXACT_WIDTH, residual = fabs(at.residual);
    const int inexact = (x != 0) & (at.magnitude <= DBL_MAX) & (fabs(x) <= DBL_MAX);
    if (mode == LS_RNE || mode == LS_RNA)
        return inexact & (0.5 * at.ulp - residual < width);
    if (mode != LS_SR)
        return inexact & (residual < width);
    const double threshold = ls_sr_threshold(draw);
    const double part = at.residual + (at.residual < 0 ? at.ulp : 0.0);
    const int extreme = (threshold < 0x1p-18) | (threshold > 1.0 - 0x1p-18);
    return inexact & ((fabs(part - threshold * at.ulp) < width) | (extreme & (residual < width)));
}

LS_INLINE double ls_next_up(double v) { return ls_bits_double(ls_double_bits(v) + 1); }
LS_INLINE double ls_next_down(double v) { return ls_bits_double(ls_double_bits(v) - 1); }

/* A double on the true side of the boundary b > 0; b = 0 is below every y. */
static inline double ls_beside(double b, double g, double x) {
    if (b == 0)
        return 0x1p-1000;
    return b < g && ls_above(g, b, x) ? ls_next_up(b) : ls_next_down(b);
}

/* A double that rounds as the true g / (1 + e^x) does, where y is too near a boundary to tell. */
static double ls_resolve(
    double y, double g, double x, ls_format format, ls_rounding mode, uint32_t draw) {
    const double magnitude = fabs(g), argument = ls_exact_argument(x, mode);
    ls_split at = ls_split_at(y, format);
    double side = at.magnitude;
    if (fabs(at.residual) < at.magnitude * LS_EXACT_WIDTH) {
        side = ls_beside(at.nearest, magnitude, argument);
        at = ls_split_at(side, format);
    }
    const int nearest = mode == LS_RNE || mode == LS_RNA;
    if (nearest || mode == LS_SR) {
        const double low = at.nearest - (at.residual < 0 ? at.ulp : 0.0);
        const double part = nearest ? 0.5 : ls_sr_threshold(draw);
        side = ls_beside(low + part * at.ulp, magnitude, argument);
    }
    return copysign(side, g);
}

/* One result by the double path: what the vector loops fall back on, and what they equal. */
static uint32_t ls_exact_one(double g, double x, ls_format format, ls_rounding mode, uint32_t draw) {
    double y = ls_exact_double(g, x, mode);
    if (ls_undecided(y, x, format, mode, draw))
        y = ls_resolve(y, g, x, format, mode, draw);
    return ls_round(y, format, mode, 0, draw);
}

/* Subnormal patterns to zeros of their sign. */
LS_INLINE void ls_flush_pass(void *y, size_t n, ls_format format) {
    const uint32_t sign = ls_sign_bit(format), least = 1u << (ls_precision(format) - 1);
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = format == LS_FP32 ? ((uint32_t *)y)[i] : ((uint16_t *)y)[i];
        ls_write(y, i, (bits & (sign - 1)) < least ? bits & sign : bits, format);
    }
}

/* First tier. */

/* V, and as many lowest bits of a double, with room for the roundings of the test. */
#define LS_LINE_WIDTH 0x1p-39
#define LS_LINE_STEPS (1 << 15)

/* g / (1 + e^x) for x in [-40, 250], within 2^-39.5 relative; g/2 exactly for x = 0. */
LS_INLINE ls_vd ls_line_quotient(ls_vd g, ls_vd x) {
    const ls_vd shifter = (ls_vd){0} + 0x1.8p+52, one = (ls_vd){0} + 1.0;
    const ls_vd shifted = ls_fmad(x, (ls_vd){0} + 0x1.71547652b82fep+0, shifter), k = shifted - shifter;
    const ls_vd part = ls_fmad(k, (ls_vd){0} - 0x1.62e42fee00000p-1, x);
    const ls_vd r = ls_fmad(k, (ls_vd){0} - 0x1.a39ef35793c76p-33, part);
    ls_vd p = (ls_vd){0} + 0x1.9e89406461d9ep-16;
    p = ls_fmad(p, r, (ls_vd){0} + 0x1.a1854d155620bp-13);
    p = ls_fmad(p, r, (ls_vd){0} + 0x1.6c18d301d6e7ep-10);
    p = ls_fmad(p, r, (ls_vd){0} + 0x1.1110a26af40aap-7);
    p = ls_fmad(p, r, (ls_vd){0} + 0x1.5555541e7dea1p-5);
    p = ls_fmad(p, r, (ls_vd){0} + 0x1.5555557dcccfap-3);
    p = ls_fmad(p, r, (ls_vd){0} + 0x1.000000005ddbap-1);
    p = ls_fmad(p, r, one);
    p = ls_fmad(p, r, one);
    return g / (one + (ls_vd)((ls_vq)p + ((ls_vq)shifted << 52)));
}

/* One quotient, for those who look at it. */
LS_INLINE double ls_line_quotient_one(double g, double x) {
    return ls_line_quotient((ls_vd){0} + g, (ls_vd){0} + x)[0];
}

/* x where a directed mode needs it: y on its side of g and g/2, and apart from them. */
LS_INLINE ls_vf ls_apart(ls_vf x, float least) {
    return ls_with_sign(ls_at_least(LS_ALL_F(least), ls_magnitude(x)), x);
}

/* What a directed mode leaves to the second tier whatever y is: infinities, NaNs and x = 0. */
LS_INLINE uint32_t ls_singular(ls_vf x) {
    return ls_not_finite(x) | ls_lanes_of((ls_vi)(x == 0));
}

/* Lane i of a line is element start + i * step of the put. */
typedef struct {
    uint64_t index; /* of the put's element 0 in the tensor */
    int start, step;
} ls_place;

/* ls_sr_draw by lanes, the draw in the upper 24 bits of each. */
typedef struct {
    ls_vq low, high;
} ls_draws;

LS_INLINE ls_vq ls_half_draws(uint64_t seed, ls_place place, int first) {
    uint64_t counters[LS_HALF];
    for (int i = 0; i < LS_HALF; i++)
        counters[i] = (uint64_t)(place.start + (first + i) * place.step + 1) * 0x9E3779B97F4A7C15u;
    ls_vq z;
    memcpy(&z, counters, sizeof z);
    z += seed + place.index * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    return (z ^ z >> 27) * 0x94D049BB133111EBu; /* z ^ z >> 31 would leave the upper bits as they are */
}

LS_INLINE ls_draws ls_line_draws(uint64_t seed, ls_place place, ls_rounding mode) {
    if (mode != LS_SR)
        return (ls_draws){{0}, {0}};
    return (ls_draws){ls_half_draws(seed, place, 0), ls_half_draws(seed, place, LS_HALF)};
}

/* Under rne and rna. */
LS_INLINE ls_vf ls_exact_nearest_32(ls_vf g, ls_vf x, uint32_t *left) {
    const ls_vf inside = ls_at_most(LS_ALL_F(250.0f), ls_at_least(LS_ALL_F(-40.0f), x));
    const ls_vd a = ls_line_quotient(ls_widen_low(g), ls_widen_low(inside));
    const ls_vd b = ls_line_quotient(ls_widen_high(g), ls_widen_high(inside));
    const ls_vf high = ls_join_d(a * (1.0 + LS_LINE_WIDTH), b * (1.0 + LS_LINE_WIDTH));
    const ls_vf low = ls_join_d(a * (1.0 - LS_LINE_WIDTH), b * (1.0 - LS_LINE_WIDTH));
    *left = ls_differ_f(high, low) | ls_not_finite(high);
    return high;
}

/* Half a line under another mode: |y| rounded to a float's value. */
LS_INLINE ls_vd ls_exact_other_half(ls_vd g, ls_vd x, ls_vq draws, ls_rounding mode, uint32_t *near) {
    const int64_t all = ((int64_t)1 << 29) - 1;
    const ls_vd size = ls_magnitude_d(ls_line_quotient(g, x)), least = (ls_vd){0} + 0x1p-152;
    const ls_vl tiny = (ls_vl)(size < least), negative = (ls_vl)(g < 0), zero = (ls_vl)(g == 0);
    const ls_vd kept = mode == LS_SR ? size : (ls_vd)((tiny & (ls_vl)least) | (~tiny & (ls_vl)size));
    const ls_vl subnormal = (ls_vl)(kept < 0x1p-126);
    const ls_vd lift = (ls_vd)(subnormal & (ls_vl)((ls_vd){0} + 0x1p-126));
    ls_vl carry = {0};
    if (mode == LS_SR)
        carry = (~(ls_vl)(draws >> 35) & (all - 31)) | 15; /* all - 16 - 32 draw */
    if (mode == LS_RUP)
        carry = ~negative & all;
    if (mode == LS_RDN)
        carry = negative & all;
    const ls_vl sum = (ls_vl)(kept + lift) + carry;
    *near = ls_below_l((sum + LS_LINE_STEPS) & all, (ls_vl){0} + (2 * LS_LINE_STEPS + 1));
    ls_vl rounded = sum & ~all;
    if (mode == LS_RTO)
        rounded |= all + 1;
    ls_vd value = (ls_vd)rounded - lift;
    if (mode != LS_SR) {
        *near &= ~ls_lanes_of_l(zero);
        value = (ls_vd)((ls_vl)value & ~zero);
    }
    return value;
}

LS_INLINE ls_vf ls_exact_other_32(ls_vf g, ls_vf x, ls_draws draws, ls_rounding mode, uint32_t *left) {
    const int directed = mode != LS_SR;
    const ls_vf from = LS_ALL_F(directed ? -20.0f : -40.0f), apart = directed ? ls_apart(x, 0x1p-28f) : x;
    const ls_vf inside = ls_at_most(LS_ALL_F(250.0f), ls_at_least(from, apart));
    uint32_t low, high;
    const ls_vd a = ls_exact_other_half(ls_widen_low(g), ls_widen_low(inside), draws.low, mode, &low);
    const ls_vd b = ls_exact_other_half(ls_widen_high(g), ls_widen_high(inside), draws.high, mode, &high);
    const ls_vf size = ls_join_d(a, b);
    *left = low | high << LS_HALF | ls_not_finite(size);
    if (directed)
        *left |= ls_singular(x);
    return ls_with_sign(size, g);
}

/* The lanes that are left, into y, where the put stores its first element. */
static LS_APART void ls_exact_left(const ls_vf *g, const ls_vf *x, uint32_t left, void *y, ls_place place,
    const ls_store *store, ls_format format) {
    float gs[LS_LANES], xs[LS_LANES];
    memcpy(gs, g, sizeof gs), memcpy(xs, x, sizeof xs);
    for (; left; left &= left - 1) {
        const int lane = __builtin_ctz(left), i = place.start + lane * place.step;
        const uint32_t draw =
            store->rounding == LS_SR ? ls_sr_draw(store->seed, place.index + (uint64_t)i) : 0;
        ls_write(y, (size_t)i, ls_exact_one(gs[lane], xs[lane], format, store->rounding, draw), format);
    }
}

LS_INLINE void ls_exact_put_32(const void *g, const void *x, void *y, uint64_t index, const ls_store *store,
    ls_format format, ls_rounding mode) {
    const ls_vf gs = ls_load_f(g), xs = ls_load_f(x);
    const ls_place place = {index, 0, 1};
    uint32_t left;
    ls_store_f(y, mode == LS_RNE ? ls_exact_nearest_32(gs, xs, &left)
                                 : ls_exact_other_32(gs, xs, ls_line_draws(store->seed, place, mode), mode, &left));
    if (LS_RARE(left))
        ls_exact_left(&gs, &xs, left, y, place, store, format);
}

/* The mode is fixed outside the loops. */
#define LS_EXACT_MODE(mode, format, put)                                  \
    case mode:                                                            \
        ls_by_lines(g, x, y, n, index, store, format, mode, put);         \
        break;
#define LS_EXACT_ROW(name, format, put)                                                                      \
    static void name(const void *g, const void *x, void *y, size_t n, uint64_t index, const ls_store *store) { \
        switch (store->rounding) {                                                                           \
            LS_EXACT_MODE(LS_RTZ, format, put)                                                               \
            LS_EXACT_MODE(LS_RUP, format, put)                                                               \
            LS_EXACT_MODE(LS_RDN, format, put)                                                               \
            LS_EXACT_MODE(LS_RTO, format, put)                                                               \
            LS_EXACT_MODE(LS_SR, format, put)                                                                \
        default: /* rna differs in ties alone, which a line leaves */                                        \
            ls_by_lines(g, x, y, n, index, store, format, LS_RNE, put);                                      \
        }                                                                                                    \
        if (store->ftz)                                                                                      \
            ls_flush_pass(y, n, format);                                                                     \
    }

LS_EXACT_ROW(ls_exact_fp32, LS_FP32, ls_exact_put_32)

#endif
