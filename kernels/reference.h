/* The certified reference: the error of a computed result and the correctly rounded one, in doubles.
 *
 * Guarantee, for every finite g other than 0, finite x and computed result of a format:
 *
 * - the signed error is within 2^-20 ulp of the true one where that is below 2^8 ulp, and within
 *   2^-48 of itself beyond;
 * - an element marked decided has its correctly rounded result, in any rounding mode.
 *
 * Proof. u = 2^-53. Every operation is one IEEE double operation rounded to nearest, none is
 * contracted, none over- or underflows. y = |g| s(x), s(x) = 1/(1 + e^x). First let
 * -31.5 <= x <= 250 and |x| >= 2^-44.
 *
 * e^x = 2^j 2^(i/128) e^r with 128 j + i = k, k an integer next to 128 x/ln2, r = x - k ln2/128,
 * |r| < 2^-8.5. |k| < 2^16 and STEP_HIGH has 36 bits: their product is exact. If k is not 0 then
 * |x| > 2^-9 and x, a float, is a multiple of 2^-32, k STEP_HIGH one of 2^-44, both below 2^8, and
 * their difference is exact. k STEP_LOW and its subtraction err by 2^-80 and 2^-62, so r by 2^-61.9.
 * p = r + r^2 (1/2 + r (1/6 + r (1/24 + r/120))) leaves out less than r^6/719 < 2^-60.4 of e^r - 1,
 * and its rounding costs less than 2^-61. With the table's T = 2^(i/128) (1 + d), |d| <= u, the sum
 * T + T p adds u and 2^-60.5. So e^x is good to 2u + 2^-58.8, relative; 1 + e^x to 3u + 2^-58.8, its
 * reciprocal to 4u + 2^-58.8 and the product with |g|, y, to 5u + 2^-58.7 < 0.65 * 2^-50.
 *
 * Other x have a stand-in on the border of that range, which lies on the same side of every limit:
 * - 0 < |x| < 2^-44: +-2^-44. Both values of s are on one side of 1/2 and within 2^-45 of it;
 * - x < -31.5: -31.5. Both values of s are below 1, by less than 2^-45.4;
 * - x > 250: 250. Both values of y are above 0 and below 2^128 e^-250 < 2^-232.
 * Between y and its stand-in there is no value, midpoint or border of a binade, for those next to
 * the limits |g|/2, |g| and 0 are at least 2^-26 y, or half of the least subnormal, away: one result
 * and one ulp for both, in the six deterministic modes. x = 0 gives 1/2, exactly.
 *
 * In ulp, U = y/ulp(y) < 2^24, an exact scaling, as computed/ulp(y) is. The error is off by no more
 * than 2^24 (0.65 * 2^-50 + 2^-45), or 2^-83 for x > 250, and the subtraction: less than 2^-20.
 *
 * An element is decided if U (1 - e) and U (1 + e) round to one result and U (1 +- 2^-50) lies in
 * one binade. With e = 2^-50 that interval holds y or its stand-in: 0.65 * 2^-50 + u < 2^-50. The
 * thresholds of stochastic rounding lie between values, as near to one as 2^-25 ulp; there
 * e = 2^-44 > 2^-45 + 2^-50 covers the way to the stand-in too (x > 250 aside, where y is below
 * every threshold).
 *
 * The kernels under test share nothing with this: no table, no polynomial, no conversion, no rounding.
 */
#ifndef LSBENCH_REFERENCE_H
#define LSBENCH_REFERENCE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "block.h"
#include "reference_table.h"

/* Elements of a block: its arrays stay in the first-level cache, and 128 divides every binade. */
#define LS_REF_BLOCK 128

#define LS_REF_INLINE static inline __attribute__((always_inline))

/* Vectors of 64-bit lanes (GCC's and Clang's extension): the width changes the speed, never a bit. */
#if defined(__AVX512F__)
#define LS_REF_LANES 8
#elif defined(__AVX2__)
#define LS_REF_LANES 4
#else
#define LS_REF_LANES 2
#endif
typedef double ls_vd __attribute__((vector_size(8 * LS_REF_LANES)));
typedef uint64_t ls_vu __attribute__((vector_size(8 * LS_REF_LANES)));
typedef int64_t ls_vi __attribute__((vector_size(8 * LS_REF_LANES)));
typedef uint32_t ls_vu32 __attribute__((vector_size(4 * LS_REF_LANES)));
typedef uint16_t ls_vu16 __attribute__((vector_size(2 * LS_REF_LANES)));

/* 2^52 * 1.5: adding it rounds a double below 2^51 to an integer, which the low bits then hold. */
#define LS_REF_INTEGER 0x1.8p52

typedef struct {
    int bits;
    int p;
    int emin;
    int emax;
} ls_ref_format;

static const ls_ref_format ls_ref_fp32 = {32, 24, -126, 127};
static const ls_ref_format ls_ref_fp16 = {16, 11, -14, 15};
static const ls_ref_format ls_ref_bf16 = {16, 8, -126, 127};

/* What a result claims to be. */
typedef struct {
    ls_format format;
    ls_rounding mode;
    int ftz;
    uint64_t seed;
} ls_ref_claim;

/* One block. Patterns are whole, sign and magnitude; lanes beyond n hold zeros. */
typedef struct {
    uint64_t g[LS_REF_BLOCK], x[LS_REF_BLOCK], computed[LS_REF_BLOCK];
    double threshold[LS_REF_BLOCK]; /* of stochastic rounding, in ulp */
    double error[LS_REF_BLOCK];     /* signed, in ulp */
    uint64_t correct[LS_REF_BLOCK]; /* before a declared flush */
    uint64_t decided[LS_REF_BLOCK]; /* all bits or none */
} __attribute__((aligned(64))) ls_ref_block;

LS_REF_INLINE uint64_t ls_ref_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* 2^exponent for -1022 <= exponent <= 1023. */
LS_REF_INLINE double ls_ref_power(int exponent) {
    uint64_t bits = (uint64_t)(1023 + exponent) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

LS_REF_INLINE uint64_t ls_ref_sign_bit(ls_ref_format f) { return 1ull << (f.bits - 1); }
LS_REF_INLINE uint64_t ls_ref_infinity(ls_ref_format f) {
    return (uint64_t)(2 * f.emax + 1) << (f.p - 1);
}
LS_REF_INLINE uint64_t ls_ref_least_normal(ls_ref_format f) { return 1ull << (f.p - 1); }

LS_REF_INLINE ls_vd ls_ref_select(ls_vi mask, ls_vd yes, ls_vd no) {
    return (ls_vd)(((ls_vi)yes & mask) | ((ls_vi)no & ~mask));
}

/* Values of magnitudes' patterns. Infinity gives 2^(emax+1), which is what it counts as. */
LS_REF_INLINE ls_vd ls_ref_value(ls_vu magnitude, ls_ref_format f) {
    /* A subnormal has no hidden 1: take it away, and double, for its exponent is emin, not emin - 1. */
    ls_vd value = (ls_vd)((magnitude << (53 - f.p)) + ((uint64_t)(1023 - f.emax) << 52));
    ls_vd subnormal = (value - ls_ref_power(-f.emax)) * 2.0;
    return ls_ref_select((ls_vi)magnitude < (int64_t)ls_ref_least_normal(f), subnormal, value);
}

/* s(x) = 1/(1 + e^x), x moved as the proof says, but for x = 0, whose 1/2 the caller sees to. */
LS_REF_INLINE ls_vd ls_ref_sigma(ls_vd size, ls_vu sign) {
    const ls_vd tiny = (ls_vd){} + 0x1p-44;
    ls_vd x = (ls_vd)((ls_vu)ls_ref_select(size < tiny, tiny, size) | sign);
    x = ls_ref_select(x < -31.5, (ls_vd){} - 31.5, x);
    x = ls_ref_select(x > 250.0, (ls_vd){} + 250.0, x);
    ls_vd rounded = x * LS_REF_STEPS_PER_UNIT + LS_REF_INTEGER;
    ls_vd k = rounded - LS_REF_INTEGER;
    ls_vu step = (ls_vu)rounded, row = step & 127;
    ls_vd r = (x - k * LS_REF_STEP_HIGH) - k * LS_REF_STEP_LOW;
    ls_vd p = r + r * r * (0.5 + r * (1.0 / 6 + r * (1.0 / 24 + r * (1.0 / 120))));
    ls_vd power;
    for (int lane = 0; lane < LS_REF_LANES; lane++) {
        power[lane] = ls_ref_powers[row[lane]];
    }
    power = power + power * p;
    /* Shifted, the bits of k above the table's row become j in the exponent field. */
    power = (ls_vd)((ls_vu)power + ((step - row) << 45));
    return 1.0 / (1.0 + power);
}

/* Magnitudes in ulp rounded to integers, 0 <= u < 2^25. `negative` holds all bits or none. */
LS_REF_INLINE ls_vd ls_ref_round(ls_vd u, ls_rounding mode, ls_vi negative, ls_vd threshold) {
    const ls_vd one = (ls_vd){} + 1.0;
    ls_vd nearest = (u + LS_REF_INTEGER) - LS_REF_INTEGER;
    ls_vd floor = nearest - (ls_vd)((ls_vi)one & (nearest > u));
    ls_vd rest = u - floor;
    ls_vi up;
    switch (mode) {
    case LS_RNE:
        return nearest;
    case LS_RNA:
        up = rest >= 0.5;
        break;
    case LS_RTZ:
        return floor;
    case LS_RUP:
        up = (rest > 0.0) & ~negative;
        break;
    case LS_RDN:
        up = (rest > 0.0) & negative;
        break;
    case LS_RTO:
        up = (rest > 0.0) & (((ls_vi)(floor + 0x1p52) & 1) - 1);
        break;
    default:
        up = rest > threshold;
    }
    return floor + (ls_vd)((ls_vi)one & up);
}

/* Errors and correctly rounded results of LS_REF_LANES elements at `at`. */
LS_REF_INLINE void ls_ref_judge_lanes(ls_ref_block *b, size_t at, ls_ref_format f,
                                      ls_rounding mode) {
    const uint64_t sign_bit = ls_ref_sign_bit(f);
    const double top = ls_ref_power(f.p), bottom = ls_ref_power(f.p - 1);
    const ls_vd least = (ls_vd){} + ls_ref_power(f.emin);
    ls_vu g = *(ls_vu *)(b->g + at), x = *(ls_vu *)(b->x + at),
          computed = *(ls_vu *)(b->computed + at);
    ls_vd threshold = mode == LS_SR ? *(ls_vd *)(b->threshold + at) : (ls_vd){};

    ls_vi x_is_zero = (ls_vi)((x & ~sign_bit) == 0);
    ls_vd sigma = ls_ref_sigma(ls_ref_value(x & ~sign_bit, f), (x & sign_bit) << (64 - f.bits));
    sigma = ls_ref_select(x_is_zero, (ls_vd){} + 0.5, sigma);

    ls_vd y = ls_ref_value(g & ~sign_bit, f) * sigma;
    ls_vu field = (ls_vu)ls_ref_select(y < least, least, y) & 0x7ff0000000000000ull;
    ls_vd per_ulp = (ls_vd)(((uint64_t)(2045 + f.p) << 52) - field);
    ls_vd u = y * per_ulp;
    ls_vd slack = u * (mode == LS_SR ? 0x1p-44 : 0x1p-50);
    slack = (ls_vd)((ls_vi)slack & ~x_is_zero);
    ls_vi negative = (ls_vi)((g & sign_bit) != 0);
    ls_vd below = u - slack, above = u + slack;
    ls_vd low = ls_ref_round(below, mode, negative, threshold);
    ls_vd high = ls_ref_round(above, mode, negative, threshold);
    ls_vu exponent = (field - ((uint64_t)(1023 + f.emin) << 52)) >> (53 - f.p);
    ls_vu magnitude = ((ls_vu)(low + 0x1p52) & 0xffffffffull) + exponent;
    *(ls_vu *)(b->correct + at) = magnitude | (g & sign_bit);
    /* Subnormals share the ulp of the least normal binade: it has no lower border. */
    ls_vd margin = (ls_vd)((ls_vi)(u * 0x1p-50) & ~x_is_zero);
    ls_vi in_binade = (u + margin < top) & ((u - margin >= bottom) | (ls_vi)(exponent == 0));
    *(ls_vi *)(b->decided + at) = (low == high) & in_binade;

    ls_vd size = ls_ref_value(computed & ~sign_bit, f) * per_ulp;
    ls_vu g_sign = (g & sign_bit) << (64 - f.bits), computed_sign = (computed & sign_bit)
                                                                    << (64 - f.bits);
    *(ls_vd *)(b->error + at) = (ls_vd)((ls_vu)size | computed_sign) - (ls_vd)((ls_vu)u | g_sign);
}

/* SplitMix64's output function (Steele, Lea, Flood 2014) at counter index + 1, its upper 24 bits,
 * as the threshold (2 draw + 1)/2^25 above which stochastic rounding goes up. */
LS_REF_INLINE double ls_ref_threshold(uint64_t seed, uint64_t index) {
    uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    z = (z ^ (z >> 31)) >> 40;
    return (double)(int64_t)(2 * z + 1) * 0x1p-25;
}

LS_REF_INLINE void ls_ref_widen(uint64_t *wide, const void *narrow, size_t at, size_t n, int bits) {
    size_t i = 0;
    for (; i + LS_REF_LANES <= n; i += LS_REF_LANES) {
        if (bits == 32) {
            ls_vu32 part;
            memcpy(&part, (const uint32_t *)narrow + at + i, sizeof part);
            *(ls_vu *)(wide + i) = __builtin_convertvector(part, ls_vu);
        } else {
            ls_vu16 part;
            memcpy(&part, (const uint16_t *)narrow + at + i, sizeof part);
            *(ls_vu *)(wide + i) = __builtin_convertvector(part, ls_vu);
        }
    }
    for (; i < n; i++) {
        wide[i] =
            bits == 32 ? ((const uint32_t *)narrow)[at + i] : ((const uint16_t *)narrow)[at + i];
    }
    for (; i % LS_REF_LANES; i++) {
        wide[i] = 0;
    }
}

/* One specialised copy per format and mode: the loops have no branch in them. */
#define LS_REF_MODES(X, format) \
    X(format, LS_RNE)           \
    X(format, LS_RNA)           \
    X(format, LS_RTZ) X(format, LS_RUP) X(format, LS_RDN) X(format, LS_RTO) X(format, LS_SR)

#define LS_REF_DEFINE(format, mode)                                         \
    static void ls_ref_judge_##format##_##mode(ls_ref_block *b, size_t n) { \
        for (size_t i = 0; i < n; i += LS_REF_LANES) {                      \
            ls_ref_judge_lanes(b, i, format, mode);                         \
        }                                                                   \
    }

LS_REF_MODES(LS_REF_DEFINE, ls_ref_fp32)
LS_REF_MODES(LS_REF_DEFINE, ls_ref_fp16)
LS_REF_MODES(LS_REF_DEFINE, ls_ref_bf16)

#define LS_REF_ENTRY(format, mode) ls_ref_judge_##format##_##mode,
static void (*const ls_ref_judges[LS_FORMATS][LS_ROUNDINGS])(ls_ref_block *, size_t) = {
    {LS_REF_MODES(LS_REF_ENTRY, ls_ref_fp32)},
    {LS_REF_MODES(LS_REF_ENTRY, ls_ref_fp16)},
    {LS_REF_MODES(LS_REF_ENTRY, ls_ref_bf16)},
};

static const ls_ref_format *const ls_ref_formats[LS_FORMATS] = {&ls_ref_fp32, &ls_ref_fp16,
                                                                &ls_ref_bf16};

/* Judge elements [at, at + n) of the arrays, n <= LS_REF_BLOCK, into the block; index is the
 * position that stochastic rounding counts for element `at`. */
static void ls_ref_fill(ls_ref_block *b, const void *g, const void *x, const void *computed,
                        size_t at, size_t n, uint64_t index, const ls_ref_claim *claim) {
    if (claim->format == LS_FP32) {
        ls_ref_widen(b->g, g, at, n, 32);
        ls_ref_widen(b->x, x, at, n, 32);
        ls_ref_widen(b->computed, computed, at, n, 32);
    } else {
        ls_ref_widen(b->g, g, at, n, 16);
        ls_ref_widen(b->x, x, at, n, 16);
        ls_ref_widen(b->computed, computed, at, n, 16);
    }
    if (claim->mode == LS_SR) {
        for (size_t i = 0; i < n; i++) {
            b->threshold[i] = ls_ref_threshold(claim->seed, index + i);
        }
    }
    ls_ref_judges[claim->format][claim->mode](b, n);
}

#endif
