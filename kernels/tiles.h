/* Tiles of strided tensors: how a call is cut (the plan), and how one tile is computed (drive.h). */
#ifndef LSBENCH_TILES_H
#define LSBENCH_TILES_H

#include "block.h"
#include "copy.h"

#define LS_MAX_DIMS 8
/* The three tensors of a call. */
enum { LS_G, LS_X, LS_Y, LS_TENSORS };

/* Elements of a tile that is staged, and columns that are gathered, computed and scattered at once: the
 * memory is busy with the next ones meanwhile. */
#define LS_STAGE 4096
#define LS_PIECE 512
/* Where a transposed tensor asks for it, a tile is so many bytes of a column high and elements wide: runs
 * of some cache lines in either direction. Its staged rows lie a cache line further apart, lest they
 * meet in one set of the cache. */
#define LS_TALL 256
#define LS_WIDE 256
#define LS_SQUARE (LS_TALL * LS_WIDE)
/* Bytes of a staging buffer, gaps included. */
#define LS_STAGED (LS_SQUARE + LS_SQUARE / 8)
/* Columns from which a row is worth a call of its own. */
#define LS_ROW 32
/* Elements of a block where the caller names no size. */
#define LS_DEFAULT_BLOCK 16384
/* Elements that a worker takes at once. */
#define LS_CHUNK 32768

/* Tensors of one shape: addresses of their first elements, strides in bytes, of any sign. */
typedef struct {
    int ndim;
    int64_t shape[LS_MAX_DIMS];
    int64_t strides[LS_TENSORS][LS_MAX_DIMS];
    char *base[LS_TENSORS];
} ls_views;

/* What to run on them. */
typedef struct {
    ls_block *block;
    size_t itemsize;
    ls_store store;
    int64_t block_size; /* elements per block; 0: the driver's own choice */
    int threads;        /* at least 1 */
} ls_job;

typedef struct {
    int64_t size;
    int64_t strides[LS_TENSORS];
    int64_t weight; /* distance of neighbours in row-major positions of the whole tensor */
} ls_dim;

typedef struct {
    ls_job job;
    char *base[LS_TENSORS];
    int outer_dims;
    ls_dim outer[LS_MAX_DIMS];
    ls_dim rows, columns;
    int64_t tile_rows, tile_columns, row_tiles, column_tiles;
    int64_t row_shift; /* rows that the first tile of a column lacks */
    /* The outer dimension, if any, whose layers share cache lines of a tensor: so many of them are
     * computed in turn at one place. */
    int layered;
    int64_t layers;
    int64_t tiles, tiles_per_chunk;
    int in_place[LS_TENSORS]; /* rows of a tile are used where they lie */
    int by_rows;              /* one call per row; otherwise one per tile, all staged */
    int square;               /* a transposed tensor: wide and high tiles, fetched ahead */
    int64_t piece;            /* columns that are gathered and computed at once */
    int64_t gap;              /* bytes between staged rows */
} ls_plan;

LS_INLINE int64_t ls_min(int64_t a, int64_t b) { return a < b ? a : b; }
LS_INLINE int64_t ls_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Make a dimension run forward if no tensor runs forward in it. */
static inline void ls_turn(ls_dim *dim, char *base[LS_TENSORS]) {
    int64_t lowest = 0;
    for (int t = 0; t < LS_TENSORS; t++) {
        if (dim->strides[t] > 0)
            return;
        lowest = ls_min(lowest, dim->strides[t]);
    }
    if (lowest == 0)
        return;
    for (int t = 0; t < LS_TENSORS; t++) {
        base[t] += dim->strides[t] * (dim->size - 1);
        dim->strides[t] = -dim->strides[t];
    }
}

/* Whether `a` should be nested inside `b`: most tensors decide, else y, then x, then g. A tensor that does
 * not move in one of them has no say. */
static inline int ls_is_inner(const ls_dim *a, const ls_dim *b) {
    int votes = 0, first = 0;
    for (int t = 0; t < LS_TENSORS; t++) {
        const int64_t to_a = ls_abs(a->strides[t]), to_b = ls_abs(b->strides[t]);
        const int vote = to_a && to_b ? (to_a < to_b) - (to_a > to_b) : 0;
        votes += vote;
        first = vote ? vote : first;
    }
    return votes ? votes > 0 : first > 0;
}

static inline void ls_sort(ls_dim *dims, int n) {
    for (int i = 1; i < n; i++) {
        const ls_dim moved = dims[i];
        int at = i;
        for (; at > 0 && ls_is_inner(&dims[at - 1], &moved); at--)
            dims[at] = dims[at - 1];
        dims[at] = moved;
    }
}

/* Merge neighbours that every tensor steps through as one; returns how many remain. */
static inline int ls_merge(ls_dim *dims, int n) {
    int last = 0;
    for (int i = 1; i < n; i++) {
        ls_dim *outer = &dims[last], *inner = &dims[i];
        int alike = outer->weight == inner->weight * inner->size;
        for (int t = 0; t < LS_TENSORS; t++)
            alike &= outer->strides[t] == inner->strides[t] * inner->size;
        if (alike)
            inner->size *= outer->size;
        else
            last++;
        dims[last] = *inner;
    }
    return last + 1;
}

/* The dimensions that remain, outermost first; 0 for an empty tensor. */
static inline int ls_dims(
    const ls_views *views, const ls_job *job, ls_dim *dims, char *base[LS_TENSORS]) {
    const int positions_matter = job->store.rounding == LS_SR;
    int n = 0;
    int64_t weight = 1;
    for (int d = views->ndim - 1; d >= 0; d--) {
        const int64_t size = views->shape[d];
        if (size == 0)
            return 0;
        if (size == 1)
            continue;
        ls_dim *dim = &dims[n++];
        *dim = (ls_dim){.size = size, .weight = weight};
        for (int t = 0; t < LS_TENSORS; t++)
            dim->strides[t] = views->strides[t][d];
        weight *= size;
    }
    if (n == 0) {
        const int64_t item = (int64_t)job->itemsize;
        dims[n++] = (ls_dim){.size = 1, .strides = {item, item, item}, .weight = 1};
    }
    for (int i = 0; i < n / 2; i++) {
        const ls_dim swapped = dims[i];
        dims[i] = dims[n - 1 - i];
        dims[n - 1 - i] = swapped;
    }
    if (positions_matter)
        return ls_merge(dims, n);
    for (int i = 0; i < n; i++) {
        ls_turn(&dims[i], base);
        dims[i].weight = 0;
    }
    ls_sort(dims, n);
    return ls_merge(dims, n);
}

/* The dimension for a tile's rows among `n` outer ones, and whether a tensor that strides over the
 * columns is dense in it. */
static inline int ls_choose_rows(
    const ls_dim *dims, int n, const ls_dim *columns, int64_t item, int *dense) {
    int best = n - 1;
    int64_t least = INT64_MAX;
    for (int d = 0; d < n; d++)
        for (int t = 0; t < LS_TENSORS; t++) {
            const int64_t stride = ls_abs(dims[d].strides[t]);
            if (ls_abs(columns->strides[t]) > item && stride > 0 && stride < least) {
                least = stride;
                best = d;
            }
        }
    *dense = least < LS_LINE && best >= 0;
    if (*dense || best < 0 || columns->size * dims[best].size >= LS_STAGE)
        return best;
    for (int d = 0; d < n; d++)
        if (dims[d].size > dims[best].size)
            best = d;
    return best;
}

/* Find the outer dimension in which a tensor is dense that is so in neither columns nor rows. */
static inline void ls_choose_layers(ls_plan *plan) {
    plan->layered = -1;
    plan->layers = 1;
    for (int d = 0; d < plan->outer_dims; d++)
        for (int t = 0; t < LS_TENSORS; t++) {
            const int64_t stride = ls_abs(plan->outer[d].strides[t]);
            if (stride > 0 && stride < LS_LINE && ls_abs(plan->columns.strides[t]) >= LS_LINE
                && ls_abs(plan->rows.strides[t]) >= LS_LINE) {
                plan->layered = d;
                plan->layers = ls_min(plan->outer[d].size, LS_LINE / stride);
                return;
            }
        }
}

static inline int ls_is_aligned(const ls_plan *plan, int t) {
    uintptr_t all = (uintptr_t)plan->base[t] | (uintptr_t)plan->rows.strides[t];
    for (int d = 0; d < plan->outer_dims; d++)
        all |= (uintptr_t)plan->outer[d].strides[t];
    return all % plan->job.itemsize == 0;
}

/* Tile sizes and which tensors are used where they lie. */
static inline void ls_size_tiles(ls_plan *plan) {
    const int64_t item = (int64_t)plan->job.itemsize;
    const int64_t block = plan->job.block_size > 0 ? plan->job.block_size : LS_DEFAULT_BLOCK;
    int unit[LS_TENSORS], all_unit = 1;
    for (int t = 0; t < LS_TENSORS; t++) {
        unit[t] = plan->columns.strides[t] == item && ls_is_aligned(plan, t);
        all_unit &= unit[t];
    }
    const int64_t stage = ls_min(block, plan->square ? LS_SQUARE / item : LS_STAGE);
    if (all_unit && (plan->columns.size >= LS_ROW || plan->rows.size == 1)) {
        plan->tile_columns = ls_min(plan->columns.size, block);
        plan->tile_rows = 1;
    } else {
        plan->tile_columns = ls_min(plan->columns.size, plan->square ? ls_min(LS_WIDE, stage) : stage);
        plan->tile_rows = ls_min(plan->rows.size, stage / plan->tile_columns);
        if (plan->square)
            plan->tile_rows = ls_min(plan->tile_rows, LS_STAGED / (plan->tile_columns * item + LS_LINE));
    }
    int staged = 0;
    const int long_rows = plan->tile_columns >= LS_ROW || plan->tile_rows == 1;
    plan->by_rows = plan->tile_rows == 1 || plan->job.store.rounding == LS_SR;
    for (int t = 0; t < LS_TENSORS; t++) {
        plan->in_place[t] = unit[t] && long_rows;
        plan->by_rows |= plan->in_place[t];
        staged |= !plan->in_place[t];
    }
    plan->piece = staged && !plan->square ? LS_PIECE : plan->tile_columns;
    plan->gap = plan->by_rows && plan->square ? LS_LINE : 0;
}

/* Rows before the first that share its cache line in a transposed tensor, the output for choice: tiles
 * that begin with a line neither read nor write one twice. */
static inline int64_t ls_row_shift(const ls_plan *plan) {
    const int64_t item = (int64_t)plan->job.itemsize;
    for (int t = LS_TENSORS - 1; plan->square && t >= 0; t--)
        if (plan->rows.strides[t] == item && ls_abs(plan->columns.strides[t]) > item)
            return ls_min((int64_t)((uintptr_t)plan->base[t] % LS_LINE) / item, plan->tile_rows - 1);
    return 0;
}

/* Steps of an outer dimension: one per position, or one per group of layers. */
LS_INLINE int64_t ls_steps(const ls_plan *plan, int d) {
    const int64_t size = plan->outer[d].size;
    return d == plan->layered ? ls_ceil_div(size, plan->layers) : size;
}

/* Cut a call into tiles. Returns 0 where there is nothing to do. */
static inline int ls_make_plan(ls_plan *plan, const ls_views *views, const ls_job *job) {
    ls_dim dims[LS_MAX_DIMS];
    *plan = (ls_plan){.job = *job, .rows = {.size = 1}};
    for (int t = 0; t < LS_TENSORS; t++)
        plan->base[t] = views->base[t];
    int n = ls_dims(views, job, dims, plan->base);
    if (n == 0)
        return 0;
    plan->columns = dims[--n];
    const int rows = ls_choose_rows(dims, n, &plan->columns, (int64_t)job->itemsize, &plan->square);
    for (int d = 0; d < n; d++)
        if (d == rows)
            plan->rows = dims[d];
        else
            plan->outer[plan->outer_dims++] = dims[d];
    ls_choose_layers(plan);
    ls_size_tiles(plan);
    plan->row_shift = ls_row_shift(plan);
    plan->row_tiles = ls_ceil_div(plan->rows.size + plan->row_shift, plan->tile_rows);
    plan->column_tiles = ls_ceil_div(plan->columns.size, plan->tile_columns);
    plan->tiles = plan->row_tiles * plan->column_tiles * plan->layers;
    for (int d = 0; d < plan->outer_dims; d++)
        plan->tiles *= ls_steps(plan, d);
    const int64_t elements = plan->tile_rows * plan->tile_columns;
    const int64_t chunk = plan->square ? 8 * LS_CHUNK : LS_CHUNK; /* a chunk's first tile comes unasked */
    plan->tiles_per_chunk = elements < chunk ? chunk / elements : 1;
    return 1;
}

/* One tile: where its tensors begin, its extent, and the row-major position of its first element.
 */
typedef struct {
    char *at[LS_TENSORS];
    int64_t rows, columns;
    uint64_t index;
} ls_tile;

LS_INLINE void ls_step(ls_tile *tile, const ls_dim *dim, int64_t position) {
    for (int t = 0; t < LS_TENSORS; t++)
        tile->at[t] += position * dim->strides[t];
    tile->index += (uint64_t)(position * dim->weight);
}

/* Tile `number`: neighbours in number are layers of one place, then neighbours along the columns,
 * then along the rows. A place of the last group has no tile for a layer that it lacks: no rows. */
static inline ls_tile ls_locate(const ls_plan *plan, int64_t number) {
    ls_tile tile = {.index = 0};
    for (int t = 0; t < LS_TENSORS; t++)
        tile.at[t] = plan->base[t];
    const int64_t layer = number % plan->layers;
    number /= plan->layers;
    const int64_t column = number % plan->column_tiles * plan->tile_columns;
    number /= plan->column_tiles;
    const int64_t row_tile = number % plan->row_tiles;
    const int64_t row = row_tile ? row_tile * plan->tile_rows - plan->row_shift : 0;
    number /= plan->row_tiles;
    tile.rows = ls_min(plan->tile_rows - (row_tile ? 0 : plan->row_shift), plan->rows.size - row);
    tile.columns = ls_min(plan->tile_columns, plan->columns.size - column);
    ls_step(&tile, &plan->rows, row);
    ls_step(&tile, &plan->columns, column);
    for (int d = plan->outer_dims - 1; d >= 0; d--) {
        const int64_t step = number % ls_steps(plan, d);
        const int64_t position = d == plan->layered ? step * plan->layers + layer : step;
        if (position >= plan->outer[d].size)
            return (ls_tile){.rows = 0};
        ls_step(&tile, &plan->outer[d], position);
        number /= ls_steps(plan, d);
    }
    return tile;
}

typedef struct {
    _Alignas(64) char bytes[LS_TENSORS][LS_STAGED];
} ls_staging;

static inline ls_strided ls_tensor_of(const ls_plan *plan, const ls_tile *tile, int t) {
    return (ls_strided){.at = tile->at[t],
        .rows = tile->rows,
        .columns = tile->columns,
        .row_stride = plan->rows.strides[t],
        .column_stride = plan->columns.strides[t],
        .itemsize = plan->job.itemsize};
}

/* A share of what the next tile will be gathered from and scattered to. */
LS_INLINE void ls_ask_next(const ls_plan *plan, const ls_tile *next, int64_t part, int64_t parts) {
    for (int t = 0; next->rows > 0 && t < LS_TENSORS; t++) {
        const ls_strided tensor = ls_tensor_of(plan, next, t);
        if (!plan->in_place[t])
            ls_ask_tile(&tensor, part, parts);
    }
}

static inline void ls_run_tile(
    const ls_plan *plan, const ls_tile *tile, const ls_tile *next, ls_staging *staging) {
    const ls_job *job = &plan->job;
    const int64_t line = tile->columns * (int64_t)job->itemsize + plan->gap;
    char *at[LS_TENSORS];
    int64_t row_stride[LS_TENSORS];
    for (int t = 0; t < LS_TENSORS; t++) {
        at[t] = plan->in_place[t] ? tile->at[t] : staging->bytes[t];
        row_stride[t] = plan->in_place[t] ? plan->rows.strides[t] : line;
        if (t != LS_Y && !plan->in_place[t])
            ls_gather(ls_tensor_of(plan, tile, t), at[t], line);
    }
    const int64_t calls = plan->by_rows ? tile->rows : 1;
    const int64_t n = plan->by_rows ? tile->columns : tile->rows * tile->columns;
    for (int64_t r = 0; r < calls; r++) {
        ls_ask_next(plan, next, r, calls);
        job->block(at[LS_G] + r * row_stride[LS_G], at[LS_X] + r * row_stride[LS_X],
            at[LS_Y] + r * row_stride[LS_Y], (size_t)n,
            tile->index + (uint64_t)(r * plan->rows.weight), &job->store);
    }
    if (!plan->in_place[LS_Y])
        ls_scatter(at[LS_Y], line, ls_tensor_of(plan, tile, LS_Y));
}

static inline void ls_run_tiles(const ls_plan *plan, int64_t first, int64_t end) {
    const ls_tile none = {.rows = 0};
    ls_staging staging;
    ls_tile tile = ls_locate(plan, first);
    for (int64_t number = first; number < end; number++) {
        const ls_tile next = number + 1 < end ? ls_locate(plan, number + 1) : none;
        for (int64_t start = 0; tile.rows > 0 && start < tile.columns; start += plan->piece) {
            ls_tile piece = tile;
            piece.columns = ls_min(plan->piece, tile.columns - start);
            ls_step(&piece, &plan->columns, start);
            ls_run_tile(plan, &piece, plan->square ? &next : &none, &staging);
        }
        tile = next;
    }
}

#endif
