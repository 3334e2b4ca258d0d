/* The correctly rounded result in the 16-bit formats, mostly in fp32 arithmetic.
 *
 * Guarantee: 0 misrounded results, as exact.h, which proves what this file leaves open.
 *
 * quotient.h knows y to a relative error below 2^-20.6; LS_NARROW_WIDTH = 2^-20 leaves room for the
 * rounding of the test itself. As in exact.h, x is first moved to where the error cannot hide the side
 * of y: x < -9 becomes -9 (e^-9 < 2^-12.9; the nearest boundary below g is 2^-12 g away in fp16 and
 * 2^-9 g in bf16) and 0 < |x| < 2^-15 becomes 2^-15 (y within 2^-16 of g/2, boundaries 2^-12 away).
 * 2^-17 of y, the least that is left, is eight times the width.
 *
 * bf16 has results where fp32 itself is subnormal. Between 2^-136 and 2^-126 they count as open; below,
 * y is a number smaller than a quarter of every boundary, and 2^-140 stands for it. x = 0 is exact, but for
 * the ties of rna, which fp32 cannot widen there.
 *
 * What is open, one element in some hundreds, goes to the double path, one by one.
 */
#ifndef LSBENCH_EXACT_16_H
#define LSBENCH_EXACT_16_H

#include "exact.h"

#define LS_NARROW_WIDTH 0x1p-20f

/* y in fp32 from a moved argument, and whether fp32 lost it (bf16 alone). */
LS_INLINE float ls_exact_16_value(float g, float x, ls_format format, ls_rounding mode, uint32_t *lost) {
    const float most = format == LS_FP16 ? 40.0f : 190.0f;
    const float low = x < -9.0f ? -9.0f : x, inside = low > most ? most : low;
    const float side = copysignf(0x1p-15f, x);
    const float argument = ((fabsf(x) < 0x1p-15f) & (x != 0)) ? side : inside;
    const float y = ls_special_float(g, x, ls_quotient_float(g, argument));
    *lost = 0;
    if (format == LS_FP16)
        return y;
    const uint32_t small = (fabsf(y) < 0x1p-126f) & (g != 0) & (fabsf(x) <= FLT_MAX);
    const uint32_t tiny = small & (fabsf(y) < 0x1p-136f) & (x != 0);
    *lost = small & !tiny & ((x != 0) | (mode == LS_RNA));
    return tiny ? copysignf(0x1p-140f, g) : y;
}

/* A pass under rne or rna: both ends of the enclosure must round alike. */
LS_INLINE void ls_exact_16_nearest(
    const float *g, const float *x, uint16_t *y, uint32_t *open, size_t n, ls_format format, ls_rounding mode) {
    float high[LS_EXACT_PASS], low[LS_EXACT_PASS];
    uint16_t other[LS_EXACT_PASS];
    for (size_t i = 0; i < n; i++) {
        const float value = ls_exact_16_value(g[i], x[i], format, mode, open + i);
        high[i] = value * (1.0f + LS_NARROW_WIDTH);
        low[i] = value * (1.0f - LS_NARROW_WIDTH);
    }
    ls_narrow_pass(high, y, n, format);
    ls_narrow_pass(low, other, n, format);
    for (size_t i = 0; i < n; i++)
        open[i] |= (uint32_t)(y[i] ^ other[i]);
}

/* A pass under a directed mode: the nearest value must be apart from y; one step leads from it. */
LS_INLINE void ls_exact_16_directed(
    const float *g, const float *x, uint16_t *y, uint32_t *open, size_t n, ls_format format, ls_rounding mode) {
    float value[LS_EXACT_PASS], nearest[LS_EXACT_PASS];
    for (size_t i = 0; i < n; i++)
        value[i] = ls_exact_16_value(g[i], x[i], format, mode, open + i);
    ls_narrow_pass(value, y, n, format);
    ls_widen_pass(y, nearest, n, format);
    for (size_t i = 0; i < n; i++) {
        const uint32_t plain = (x[i] != 0) & (fabsf(x[i]) <= FLT_MAX);
        const float residual = fabsf(value[i]) - fabsf(nearest[i]);
        open[i] |= plain & (fabsf(residual) < fabsf(value[i]) * LS_NARROW_WIDTH);
        const uint32_t stepped = ls_directed(y[i], residual, y[i] >> 15, mode);
        y[i] = fabsf(value[i]) <= FLT_MAX ? (uint16_t)stepped : y[i];
    }
}

LS_INLINE void ls_exact_16_block(const void *g, const void *x, void *y, size_t n, const ls_store *store,
    ls_format format, ls_rounding mode) {
    float gs[LS_EXACT_PASS], xs[LS_EXACT_PASS];
    uint16_t ys[LS_EXACT_PASS];
    uint32_t open[LS_EXACT_PASS];
    for (size_t start = 0; start < n; start += LS_EXACT_PASS) {
        const size_t count = n - start < LS_EXACT_PASS ? n - start : LS_EXACT_PASS;
        ls_widen_pass((const uint16_t *)g + start, gs, count, format);
        ls_widen_pass((const uint16_t *)x + start, xs, count, format);
        if (mode == LS_RNE || mode == LS_RNA)
            ls_exact_16_nearest(gs, xs, ys, open, count, format, mode);
        else
            ls_exact_16_directed(gs, xs, ys, open, count, format, mode);
        uint32_t any = 0;
        for (size_t i = 0; i < count; i++)
            any |= open[i];
        for (size_t i = 0; any && i < count; i++)
            if (open[i])
                ys[i] = (uint16_t)ls_exact_one((double)gs[i], (double)xs[i], format, mode, 0);
        if (store->ftz)
            ls_flush_pass(ys, count, format);
        memcpy((uint16_t *)y + start, ys, count * sizeof *ys);
    }
}

#define LS_EXACT_16_ROW(name, format)                                                                        \
    static void name(const void *g, const void *x, void *y, size_t n, uint64_t index, const ls_store *store) { \
        if (store->rounding == LS_SR) {                                                                      \
            ls_exact_sr_block(g, x, y, n, index, store, format);                                             \
            return;                                                                                          \
        }                                                                                                    \
        LS_EXACT_MODES(LS_BLOCK_##format)                                                                    \
    }
#define LS_BLOCK_LS_FP16(mode) ls_exact_16_block(g, x, y, n, store, LS_FP16, mode)
#define LS_BLOCK_LS_BF16(mode) ls_exact_16_block(g, x, y, n, store, LS_BF16, mode)

LS_EXACT_16_ROW(ls_exact_fp16, LS_FP16)
LS_EXACT_16_ROW(ls_exact_bf16, LS_BF16)

#endif
