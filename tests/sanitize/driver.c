/* Every kernel through the driver, over random views in buffers of exactly the size they need.
 *
 * Built by `make sanitize` under AddressSanitizer and UndefinedBehaviorSanitizer, and again under
 * ThreadSanitizer. Each result is compared with the block function's own on contiguous copies, so
 * that the program also fails for a wrong bit. Prints what it ran; exits 1 at the first difference.
 *
 * `driver overrun` and `driver race` plant the faults that the sanitizers must catch.
 */
#include <stdio.h>
#include <stdlib.h>

#include "drive.h"
#include "roof.h"
#include "table.h"

enum { ROUNDS = 400, MOST = 6000 };

static uint64_t state = 20240607;

static uint64_t draw(uint64_t below) { return ls_sr_draw(7, state++) % below; }

/* A tensor in a heap buffer without a byte to spare. */
typedef struct {
    char *memory, *first;
    int64_t strides[LS_MAX_DIMS];
} tensor;

static int64_t count(const ls_views *views) {
    int64_t n = 1;
    for (int d = 0; d < views->ndim; d++)
        n *= views->shape[d];
    return n;
}

/* Random order of dimensions, steps and directions; an input may be expanded. `skew` bytes before
 * the first element misalign it. */
static tensor make_tensor(const ls_views *views, int64_t item, int expandable, int64_t skew) {
    tensor made = {0};
    int order[LS_MAX_DIMS];
    int64_t extent = item, lowest = 0;
    for (int d = 0; d < views->ndim; d++)
        order[d] = d;
    for (int d = views->ndim - 1; d > 0; d--) {
        const int other = draw(3) ? d : (int)draw((uint64_t)d + 1), kept = order[d];
        order[d] = order[other];
        order[other] = kept;
    }
    for (int i = views->ndim - 1; i >= 0; i--) {
        const int d = order[i];
        const int64_t step = 1 + (draw(4) == 0) * (int64_t)draw(3), size = views->shape[d];
        const int64_t stride = expandable && draw(6) == 0 ? 0 : extent * step;
        if (size > 0)
            extent += stride * (size - 1);
        made.strides[d] = draw(4) ? stride : -stride;
        if (made.strides[d] < 0)
            lowest += made.strides[d] * (size - 1);
    }
    const int64_t bytes = count(views) ? extent + skew : 0;
    made.memory = malloc(bytes ? (size_t)bytes : 1);
    for (int64_t i = 0; i < bytes; i++)
        made.memory[i] = (char)draw(256);
    made.first = made.memory + skew - lowest;
    return made;
}

/* Address of the element at row-major position `index`. */
static char *locate(const ls_views *views, int t, int64_t index) {
    char *at = views->base[t];
    for (int d = views->ndim - 1; d >= 0; d--) {
        at += index % views->shape[d] * views->strides[t][d];
        index /= views->shape[d];
    }
    return at;
}

static void copy_out(const ls_views *views, int t, size_t item, char *to, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * (int64_t)item, locate(views, t, i), item);
}

static ls_views random_views(void) {
    ls_views views = {.ndim = (int)draw(LS_MAX_DIMS + 1)};
    int64_t room = MOST;
    for (int d = 0; d < views.ndim; d++) {
        const uint64_t most = views.ndim < 3 ? 80 : 5;
        views.shape[d] = ls_min(draw(40) ? 1 + (int64_t)draw(most) : 0, room ? room : 1);
        room /= views.shape[d] ? views.shape[d] : 1;
    }
    return views;
}

static void run_once(const ls_job *job, int64_t skew) {
    ls_views views = random_views();
    const int64_t item = (int64_t)job->itemsize, n = count(&views);
    const size_t bytes = (size_t)(n * item);
    tensor tensors[LS_TENSORS];
    char *copies[LS_TENSORS];
    for (int t = 0; t < LS_TENSORS; t++) {
        tensors[t] = make_tensor(&views, item, t != LS_Y, skew);
        views.base[t] = tensors[t].first;
        memcpy(views.strides[t], tensors[t].strides, sizeof views.strides[t]);
        copies[t] = malloc(bytes ? bytes : 1);
    }
    copy_out(&views, LS_G, job->itemsize, copies[LS_G], n);
    copy_out(&views, LS_X, job->itemsize, copies[LS_X], n);
    ls_drive(&views, job);
    job->block(copies[LS_G], copies[LS_X], copies[LS_Y], (size_t)n, 0, &job->store);
    copy_out(&views, LS_Y, job->itemsize, copies[LS_G], n);
    if (memcmp(copies[LS_G], copies[LS_Y], bytes) != 0) {
        fprintf(stderr, "a strided result differs from the contiguous one (%d dimensions)\n",
            views.ndim);
        exit(1);
    }
    for (int t = 0; t < LS_TENSORS; t++) {
        free(tensors[t].memory);
        free(copies[t]);
    }
}

/* Tails of every length, at every alignment that elements allow. */
static void run_tails(const ls_job *job) {
    const size_t item = job->itemsize;
    for (size_t n = 0; n <= 70; n++)
        for (size_t offset = 0; offset < 4; offset++) {
            char *memory[LS_TENSORS];
            for (int t = 0; t < LS_TENSORS; t++) {
                memory[t] = malloc((n + offset) * item + 1);
                memset(memory[t], (int)(60 + n), (n + offset) * item);
            }
            const size_t skip = offset * item;
            job->block(
                memory[LS_G] + skip, memory[LS_X] + skip, memory[LS_Y] + skip, n, 0, &job->store);
            for (int t = 0; t < LS_TENSORS; t++)
                free(memory[t]);
        }
}

/* A tensor large enough for threads, transposed and contiguous, in place. */
static void run_threads(const ls_job *job) {
    enum { SIDE = 512 };
    const int64_t item = (int64_t)job->itemsize;
    char *g = calloc(SIDE * SIDE, job->itemsize), *x = calloc(SIDE * SIDE, job->itemsize);
    ls_views views = {.ndim = 2, .shape = {SIDE, SIDE}, .base = {g, x, x}};
    for (int t = 0; t < LS_TENSORS; t++) {
        views.strides[t][0] = t == LS_G ? item : SIDE * item;
        views.strides[t][1] = t == LS_G ? SIDE * item : item;
    }
    ls_drive(&views, job);
    views.base[LS_Y] = g;
    memcpy(views.strides[LS_Y], views.strides[LS_G], sizeof views.strides[LS_Y]);
    ls_drive(&views, job);
    free(g);
    free(x);
}

static const char *const FORMAT_NAMES[] = {"fp32", "fp16", "bf16"};

static int run_kernel(const char *name, ls_block *block, ls_format arithmetic, ls_format storage) {
    ls_job job = {.block = block, .itemsize = ls_itemsize(storage), .store = {.seed = 5}};
    for (int mode = 0; mode < LS_ROUNDINGS; mode++) {
        job.store.rounding = (ls_rounding)mode;
        job.store.ftz = mode % 2;
        job.threads = 1 + mode % 3;
        run_tails(&job);
        run_threads(&job);
        for (int i = 0; i < ROUNDS / 100; i++) {
            job.block_size = draw(2) ? 0 : 1 + (int64_t)draw(300);
            run_once(&job, i % 2 ? (int64_t)draw(8) : 0);
        }
    }
    printf("%s in %s, stored as %s: tails, threads and views in %d roundings\n", name,
        FORMAT_NAMES[arithmetic], FORMAT_NAMES[storage], LS_ROUNDINGS);
    return 1;
}

/* The planted faults: one element too many, and two threads on one counter. */
static void overrun(void) {
    float *memory = malloc(8 * sizeof *memory);
    const ls_store store = {.rounding = LS_RNE};
    memset(memory, 0, 8 * sizeof *memory);
    ls_fast_fp32(memory, memory, memory, 9, 0, &store);
    free(memory);
}

static volatile int shared;
static pthread_barrier_t together;

/* Both threads are counting at once: one that had ended might not be seen. */
static void *count_up(void *unused) {
    pthread_barrier_wait(&together);
    for (int i = 0; i < 100000; i++)
        shared = shared + 1;
    return unused;
}

static void race(void) {
    pthread_t other;
    pthread_barrier_init(&together, NULL, 2);
    if (pthread_create(&other, NULL, count_up, NULL) == 0) {
        count_up(NULL);
        pthread_join(other, NULL);
    }
    printf("%d\n", shared);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        strcmp(argv[1], "race") == 0 ? race() : overrun();
        return 0;
    }
    int ran = 0;
    for (int k = 0; k < LS_KERNEL_COUNT; k++)
        for (int a = 0; a < LS_FORMATS; a++)
            for (int s = 0; s < LS_FORMATS; s++)
                if (LS_KERNELS[k].block[a][s])
                    ran += run_kernel(
                        LS_KERNELS[k].name, LS_KERNELS[k].block[a][s], (ls_format)a, (ls_format)s);
    ran += run_kernel("roof", ls_roof_32, LS_FP32, LS_FP32);
    ran += run_kernel("roof", ls_roof_16, LS_FP16, LS_FP16);
    printf("%d block functions, nothing to report\n", ran);
    return 0;
}
