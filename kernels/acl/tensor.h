/* A tensor as aclCreateTensor was told it, and what its view covers. */
#ifndef LSBENCH_ACL_TENSOR_H
#define LSBENCH_ACL_TENSOR_H

#include "state.h"

/* Dimensions that can be described; the operator takes fewer. */
#define LS_MOST_DIMS 25

typedef struct {
    uint64_t ndim, storage_ndim;
    int64_t shape[LS_MOST_DIMS], strides[LS_MOST_DIMS], storage[LS_MOST_DIMS];
    int64_t offset, size, storage_size; /* in elements */
    aclDataType type;
    aclFormat format;
    char *data;
    uint64_t serial; /* of the allocation that held the data when the tensor was made, 0 for none */
} ls_tensor;

/* The stride of a dimension where it is ever taken, and 0 where it is not: it may be any number
 * there. */
static inline int64_t ls_tensor_step(const ls_tensor *tensor, uint64_t d) {
    return tensor->shape[d] > 1 ? tensor->strides[d] : 0;
}

/* First and last element of the storage that the view touches; the view is not empty and its
 * strides are not negative. Returns 0 where that cannot be counted. */
int ls_tensor_extent(const ls_tensor *tensor, int64_t *first, int64_t *last);

/* "FLOAT" */
const char *ls_type_name(aclDataType type);

/* "[2, 3]" */
typedef struct {
    char text[640];
} ls_shape_text;
ls_shape_text ls_write_shape(const int64_t *shape, uint64_t ndim);

#endif
