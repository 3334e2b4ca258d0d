/* The formulas that people write, with the weaknesses that they have, in the arithmetic of one
 * format.
 *
 * Guarantee: the bits are those of the formula as written, every elementary operation (exp, add,
 * subtract, divide, multiply) rounded to nearest even to the arithmetic's format, whatever the
 * instruction set. Operations are computed in double and rounded: for add, subtract, multiply and
 * divide that double rounding is innocuous, as 53 >= 2p + 2 holds for p = 24, 11 and 8 (Figueroa
 * 1995; in the subnormal range products and sums are exact in double, and a quotient of two p-bit
 * numbers lies further than 2^-49 from every midpoint it does not equal). exp is below, good to
 * 2^-51, and rounded: correctly for every fp16 and bf16 argument.
 *
 * An input of a wider storage format is rounded to the arithmetic's format first.
 */
#ifndef LSBENCH_FORMULAS_H
#define LSBENCH_FORMULAS_H

#include "rounding.h"

typedef enum { LS_TEXTBOOK, LS_ASCEND, LS_BUFFERED } ls_formula;

/* e^x within 2^-51 relative for |x| <= 200, and clamped there: beyond it every format overflows or
 * underflows alike. x = k ln2 + r with |r| <= ln2 / 2 + 2^-40, Taylor to degree 13 (remainder below
 * 2^-57), scaled by 2^k through the exponent field. Bits do not depend on any library. */
LS_INLINE double ls_exp(double x) {
    const double clamped = x > 200.0 ? 200.0 : x < -200.0 ? -200.0 : x;
    const double shifted = clamped * 0x1.71547652b82fep+0 + 0x1.8p+52, k = shifted - 0x1.8p+52;
    /* ln2 in two parts; the first has 33 bits, so that k times it is exact. */
    const double r = (clamped - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33;
    double sum = 1.0 / 6227020800.0;
    sum = sum * r + 1.0 / 479001600.0;
    sum = sum * r + 1.0 / 39916800.0;
    sum = sum * r + 1.0 / 3628800.0;
    sum = sum * r + 1.0 / 362880.0;
    sum = sum * r + 1.0 / 40320.0;
    sum = sum * r + 1.0 / 5040.0;
    sum = sum * r + 1.0 / 720.0;
    sum = sum * r + 1.0 / 120.0;
    sum = sum * r + 1.0 / 24.0;
    sum = sum * r + 1.0 / 6.0;
    sum = sum * r + 0.5;
    sum = 1.0 + (r + r * r * sum);
    return sum * ls_bits_double((ls_double_bits(shifted) + 1023) << 52);
}

/* g * (1 / (1 + exp(x))), as the operator's page writes it: exp overflows for large x, and the
 * sigmoid underflows before it meets a large g. */
LS_INLINE double ls_textbook(double g, double x, ls_format f) {
    const double e = ls_quantise(ls_exp(x), f);
    return ls_quantise(g * ls_quantise(1.0 / ls_quantise(1.0 + e, f), f), f);
}

/* e = exp(-|x|); (x < 0 ? 1 : e) / (1 + e) * g, as the vendor's published kernel computes. */
LS_INLINE double ls_ascend(double g, double x, ls_format f) {
    const double e = ls_quantise(ls_exp(-fabs(x)), f);
    const double sigma = ls_quantise((x < 0 ? 1.0 : e) / ls_quantise(1.0 + e, f), f);
    return ls_quantise(sigma * g, f);
}

/* g * (max_deriv - sign * (z / (1 + z))) from z = exp(-|x|) as the forward pass stored it, in the
 * storage format: what PyTorch's CPU backward computes (aten/native/Activation.cpp). */
LS_INLINE double ls_buffered(double g, double x, ls_format f, ls_format storage) {
    const double stored = ls_quantise(ls_quantise(ls_exp(-fabs(x)), f), storage);
    const double z = ls_quantise(stored, f);
    const double share = ls_quantise(z / ls_quantise(1.0 + z, f), f);
    const double derivative = (x < 0 ? 1.0 : 0.0) - (x < 0 ? share : -share);
    return ls_quantise(g * ls_quantise(derivative, f), f);
}

/* Elements that one pass widens, computes and stores: three arrays of double, in the L1 cache. */
#define LS_PASS 256
/* Passes are padded to this many elements: a tail runs the very code that a full pass runs. */
#define LS_PAD 16

static inline void ls_load(ls_format format, const void *source, double *value, size_t n) {
    if (format == LS_FP32)
        for (size_t i = 0; i < n; i++)
            value[i] = ls_fp32_to_double(((const uint32_t *)source)[i]);
    else if (format == LS_FP16)
        for (size_t i = 0; i < n; i++)
            value[i] = ls_fp16_to_double(((const uint16_t *)source)[i]);
    else
        for (size_t i = 0; i < n; i++)
            value[i] = ls_bf16_to_double(((const uint16_t *)source)[i]);
}

LS_INLINE void ls_formula_block(const void *g, const void *x, void *y, size_t n, uint64_t index,
    const ls_store *store, ls_formula formula, ls_format f, ls_format storage) {
    double gs[LS_PASS], xs[LS_PASS], ys[LS_PASS];
    const size_t itemsize = ls_itemsize(storage);
    for (size_t start = 0; start < n; start += LS_PASS) {
        const size_t count = n - start < LS_PASS ? n - start : LS_PASS;
        const size_t padded = (count + LS_PAD - 1) / LS_PAD * LS_PAD;
        ls_load(storage, (const char *)g + start * itemsize, gs, count);
        ls_load(storage, (const char *)x + start * itemsize, xs, count);
        for (size_t i = count; i < padded; i++)
            gs[i] = xs[i] = 0.0;
        for (size_t i = 0; i < padded; i++) {
            const double gi = ls_quantise(gs[i], f), xi = ls_quantise(xs[i], f);
            ys[i] = formula == LS_TEXTBOOK ? ls_textbook(gi, xi, f)
                : formula == LS_ASCEND     ? ls_ascend(gi, xi, f)
                                           : ls_buffered(gi, xi, f, storage);
        }
        ls_store_as(storage, ys, (char *)y + start * itemsize, count, index + start, store);
    }
}

#define LS_FORMULA_ROW(name, formula, arithmetic, storage)                                        \
    static inline void name(                                                                      \
        const void *g, const void *x, void *y, size_t n, uint64_t index, const ls_store *store) { \
        ls_formula_block(g, x, y, n, index, store, formula, arithmetic, storage);                 \
    }

/* One block function per formula, arithmetic and storage: ls_textbook_in_fp16_bf16 computes in fp16
 * and stores bf16. */
#define LS_FORMULA_STORAGES(name, formula, arithmetic)        \
    LS_FORMULA_ROW(name##_fp32, formula, arithmetic, LS_FP32) \
    LS_FORMULA_ROW(name##_fp16, formula, arithmetic, LS_FP16) \
    LS_FORMULA_ROW(name##_bf16, formula, arithmetic, LS_BF16)

#define LS_FORMULA_ARITHMETICS(name, formula)             \
    LS_FORMULA_STORAGES(name##_in_fp32, formula, LS_FP32) \
    LS_FORMULA_STORAGES(name##_in_fp16, formula, LS_FP16) \
    LS_FORMULA_STORAGES(name##_in_bf16, formula, LS_BF16)

LS_FORMULA_ARITHMETICS(ls_textbook, LS_TEXTBOOK)
LS_FORMULA_ARITHMETICS(ls_ascend, LS_ASCEND)
LS_FORMULA_ARITHMETICS(ls_buffered, LS_BUFFERED)

#endif
