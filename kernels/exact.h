/* The correctly rounded result, for every g and x, in every format and rounding mode.
 *
 * Guarantee: 0 misrounded results. Bits are the same on every machine, as there is one right answer.
 *
 * Fast path. Where x is -inf, +inf or NaN, y is g, 0 * g or NaN. A finite x is first moved into a
 * range where a double can hold what matters (C below), without moving y across any boundary:
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
 * |k| <= 361. p has degree 9 and a relative error below 2^-43.6 (derivations/exp_polynomials.py); its
 * evaluation, 1 + e^x and the quotient add less than 2^-50. As e^x / (1 + e^x) < 1, y is known to a
 * relative error below 2^-43.6 + 2^-45 + 2^-50 < 2^-43 = W/2. x = 0 needs no test: e^0 = 1 and
 * y = g/2 are exact, ties included.
 *
 * Rounding test. rounding.h splits y exactly into k ulps and a residual. The mode's boundary is the
 * midpoint (rne, rna), a value of the format (rtz, rup, rdn, rto) or the drawn threshold (sr). If
 * |y - boundary| >= W y, the true y lies on the same side, and the rounding of y is right. Near a power
 * of two, where the ulp changes, the only new boundary is the power itself, a value: under rne and
 * rna both sides round to it. Under sr, y near a value rounds to that value whichever side it is on,
 * unless the draw is within 2^-18 of 0 or 1: then it counts as undecided, too.
 *
 * Slow path. About 2^-17 of fp32 results are undecided, fewer of the others. decide.h tells with
 * integers whether the true y is above a boundary; it ends for every x != 0. The double next to the
 * boundary on the true side is then rounded in place of y: it lies in the same interval.
 */
#ifndef LSBENCH_EXACT_H
#define LSBENCH_EXACT_H

#include "decide.h"
#include "formulas.h"
#include "quotient.h"

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
    double q = 0x1.72ad3ae40026cp-19;
    q = LS_FMA(q, r, 0x1.a136b06bc588ap-16);
    q = LS_FMA(q, r, 0x1.a019c3721fa8bp-13);
    q = LS_FMA(q, r, 0x1.6c166be75a762p-10);
    q = LS_FMA(q, r, 0x1.111111170ad56p-7);
    q = LS_FMA(q, r, 0x1.55555565c55a0p-5);
    q = LS_FMA(q, r, 0x1.5555555554f97p-3);
    q = LS_FMA(q, r, 0x1.fffffffffe069p-2);
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

/* From the value nearest to y to the neighbour that a directed mode asks for; `residual` is |y|
 * minus its magnitude. */
LS_INLINE uint32_t ls_directed(uint32_t nearest, double residual, uint32_t negative, ls_rounding mode) {
    const uint32_t down = nearest - (residual < 0), inexact = residual != 0;
    if (mode == LS_RTO)
        return down | inexact;
    return down + (inexact & (mode == LS_RUP ? !negative : mode == LS_RDN ? negative : 0));
}

/* fp32 by conversion instructions. Under rne and rna both ends of the enclosure must round alike (an
 * exact tie counts as open); under the directed modes the nearest value must be apart from y. Bits of
 * *open are set where that fails. */
LS_INLINE uint32_t ls_exact_fp32_one(float g, float x, ls_rounding mode, uint32_t *open) {
    const double y = ls_exact_double(g, x, mode);
    const int number = y == y;
    if (mode == LS_RNE || mode == LS_RNA) {
        const uint32_t high = ls_float_bits((float)(y * (1.0 + LS_EXACT_WIDTH)));
        const uint32_t low = ls_float_bits((float)(y * (1.0 - LS_EXACT_WIDTH)));
        *open |= number ? high ^ low : 0;
        return number ? high : ls_nan_bits(LS_FP32);
    }
    const float nearest = (float)y;
    const double residual = fabs(y) - fabs((double)nearest);
    const uint32_t near = fabs(residual) < fabs(y) * LS_EXACT_WIDTH;
    *open |= near & (x != 0) & (fabsf(x) <= FLT_MAX);
    const uint32_t bits = ls_float_bits(nearest), stepped = ls_directed(bits, residual, bits >> 31, mode);
    const uint32_t pattern = fabs(y) <= DBL_MAX ? stepped : bits;
    return number ? pattern : ls_nan_bits(LS_FP32);
}

/* Subnormal patterns to zeros of their sign. */
LS_INLINE void ls_flush_pass(void *y, size_t n, ls_format format) {
    const uint32_t sign = ls_sign_bit(format), least = 1u << (ls_precision(format) - 1);
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = format == LS_FP32 ? ((uint32_t *)y)[i] : ((uint16_t *)y)[i];
        ls_write(y, i, (bits & (sign - 1)) < least ? bits & sign : bits, format);
    }
}

/* Elements of one vector loop; where one is open, all of it are looked at again. */
#define LS_EXACT_PASS 128

LS_INLINE void ls_exact_fp32_block(
    const void *g, const void *x, void *y, size_t n, const ls_store *store, ls_rounding mode) {
    for (size_t start = 0; start < n; start += LS_EXACT_PASS) {
        const size_t count = n - start < LS_EXACT_PASS ? n - start : LS_EXACT_PASS;
        const float *gs = (const float *)g + start, *xs = (const float *)x + start;
        uint32_t ys[LS_EXACT_PASS], open = 0;
        for (size_t i = 0; i < count; i++)
            ys[i] = ls_exact_fp32_one(gs[i], xs[i], mode, &open);
        for (size_t i = 0; open && i < count; i++) {
            uint32_t again = 0;
            ls_exact_fp32_one(gs[i], xs[i], mode, &again);
            if (again)
                ys[i] = ls_exact_one(gs[i], xs[i], LS_FP32, mode, 0);
        }
        if (store->ftz)
            ls_flush_pass(ys, count, LS_FP32);
        memcpy((uint32_t *)y + start, ys, count * sizeof *ys);
    }
}

/* y rounded stochastically to a value of the format, and in *open whether the true value may round
 * otherwise: what ls_undecided and ls_round say, from one split. */
LS_INLINE double ls_exact_sr_one(double y, double x, ls_format format, uint32_t draw, uint32_t *open) {
    const ls_split at = ls_split_at(y, format);
    const double width = at.magnitude * LS_EXACT_WIDTH, threshold = ls_sr_threshold(draw);
    const double step = at.residual < 0 ? at.ulp : 0.0, part = at.residual + step;
    const double above = part - threshold * at.ulp;
    const int extreme = (threshold < 0x1p-18) | (threshold > 1.0 - 0x1p-18);
    const int inexact = (x != 0) & (at.magnitude <= DBL_MAX) & (fabs(x) <= DBL_MAX);
    *open |= (uint32_t)(inexact & ((fabs(above) < width) | (extreme & (fabs(at.residual) < width))));
    const double rounded = at.nearest - step + (above > 0 ? at.ulp : 0.0);
    return copysign(at.magnitude <= DBL_MAX ? rounded : at.magnitude, y);
}

/* Stochastic rounding, for every format: the drawn threshold is the boundary. */
LS_INLINE void ls_exact_sr_block(const void *g, const void *x, void *y, size_t n, uint64_t index,
    const ls_store *store, ls_format format) {
    double gs[LS_PASS], xs[LS_PASS], ys[LS_PASS];
    uint32_t draws[LS_PASS];
    const size_t itemsize = ls_itemsize(format);
    for (size_t start = 0; start < n; start += LS_PASS) {
        const size_t count = n - start < LS_PASS ? n - start : LS_PASS;
        char *target = (char *)y + start * itemsize;
        uint32_t open = 0;
        ls_load(format, (const char *)g + start * itemsize, gs, count);
        ls_load(format, (const char *)x + start * itemsize, xs, count);
        for (size_t i = 0; i < count; i++)
            draws[i] = ls_sr_draw(store->seed, index + start + i);
        for (size_t i = 0; i < count; i++)
            ys[i] = ls_exact_sr_one(ls_exact_double(gs[i], xs[i], LS_SR), xs[i], format, draws[i], &open);
        /* Values of the format all: these conversions round nothing. */
        for (size_t i = 0; i < count; i++) {
            const float value = (float)ys[i];
            const uint32_t bits = value == value ? ls_float_bits(value) : ls_nan_bits(LS_FP32);
            ls_write(target, i, format == LS_FP32 ? bits : ls_narrow_16(value, format), format);
        }
        for (size_t i = 0; open && i < count; i++)
            ls_write(target, i, ls_exact_one(gs[i], xs[i], format, LS_SR, draws[i]), format);
        if (store->ftz)
            ls_flush_pass(target, count, format);
    }
}

/* The mode is fixed outside the loops. */
#define LS_EXACT_MODES(block)                                                                                \
    switch (store->rounding) {                                                                               \
    case LS_RNA:                                                                                             \
        block(LS_RNA);                                                                                       \
        break;                                                                                               \
    case LS_RTZ:                                                                                             \
        block(LS_RTZ);                                                                                       \
        break;                                                                                               \
    case LS_RUP:                                                                                             \
        block(LS_RUP);                                                                                       \
        break;                                                                                               \
    case LS_RDN:                                                                                             \
        block(LS_RDN);                                                                                       \
        break;                                                                                               \
    case LS_RTO:                                                                                             \
        block(LS_RTO);                                                                                       \
        break;                                                                                               \
    default:                                                                                                 \
        block(LS_RNE);                                                                                       \
    }

static void ls_exact_fp32(
    const void *g, const void *x, void *y, size_t n, uint64_t index, const ls_store *store) {
    if (store->rounding == LS_SR) {
        ls_exact_sr_block(g, x, y, n, index, store, LS_FP32);
        return;
    }
#define LS_EXACT_BLOCK(mode) ls_exact_fp32_block(g, x, y, n, store, mode)
    LS_EXACT_MODES(LS_EXACT_BLOCK)
#undef LS_EXACT_BLOCK
}

#endif
