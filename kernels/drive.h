/* The blocked driver: strided views in, block functions on contiguous blocks, threads, one result.
 *
 * The tensor is cut into tiles of rows x columns, the same for every thread count. A tile's tensors
 * are used where they lie if their columns are contiguous and aligned; otherwise they are gathered
 * into a worker's staging buffers, and the result is scattered from one. Nothing else is copied.
 *
 * Traversal. Dimensions of one element go; those that every tensor steps through alike are merged;
 * and, unless the block function reads element positions (stochastic rounding), they are sorted by
 * the strides of y and turned to run forward. The last dimension gives a tile's columns. Where a
 * tensor strides over the columns, the rows are the dimension in which it is dense, so that a
 * transposed operand is read in runs of whole cache lines.
 *
 * Threads. Workers take chunks of tiles from a counter; borders never depend on the thread count,
 * and the block contract makes bits independent of borders. Threads live for one call: about 20 us
 * each, against a millisecond of work, and nothing that a fork could break or a tool report as
 * leaked. Where the system refuses a thread, the others do its work.
 *
 * Floating-point environment. The caller and each worker run in the default one (to nearest,
 * subnormals kept) and the caller's own is restored, FTZ, DAZ and exception flags included.
 */
#ifndef LSBENCH_DRIVE_H
#define LSBENCH_DRIVE_H

#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>

#include "tiles.h"

#define LS_MAX_THREADS 256

typedef struct {
    const ls_plan *plan;
    atomic_llong next;
} ls_team;

static void *ls_work(void *argument) {
    ls_team *team = argument;
    const ls_plan *plan = team->plan;
    fenv_t caller;
    fegetenv(&caller);
    fesetenv(FE_DFL_ENV);
    for (;;) {
        const int64_t first = atomic_fetch_add(&team->next, plan->tiles_per_chunk);
        if (first >= plan->tiles)
            break;
        const int64_t end = first + plan->tiles_per_chunk;
        ls_run_tiles(plan, first, end < plan->tiles ? end : plan->tiles);
    }
    fesetenv(&caller);
    return NULL;
}

/* The threads that a call starts beyond the caller's own: no more than there are chunks. */
static inline int ls_extra_threads(const ls_plan *plan, int threads) {
    const int64_t chunks = (plan->tiles + plan->tiles_per_chunk - 1) / plan->tiles_per_chunk;
    const int64_t wanted = threads < LS_MAX_THREADS ? threads : LS_MAX_THREADS;
    return (int)(wanted < chunks ? wanted : chunks) - 1;
}

/* Run a block function over the views. The views must be checked: y has no two elements at one
 * address and is either the very view g or x, or shares no byte with them. */
static void ls_drive(const ls_views *views, const ls_job *job) {
    ls_plan plan;
    if (!ls_make_plan(&plan, views, job))
        return;
    ls_team team = {.plan = &plan};
    atomic_init(&team.next, 0);
    pthread_t workers[LS_MAX_THREADS];
    const int extra = ls_extra_threads(&plan, job->threads);
    int started = 0;
    while (started < extra && pthread_create(&workers[started], NULL, ls_work, &team) == 0)
        started++;
    ls_work(&team);
    for (int i = 0; i < started; i++)
        pthread_join(workers[i], NULL);
}

#endif
