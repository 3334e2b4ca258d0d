/* Rounding a double once to fp32, fp16 or bf16, in each of the seven modes.
 *
 * Adding 2^(e + 53 - p) to a magnitude with e = max(floor(log2), emin) leaves exactly the ulps of
 * the format in the sum: its low bits are the significand, rounded to nearest even by the addition
 * itself, subnormal results included. What the addition discarded, the residual, is exact (Dekker
 * 1971: a double minus itself rounded to a coarser grid), and the other modes follow from its sign
 * and size. There is one rounding, no branch, and the loops vectorise.
 *
 * Overflow is a magnitude that would round to 2^(emax + 1) or more: infinity under rne, rna and sr,
 * the largest finite value under rtz and rto, whichever bounds it from outside under rup and rdn.
 * An infinity stays one in every mode, a NaN becomes the default NaN, a zero keeps its sign.
 * Needs the default floating-point environment, as every block function does.
 */
#ifndef LSBENCH_ROUNDING_H
#define LSBENCH_ROUNDING_H

#include <math.h>

#include "convert.h"

/* The 24-bit draw of stochastic rounding: SplitMix64's output at counter index + 1 (Steele, Lea,
 * Flood 2014), its upper bits. A function of seed and element alone. */
LS_INLINE uint32_t ls_sr_draw(uint64_t seed, uint64_t index) {
    uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ z >> 31) >> 40);
}

/* An integer in [0, 2^52) as a double that compares as it does: SSE2 cannot compare 64-bit
 * integers. */
LS_INLINE double ls_comparable(int64_t k) {
    return ls_bits_double((uint64_t)k | (uint64_t)1075 << 52);
}

/* Whether a magnitude beyond the largest finite value becomes infinity. */
LS_INLINE int64_t ls_overflows_to_inf(ls_rounding mode, int64_t negative) {
    if (mode == LS_RUP)
        return 1 - negative;
    if (mode == LS_RDN)
        return negative;
    return mode == LS_RNE || mode == LS_RNA || mode == LS_SR;
}

/* The significand k, rounded to nearest even, corrected for another mode. `residual` is the exact
 * value minus k ulps. The magnitude goes up under sr if its discarded fraction of an ulp exceeds
 * (2 draw + 1) / 2^25; both sides of that comparison are exact. */
LS_INLINE int64_t ls_redirect(
    int64_t k, double residual, double ulp, int64_t negative, ls_rounding mode, uint32_t draw) {
    const int64_t down = residual < 0 ? k - 1 : k, inexact = residual != 0 ? 1 : 0;
    switch (mode) {
    case LS_RNA:
        return residual == 0.5 * ulp ? k + 1 : k;
    case LS_RTZ:
        return down;
    case LS_RUP:
        return down + (inexact & ~negative);
    case LS_RDN:
        return down + (inexact & negative);
    case LS_RTO:
        return down | inexact;
    case LS_SR: {
        const double discarded = residual < 0 ? residual + ulp : residual;
        const double threshold = ulp * (0x1p-25 * (2.0 * (double)(int32_t)draw + 1.0));
        return discarded > threshold ? down + 1 : down;
    }
    default:
        return k;
    }
}

/* The pattern of `value` rounded to `format`; `draw` is read under sr only. Integers are as wide as
 * the doubles, and choices have two computed sides, for the sake of the vectoriser. */
LS_INLINE int64_t ls_round(
    double value, ls_format format, ls_rounding mode, int ftz, uint32_t draw) {
    const int p = ls_precision(format), emin = ls_emin(format);
    const double limit = ls_power_of_two(ls_emax(format) + 1), least = ls_power_of_two(emin);
    const double exact = fabs(value), magnitude = exact > limit ? limit : exact;
    const double normal = magnitude > least ? magnitude : least;
    const int64_t negative = (int64_t)(ls_double_bits(value) >> 63);

    const int64_t binade = (int64_t)(ls_double_bits(normal) & (uint64_t)0x7ff << 52);
    const double shifter = ls_bits_double((uint64_t)binade + ((uint64_t)(53 - p) << 52));
    const double sum = magnitude + shifter;
    const double residual = magnitude - (sum - shifter), ulp = shifter * 0x1p-52;
    const int64_t nearest = (int64_t)(ls_double_bits(sum) - ls_double_bits(shifter));
    const int64_t k = ls_redirect(nearest, residual, ulp, negative, mode, draw);

    /* binade = (e + 1023) 2^52 becomes (e - emin) 2^(p - 1); k adds the hidden bit to it. */
    int64_t pattern =
        (int64_t)((uint64_t)binade >> (53 - p)) - ((int64_t)(emin + 1023) << (p - 1)) + k;
    const int64_t inf = ls_inf_bits(format), most = inf - 1 + ls_overflows_to_inf(mode, negative);
    const double flushed_below = ls_comparable(ftz ? (int64_t)1 << (p - 1) : 0);
    pattern = ls_comparable(pattern) < ls_comparable(inf) ? pattern : most;
    pattern = ls_comparable(pattern) < flushed_below ? 0 : pattern;
    pattern = exact > DBL_MAX ? inf : pattern;
    pattern |= negative << (format == LS_FP32 ? 31 : 15);
    return exact <= HUGE_VAL ? pattern : (int64_t)ls_nan_bits(format);
}

/* `value` rounded to nearest even to a value of `format`, as one operation of hardware without
 * wider registers leaves it: overflow gives an infinity. */
LS_INLINE double ls_quantise(double value, ls_format format) {
    if (format == LS_FP32)
        return (double)(float)value;
    const double limit = ls_power_of_two(ls_emax(format) + 1),
                 least = ls_power_of_two(ls_emin(format));
    const double exact = fabs(value), magnitude = exact > limit ? limit : exact;
    const double normal = magnitude > least ? magnitude : least;
    const uint64_t binade = ls_double_bits(normal) & (uint64_t)0x7ff << 52;
    const double shifter = ls_bits_double(binade + ((uint64_t)(53 - ls_precision(format)) << 52));
    const double rounded = (magnitude + shifter) - shifter;
    return copysign(rounded >= limit ? (double)INFINITY : rounded, value);
}

/* Stores: round n doubles and write their patterns. The mode is fixed outside the loop. */
LS_INLINE void ls_write(void *y, size_t i, int64_t pattern, ls_format format) {
    if (format == LS_FP32)
        ((uint32_t *)y)[i] = (uint32_t)pattern;
    else
        ((uint16_t *)y)[i] = (uint16_t)pattern;
}

LS_INLINE void ls_store_loop(const double *value, void *y, size_t n, uint64_t index,
    const ls_store *store, ls_format format, ls_rounding mode) {
    const int ftz = store->ftz;
    const uint64_t seed = store->seed;
    for (size_t i = 0; i < n; i++)
        ls_write(y, i,
            ls_round(value[i], format, mode, ftz, mode == LS_SR ? ls_sr_draw(seed, index + i) : 0),
            format);
}

LS_INLINE void ls_store_format(const double *value, void *y, size_t n, uint64_t index,
    const ls_store *store, ls_format format) {
    switch (store->rounding) {
    case LS_RNA:
        ls_store_loop(value, y, n, index, store, format, LS_RNA);
        break;
    case LS_RTZ:
        ls_store_loop(value, y, n, index, store, format, LS_RTZ);
        break;
    case LS_RUP:
        ls_store_loop(value, y, n, index, store, format, LS_RUP);
        break;
    case LS_RDN:
        ls_store_loop(value, y, n, index, store, format, LS_RDN);
        break;
    case LS_RTO:
        ls_store_loop(value, y, n, index, store, format, LS_RTO);
        break;
    case LS_SR:
        ls_store_loop(value, y, n, index, store, format, LS_SR);
        break;
    default:
        ls_store_loop(value, y, n, index, store, format, LS_RNE);
        break;
    }
}

static inline void ls_store_fp32(
    const double *value, uint32_t *y, size_t n, uint64_t index, const ls_store *store) {
    ls_store_format(value, y, n, index, store, LS_FP32);
}

static inline void ls_store_fp16(
    const double *value, uint16_t *y, size_t n, uint64_t index, const ls_store *store) {
    ls_store_format(value, y, n, index, store, LS_FP16);
}

static inline void ls_store_bf16(
    const double *value, uint16_t *y, size_t n, uint64_t index, const ls_store *store) {
    ls_store_format(value, y, n, index, store, LS_BF16);
}

static inline void ls_store_as(ls_format format, const double *value, void *y, size_t n,
    uint64_t index, const ls_store *store) {
    if (format == LS_FP32)
        ls_store_fp32(value, y, n, index, store);
    else if (format == LS_FP16)
        ls_store_fp16(value, y, n, index, store);
    else
        ls_store_bf16(value, y, n, index, store);
}

#endif
