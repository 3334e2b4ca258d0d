/* aclTensor: created, described, destroyed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor.h"

typedef struct {
    aclDataType type;
    const char *name;
    size_t size;
} ls_type;

static const ls_type TYPES[] = {
    {ACL_FLOAT, "FLOAT", 4},
    {ACL_FLOAT16, "FLOAT16", 2},
    {ACL_BF16, "BFLOAT16", 2},
    {ACL_INT8, "INT8", 1},
    {ACL_INT16, "INT16", 2},
    {ACL_INT32, "INT32", 4},
    {ACL_INT64, "INT64", 8},
    {ACL_UINT8, "UINT8", 1},
    {ACL_UINT16, "UINT16", 2},
    {ACL_UINT32, "UINT32", 4},
    {ACL_UINT64, "UINT64", 8},
    {ACL_DOUBLE, "DOUBLE", 8},
    {ACL_BOOL, "BOOL", 1},
    {ACL_STRING, "STRING", 0},
    {ACL_COMPLEX64, "COMPLEX64", 8},
    {ACL_COMPLEX128, "COMPLEX128", 16},
};

static const ls_type *find_type(aclDataType type) {
    for (size_t i = 0; i < sizeof TYPES / sizeof TYPES[0]; i++)
        if (TYPES[i].type == type)
            return &TYPES[i];
    return NULL;
}

size_t aclDataTypeSize(aclDataType dataType) {
    const ls_type *found = find_type(dataType);
    return found != NULL ? found->size : 0;
}

const char *ls_type_name(aclDataType type) {
    const ls_type *found = find_type(type);
    return found != NULL ? found->name : "of another data type";
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
        ls_fail(0, "%s is null: expected %s", argument, ls_write_count(ndim, "number").text);
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

size_t ls_tensors_list(void) {
    size_t position = 0, found = 0;
    for (void *handle; (handle = ls_handle_next(LS_TENSOR, &position)) != NULL; found++) {
        const ls_tensor *tensor = ls_handle_find(LS_TENSOR, handle, "tensor");
        fprintf(stderr, "lsbench acl: not destroyed: tensor %p, %s of shape %s\n", handle,
            ls_type_name(tensor->type), ls_write_shape(tensor->shape, tensor->ndim).text);
    }
    return found;
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

/* What the interface calls them and their lengths. */
static const char *const LISTS[] = {"viewDims", "stridesValue", "storageDims"};
static const char *const LENGTHS[] = {"viewDimsNum", "stridesNum", "storageDimsNum"};

static aclnnStatus get_list(
    const aclTensor *handle, ls_list which, int64_t **list, uint64_t *length) {
    if (list == NULL || length == NULL)
        return ls_fail(ACLNN_ERR_PARAM_NULLPTR, "%s is null: expected an address for the %s",
            list == NULL ? LISTS[which] : LENGTHS[which], list == NULL ? "numbers" : "length");
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
            status = ls_fail(
                ACLNN_ERR_INNER_NULLPTR, "no memory for %s", ls_write_count(count, "number").text);
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
