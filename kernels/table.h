/* The table of kernels: the one place where a kernel and its guarantee are stated. Lists,
 * documentation and tests are made from it. A new formula is a block function and a row here. */
#ifndef LSBENCH_TABLE_H
#define LSBENCH_TABLE_H

#include "compute.h"
#include "fast.h"
#include "formulas.h"

#define LS_STORAGES(name) {name##_fp32, name##_fp16, name##_bf16}
#define LS_ARITHMETICS(name) \
    {LS_STORAGES(name##_in_fp32), LS_STORAGES(name##_in_fp16), LS_STORAGES(name##_in_bf16)}
/* The kernels of the project's own have one arithmetic. */
#define LS_ONE_ARITHMETIC(name) {LS_STORAGES(name)}
/* A bound that holds where results are stored in the arithmetic's own format. */
#define LS_OWN_FORMAT(ulp)                      \
    {                                           \
        {ulp, 0, 0}, {0, ulp, 0}, { 0, 0, ulp } \
    }
/* Up to here e^-x is a normal number of each arithmetic. */
#define LS_NORMAL_EXP {87.0, 9.5, 87.0}
#define LS_ANY_X {HUGE_VAL, HUGE_VAL, HUGE_VAL}

/* Bounds of the formulas, with u = 2^-p: exp, addition, division and multiplication each add at
 * most u to the relative error (no operation magnifies what it is given), 4u in all, and u of a
 * number is at most 1 ulp of it; products of errors stay below 0.1 ulp at p = 8. `buffered` adds
 * one subtraction, from 1 and of at most 1/2. */
static const ls_kernel LS_KERNELS[] = {
    {"fast", "g / (1 + exp(x)), one rounding after an error too small to matter",
        "right special values, large g and tiny sigma(-x) included; the same bits on every machine",
        {{0.95, 0.51, 0.51}}, LS_ANY_X, LS_ONE_ARITHMETIC(ls_fast)},
    {"exact", "g / (1 + exp(x)), correctly rounded",
        "every g and x in every rounding mode; the same bits on every machine", {{0.5, 0.5, 0.5}},
        LS_ANY_X, LS_ONE_ARITHMETIC(ls_exact)},
    {"textbook", "g * (1 / (1 + exp(x)))",
        "the formula as the operator's page writes it; exp overflows for large x and leaves 0",
        LS_OWN_FORMAT(4.1), LS_NORMAL_EXP, LS_ARITHMETICS(ls_textbook)},
    {"ascend", "e = exp(-|x|); ((x < 0 ? 1 : e) / (1 + e)) * g",
        "as the vendor's published kernel; sigma(-x) underflows before it meets a large g",
        LS_OWN_FORMAT(4.1), LS_NORMAL_EXP, LS_ARITHMETICS(ls_ascend)},
    {"buffered", "z = exp(-|x|) stored; g * ((x < 0) - sign * z / (1 + z))",
        "as PyTorch's CPU backward; z is rounded to the storage format, so that 16-bit tails "
        "vanish",
        LS_OWN_FORMAT(5.1), LS_NORMAL_EXP, LS_ARITHMETICS(ls_buffered)},
};

#define LS_KERNEL_COUNT ((int)(sizeof LS_KERNELS / sizeof LS_KERNELS[0]))

#endif
