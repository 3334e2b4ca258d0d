/* What this library has beyond the interface that it implements. */
#ifndef LSBENCH_ACL_EXTRA_H
#define LSBENCH_ACL_EXTRA_H

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What computes here, in one line: kernel and instruction set. */
ACL_FUNC_VISIBILITY const char *lsbenchAclDescribe(void);

/* The product whose data types apply from now on, by the name that LSBENCH_ACL_PRODUCT takes. */
ACL_FUNC_VISIBILITY aclError lsbenchAclSetProduct(const char *product);

#ifdef __cplusplus
}
#endif

#endif
