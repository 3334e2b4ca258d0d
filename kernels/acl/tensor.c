/* aclTensor: created, described, destroyed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor.h"

size_t aclDataTypeSize(aclDataType dataType) {
    switch (dataType) {
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
        return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16:
        return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
        return 4;
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_DOUBLE:
    case ACL_COMPLEX64:
        return 8;
    case ACL_COMPLEX128:
        return 16;
    default:
        return 0;
    }
}

ls_shape_text ls_write_shape(const int64_t *shape, uint64_t ndim) {
    ls_shape_text written;
    size_t used = (size_t)snprintf(written.text, sizeof written.text, "[");
    for (uint64_t d = 0; d < ndim; d++)
        used += (size_t)snprintf(
            written.text + used, sizeof written.text - used, "%s%" PRId64, d ? ", " : "", shape[d]);
    snprintf(written.text + used, sizeof written.text - used, "]");
    return written;
}

int ls_tensor_extent(const ls_tensor *tensor, int64_t *first, int64_t *last) {
    int64_t end = tensor->offset;
    for (uint64_t d = 0; d < tensor->ndim; d++) {
        int64_t step;
        if (__builtin_mul_overflow(tensor->shape[d] - 1, tensor->strides[d], &step)
            || __builtin_add_overflow(end, step, &end))
            return 0;
    }
    *first = tensor->offset;
    *last = end;
    return 1;
}

/* Copy dimensions and count their elements; returns 0 and a message for those that make no sense.
 */
static int take_dims(
    const char *argument, const int64_t *dims, uint64_t ndim, int64_t *taken, int64_t *size) {
    int64_t product = 1;
    int empty = 0, overflows = 0;
    if (ndim > LS_MOST_DIMS) {
        ls_fail(0, "%sNum is %" PRIu64 ": expected at most %d", argument, ndim, LS_MOST_DIMS);
        return 0;
    }
    if (ndim > 0 && dims == NULL) {
        ls_fail(0, "%s is null: expected %" PRIu64 " numbers", argument, ndim);
        return 0;
    }
    for (uint64_t d = 0; d < ndim; d++) {
        if (dims[d] < 0) {
            ls_fail(0, "%s[%" PRIu64 "] is %" PRId64 ": expected no negative number", argument, d,
                dims[d]);
            return 0;
        }
        taken[d] = dims[d];
        empty |= dims[d] == 0;
        overflows |= __builtin_mul_overflow(product, dims[d] ? dims[d] : 1, &product);
    }
    if (overflows) {
        ls_fail(
            0, "%s is %s: expected a size below 2^63", argument, ls_write_shape(dims, ndim).text);
        return 0;
    }
    *size = empty ? 0 : product;
    return 1;
}

static void set_contiguous(ls_tensor *tensor) {
    int64_t step = 1;
    for (uint64_t d = tensor->ndim; d-- > 0;) {
        tensor->strides[d] = step;
        /* No overflow: extents of 0 aside, the size was counted. */
        step *= tensor->shape[d] ? tensor->shape[d] : 1;
    }
}

aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType,
    const int64_t *stride, int64_t offset, aclFormat format, const int64_t *storageDims,
    uint64_t storageDimsNum, void *tensorData) {
    ls_tensor *made = calloc(1, sizeof *made);
    if (made == NULL) {
        ls_fail(0, "no memory for a tensor");
        return NULL;
    }
    if (!take_dims("viewDims", viewDims, viewDimsNum, made->shape, &made->size)
        || !take_dims(
            "storageDims", storageDims, storageDimsNum, made->storage, &made->storage_size)) {
        free(made);
        return NULL;
    }
    made->ndim = viewDimsNum;
    made->storage_ndim = storageDimsNum;
    made->offset = offset;
    made->type = dataType;
    made->format = format;
    made->data = tensorData;
    if (stride == NULL)
        set_contiguous(made);
    else
        memcpy(made->strides, stride, viewDimsNum * sizeof *stride);
    ls_lock();
    made->serial = ls_memory_serial(ls_memory_at(tensorData));
    void *handle = ls_handle_open(LS_TENSOR, made);
    if (handle == NULL) {
        ls_fail(0, "no memory for a tensor");
        free(made);
    }
    ls_unlock();
    return handle;
}

/* Call with the lock held; 161001 for NULL, 161002 for what is no live tensor. */
static aclnnStatus find(const aclTensor *handle, ls_tensor **found) {
    *found = ls_handle_find(LS_TENSOR, handle, "tensor");
    return *found != NULL ? ACLNN_SUCCESS
        : handle == NULL  ? ACLNN_ERR_PARAM_NULLPTR
                          : ACLNN_ERR_PARAM_INVALID;
}

aclnnStatus aclDestroyTensor(const aclTensor *tensor) {
    ls_tensor *found;
    ls_lock();
    const aclnnStatus status = find(tensor, &found);
    if (status == ACLNN_SUCCESS) {
        ls_handle_close(tensor, "was destroyed");
        free(found);
    }
    ls_unlock();
    return status;
}

void ls_tensors_end(void) {
    size_t position = 0;
    for (void *handle; (handle = ls_handle_next(LS_TENSOR, &position)) != NULL;) {
        free(ls_handle_find(LS_TENSOR, handle, "tensor"));
        ls_handle_close(handle, "was ended by aclFinalize");
    }
}

/* operator new[] where the program has one: a C++ caller gives arrays back with delete[]. */
#if defined(__ELF__)
extern void *_Znam(size_t size) __attribute__((weak));
#define LS_HAS_NEW (_Znam != NULL)
#else
static void *_Znam(size_t size) { return malloc(size); }
#define LS_HAS_NEW 0
#endif

/* An array that the caller owns; its length may be 0, its address is none but for want of memory.
 */
static int64_t *hand_out(const int64_t *numbers, uint64_t count) {
    const size_t bytes = (count ? count : 1) * sizeof *numbers;
    int64_t *copy = LS_HAS_NEW ? _Znam(bytes) : malloc(bytes);
    if (copy != NULL)
        memcpy(copy, numbers, count * sizeof *numbers);
    return copy;
}

typedef enum { LS_SHAPE, LS_STRIDES, LS_STORAGE } ls_list;

static aclnnStatus get_list(
    const aclTensor *handle, ls_list which, int64_t **list, uint64_t *length) {
    if (list == NULL || length == NULL)
        return ls_fail(ACLNN_ERR_PARAM_NULLPTR, "%s is null: expected an address for the %s",
            list == NULL ? "list" : "length", list == NULL ? "numbers" : "length");
    ls_tensor *found;
    ls_lock();
    aclnnStatus status = find(handle, &found);
    if (status == ACLNN_SUCCESS) {
        const int64_t *from = which == LS_SHAPE ? found->shape
            : which == LS_STRIDES               ? found->strides
                                                : found->storage;
        const uint64_t count = which == LS_STORAGE ? found->storage_ndim : found->ndim;
        int64_t *made = hand_out(from, count);
        if (made != NULL) {
            *list = made;
            *length = count;
        } else {
            status = ls_fail(ACLNN_ERR_INNER_NULLPTR, "no memory for %" PRIu64 " numbers", count);
        }
    }
    ls_unlock();
    return status;
}

aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **viewDims, uint64_t *viewDimsNum) {
    return get_list(tensor, LS_SHAPE, viewDims, viewDimsNum);
}

aclnnStatus aclGetViewStrides(
    const aclTensor *tensor, int64_t **stridesValue, uint64_t *stridesNum) {
    return get_list(tensor, LS_STRIDES, stridesValue, stridesNum);
}

aclnnStatus aclGetStorageShape(
    const aclTensor *tensor, int64_t **storageDims, uint64_t *storageDimsNum) {
    return get_list(tensor, LS_STORAGE, storageDims, storageDimsNum);
}

/* The description of a tensor as it stands now. */
static aclnnStatus get_copy(
    const aclTensor *handle, const char *argument, const void *out, ls_tensor *copy) {
    if (out == NULL)
        return ls_fail(ACLNN_ERR_PARAM_NULLPTR, "%s is null: expected an address for it", argument);
    ls_tensor *found;
    ls_lock();
    const aclnnStatus status = find(handle, &found);
    if (status == ACLNN_SUCCESS)
        *copy = *found;
    ls_unlock();
    return status;
}

aclnnStatus aclGetViewOffset(const aclTensor *tensor, int64_t *offset) {
    ls_tensor copy;
    const aclnnStatus status = get_copy(tensor, "offset", offset, &copy);
    if (status == ACLNN_SUCCESS)
        *offset = copy.offset;
    return status;
}

aclnnStatus aclGetDataType(const aclTensor *tensor, aclDataType *dataType) {
    ls_tensor copy;
    const aclnnStatus status = get_copy(tensor, "dataType", dataType, &copy);
    if (status == ACLNN_SUCCESS)
        *dataType = copy.type;
    return status;
}

aclnnStatus aclGetFormat(const aclTensor *tensor, aclFormat *format) {
    ls_tensor copy;
    const aclnnStatus status = get_copy(tensor, "format", format, &copy);
    if (status == ACLNN_SUCCESS)
        *format = copy.format;
    return status;
}
