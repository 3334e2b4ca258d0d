/* The kernels of one instruction set as others link with them: the Cython module of that set and the C
 * interface (acl/) share one compilation, and with it one set of bits. */
#ifndef LSBENCH_COMPUTE_H
#define LSBENCH_COMPUTE_H

#include "tiles.h"

typedef struct {
    const char *name;
    const char *formula;
    /* In words: what holds, and where it ends. */
    const char *guarantee;
    /* Largest error in ulp under rne, by arithmetic and storage, for every g and x <= x_max whose
     * result is normal; 0 where none is stated. */
    double max_ulp[LS_FORMATS][LS_FORMATS];
    /* Largest x of that bound, by arithmetic. */
    double x_max[LS_FORMATS];
    /* By arithmetic and storage; NULL where there is none. */
    ls_block *block[LS_FORMATS][LS_FORMATS];
} ls_kernel;

typedef struct {
    const ls_kernel *kernels;
    int count;
    /* ls_drive of drive.h, compiled for this instruction set. */
    void (*drive)(const ls_views *views, const ls_job *job);
} ls_compute;

/* The build names the symbol after the instruction set: ls_compute__x86_64_v3. */
#ifdef LS_COMPUTE
extern const ls_compute LS_COMPUTE;
#endif

#endif
