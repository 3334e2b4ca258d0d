/* gradInput = gradOutput / (1 + e^self), in two phases. */
#ifndef LSBENCH_ACLNN_LOGSIGMOID_BACKWARD_H
#define LSBENCH_ACLNN_LOGSIGMOID_BACKWARD_H

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Check the tensors, tell how many bytes of workspace the second phase needs, and make an executor.
 * gradOutput, self and gradInput: one shape of 1 to 8 dimensions, one type of FLOAT, FLOAT16 and
 * BF16; buffer is required and never read. */
ACL_FUNC_VISIBILITY aclnnStatus aclnnLogSigmoidBackwardGetWorkspaceSize(const aclTensor *gradOutput,
    const aclTensor *self, const aclTensor *buffer, aclTensor *gradInput, uint64_t *workspaceSize,
    aclOpExecutor **executor);

/* Put the computation on a stream. */
ACL_FUNC_VISIBILITY aclnnStatus aclnnLogSigmoidBackward(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
