/* The contract between the blocked drivers and the block functions.
 *
 * A block function computes y[i] = g[i] * 1/(1 + e^x[i]) for i in [0, n) on contiguous arrays in
 * the storage format. A driver gathers strided views into such arrays, calls it, and scatters the
 * result.
 *
 * - g, x and y are aligned to their element size at least. y may be the very array g or x (in
 * place); any other overlap is excluded by the caller.
 * - n is any number, 0 included; nothing outside [0, n) is read or written.
 * - index is the row-major position of element 0 in the whole tensor: only stochastic rounding
 * reads it.
 * - The floating-point environment is the default one (to nearest, subnormals kept): drivers see to
 * it.
 * - Bits depend on (g[i], x[i], store, index + i) alone: not on n, i, alignment or the instruction
 * set.
 */
#ifndef LSBENCH_BLOCK_H
#define LSBENCH_BLOCK_H

#include <stddef.h>
#include <stdint.h>

typedef enum { LS_FP32, LS_FP16, LS_BF16, LS_FORMATS } ls_format;

typedef enum { LS_RNE, LS_RNA, LS_RTZ, LS_RUP, LS_RDN, LS_RTO, LS_SR, LS_ROUNDINGS } ls_rounding;

/* How a result is stored: rounding mode, flush of subnormal results to zero, seed of stochastic
 * rounding. */
typedef struct {
    ls_rounding rounding;
    int ftz;
    uint64_t seed;
} ls_store;

typedef void ls_block(
    const void *g, const void *x, void *y, size_t n, uint64_t index, const ls_store *store);

#endif
