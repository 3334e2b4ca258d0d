/* Moving a strided tile of elements into a contiguous buffer and back, at any alignment.
 *
 * The walk follows the strided side's memory: its smaller stride is the inner loop, whichever
 * dimension that is, so that a cache line is used up before it is left. Elements move as integers.
 */
#ifndef LSBENCH_COPY_H
#define LSBENCH_COPY_H

#include <string.h>

#include "convert.h"

/* A tile where it lies; strides in bytes. */
typedef struct {
    char *at;
    int64_t rows, columns, row_stride, column_stride;
    size_t itemsize;
} ls_strided;

/* Copy n elements; with constant strides the compiler has straight loops to vectorise. */
LS_INLINE void ls_copy_loop(
    const char *from, int64_t from_stride, char *to, int64_t to_stride, int64_t n, size_t itemsize) {
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * to_stride, from + i * from_stride, itemsize);
}

LS_INLINE void ls_copy_line(
    const char *from, int64_t from_stride, char *to, int64_t to_stride, int64_t n, size_t itemsize) {
    const int64_t item = (int64_t)itemsize;
    if (from_stride == item && to_stride == item)
        memcpy(to, from, (size_t)n * itemsize);
    else if (from_stride == 2 * item && to_stride == item)
        ls_copy_loop(from, 2 * item, to, item, n, itemsize);
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

static inline int ls_runs_across(const ls_strided *tile) {
    const int64_t row = tile->row_stride, column = tile->column_stride;
    return tile->rows > 1 && (row < 0 ? -row : row) < (column < 0 ? -column : column);
}

static inline void ls_gather(ls_strided tile, char *buffer) {
    const int across = ls_runs_across(&tile);
    if (tile.itemsize == 4)
        ls_copy_tile(tile.at, tile.row_stride, tile.column_stride, buffer, tile.columns * 4, 4,
            tile.rows, tile.columns, across, 4);
    else
        ls_copy_tile(tile.at, tile.row_stride, tile.column_stride, buffer, tile.columns * 2, 2,
            tile.rows, tile.columns, across, 2);
}

static inline void ls_scatter(const char *buffer, ls_strided tile) {
    const int across = ls_runs_across(&tile);
    if (tile.itemsize == 4)
        ls_copy_tile(buffer, tile.columns * 4, 4, tile.at, tile.row_stride, tile.column_stride,
            tile.rows, tile.columns, across, 4);
    else
        ls_copy_tile(buffer, tile.columns * 2, 2, tile.at, tile.row_stride, tile.column_stride,
            tile.rows, tile.columns, across, 2);
}

#endif
