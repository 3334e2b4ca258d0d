/* Is |y| = g / (1 + e^x) above a boundary b?  Decided with certainty, at a rising precision.
 *
 * For 0 < b < g:  g / (1 + e^x) > b  <=>  b e^x < g - b.  With t = e^-|x| that is
 *
 *     x < 0:  b t < g - b          x > 0:  b < (g - b) t
 *
 * g and b are scaled so that 1 <= g < 2, and all are fixed-point numbers of one integer limb and n
 * limbs of fraction, in units of 2^-32n. g, b and g - b are exact there: a boundary is a multiple of
 * 2^-50 of y, y > 2^-365 g for x <= 250, and n starts high enough for both. t is enclosed:
 *
 *   r = |x| / 2^k < 2^-8, exact; s = e^-r by Horner, s <- 1 - r s / j for j = m, ..., 1. Each step
 *   truncates one product and one quotient, and divides what it inherits by at least 2^8: less than
 *   3 units in all. The series alternates and its terms fall, so that the remainder is below
 *   r^(m+1) < 2^-8(m+1); m = 4n makes that less than a unit. Squaring k times doubles an error and
 *   adds a unit each time: |T - t| < 2^(k+3) units, k <= 16.
 *
 * Products of that enclosure are compared with the other side; if its width leaves the comparison
 * open, n is doubled. That ends: for a rational x other than 0, e^x is transcendental (Lindemann
 * 1882), hence not the rational (g - b) / b, and some precision tells them apart. A random pair
 * needs 2^-j times luck to survive j bits, so that the first n, 64 bits beyond what a double knew,
 * nearly always suffices.
 *
 * No floating-point environment, no allocation but the stack, no state.
 */
#ifndef LSBENCH_DECIDE_H
#define LSBENCH_DECIDE_H

#include "convert.h"

/* a = v / 2^scale for a double v >= 0, exactly: the caller gives enough limbs. a[n] is the integer. */
static inline void ls_fixed(uint32_t *a, int n, double v, int scale) {
    memset(a, 0, sizeof *a * (size_t)(n + 1));
    const uint64_t bits = ls_double_bits(v), significand = (bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)1 << 52;
    if (v == 0)
        return;
    /* v = significand 2^e; its lowest bit lands at position 32 n + e - scale. */
    const int e = (int)(bits >> 52) - 1075, position = 32 * n + e - scale;
    for (int i = 0; i < 53; i++)
        if (significand >> i & 1)
            a[(position + i) / 32] |= 1u << (position + i) % 32;
}

/* out = floor(a b) in units: the product's lower n limbs are dropped. out is neither a nor b. */
static inline void ls_multiply(uint32_t *out, const uint32_t *a, const uint32_t *b, int n) {
    uint32_t product[2 * n + 2];
    memset(product, 0, sizeof product);
    for (int i = 0; i <= n; i++) {
        uint64_t carry = 0;
        for (int j = 0; j <= n; j++) {
            carry += (uint64_t)a[i] * b[j] + product[i + j];
            product[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        product[i + n + 1] = (uint32_t)carry;
    }
    memcpy(out, product + n, sizeof *out * (size_t)(n + 1));
}

static inline void ls_divide_small(uint32_t *a, int n, uint32_t divisor) {
    uint64_t remainder = 0;
    for (int i = n; i >= 0; i--) {
        remainder = remainder << 32 | a[i];
        a[i] = (uint32_t)(remainder / divisor);
        remainder %= divisor;
    }
}

/* a = a - b, for a >= b. */
static inline void ls_subtract(uint32_t *a, const uint32_t *b, int n) {
    int64_t borrow = 0;
    for (int i = 0; i <= n; i++) {
        borrow += (int64_t)a[i] - b[i];
        a[i] = (uint32_t)borrow;
        borrow >>= 32;
    }
}

/* a = a + c units, c >= 0. */
static inline void ls_add_units(uint32_t *a, int n, uint32_t c) {
    uint64_t carry = c;
    for (int i = 0; i <= n && carry; i++) {
        carry += a[i];
        a[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

static inline int ls_compare(const uint32_t *a, const uint32_t *b, int n) {
    for (int i = n; i >= 0; i--)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

/* t = e^-|x| within 2^(k+3) units; returns k. */
static inline int ls_fixed_exp(uint32_t *t, int n, double x) {
    const double size = x < 0 ? -x : x;
    int k = 0;
    while (size >= ls_power_of_two(k - 8))
        k++;
    uint32_t r[n + 1], s[n + 1], one[n + 1];
    ls_fixed(r, n, size, k);
    ls_fixed(one, n, 1.0, 0);
    memcpy(s, one, sizeof s);
    for (int j = 4 * n; j > 0; j--) {
        ls_multiply(t, r, s, n);
        ls_divide_small(t, n, (uint32_t)j);
        memcpy(s, one, sizeof s);
        ls_subtract(s, t, n);
    }
    for (int i = 0; i < k; i++) {
        ls_multiply(t, s, s, n);
        memcpy(s, t, sizeof s);
    }
    memcpy(t, s, sizeof s);
    return k;
}

/* 1 if above, 0 if below, -1 if n limbs leave it open. */
static inline int ls_above_at(double g, double b, double x, int n) {
    const int scale = (int)(ls_double_bits(g) >> 52) - 1023;
    uint32_t boundary[n + 1], rest[n + 1], t[n + 1], low[n + 1], high[n + 1];
    ls_fixed(boundary, n, b, scale);
    ls_fixed(rest, n, g, scale);
    ls_subtract(rest, boundary, n);
    const uint32_t slack = 8u << ls_fixed_exp(t, n, x);
    /* The factor of t is below 2, truncation costs a unit: 2 slack + 1 covers both sides. */
    ls_multiply(low, x < 0 ? boundary : rest, t, n);
    memcpy(high, low, sizeof high);
    ls_add_units(high, n, 2 * slack + 1);
    const uint32_t *other = x < 0 ? rest : boundary;
    uint32_t raised[n + 1];
    memcpy(raised, other, sizeof raised);
    ls_add_units(raised, n, 2 * slack + 1);
    if (ls_compare(high, other, n) < 0)
        return x < 0;
    if (ls_compare(low, raised, n) > 0)
        return x > 0;
    return -1;
}

/* Whether g / (1 + e^x) > b, for normal doubles 0 < b < g and x != 0, |x| <= 256. */
static inline int ls_above(double g, double b, double x) {
    /* Bits: log2(g/b) <= |x| / ln2 + 1, 50 of the boundary, 128 beyond; and those of x itself. */
    int n = (int)((x > 0 ? 1.4427 * x : 0.0) + 2 + 50 + 128) / 32 + 3;
    for (;; n *= 2) {
        const int found = ls_above_at(g, b, x, n);
        if (found >= 0)
            return found;
    }
}

#endif
