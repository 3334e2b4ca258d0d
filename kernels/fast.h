/* The result at the speed of the arithmetic: one rounding after an error too small to matter.
 *
 * Guarantee, for every g and x, subnormal results included, and with the right special values:
 *
 *   fp32          within 0.68 ulp under rne (double arithmetic, an exponential good to 2^-26.5)
 *   fp16, bf16    within 0.51 ulp under rne (fp32 arithmetic, an exponential good to 2^-21)
 *
 * and within 1.2 ulp of the exact value under the directed modes. x = 0 gives g/2 rounded once. The bits
 * are the same on every machine: fused operations are written out, and fma rounds once by definition
 * (an instruction where there is one, else a slow call).
 */
#ifndef LSBENCH_FAST_H
#define LSBENCH_FAST_H

#include "exact_16.h"

/* x = -inf gives g, x = +inf gives 0 * g: a zero, or NaN for an infinite g. */
#define LS_SPECIAL(g, x, y) ((x) == -INFINITY ? (g) : (x) == INFINITY ? (g)*0 : (y))

/* g / (1 + e^x) within 2^-26.4 relative. Below -40 e^x is lost beside 1; above 250 y is under a
 * quarter of every subnormal. ln2 in one part: k ln2 is within 2^-45 for |k| <= 361. */
LS_INLINE double ls_fast_double(double g, double x) {
    const double low = x < -40.0 ? -40.0 : x, inside = low > 250.0 ? 250.0 : low;
    const double shifted = fma(inside, 0x1.71547652b82fep+0, 0x1.8p+52), k = shifted - 0x1.8p+52;
    const double r = fma(k, -0x1.62e42fefa39efp-1, inside);
    double q = 0x1.6d10fc65d1899p-10;
    q = fma(q, r, 0x1.120b616c5a930p-7);
    q = fma(q, r, 0x1.5555193389338p-5);
    q = fma(q, r, 0x1.5554dd04e5762p-3);
    q = fma(q, r, 0.5);
    const double p = 1.0 + fma(r * r, q, r);
    const double y = g / (1.0 + ls_bits_double(ls_double_bits(p) + (ls_double_bits(shifted) << 52)));
    return LS_SPECIAL(g, x, y);
}

/* The same in fp32 arithmetic, within 2^-20 relative or 2^-147: below -20 e^x is lost beside 1. */
LS_INLINE float ls_fast_float(float g, float x) {
    const float low = x < -20.0f ? -20.0f : x, inside = low > 190.0f ? 190.0f : low;
    return ls_special_float(g, x, ls_quotient_float(g, inside));
}

static void ls_fast_fp32(
    const void *g, const void *x, void *y, size_t n, uint64_t index, const ls_store *store) {
    double ys[LS_PASS];
    const float *gs = g, *xs = x;
    float *direct = y;
    if (store->rounding == LS_RNE && !store->ftz) {
        for (size_t i = 0; i < n; i++)
            direct[i] = (float)ls_fast_double(gs[i], xs[i]);
        return;
    }
    for (size_t start = 0; start < n; start += LS_PASS) {
        const size_t count = n - start < LS_PASS ? n - start : LS_PASS;
        for (size_t i = 0; i < count; i++)
            ys[i] = ls_fast_double(gs[start + i], xs[start + i]);
        ls_store_fp32(ys, (uint32_t *)y + start, count, index + start, store);
    }
}

LS_INLINE void ls_fast_16(const void *g, const void *x, void *y, size_t n, uint64_t index,
    const ls_store *store, ls_format format) {
    float gs[LS_PASS], xs[LS_PASS], ys[LS_PASS];
    double wide[LS_PASS];
    for (size_t start = 0; start < n; start += LS_PASS) {
        const size_t count = n - start < LS_PASS ? n - start : LS_PASS;
        uint16_t *target = (uint16_t *)y + start;
        ls_widen_pass((const uint16_t *)g + start, gs, count, format);
        ls_widen_pass((const uint16_t *)x + start, xs, count, format);
        for (size_t i = 0; i < count; i++)
            ys[i] = ls_fast_float(gs[i], xs[i]);
        if (store->rounding == LS_RNE && !store->ftz) {
            ls_narrow_pass(ys, target, count, format);
            continue;
        }
        for (size_t i = 0; i < count; i++)
            wide[i] = (double)ys[i];
        ls_store_as(format, wide, target, count, index + start, store);
    }
}

static void ls_fast_fp16(
    const void *g, const void *x, void *y, size_t n, uint64_t index, const ls_store *store) {
    ls_fast_16(g, x, y, n, index, store, LS_FP16);
}

static void ls_fast_bf16(
    const void *g, const void *x, void *y, size_t n, uint64_t index, const ls_store *store) {
    ls_fast_16(g, x, y, n, index, store, LS_BF16);
}

#endif
