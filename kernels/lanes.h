/* Vectors of LS_LANES floats, as wide as the instruction set's registers: what the kernels of the
 * project's own are written in. Arithmetic is that of the language on vector types (gcc, clang); here is
 * what it lacks. Every operation gives the same bits on every instruction set.
 *
 * ls_fma rounds once everywhere. ls_fmad, on doubles, may round twice where there is no fused
 * instruction: only for code whose bits do not depend on it.
 */
#ifndef LSBENCH_LANES_H
#define LSBENCH_LANES_H

#include <math.h>

#include "convert.h"

#if !defined(__GNUC__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "expected gcc or clang, whose vector types these are, and a little-endian machine"
#endif
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define LS_AVX512 1
#define LS_VECTOR 64
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define LS_AVX2 1
#define LS_VECTOR 32
#else
#define LS_VECTOR 16
#ifdef __SSE2__
#define LS_SSE2 1
#endif
#endif
/* Whether there is a fused operation on floats. */
#if defined(LS_AVX512) || defined(LS_AVX2) || defined(__aarch64__)
#define LS_FUSED 1
#endif
#if defined(LS_AVX512) || defined(LS_AVX2) || defined(LS_SSE2)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define LS_LANES (LS_VECTOR / 4)
#define LS_HALF (LS_LANES / 2)
#define LS_VECTOR_OF(type, bytes) type __attribute__((vector_size(bytes)))

typedef LS_VECTOR_OF(float, LS_VECTOR) ls_vf;
typedef LS_VECTOR_OF(int32_t, LS_VECTOR) ls_vi;
typedef LS_VECTOR_OF(uint32_t, LS_VECTOR) ls_vu;
/* Half as many lanes of twice the size, and of the same size. */
typedef LS_VECTOR_OF(double, LS_VECTOR) ls_vd;
typedef LS_VECTOR_OF(int64_t, LS_VECTOR) ls_vl;
typedef LS_VECTOR_OF(uint64_t, LS_VECTOR) ls_vq;
typedef LS_VECTOR_OF(float, LS_VECTOR / 2) ls_hf;
typedef LS_VECTOR_OF(uint32_t, LS_VECTOR / 2) ls_hu;
/* As many lanes of 16 bits. */
typedef LS_VECTOR_OF(uint16_t, LS_VECTOR / 2) ls_vs;

#define LS_ALL_F(c) ((ls_vf){0} + (c))
#define LS_ALL_U(c) ((ls_vu){0} + (uint32_t)(c))
#define LS_ALL_I(c) ((ls_vi){0} + (int32_t)(c))

LS_INLINE ls_vf ls_load_f(const void *from) {
    ls_vf v;
    memcpy(&v, from, sizeof v);
    return v;
}

LS_INLINE void ls_store_f(void *to, ls_vf v) { memcpy(to, &v, sizeof v); }

LS_INLINE ls_vs ls_load_s(const void *from) {
    ls_vs v;
    memcpy(&v, from, sizeof v);
    return v;
}

LS_INLINE void ls_store_s(void *to, ls_vs v) { memcpy(to, &v, sizeof v); }

/* a b + c on doubles, in one rounding or two. */
LS_INLINE ls_vd ls_fmad(ls_vd a, ls_vd b, ls_vd c) {
#if defined(LS_AVX512)
    return (ls_vd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(LS_AVX2)
    return (ls_vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif defined(__aarch64__)
    return (ls_vd)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#else
    return a * b + c;
#endif
}

/* low > v ? low : v, lane by lane: a NaN in v stays. */
LS_INLINE ls_vf ls_at_least(ls_vf low, ls_vf v) {
#if defined(LS_AVX512)
    return (ls_vf)_mm512_max_ps((__m512)low, (__m512)v);
#elif defined(LS_AVX2)
    return (ls_vf)_mm256_max_ps((__m256)low, (__m256)v);
#elif defined(LS_SSE2)
    return (ls_vf)_mm_max_ps((__m128)low, (__m128)v);
#else
    const ls_vi taken = low > v;
    return (ls_vf)((taken & (ls_vi)low) | (~taken & (ls_vi)v));
#endif
}

/* high < v ? high : v, likewise. */
LS_INLINE ls_vf ls_at_most(ls_vf high, ls_vf v) {
#if defined(LS_AVX512)
    return (ls_vf)_mm512_min_ps((__m512)high, (__m512)v);
#elif defined(LS_AVX2)
    return (ls_vf)_mm256_min_ps((__m256)high, (__m256)v);
#elif defined(LS_SSE2)
    return (ls_vf)_mm_min_ps((__m128)high, (__m128)v);
#else
    const ls_vi taken = high < v;
    return (ls_vf)((taken & (ls_vi)high) | (~taken & (ls_vi)v));
#endif
}

LS_INLINE ls_vi ls_least_i(ls_vi a, ls_vi b) {
#if defined(LS_AVX512)
    return (ls_vi)_mm512_min_epi32((__m512i)a, (__m512i)b);
#elif defined(LS_AVX2)
    return (ls_vi)_mm256_min_epi32((__m256i)a, (__m256i)b);
#else
    const ls_vi taken = a < b;
    return (taken & a) | (~taken & b);
#endif
}

LS_INLINE ls_vi ls_most_i(ls_vi a, ls_vi b) {
#if defined(LS_AVX512)
    return (ls_vi)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif defined(LS_AVX2)
    return (ls_vi)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    const ls_vi taken = a > b;
    return (taken & a) | (~taken & b);
#endif
}

LS_INLINE ls_vf ls_magnitude(ls_vf v) { return (ls_vf)((ls_vu)v & 0x7fffffffu); }
LS_INLINE ls_vf ls_with_sign(ls_vf v, ls_vf sign) {
    return (ls_vf)((ls_vu)ls_magnitude(v) | ((ls_vu)sign & 0x80000000u));
}
LS_INLINE ls_vd ls_magnitude_d(ls_vd v) { return (ls_vd)((ls_vl)v & INT64_MAX); }

/* Lanes as bits of an integer, lane 0 lowest: those whose sign bit is set. */
LS_INLINE uint32_t ls_lanes_of(ls_vi mask) {
#if defined(LS_AVX512)
    return (uint32_t)_mm512_movepi32_mask((__m512i)mask);
#elif defined(LS_AVX2)
    return (uint32_t)_mm256_movemask_ps((__m256)mask);
#elif defined(LS_SSE2)
    return (uint32_t)_mm_movemask_ps((__m128)mask);
#else
    uint32_t lanes = 0;
    for (int i = 0; i < LS_LANES; i++)
        lanes |= (uint32_t)mask[i] >> 31 << i;
    return lanes;
#endif
}

LS_INLINE uint32_t ls_lanes_of_l(ls_vl mask) {
#if defined(LS_AVX512)
    return (uint32_t)_mm512_movepi64_mask((__m512i)mask);
#elif defined(LS_AVX2)
    return (uint32_t)_mm256_movemask_pd((__m256d)mask);
#elif defined(LS_SSE2)
    return (uint32_t)_mm_movemask_pd((__m128d)mask);
#else
    uint32_t lanes = 0;
    for (int i = 0; i < LS_HALF; i++)
        lanes |= (uint32_t)((uint64_t)mask[i] >> 63) << i;
    return lanes;
#endif
}

/* Lanes where a < b, as non-negative integers. */
LS_INLINE uint32_t ls_below_l(ls_vl a, ls_vl b) {
#if defined(LS_AVX512)
    return (uint32_t)_mm512_cmplt_epi64_mask((__m512i)a, (__m512i)b);
#else
    return ls_lanes_of_l(a - b);
#endif
}

/* Lanes where not a <= b, NaNs included. */
LS_INLINE uint32_t ls_beyond(ls_vf a, ls_vf b) {
#if defined(LS_AVX512)
    return (uint32_t)_mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_NLE_UQ);
#else
    return ls_lanes_of(~(ls_vi)(a <= b));
#endif
}

/* Lanes that are infinite or NaN. */
LS_INLINE uint32_t ls_not_finite(ls_vf v) {
#if defined(LS_AVX512)
    return (uint32_t)_mm512_fpclass_ps_mask((__m512)v, 0x99);
#else
    return ls_beyond(ls_magnitude(v), LS_ALL_F(FLT_MAX));
#endif
}

/* Lanes where a < b as unsigned integers. */
LS_INLINE uint32_t ls_below_u(ls_vu a, ls_vu b) {
#if defined(LS_AVX512)
    return (uint32_t)_mm512_cmplt_epu32_mask((__m512i)a, (__m512i)b);
#else
    return ls_lanes_of((ls_vi)(a ^ 0x80000000u) < (ls_vi)(b ^ 0x80000000u));
#endif
}

/* Lanes that have none of the mask's bits. */
LS_INLINE uint32_t ls_without(ls_vu v, uint32_t mask) {
#if defined(LS_AVX512)
    return (uint32_t)_mm512_testn_epi32_mask((__m512i)v, (__m512i)LS_ALL_U(mask));
#else
    return ls_lanes_of((ls_vi)((v & mask) == 0));
#endif
}

/* Lanes whose bits differ. */
LS_INLINE uint32_t ls_differ_f(ls_vf a, ls_vf b) {
#if defined(LS_AVX512)
    return (uint32_t)_mm512_cmpneq_epi32_mask((__m512i)a, (__m512i)b);
#else
    return ls_lanes_of((ls_vi)a != (ls_vi)b);
#endif
}

LS_INLINE uint32_t ls_differ_s(ls_vs a, ls_vs b) {
#if defined(LS_AVX512)
    return (uint32_t)_mm256_cmpneq_epi16_mask((__m256i)a, (__m256i)b);
#elif defined(LS_AVX2)
    const __m128i equal = _mm_cmpeq_epi16((__m128i)a, (__m128i)b);
    return ((uint32_t)_mm_movemask_epi8(_mm_packs_epi16(equal, equal)) & 0xff) ^ 0xff;
#else
    uint32_t lanes = 0;
    for (int i = 0; i < LS_LANES; i++)
        lanes |= (uint32_t)(a[i] != b[i]) << i;
    return lanes;
#endif
}

LS_INLINE ls_vd ls_widen_low(ls_vf v) {
#if defined(LS_AVX512)
    return (ls_vd)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)v));
#elif defined(LS_AVX2)
    return (ls_vd)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)v));
#elif defined(LS_SSE2)
    return (ls_vd)_mm_cvtps_pd((__m128)v);
#else
    ls_hf half;
    memcpy(&half, &v, sizeof half);
    return __builtin_convertvector(half, ls_vd);
#endif
}

LS_INLINE ls_vd ls_widen_high(ls_vf v) {
#if defined(LS_AVX512)
    return (ls_vd)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)v, 1));
#elif defined(LS_AVX2)
    return (ls_vd)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)v, 1));
#elif defined(LS_SSE2)
    return (ls_vd)_mm_cvtps_pd(_mm_movehl_ps((__m128)v, (__m128)v));
#else
    ls_hf half[2];
    memcpy(half, &v, sizeof half);
    return __builtin_convertvector(half[1], ls_vd);
#endif
}

/* Two vectors of doubles rounded to one of floats. */
LS_INLINE ls_vf ls_join_d(ls_vd low, ls_vd high) {
#if defined(LS_AVX512)
    return (ls_vf)_mm512_insertf32x8(
        _mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)low)), _mm512_cvtpd_ps((__m512d)high), 1);
#elif defined(LS_AVX2)
    return (ls_vf)_mm256_insertf128_ps(
        _mm256_castps128_ps256(_mm256_cvtpd_ps((__m256d)low)), _mm256_cvtpd_ps((__m256d)high), 1);
#elif defined(LS_SSE2)
    return (ls_vf)_mm_movelh_ps(_mm_cvtpd_ps((__m128d)low), _mm_cvtpd_ps((__m128d)high));
#else
    const ls_hf halves[2] = {__builtin_convertvector(low, ls_hf), __builtin_convertvector(high, ls_hf)};
    ls_vf v;
    memcpy(&v, halves, sizeof v);
    return v;
#endif
}

#ifndef LS_FUSED
/* A fused operation on floats by doubles: the product is exact, and the sum is rounded to odd (Boldo and
 * Melquiond 2008), so that rounding it to float is the only rounding. An even sum with an error moves one
 * step towards the error, and is odd. Infinities and NaNs have no error that compares. */
LS_INLINE ls_vd ls_fma_odd(ls_vd a, ls_vd b, ls_vd c) {
    const ls_vd product = a * b, sum = product + c, other = sum - product;
    const ls_vd error = (product - (sum - other)) + (c - other);
    const ls_vq inward = ((ls_vq)error ^ (ls_vq)sum) >> 63, step = 1 - (inward + inward);
    const ls_vq even = ((ls_vq)sum & 1) - 1;
#ifdef LS_SSE2
    /* The compiler would take the masks below apart, lane by lane. */
    const __m128d inexact = _mm_cmplt_pd(_mm_setzero_pd(), (__m128d)ls_magnitude_d(error));
    return (ls_vd)((ls_vq)sum + (ls_vq)_mm_and_si128((__m128i)inexact, (__m128i)(step & even)));
#else
    return (ls_vd)((ls_vq)sum + (step & even & (ls_vq)(ls_magnitude_d(error) > 0)));
#endif
}
#endif

/* a b + c on floats, in one rounding. */
LS_INLINE ls_vf ls_fma(ls_vf a, ls_vf b, ls_vf c) {
#if defined(LS_AVX512)
    return (ls_vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(LS_AVX2)
    return (ls_vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    return (ls_vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return ls_join_d(ls_fma_odd(ls_widen_low(a), ls_widen_low(b), ls_widen_low(c)),
        ls_fma_odd(ls_widen_high(a), ls_widen_high(b), ls_widen_high(c)));
#endif
}

/* The upper halves of two vectors of 64-bit integers as one of 32-bit integers. */
LS_INLINE ls_vu ls_join_upper(ls_vq low, ls_vq high) {
#if defined(LS_AVX512)
    const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return (ls_vu)_mm512_permutex2var_epi32((__m512i)low, odd, (__m512i)high);
#elif defined(LS_AVX2)
    const __m256 mixed = _mm256_shuffle_ps((__m256)low, (__m256)high, _MM_SHUFFLE(3, 1, 3, 1));
    return (ls_vu)_mm256_permute4x64_pd((__m256d)mixed, _MM_SHUFFLE(3, 1, 2, 0));
#else
    const ls_hu halves[2] = {__builtin_convertvector(low >> 32, ls_hu), __builtin_convertvector(high >> 32, ls_hu)};
    ls_vu v;
    memcpy(&v, halves, sizeof v);
    return v;
#endif
}

/* bf16 is the upper half of a float: of two elements in 32 bits, the one or the other. On a little-endian
 * machine (there is no other here) the lower one comes first. */
LS_INLINE ls_vf ls_bf16_of(ls_vu pairs, int upper) {
    return (ls_vf)(upper ? pairs & 0xffff0000u : pairs << 16);
}
LS_INLINE ls_vu ls_pair_bf16(ls_vu lower, ls_vu upper) { return (upper & 0xffff0000u) | lower >> 16; }

LS_INLINE ls_vf ls_widen_fp16(ls_vs bits) {
#if defined(LS_AVX512)
    return (ls_vf)_mm512_cvtph_ps((__m256i)bits);
#elif defined(LS_AVX2)
    return (ls_vf)_mm256_cvtph_ps((__m128i)bits);
#else
    ls_vf v;
    for (int i = 0; i < LS_LANES; i++)
        v[i] = ls_fp16_to_float(bits[i]);
    return v;
#endif
}

/* To nearest even; a NaN becomes some NaN. */
LS_INLINE ls_vs ls_narrow_fp16(ls_vf v) {
#if defined(LS_AVX512)
    return (ls_vs)_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT);
#elif defined(LS_AVX2)
    return (ls_vs)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
#else
    ls_vs bits;
    for (int i = 0; i < LS_LANES; i++)
        bits[i] = ls_float_to_fp16(v[i]);
    return bits;
#endif
}


#endif
