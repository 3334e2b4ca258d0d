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

LS_INLINE uint16_t ls_exact_16_one(
    float g, float x, ls_format format, ls_rounding mode, uint32_t *open) {
    const float most = format == LS_FP16 ? 40.0f : 190.0f;
    const float low = x < -9.0f ? -9.0f : x, inside = low > most ? most : low;
    const float side = copysignf(0x1p-15f, x);
    const uint32_t plain = (x != 0) & (fabsf(x) <= FLT_MAX);
    const float argument = (fabsf(x) < 0x1p-15f) & (x != 0) ? side : inside;
    float y = ls_special_float(g, x, ls_quotient_float(g, argument));
    uint32_t lost = 0;
    if (format == LS_BF16) {
        const uint32_t small = (fabsf(y) < 0x1p-126f) & (g != 0) & (fabsf(x) <= FLT_MAX);
        const uint32_t tiny = small & (fabsf(y) < 0x1p-136f) & (x != 0);
        lost = small & !tiny & ((x != 0) | (mode == LS_RNA));
        y = tiny ? copysignf(0x1p-140f, g) : y;
    }
    if (mode == LS_RNE || mode == LS_RNA) {
        const uint16_t high = ls_narrow_16(y * (1.0f + LS_NARROW_WIDTH), format);
        const uint16_t below = ls_narrow_16(y * (1.0f - LS_NARROW_WIDTH), format);
        *open = (uint32_t)(high ^ below) | lost;
        return high;
    }
    const uint16_t nearest = ls_narrow_16(y, format);
    const float residual = fabsf(y) - fabsf(ls_widen_16(nearest, format));
    *open = (plain & (fabsf(residual) < fabsf(y) * LS_NARROW_WIDTH)) | lost;
    const uint32_t stepped = ls_directed(nearest, residual, nearest >> 15, mode);
    return fabsf(y) <= FLT_MAX ? (uint16_t)stepped : nearest;
}

LS_INLINE void ls_exact_16_block(const void *g, const void *x, void *y, size_t n, const ls_store *store,
    ls_format format, ls_rounding mode) {
    for (size_t start = 0; start < n; start += LS_EXACT_PASS) {
        const size_t count = n - start < LS_EXACT_PASS ? n - start : LS_EXACT_PASS;
        const uint16_t *gs = (const uint16_t *)g + start, *xs = (const uint16_t *)x + start;
        uint16_t ys[LS_EXACT_PASS];
        uint32_t open[LS_EXACT_PASS], any = 0;
        for (size_t i = 0; i < count; i++)
            ys[i] = ls_exact_16_one(ls_widen_16(gs[i], format), ls_widen_16(xs[i], format), format, mode, open + i);
        for (size_t i = 0; i < count; i++)
            any |= open[i];
        for (size_t i = 0; any && i < count; i++)
            if (open[i])
                ys[i] = (uint16_t)ls_exact_one(
                    ls_to_double(gs[i], format), ls_to_double(xs[i], format), format, mode, 0);
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
