/* Whether views share addresses. */
#ifndef LSBENCH_ACL_OVERLAP_H
#define LSBENCH_ACL_OVERLAP_H

#include "tensor.h"

typedef enum { LS_APART, LS_SAME, LS_MEETING, LS_UNDECIDED } ls_meeting;

/* Two views of one shape and element size, neither empty, both inside their allocations: apart, the
 * very same, or meeting in some byte. */
ls_meeting ls_tensors_meet(const ls_tensor *a, const ls_tensor *b, int64_t itemsize);

/* Whether two indices of a view share one address (LS_APART: no). */
ls_meeting ls_tensor_meets_itself(const ls_tensor *tensor);

#endif
