/* The bandwidth roof: read two streams, write a third of the same sizes, and do nothing else.
 *
 * They are block functions, so that the same driver cuts, threads and times them as it does the
 * kernels. The exclusive or is one instruction per vector, and the compiler cannot drop a stream.
 *
 * It is the roof of ordinary stores, which the kernels use, and not the most that the memory gives:
 * streaming stores skip reading a line before it is overwritten, and on a busy two-core machine
 * (2^24 elements of fp32, best of 20, five runs) moved 23 to 88 % more with one thread and from 2 %
 * less to 28 % more with two.
 */
#ifndef LSBENCH_ROOF_H
#define LSBENCH_ROOF_H

#include "block.h"

static inline void ls_roof_32(
    const void *g, const void *x, void *y, size_t n, uint64_t index, const ls_store *store) {
    const uint32_t *a = g, *b = x;
    uint32_t *c = y;
    (void)index, (void)store;
    for (size_t i = 0; i < n; i++)
        c[i] = a[i] ^ b[i];
}

static inline void ls_roof_16(
    const void *g, const void *x, void *y, size_t n, uint64_t index, const ls_store *store) {
    const uint16_t *a = g, *b = x;
    uint16_t *c = y;
    (void)index, (void)store;
    for (size_t i = 0; i < n; i++)
        c[i] = a[i] ^ b[i];
}

#endif
