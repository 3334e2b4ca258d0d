/* The interface of the accelerator's runtime, on the CPU: names, signatures and values as a program
 * written for the device uses them. */
#ifndef LSBENCH_ACL_H
#define LSBENCH_ACL_H

#include "acl/acl_base.h"
#include "acl/acl_rt.h"
#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

/* configPath is NULL or a file that can be read; nothing in it changes anything here. */
ACL_FUNC_VISIBILITY aclError aclInit(const char *configPath);
/* Waits for all streams and gives back everything but memory. With LSBENCH_ACL_CHECK=1 it lists on
 * stderr what was not given back. */
ACL_FUNC_VISIBILITY aclError aclFinalize(void);

#ifdef __cplusplus
}
#endif

#endif
