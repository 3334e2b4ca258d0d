/* Conversions between the 16-bit formats and float or double, exact where they widen and to nearest
 * even where they narrow (other modes: rounding.h).
 *
 * Widening is branch-free, exact for every pattern, keeps NaNs NaN (signalling ones too: the
 * payload moves as bits) and reads neither rounding mode nor FTZ/DAZ: no operand or result of its
 * arithmetic is subnormal, and every result is exact. All loops over these functions vectorise.
 */
#ifndef LSBENCH_CONVERT_H
#define LSBENCH_CONVERT_H

#include <float.h>
#include <stdint.h>
#include <string.h>

#include "block.h"

#if FLT_EVAL_METHOD != 0
#error \
    "float and double must be evaluated in their own precision (on 32-bit x86: -msse2 -mfpmath=sse)"
#endif

#if defined(__GNUC__)
#define LS_INLINE static inline __attribute__((always_inline, unused))
#else
#define LS_INLINE static inline
#endif

/* A format as numbers; with a constant argument they are constants. */
LS_INLINE int ls_precision(ls_format format) {
    return format == LS_FP32 ? 24 : format == LS_FP16 ? 11 : 8;
}
LS_INLINE int ls_emin(ls_format format) { return format == LS_FP16 ? -14 : -126; }
LS_INLINE int ls_emax(ls_format format) { return 1 - ls_emin(format); }
LS_INLINE size_t ls_itemsize(ls_format format) { return format == LS_FP32 ? 4 : 2; }

LS_INLINE uint32_t ls_inf_bits(ls_format format) {
    return (uint32_t)(2 * ls_emax(format) + 1) << (ls_precision(format) - 1);
}

/* The one NaN that is ever stored: positive and quiet. Payloads would depend on operand order. */
LS_INLINE uint32_t ls_nan_bits(ls_format format) {
    return ls_inf_bits(format) | 1u << (ls_precision(format) - 2);
}

LS_INLINE uint32_t ls_sign_bit(ls_format format) { return format == LS_FP32 ? 1u << 31 : 1u << 15; }

LS_INLINE uint32_t ls_float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

LS_INLINE float ls_bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

LS_INLINE uint64_t ls_double_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

LS_INLINE double ls_bits_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* 2^exponent for -1022 <= exponent <= 1023. */
LS_INLINE double ls_power_of_two(int exponent) {
    return ls_bits_double((uint64_t)(1023 + exponent) << 52);
}

LS_INLINE float ls_fp16_to_float(uint16_t bits) {
    const uint32_t magnitude = bits & 0x7fffu, sign = (uint32_t)(bits & 0x8000u) << 16;
    const uint32_t normal = (magnitude << 13) + (112u << 23);
    /* 2^-14 (1 + f) - 2^-14 = 2^-14 f, exactly: the hidden bit that a subnormal lacks comes off.
     * Rounding downward, f = 0 gives -0: the mask takes its sign. */
    const float with_hidden_bit = ls_bits_float(magnitude << 13 | 113u << 23);
    const uint32_t subnormal = ls_float_bits(with_hidden_bit - 0x1p-14f) & 0x7fffffffu;
    const uint32_t finite = magnitude < 0x0400u ? subnormal : normal;
    return ls_bits_float((magnitude >= 0x7c00u ? normal + (112u << 23) : finite) | sign);
}

LS_INLINE float ls_bf16_to_float(uint16_t bits) { return ls_bits_float((uint32_t)bits << 16); }

/* float bits to double; as a cast, but subnormals survive DAZ. */
LS_INLINE double ls_fp32_to_double(uint32_t bits) {
    const uint64_t magnitude = bits & 0x7fffffffu, sign = (uint64_t)(bits & 0x80000000u) << 32;
    const uint64_t normal = (magnitude << 29) + ((uint64_t)896 << 52);
    const double with_hidden_bit = ls_bits_double(magnitude << 29 | (uint64_t)897 << 52);
    const uint64_t subnormal = ls_double_bits(with_hidden_bit - 0x1p-126) & ~((uint64_t)1 << 63);
    const uint64_t finite = (uint32_t)magnitude < 0x00800000u ? subnormal : normal;
    const uint64_t special = normal + ((uint64_t)896 << 52);
    return ls_bits_double(((uint32_t)magnitude >= 0x7f800000u ? special : finite) | sign);
}

LS_INLINE double ls_bf16_to_double(uint16_t bits) {
    return ls_fp32_to_double((uint32_t)bits << 16);
}

/* Every fp16 value is zero or a normal float, so that the cast meets no subnormal. */
LS_INLINE double ls_fp16_to_double(uint16_t bits) { return (double)ls_fp16_to_float(bits); }

LS_INLINE double ls_to_double(uint32_t bits, ls_format format) {
    if (format == LS_FP32)
        return ls_fp32_to_double(bits);
    return format == LS_FP16 ? ls_fp16_to_double((uint16_t)bits)
                             : ls_bf16_to_double((uint16_t)bits);
}

/* float to bf16, to nearest even; needs no floating-point arithmetic. */
LS_INLINE uint16_t ls_float_to_bf16(float value) {
    const uint32_t bits = ls_float_bits(value);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? ls_nan_bits(LS_BF16) : rounded);
}

/* float to fp16, to nearest even; in the default floating-point environment. */
LS_INLINE uint16_t ls_float_to_fp16(float value) {
    const uint32_t bits = ls_float_bits(value), magnitude = bits & 0x7fffffffu;
    const uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23)) >> 13;
    /* In [1/2, 1) the spacing of float is 2^-24, the smallest fp16. */
    const uint32_t subnormal = ls_float_bits(ls_bits_float(magnitude) + 0.5f) - (126u << 23);
    const uint32_t finite = magnitude < 113u << 23 ? subnormal : normal;
    const uint32_t bounded = finite > 0x7c00u || magnitude >= 143u << 23 ? 0x7c00u : finite;
    return (uint16_t)(magnitude > 0x7f800000u ? ls_nan_bits(LS_FP16)
                                              : bounded | (bits >> 16 & 0x8000u));
}

#endif
