/* What the environment chooses: the kernel, the product, how strictly to look. */
#ifndef LSBENCH_ACL_SETTINGS_H
#define LSBENCH_ACL_SETTINGS_H

#include "compute.h"
#include "state.h"

typedef struct {
    const char *product;
    unsigned types; /* bit 1 << ls_format for each data type that the product supports */
    const ls_kernel *kernel;
    const char *isa;
    void (*drive)(const ls_views *views, const ls_job *job);
    int threads;
    int check;
    uint64_t workspace;
} ls_settings;

/* Read the environment anew; a status, and a message for a value that makes no sense (locked). */
aclError ls_settings_read(void);
/* The settings in force; read first where that was not done (locked). */
const ls_settings *ls_settings_now(void);

/* The instruction set of that name, or the best one that runs here for NULL. Returns its name; NULL
 * and a message where there is none (isa.c). */
const char *ls_isa_choose(const char *name, const ls_compute **compute);

#endif
