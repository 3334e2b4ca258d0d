/* Status codes of the two phases of an operator. */
#ifndef LSBENCH_ACLNN_BASE_H
#define LSBENCH_ACLNN_BASE_H

#include "aclnn/acl_meta.h"

#define ACLNN_SUCCESS 0
#define ACLNN_ERR_PARAM_NULLPTR 161001
#define ACLNN_ERR_PARAM_INVALID 161002
#define ACLNN_ERR_RUNTIME_ERROR 361001
#define ACLNN_ERR_INNER_NULLPTR 561103

#endif
