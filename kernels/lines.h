/* A block by lines: vectors of LS_LANES elements, a cache line's worth at a time. */
#ifndef LSBENCH_LINES_H
#define LSBENCH_LINES_H

#include "fetch.h"
#include "lanes.h"

/* Computes and stores LS_LANES elements, twice as many of bf16; all of g and x is read before y is
 * written. */
typedef void ls_put(const void *g, const void *x, void *y, uint64_t index, const ls_store *store,
    ls_format format, ls_rounding mode);

/* Bytes of each tensor that are taken at once. */
#define LS_TAKEN 64

/* n elements; the last ones, fewer than a line, by way of a line of their own. */
LS_INLINE void ls_by_lines(const void *g, const void *x, void *y, size_t n, uint64_t index,
    const ls_store *store, ls_format format, ls_rounding mode, ls_put *put) {
    const size_t size = ls_itemsize(format), line = format == LS_FP16 ? LS_VECTOR / 2 : LS_VECTOR;
    const char *a = g, *b = x;
    char *c = y;
    size_t i = 0;
    for (; i + LS_TAKEN / size <= n; i += LS_TAKEN / size) {
        ls_ask(a + LS_AHEAD), ls_ask(b + LS_AHEAD), ls_ask_to_write(c + LS_AHEAD);
#pragma GCC unroll 4
        for (size_t at = 0; at < LS_TAKEN; at += line)
            put(a + at, b + at, c + at, index + i + at / size, store, format, mode);
        a += LS_TAKEN, b += LS_TAKEN, c += LS_TAKEN;
    }
    while (i < n) {
        const size_t count = n - i < line / size ? n - i : line / size;
        char last[3][LS_VECTOR] = {{0}};
        memcpy(last[0], a, count * size), memcpy(last[1], b, count * size);
        put(last[0], last[1], last[2], index + i, store, format, mode);
        memcpy(c, last[2], count * size);
        i += count, a += count * size, b += count * size, c += count * size;
    }
}

/* What the rare lanes need stays out of the loop. */
#define LS_APART __attribute__((noinline))
#define LS_RARE(condition) __builtin_expect((condition) != 0, 0)

#endif
