/* g / (1 + e^x) in fp32 arithmetic, for the 16-bit formats. */
#ifndef LSBENCH_QUOTIENT_H
#define LSBENCH_QUOTIENT_H

#include <math.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

#include "convert.h"

/* Within 2^-20 (2^-20.6 by the sum of the bounds below) relative, or 2^-147, for x in [-20, 190].
 *
 * e^x = 2^k f with f = p(r), r = x - k ln2 in two parts, the first of 15 bits so that k times it is
 * exact. p has degree 5 and a relative error below 2^-21.2 (derivations/exp_polynomials.py); its
 * evaluation, the sum and the quotient add at most five roundings of 2^-24. With m = max(k, 0), at
 * most 252,
 *
 *     y = g 2^-m / (2^-m + 2^(k-m) f):
 *
 * neither does e^x overflow nor does sigma(-x) underflow before it meets g. 2^-m is applied in two
 * halves, before the division, which could overflow, and after it. A NaN in x is lost here.
 *
 * fmaf rounds once by definition: an instruction where there is one, else a slow call, and the same bits
 * everywhere. */
LS_INLINE float ls_quotient_float(float g, float x) {
    const float shifted = fmaf(x, 0x1.715476p+0f, 0x1.8p+23f), k = shifted - 0x1.8p+23f;
    const float r = fmaf(k, -0x1.7f7d1cp-20f, fmaf(k, -0x1.62e4p-1f, x));
    float q = 0x1.11d946p-7f;
    q = fmaf(q, r, 0x1.56b3d8p-5f);
    q = fmaf(q, r, 0x1.555526p-3f);
    q = fmaf(q, r, 0x1.ffff58p-2f);
    const float p = 1.0f + fmaf(r * r, q, r);
    const int32_t e = (int32_t)(ls_float_bits(shifted) - 0x4b400000u), positive = e > 0 ? e : 0;
    const int32_t m = positive > 252 ? 252 : positive, half = m >> 1, rest = m - half;
    const int32_t shown = m > 126 ? 126 : m;
    const float scaled = ls_bits_float(ls_float_bits(p) + ((uint32_t)(e - m) << 23));
    const float first = ls_bits_float((uint32_t)(127 - half) << 23);
    const float second = ls_bits_float((uint32_t)(127 - rest) << 23);
    return g * first / (ls_bits_float((uint32_t)(127 - shown) << 23) + scaled) * second;
}

LS_INLINE float ls_widen_16(uint16_t bits, ls_format format) {
    return format == LS_FP16 ? ls_fp16_to_float(bits) : ls_bf16_to_float(bits);
}

LS_INLINE uint16_t ls_narrow_16(float value, ls_format format) {
    return format == LS_FP16 ? ls_float_to_fp16(value) : ls_float_to_bf16(value);
}

/* n elements widened, n at most a pass; by the conversion instructions for fp16 where there are any,
 * whose every bit is that of the functions above (NaNs stay NaN). */
LS_INLINE void ls_widen_pass(const uint16_t *bits, float *values, size_t n, ls_format format) {
    size_t i = 0;
#ifdef __F16C__
    for (; format == LS_FP16 && i + 8 <= n; i += 8)
        _mm256_storeu_ps(values + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(bits + i))));
#endif
    for (; i < n; i++)
        values[i] = ls_widen_16(bits[i], format);
}

LS_INLINE void ls_narrow_pass(const float *values, uint16_t *bits, size_t n, ls_format format) {
    size_t i = 0;
#ifdef __F16C__
    /* One NaN is ever stored; the instruction would keep payloads. */
    const __m256 nan = _mm256_set1_ps(NAN);
    for (; format == LS_FP16 && i + 8 <= n; i += 8) {
        const __m256 value = _mm256_loadu_ps(values + i);
        const __m256 one = _mm256_blendv_ps(value, nan, _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
        _mm_storeu_si128((__m128i *)(bits + i), _mm256_cvtps_ph(one, _MM_FROUND_TO_NEAREST_INT));
    }
#endif
    for (; i < n; i++)
        bits[i] = ls_narrow_16(values[i], format);
}

/* x = -inf gives g, x = +inf gives 0 * g (a zero, or NaN for an infinite g), NaN a NaN. */
LS_INLINE float ls_special_float(float g, float x, float y) {
    const float finite = x == -INFINITY ? g : y, any = x == INFINITY ? g * 0.0f : finite;
    return x != x ? x : any;
}

#endif
