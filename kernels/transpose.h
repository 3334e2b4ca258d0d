/* Transposing a tile of elements: squares that fit 16-byte registers, scalar edges.
 *
 * to[j][i] = from[i][j] for i < lines and j < length; elements of a line are neighbours in memory,
 * lines are strides (bytes, any sign, any alignment) apart. A square of n lines is transposed by
 * log2(n) rounds in which line i is interleaved with line i + n/2 (the perfect shuffle network).
 */
#ifndef LSBENCH_TRANSPOSE_H
#define LSBENCH_TRANSPOSE_H

#include <string.h>

#include "convert.h"

#if defined(__GNUC__)

typedef uint32_t ls_4x32 __attribute__((vector_size(16)));
typedef uint16_t ls_8x16 __attribute__((vector_size(16)));

#if defined(__clang__) || __GNUC__ >= 12
#define LS_SHUFFLE(type, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define LS_SHUFFLE(type, a, b, ...) __builtin_shuffle(a, b, (type){__VA_ARGS__})
#endif

#define LS_LOW_32(a, b) LS_SHUFFLE(ls_4x32, a, b, 0, 4, 1, 5)
#define LS_HIGH_32(a, b) LS_SHUFFLE(ls_4x32, a, b, 2, 6, 3, 7)
#define LS_LOW_16(a, b) LS_SHUFFLE(ls_8x16, a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define LS_HIGH_16(a, b) LS_SHUFFLE(ls_8x16, a, b, 4, 12, 5, 13, 6, 14, 7, 15)

LS_INLINE void ls_transpose_4x4(const char *from, int64_t from_line, char *to, int64_t to_line) {
    ls_4x32 a[4];
    for (int i = 0; i < 4; i++)
        memcpy(&a[i], from + i * from_line, sizeof a[i]);
    const ls_4x32 b0 = LS_LOW_32(a[0], a[2]), b1 = LS_HIGH_32(a[0], a[2]);
    const ls_4x32 b2 = LS_LOW_32(a[1], a[3]), b3 = LS_HIGH_32(a[1], a[3]);
    const ls_4x32 c[4] = {
        LS_LOW_32(b0, b2), LS_HIGH_32(b0, b2), LS_LOW_32(b1, b3), LS_HIGH_32(b1, b3)};
    for (int i = 0; i < 4; i++)
        memcpy(to + i * to_line, &c[i], sizeof c[i]);
}

/* One round of the network on eight lines. */
#define LS_MIX_8(to, from)                                                                   \
    const ls_8x16 to##0 = LS_LOW_16(from##0, from##4), to##1 = LS_HIGH_16(from##0, from##4); \
    const ls_8x16 to##2 = LS_LOW_16(from##1, from##5), to##3 = LS_HIGH_16(from##1, from##5); \
    const ls_8x16 to##4 = LS_LOW_16(from##2, from##6), to##5 = LS_HIGH_16(from##2, from##6); \
    const ls_8x16 to##6 = LS_LOW_16(from##3, from##7), to##7 = LS_HIGH_16(from##3, from##7);

LS_INLINE ls_8x16 ls_load_8x16(const char *from) {
    ls_8x16 line;
    memcpy(&line, from, sizeof line);
    return line;
}

LS_INLINE void ls_transpose_8x8(const char *from, int64_t from_line, char *to, int64_t to_line) {
    const ls_8x16 a0 = ls_load_8x16(from), a1 = ls_load_8x16(from + from_line);
    const ls_8x16 a2 = ls_load_8x16(from + 2 * from_line), a3 = ls_load_8x16(from + 3 * from_line);
    const ls_8x16 a4 = ls_load_8x16(from + 4 * from_line), a5 = ls_load_8x16(from + 5 * from_line);
    const ls_8x16 a6 = ls_load_8x16(from + 6 * from_line), a7 = ls_load_8x16(from + 7 * from_line);
    LS_MIX_8(b, a)
    LS_MIX_8(c, b)
    LS_MIX_8(d, c)
    const ls_8x16 lines[8] = {d0, d1, d2, d3, d4, d5, d6, d7};
    for (int i = 0; i < 8; i++)
        memcpy(to + i * to_line, &lines[i], sizeof lines[i]);
}

#else

LS_INLINE void ls_transpose_n(
    const char *from, int64_t from_line, char *to, int64_t to_line, int n, size_t itemsize) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            memcpy(to + j * to_line + i * (int64_t)itemsize,
                from + i * from_line + j * (int64_t)itemsize, itemsize);
}
#define ls_transpose_4x4(from, from_line, to, to_line) \
    ls_transpose_n(from, from_line, to, to_line, 4, 4)
#define ls_transpose_8x8(from, from_line, to, to_line) \
    ls_transpose_n(from, from_line, to, to_line, 8, 2)

#endif

LS_INLINE void ls_transpose_edge(const char *from, int64_t from_line, char *to, int64_t to_line,
    int64_t lines, int64_t length, int64_t item) {
    for (int64_t i = 0; i < lines; i++)
        for (int64_t j = 0; j < length; j++)
            memcpy(to + j * to_line + i * item, from + i * from_line + j * item, (size_t)item);
}

LS_INLINE void ls_transpose_as(const char *from, int64_t from_line, char *to, int64_t to_line,
    int64_t lines, int64_t length, int64_t item, int64_t n) {
    const int64_t square_lines = lines - lines % n, square_length = length - length % n;
    for (int64_t i = 0; i < square_lines; i += n)
        for (int64_t j = 0; j < square_length; j += n) {
            const char *source = from + i * from_line + j * item;
            char *target = to + j * to_line + i * item;
            if (item == 4)
                ls_transpose_4x4(source, from_line, target, to_line);
            else
                ls_transpose_8x8(source, from_line, target, to_line);
        }
    ls_transpose_edge(from + square_length * item, from_line, to + square_length * to_line, to_line,
        square_lines, length - square_length, item);
    ls_transpose_edge(from + square_lines * from_line, from_line, to + square_lines * item, to_line,
        lines - square_lines, length, item);
}

static inline void ls_transpose(const char *from, int64_t from_line, char *to, int64_t to_line,
    int64_t lines, int64_t length, size_t itemsize) {
    if (itemsize == 4)
        ls_transpose_as(from, from_line, to, to_line, lines, length, 4, 4);
    else
        ls_transpose_as(from, from_line, to, to_line, lines, length, 2, 8);
}

#endif
