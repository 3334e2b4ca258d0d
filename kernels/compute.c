/* One instruction set's kernels and driver, compiled once. */
#include "compute.h"
#include "drive.h"
#include "table.h"

const ls_compute LS_COMPUTE = {LS_KERNELS, LS_KERNEL_COUNT, ls_drive};
