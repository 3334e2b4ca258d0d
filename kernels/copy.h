/* Moving a strided tile of elements into a contiguous buffer and back, at any alignment.
 *
 * The walk follows the strided side's memory: its smaller stride is the inner loop, whichever
 * dimension that is, so that a cache line is used up before it is left. Elements move as integers.
 */
#ifndef LSBENCH_COPY_H
#define LSBENCH_COPY_H

#include <string.h>

#include "fetch.h"
#include "lanes.h"
#include "transpose.h"

/* Bytes of a cache line. */
#define LS_LINE 64

LS_INLINE int64_t ls_abs(int64_t value) { return value < 0 ? -value : value; }

/* Elements that are copied at once. */
#define LS_COPIED 32

/* A tile where it lies; strides in bytes. */
typedef struct {
    char *at;
    int64_t rows, columns, row_stride, column_stride;
    size_t itemsize;
} ls_strided;

/* Copy n elements; with constant strides the compiler has straight loops to vectorise. What is read
 * LS_AHEAD bytes later is asked for meanwhile. */
LS_INLINE void ls_copy_loop(const char *from, int64_t from_stride, char *to, int64_t to_stride,
    int64_t n, size_t itemsize) {
    const int64_t reach = LS_COPIED * ls_abs(from_stride), ahead = from_stride < 0 ? -LS_AHEAD : LS_AHEAD;
    int64_t i = 0;
    for (; i + LS_COPIED <= n; i += LS_COPIED) {
        const char *source = from + i * from_stride;
        for (int64_t line = 0; line < reach && reach <= LS_AHEAD; line += LS_LINE)
            ls_ask(source + ahead + (from_stride < 0 ? -line : line));
        for (int64_t k = 0; k < LS_COPIED; k++)
            memcpy(to + (i + k) * to_stride, source + k * from_stride, itemsize);
    }
    for (; i < n; i++)
        memcpy(to + i * to_stride, from + i * from_stride, itemsize);
}

/* Every second element, read with its neighbour and cut down; the last one has none. */
LS_INLINE void ls_copy_second(const char *from, char *to, int64_t n, int64_t item) {
    int64_t i = 0;
    for (; i + LS_COPIED < n; i += LS_COPIED) {
        for (int64_t line = 0; line < 2 * LS_COPIED * item; line += LS_LINE)
            ls_ask(from + 2 * i * item + line + LS_AHEAD);
#pragma GCC unroll 8
        for (int64_t k = 0; k < LS_COPIED * item; k += LS_VECTOR / 2) {
            if (item == 4) {
                ls_vq pairs;
                memcpy(&pairs, from + 2 * (i * item + k), sizeof pairs);
                const ls_hu firsts = __builtin_convertvector(pairs, ls_hu);
                memcpy(to + i * item + k, &firsts, sizeof firsts);
            } else {
                ls_vu pairs;
                memcpy(&pairs, from + 2 * (i * item + k), sizeof pairs);
                const ls_vs firsts = __builtin_convertvector(pairs, ls_vs);
                memcpy(to + i * item + k, &firsts, sizeof firsts);
            }
        }
    }
    for (; i < n; i++)
        memcpy(to + i * item, from + 2 * i * item, (size_t)item);
}

LS_INLINE void ls_copy_line(const char *from, int64_t from_stride, char *to, int64_t to_stride,
    int64_t n, size_t itemsize) {
    const int64_t item = (int64_t)itemsize;
    if (from_stride == item && to_stride == item)
        memcpy(to, from, (size_t)n * itemsize);
    else if (from_stride == 2 * item && to_stride == item)
        ls_copy_second(from, to, n, item);
    else if (from_stride == -item && to_stride == item)
        ls_copy_loop(from, -item, to, item, n, itemsize);
    else if (from_stride == item && to_stride == -item)
        ls_copy_loop(from, item, to, -item, n, itemsize);
    else if (from_stride == 0 && to_stride == item)
        ls_copy_loop(from, 0, to, item, n, itemsize);
    else
        ls_copy_loop(from, from_stride, to, to_stride, n, itemsize);
}

LS_INLINE void ls_copy_tile(const char *from, int64_t from_row, int64_t from_column, char *to,
    int64_t to_row, int64_t to_column, int64_t rows, int64_t columns, int across, size_t itemsize) {
    if (across)
        for (int64_t c = 0; c < columns; c++)
            ls_copy_line(
                from + c * from_column, from_row, to + c * to_column, to_row, rows, itemsize);
    else
        for (int64_t r = 0; r < rows; r++)
            ls_copy_line(
                from + r * from_row, from_column, to + r * to_row, to_column, columns, itemsize);
}

/* Whether the inner loop runs along the rows' dimension: there the tensor is denser, or its columns
 * are too few for a loop of their own. */
static inline int ls_runs_across(const ls_strided *tile) {
    if (tile->columns < 8 && tile->rows > 8)
        return 1;
    return tile->rows > 1 && ls_abs(tile->row_stride) < ls_abs(tile->column_stride);
}

/* Whether the rows of a tile are neighbours in memory: then it is transposed square by square. */
static inline int ls_is_transposed(const ls_strided *tile) {
    return tile->row_stride == (int64_t)tile->itemsize && ls_runs_across(tile);
}

/* Ask for one of `parts` shares of a tile's cache lines ahead of its turn: its runs are too short for the
 * hardware to see, and all of them at once would wait for one another. */
LS_INLINE void ls_ask_tile(const ls_strided *tile, int64_t part, int64_t parts) {
    const int across = tile->rows > 1 && ls_abs(tile->row_stride) < ls_abs(tile->column_stride);
    const int64_t runs = across ? tile->columns : tile->rows;
    const int64_t next = across ? tile->column_stride : tile->row_stride;
    const int64_t step = across ? tile->row_stride : tile->column_stride;
    const int64_t extent = ((across ? tile->rows : tile->columns) - 1) * step;
    const int64_t apart = ls_abs(step) > LS_LINE ? ls_abs(step) : LS_LINE, lines = ls_abs(extent) / apart + 1;
    const char *first = extent < 0 ? tile->at + extent : tile->at;
    const int64_t begin = runs * lines * part / parts, end = runs * lines * (part + 1) / parts;
    int64_t run = begin / lines, line = begin % lines;
    for (int64_t i = begin; i < end; i++) {
        ls_ask_early(first + run * next + line * apart);
        if (++line == lines)
            line = 0, run++;
    }
}

/* `line` bytes lie between the rows of the buffer. */
static inline void ls_gather(ls_strided tile, char *buffer, int64_t line) {
    const int across = ls_runs_across(&tile);
    if (ls_is_transposed(&tile))
        ls_transpose(
            tile.at, tile.column_stride, buffer, line, tile.columns, tile.rows, tile.itemsize);
    else if (tile.itemsize == 4)
        ls_copy_tile(tile.at, tile.row_stride, tile.column_stride, buffer, line, 4, tile.rows,
            tile.columns, across, 4);
    else
        ls_copy_tile(tile.at, tile.row_stride, tile.column_stride, buffer, line, 2, tile.rows,
            tile.columns, across, 2);
}

static inline void ls_scatter(const char *buffer, int64_t line, ls_strided tile) {
    const int across = ls_runs_across(&tile);
    if (ls_is_transposed(&tile))
        ls_transpose(
            buffer, line, tile.at, tile.column_stride, tile.rows, tile.columns, tile.itemsize);
    else if (tile.itemsize == 4)
        ls_copy_tile(buffer, line, 4, tile.at, tile.row_stride, tile.column_stride, tile.rows,
            tile.columns, across, 4);
    else
        ls_copy_tile(buffer, line, 2, tile.at, tile.row_stride, tile.column_stride, tile.rows,
            tile.columns, across, 2);
}

#endif
