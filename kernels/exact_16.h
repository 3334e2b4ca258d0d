/* The correctly rounded result in the 16-bit formats: lines of floats, exact.h for what they leave.
 *
 * Guarantee: 0 misrounded results, as exact.h, which proves what this file leaves open.
 *
 * quotient.h knows y within 2^-20.7 relative, 10 units in the last place of a float, or half a unit of
 * subnormal floats more; LS_NARROW_STEPS = 16 leaves room for the roundings of the test. fp16 under rne
 * and rna: both ends of y (1 -+ 2^-20) must round alike. Otherwise |y| is a sign and an integer, its bits,
 * and the 13 or 16 lowest are the fraction of an ulp, subnormal bf16 included; for subnormal fp16, 2^-14
 * more makes the unit right. Rounding is a carry, as in exact.h; what lies within 16 units of the mode's
 * boundary is open, and so is every tie.
 *
 * The directed modes need y apart from g and g/2. x < -9 becomes -9 (e^-9 < 2^-12.9; the nearest boundary
 * below g is 2^-12 g away in fp16 and 2^-9 g in bf16) and 0 < |x| < 2^-15 becomes 2^-15 (y within 2^-16 of
 * g/2, boundaries 2^-12 away). Of y, 2^-17 is left, 128 units: but for subnormal results, which are
 * then open. y below a 64th of every number stands as such a 64th, and g = 0 is 0.
 *
 * What is open, one element in some hundreds, goes to exact.h's second tier, one by one.
 */
#ifndef LSBENCH_EXACT_16_H
#define LSBENCH_EXACT_16_H

#include "exact.h"
#include "quotient.h"

#define LS_NARROW_WIDTH 0x1.2p-21f
#define LS_NARROW_STEPS 16u

/* Lanes whose `dropped` lowest bits are within LS_NARROW_STEPS, a power of two, of zero. */
LS_INLINE uint32_t ls_next_to_carry(ls_vu sum, int dropped) {
    return ls_without(sum + LS_NARROW_STEPS, (1u << dropped) - 2 * LS_NARROW_STEPS);
}

#ifdef LS_FUSED
#define LS_EXACT_WAY LS_BY_FLOATS
#else
/* Where fused operations are emulated, doubles are faster than floats. */
LS_INLINE ls_vf ls_quotient_by_doubles(ls_vf g, ls_vf x) {
    return ls_join_d(ls_line_quotient(ls_widen_low(g), ls_widen_low(x)),
        ls_line_quotient(ls_widen_high(g), ls_widen_high(x)));
}
#define LS_EXACT_WAY ((ls_way){ls_quotient_by_doubles, {0, 200, 200}})
#endif

/* fp16 under rne and rna. */
LS_INLINE ls_vs ls_exact_nearest_fp16(ls_vf g, ls_vf x, uint32_t *left) {
    const ls_vf y = ls_line_16(g, x, LS_FP16, -20.0f, LS_EXACT_WAY, left);
    const ls_vs high = ls_narrow_fp16(y * (1.0f + LS_NARROW_WIDTH));
    *left |= ls_differ_s(high, ls_narrow_fp16(y * (1.0f - LS_NARROW_WIDTH)));
    return high;
}

/* bf16 likewise, in the upper halves. */
LS_INLINE ls_vu ls_exact_nearest_bf16(ls_vf g, ls_vf x, uint32_t *left) {
    const ls_vu sum = (ls_vu)ls_line_16(g, x, LS_BF16, -20.0f, LS_EXACT_WAY, left) + 0x8000u;
    *left |= ls_next_to_carry(sum, 16);
    return sum;
}

/* Either under another mode: bits of floats, of which the lowest mean nothing. */
LS_INLINE ls_vu ls_exact_other_16(
    ls_vf g, ls_vf x, ls_draws draws, ls_format format, ls_rounding mode, uint32_t *left) {
    const int dropped = format == LS_FP16 ? 13 : 16, directed = mode != LS_SR;
    const uint32_t all = (1u << dropped) - 1;
    const ls_vu sign = (ls_vu)g & 0x80000000u, zero = (ls_vu)(g == 0), negative = (ls_vu)((ls_vi)g >> 31);
    const ls_vf moved = directed ? ls_apart(x, 0x1p-15f) : x;
    ls_vf size = ls_magnitude(ls_line_16(g, moved, format, directed ? -9.0f : -20.0f, LS_EXACT_WAY, left));
    if (directed) {
        size = ls_at_least(LS_ALL_F(format == LS_FP16 ? 0x1p-30f : 0x1p-139f), size);
        *left |= ls_singular(x);
    }
    ls_vf lift = {0};
    if (format == LS_FP16)
        lift = (ls_vf)((ls_vu)(size < 0x1p-14f) & (ls_vu)LS_ALL_F(0x1p-14f));
    ls_vu carry = {0};
    if (mode == LS_SR)
        carry = all - (ls_join_upper(draws.low, draws.high) >> (32 - dropped));
    if (mode == LS_RUP)
        carry = ~negative & all;
    if (mode == LS_RDN)
        carry = negative & all;
    const ls_vu sum = (ls_vu)(size + lift) + carry;
    uint32_t near = ls_next_to_carry(sum, dropped);
    ls_vu rounded = format == LS_FP16 ? sum & ~all : sum;
    if (mode == LS_RTO)
        rounded |= all + 1;
    ls_vu value = format == LS_FP16 ? (ls_vu)((ls_vf)rounded - lift) : rounded;
    if (directed) {
        value &= ~zero;
        near &= ~ls_lanes_of((ls_vi)zero);
    }
    *left |= near;
    return value | sign;
}

LS_INLINE void ls_exact_put_fp16(const void *g, const void *x, void *y, uint64_t index, const ls_store *store,
    ls_format format, ls_rounding mode) {
    const ls_vf gs = ls_widen_fp16(ls_load_s(g)), xs = ls_widen_fp16(ls_load_s(x));
    const ls_place place = {index, 0, 1};
    uint32_t left;
    if (mode == LS_RNE)
        ls_store_s(y, ls_exact_nearest_fp16(gs, xs, &left));
    else
        ls_store_s(y, ls_narrow_fp16((ls_vf)ls_exact_other_16(
                          gs, xs, ls_line_draws(store->seed, place, mode), format, mode, &left)));
    if (LS_RARE(left))
        ls_exact_left(&gs, &xs, left, y, place, store, format);
}

LS_INLINE ls_vu ls_exact_half_bf16(
    ls_vf g, ls_vf x, ls_place place, const ls_store *store, ls_rounding mode, uint32_t *left) {
    if (mode == LS_RNE)
        return ls_exact_nearest_bf16(g, x, left);
    return ls_exact_other_16(g, x, ls_line_draws(store->seed, place, mode), LS_BF16, mode, left);
}

/* Two lines: the elements of even index, and the others. */
LS_INLINE void ls_exact_put_bf16(const void *g, const void *x, void *y, uint64_t index, const ls_store *store,
    ls_format format, ls_rounding mode) {
    const ls_vu gs = (ls_vu)ls_load_f(g), xs = (ls_vu)ls_load_f(x);
    const ls_vf g0 = ls_bf16_of(gs, 0), g1 = ls_bf16_of(gs, 1), x0 = ls_bf16_of(xs, 0), x1 = ls_bf16_of(xs, 1);
    const ls_place even = {index, 0, 2}, odd = {index, 1, 2};
    uint32_t left0, left1;
    const ls_vu y0 = ls_exact_half_bf16(g0, x0, even, store, mode, &left0);
    const ls_vu y1 = ls_exact_half_bf16(g1, x1, odd, store, mode, &left1);
    ls_store_f(y, (ls_vf)ls_pair_bf16(y0, y1));
    if (LS_RARE(left0 | left1)) {
        ls_exact_left(&g0, &x0, left0, y, even, store, format);
        ls_exact_left(&g1, &x1, left1, y, odd, store, format);
    }
}

LS_EXACT_ROW(ls_exact_fp16, LS_FP16, ls_exact_put_fp16)
LS_EXACT_ROW(ls_exact_bf16, LS_BF16, ls_exact_put_bf16)

#endif
