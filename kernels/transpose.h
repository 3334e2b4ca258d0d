/* Transposing a tile of elements: squares that fit registers, scalar edges.
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

#ifdef __AVX2__
/* 32-byte registers, shuffled within their halves, and the halves last. */
typedef uint32_t ls_8x32 __attribute__((vector_size(32)));
#define LS_LOW_8x32(a, b) LS_SHUFFLE(ls_8x32, a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define LS_HIGH_8x32(a, b) LS_SHUFFLE(ls_8x32, a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define LS_LOW_4x64(a, b) LS_SHUFFLE(ls_8x32, a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define LS_HIGH_4x64(a, b) LS_SHUFFLE(ls_8x32, a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define LS_LOW_2x128(a, b) LS_SHUFFLE(ls_8x32, a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define LS_HIGH_2x128(a, b) LS_SHUFFLE(ls_8x32, a, b, 4, 5, 6, 7, 12, 13, 14, 15)

LS_INLINE void ls_transpose_32(const char *from, int64_t from_line, char *to, int64_t to_line) {
    ls_8x32 a[8], b[8], c[8], d[8];
    for (int i = 0; i < 8; i++)
        memcpy(&a[i], from + i * from_line, sizeof a[i]);
    for (int i = 0; i < 8; i += 2) {
        b[i] = LS_LOW_8x32(a[i], a[i + 1]);
        b[i + 1] = LS_HIGH_8x32(a[i], a[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            c[i + 2 * j] = LS_LOW_4x64(b[i + j], b[i + j + 2]);
            c[i + 2 * j + 1] = LS_HIGH_4x64(b[i + j], b[i + j + 2]);
        }
    for (int i = 0; i < 4; i++) {
        d[i] = LS_LOW_2x128(c[i], c[i + 4]);
        d[i + 4] = LS_HIGH_2x128(c[i], c[i + 4]);
    }
    for (int i = 0; i < 8; i++)
        memcpy(to + i * to_line, &d[i], sizeof d[i]);
}
#define LS_SIDE_32 8
#else
#define LS_SIDE_32 4

#define LS_LOW_32(a, b) LS_SHUFFLE(ls_4x32, a, b, 0, 4, 1, 5)
#define LS_HIGH_32(a, b) LS_SHUFFLE(ls_4x32, a, b, 2, 6, 3, 7)

LS_INLINE void ls_transpose_32(const char *from, int64_t from_line, char *to, int64_t to_line) {
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
#endif

#define LS_LOW_16(a, b) LS_SHUFFLE(ls_8x16, a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define LS_HIGH_16(a, b) LS_SHUFFLE(ls_8x16, a, b, 4, 12, 5, 13, 6, 14, 7, 15)

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
#define LS_SIDE_32 4
#define ls_transpose_32(from, from_line, to, to_line) \
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

/* Squares follow one another along the side whose lines are further apart: those are many pages and few
 * sets of a cache, and are used up before they are left. */
LS_INLINE void ls_transpose_as(const char *from, int64_t from_line, char *to, int64_t to_line,
    int64_t lines, int64_t length, int64_t item, int64_t n) {
    const int64_t square_lines = lines - lines % n, square_length = length - length % n;
    const int64_t from_apart = from_line < 0 ? -from_line : from_line;
    const int along = from_apart >= (to_line < 0 ? -to_line : to_line);
    for (int64_t a = 0; a < (along ? square_lines : square_length); a += n)
        for (int64_t b = 0; b < (along ? square_length : square_lines); b += n) {
            const int64_t i = along ? a : b, j = along ? b : a;
            const char *source = from + i * from_line + j * item;
            char *target = to + j * to_line + i * item;
            if (item == 4)
                ls_transpose_32(source, from_line, target, to_line);
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
        ls_transpose_as(from, from_line, to, to_line, lines, length, 4, LS_SIDE_32);
    else
        ls_transpose_as(from, from_line, to, to_line, lines, length, 2, 8);
}

#endif
