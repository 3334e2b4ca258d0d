/* The result at the speed of memory: one rounding after an error too small to matter.
 *
 * Guarantee, for every g and x, subnormal results included, and with the right special values:
 *
 *   fp32          within 0.95 ulp under rne (pairs of floats; 0.74 is the worst that was seen)
 *   fp16, bf16    within 0.51 ulp under rne (floats, quotient.h)
 *
 * and within 1.2 ulp of the exact value under the directed modes. x = 0 gives g/2 rounded once. The bits
 * are the same on every machine: fused operations are written out, and an fma rounds once by definition.
 */
#ifndef LSBENCH_FAST_H
#define LSBENCH_FAST_H

#include "exact_16.h"

/* x = -inf gives g, x = +inf gives 0 * g: a zero, or NaN for an infinite g. */
#define LS_SPECIAL(g, x, y) ((x) == -INFINITY ? (g) : (x) == INFINITY ? (g)*0 : (y))

/* g / (1 + e^x) in doubles, within 2^-27.9 relative: for what fp32 arithmetic leaves, and under the other
 * modes. Below -40 e^x is lost beside 1; above 250 y is under a quarter of every subnormal. ln2 in one
 * part: k ln2 is within 2^-45 for |k| <= 361. */
LS_INLINE double ls_fast_double(double g, double x) {
    const double low = x < -40.0 ? -40.0 : x, inside = low > 250.0 ? 250.0 : low;
    const double shifted = fma(inside, 0x1.71547652b82fep+0, 0x1.8p+52), k = shifted - 0x1.8p+52;
    const double r = fma(k, -0x1.62e42fefa39efp-1, inside);
    double q = 0x1.6a244ap-10;
    q = fma(q, r, 0x1.1239d4p-7);
    q = fma(q, r, 0x1.5558f2p-5);
    q = fma(q, r, 0x1.555492p-3);
    q = fma(q, r, 0x1.fffffcp-2);
    const double p = 1.0 + fma(r * r, q, r);
    const double y = g / (1.0 + ls_bits_double(ls_double_bits(p) + (ls_double_bits(shifted) << 52)));
    return LS_SPECIAL(g, x, y);
}

/* fp32, as pairs of floats. For x in [-40, 64], with k and r as ever and rh + rl = x - k ln2 exact but
 * for 2^-45:
 *
 *   d = 1 + e^x = (1 + w) + w (rh + t),  w = 2^k,  t = rl + r^2 q(r),  |t| < 0.071.
 *
 * dh is 1 + w + w rh rounded, dl the rest: what the roundings of 1 + w and of dh left, both exact (Dekker
 * 1971), and w t. v is 1/d, low by 2^-22 and rounding, and what it lost follows from 1 - v (dh + dl), so
 * that v (1 + lost) is sigma(-x); g times that is rounded once. v is low on purpose: both summands then
 * have the sign of g, which keeps -0 and infinities.
 *
 * In ulp of the result: q is good to 2^-27.9 (0.07), and the roundings of r (0.09), of r^2 and q (0.09),
 * of t, dl and lost (0.06 each) add up to less than 0.45 beside the last one's half.
 *
 * g v lost must not be subnormal: below 2^-100 y is left to doubles, as are x > 64 and NaN. */
#define LS_FAST_LEAST (2u * (27u << 23) - 1u)

LS_INLINE ls_vf ls_fast_line_32(ls_vf g, ls_vf x, uint32_t *left) {
    const ls_vf shifter = LS_ALL_F(0x1.8p+23f), inside = ls_at_least(LS_ALL_F(-40.0f), x);
    const ls_vf shifted = ls_fma(inside, LS_ALL_F(0x1.715476p+0f), shifter), k = shifted - shifter;
    const ls_vf rh = ls_fma(k, LS_ALL_F(-0x1.62e430p-1f), inside);
    const ls_vf rl = k * LS_ALL_F(0x1.05c610p-29f), r = rh + rl;
    ls_vf q = LS_ALL_F(0x1.6a244ap-10f);
    q = ls_fma(q, r, LS_ALL_F(0x1.1239d4p-7f));
    q = ls_fma(q, r, LS_ALL_F(0x1.5558f2p-5f));
    q = ls_fma(q, r, LS_ALL_F(0x1.555492p-3f));
    q = ls_fma(q, r, LS_ALL_F(0x1.fffffcp-2f));
    const ls_vf t = ls_fma(r * r, q, rl);
    const ls_vi one = LS_ALL_I(0x3f800000), power = (ls_vi)(((ls_vu)shifted << 23) + 0x3f800000u);
    const ls_vf w = (ls_vf)power;
    const ls_vf lesser = (ls_vf)ls_least_i(power, one), greater = (ls_vf)ls_most_i(power, one);
    const ls_vf c = LS_ALL_F(1.0f) + w, cl = lesser - (c - greater);
    const ls_vf dh = ls_fma(w, rh, c), dl = ls_fma(w, t, ls_fma(w, rh, c - dh) + cl);
    const ls_vf v = LS_ALL_F(1.0f - 0x1p-22f) / (dh + dl);
    const ls_vf lost = ls_fma(-dl, v, ls_fma(-dh, v, LS_ALL_F(1.0f)));
    const ls_vf y = ls_fma(g, v, g * (v * lost));
    *left = ls_beyond(x, LS_ALL_F(64.0f))
        | ls_below_u(((ls_vu)y << 1) - 1u, LS_ALL_U(LS_FAST_LEAST));
    return y;
}

/* The lanes that are left, into y: lane i is its element start + i * step. */
static LS_APART void ls_fast_left(
    const ls_vf *g, const ls_vf *x, uint32_t left, void *y, int start, int step, ls_format format) {
    float gs[LS_LANES], xs[LS_LANES];
    double ys[LS_LANES];
    memcpy(gs, g, sizeof gs), memcpy(xs, x, sizeof xs);
    for (int i = 0; i < LS_LANES; i++)
        ys[i] = ls_fast_double(gs[i], xs[i]);
    for (int i = 0; i < LS_LANES; i++)
        if (left >> i & 1)
            ls_write(y, (size_t)(start + i * step), ls_round(ys[i], format, LS_RNE, 0, 0), format);
}

LS_INLINE void ls_fast_put_fp32(const void *g, const void *x, void *y, uint64_t index, const ls_store *store,
    ls_format format, ls_rounding mode) {
    (void)index, (void)store, (void)mode;
    const ls_vf gs = ls_load_f(g), xs = ls_load_f(x);
    uint32_t left;
    ls_store_f(y, ls_fast_line_32(gs, xs, &left));
    if (LS_RARE(left))
        ls_fast_left(&gs, &xs, left, y, 0, 1, format);
}

LS_INLINE void ls_fast_put_fp16(const void *g, const void *x, void *y, uint64_t index, const ls_store *store,
    ls_format format, ls_rounding mode) {
    (void)index, (void)store, (void)mode;
    const ls_vf gs = ls_widen_fp16(ls_load_s(g)), xs = ls_widen_fp16(ls_load_s(x));
    uint32_t left;
    ls_store_s(y, ls_narrow_fp16(ls_line_16(gs, xs, LS_FP16, -20.0f, LS_BY_FLOATS, &left)));
    if (LS_RARE(left))
        ls_fast_left(&gs, &xs, left, y, 0, 1, format);
}

/* To nearest even, in the upper halves. */
LS_INLINE ls_vu ls_fast_half_bf16(ls_vf g, ls_vf x, uint32_t *left) {
    const ls_vu bits = (ls_vu)ls_line_16(g, x, LS_BF16, -20.0f, LS_BY_FLOATS, left);
    return bits + 0x7fffu + (bits >> 16 & 1u);
}

/* Two lines: the elements of even index, and the others. */
LS_INLINE void ls_fast_put_bf16(const void *g, const void *x, void *y, uint64_t index, const ls_store *store,
    ls_format format, ls_rounding mode) {
    (void)index, (void)store, (void)mode;
    const ls_vu gs = (ls_vu)ls_load_f(g), xs = (ls_vu)ls_load_f(x);
    const ls_vf g0 = ls_bf16_of(gs, 0), g1 = ls_bf16_of(gs, 1), x0 = ls_bf16_of(xs, 0), x1 = ls_bf16_of(xs, 1);
    uint32_t left0, left1;
    const ls_vu y0 = ls_fast_half_bf16(g0, x0, &left0), y1 = ls_fast_half_bf16(g1, x1, &left1);
    ls_store_f(y, (ls_vf)ls_pair_bf16(y0, y1));
    if (LS_RARE(left0 | left1)) {
        ls_fast_left(&g0, &x0, left0, y, 0, 2, format);
        ls_fast_left(&g1, &x1, left1, y, 1, 2, format);
    }
}

/* The other modes, and flushed results: doubles, stored as any formula's. */
LS_INLINE void ls_fast_stored(const void *g, const void *x, void *y, size_t n, uint64_t index,
    const ls_store *store, ls_format format) {
    double gs[LS_PASS], xs[LS_PASS], ys[LS_PASS];
    const size_t size = ls_itemsize(format);
    for (size_t start = 0; start < n; start += LS_PASS) {
        const size_t count = n - start < LS_PASS ? n - start : LS_PASS;
        ls_load(format, (const char *)g + start * size, gs, count);
        ls_load(format, (const char *)x + start * size, xs, count);
        for (size_t i = 0; i < count; i++)
            ys[i] = ls_fast_double(gs[i], xs[i]);
        ls_store_as(format, ys, (char *)y + start * size, count, index + start, store);
    }
}

#define LS_FAST_ROW(name, format, put)                                                                       \
    static void name(const void *g, const void *x, void *y, size_t n, uint64_t index, const ls_store *store) { \
        if (store->rounding == LS_RNE && !store->ftz)                                                        \
            ls_by_lines(g, x, y, n, index, store, format, LS_RNE, put);                                      \
        else                                                                                                 \
            ls_fast_stored(g, x, y, n, index, store, format);                                                \
    }

LS_FAST_ROW(ls_fast_fp32, LS_FP32, ls_fast_put_fp32)
LS_FAST_ROW(ls_fast_fp16, LS_FP16, ls_fast_put_fp16)
LS_FAST_ROW(ls_fast_bf16, LS_BF16, ls_fast_put_bf16)

#endif
