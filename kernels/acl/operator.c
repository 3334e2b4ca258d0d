/* aclnnLogSigmoidBackward: the two phases and their executors. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "aclnnop/aclnn_logsigmoid_backward.h"
#include "overlap.h"
#include "settings.h"

/* gradOutput, self and gradInput as the driver numbers them, then buffer, which only has to exist.
 */
enum { LS_BUFFER = LS_TENSORS, LS_ARGUMENTS };
/* Elements up to which one thread works alone: starting another costs as much as they do. */
#define LS_SERIAL 32768

static const char *const NAMES[LS_ARGUMENTS] = {"gradOutput", "self", "gradInput", "buffer"};

typedef struct {
    const void *handles[LS_ARGUMENTS];
    ls_tensor tensors[LS_TENSORS];
    ls_format format;
    uint64_t workspace;
    int repeatable;
} ls_executor;

typedef struct {
    ls_task task;
    ls_views views;
    ls_job job;
    void (*drive)(const ls_views *views, const ls_job *job);
    void *workspace;
    size_t workspace_size;
} ls_computation;

static int format_of(aclDataType type) {
    switch (type) {
    case ACL_FLOAT:
        return LS_FP32;
    case ACL_FLOAT16:
        return LS_FP16;
    case ACL_BF16:
        return LS_BF16;
    default:
        return -1;
    }
}

static const char *types_name(unsigned types) {
    return types == 0           ? "nothing: it does not have the operator"
        : types & 1u << LS_BF16 ? "FLOAT, FLOAT16, BFLOAT16"
                                : "FLOAT, FLOAT16";
}

/* Formats whose elements lie where shape and strides say. The others order them in blocks, or are
 * not known. */
static int is_plain(aclFormat format) {
    switch (format) {
    case ACL_FORMAT_ND:
    case ACL_FORMAT_NCHW:
    case ACL_FORMAT_NHWC:
    case ACL_FORMAT_HWCN:
    case ACL_FORMAT_NDHWC:
    case ACL_FORMAT_NCDHW:
    case ACL_FORMAT_NC:
    case ACL_FORMAT_NCL:
        return 1;
    default:
        return 0;
    }
}

/* ---- the first phase: null, then data types, then shapes, then formats and memory ---- */

static int check_types(const ls_tensor *tensors, const ls_settings *settings) {
    for (int t = 0; t < LS_TENSORS; t++) {
        const int format = format_of(tensors[t].type);
        if (format < 0 || !(settings->types & 1u << format))
            return ls_fail(ACLNN_ERR_PARAM_INVALID, "%s is %s (%d): %s supports %s", NAMES[t],
                ls_type_name(tensors[t].type), (int)tensors[t].type, settings->product,
                types_name(settings->types));
    }
    for (int t = 1; t < LS_TENSORS; t++)
        if (tensors[t].type != tensors[0].type)
            return ls_fail(ACLNN_ERR_PARAM_INVALID, "%s is %s: expected %s as gradOutput", NAMES[t],
                ls_type_name(tensors[t].type), ls_type_name(tensors[0].type));
    return ACLNN_SUCCESS;
}

static int check_shapes(const ls_tensor *tensors) {
    for (int t = 0; t < LS_TENSORS; t++)
        if (tensors[t].ndim < 1 || tensors[t].ndim > LS_MAX_DIMS)
            return ls_fail(ACLNN_ERR_PARAM_INVALID, "%s has %s: expected 1 to %d", NAMES[t],
                ls_write_count(tensors[t].ndim, "dimension").text, LS_MAX_DIMS);
    const ls_tensor *first = &tensors[0];
    for (int t = 1; t < LS_TENSORS; t++)
        if (tensors[t].ndim != first->ndim
            || memcmp(tensors[t].shape, first->shape, first->ndim * sizeof *first->shape) != 0)
            return ls_fail(ACLNN_ERR_PARAM_INVALID, "%s has shape %s: expected %s as gradOutput",
                NAMES[t], ls_write_shape(tensors[t].shape, tensors[t].ndim).text,
                ls_write_shape(first->shape, first->ndim).text);
    return ACLNN_SUCCESS;
}

static int check_formats(const ls_tensor *tensors) {
    for (int t = 0; t < LS_TENSORS; t++)
        if (!is_plain(tensors[t].format))
            return ls_fail(ACLNN_ERR_PARAM_INVALID,
                "%s has format %d: expected 2 (ACL_FORMAT_ND), or another that strides describe",
                NAMES[t], (int)tensors[t].format);
    return ACLNN_SUCCESS;
}

/* The allocation that the elements of a tensor lie in; NULL and a message where they do not. */
static ls_allocation *find_memory(const char *name, const ls_tensor *tensor, int64_t itemsize) {
    int64_t first, last;
    ls_tensor_extent(tensor, &first, &last);
    if (tensor->data == NULL) {
        ls_fail(0, "the data of %s is null: expected device memory", name);
        return NULL;
    }
    size_t reach;
    if (__builtin_mul_overflow((size_t)last + 1, (size_t)itemsize, &reach))
        reach = SIZE_MAX;
    const ls_allocation *there = ls_memory_at(tensor->data);
    if (there != NULL && ls_memory_serial(there) != tensor->serial) {
        ls_fail(0,
            "%s is on %p, memory that was %s and given out again: expected a tensor made on what "
            "is there",
            name, (void *)tensor->data,
            tensor->serial != 0 ? "freed after the tensor was made"
                                : "freed when the tensor was made");
        return NULL;
    }
    return ls_memory_find(name, tensor->data, reach, 1);
}

static int check_view(const char *name, const ls_tensor *tensor, int64_t itemsize) {
    int64_t first, last;
    if (tensor->offset < 0)
        return ls_fail(ACLNN_ERR_PARAM_INVALID,
            "%s has offset %" PRId64 ": expected no negative one", name, tensor->offset);
    for (uint64_t d = 0; d < tensor->ndim; d++)
        if (tensor->strides[d] < 0)
            return ls_fail(ACLNN_ERR_PARAM_INVALID, "%s has strides %s: expected no negative one",
                name, ls_write_shape(tensor->strides, tensor->ndim).text);
    if (tensor->size == 0)
        return ACLNN_SUCCESS;
    if (!ls_tensor_extent(tensor, &first, &last) || last >= tensor->storage_size)
        return ls_fail(ACLNN_ERR_PARAM_INVALID,
            "%s has shape %s, strides %s and offset %" PRId64
            ": expected them inside its storage of %s",
            name, ls_write_shape(tensor->shape, tensor->ndim).text,
            ls_write_shape(tensor->strides, tensor->ndim).text, tensor->offset,
            ls_write_count((uint64_t)tensor->storage_size, "element").text);
    return find_memory(name, tensor, itemsize) != NULL ? ACLNN_SUCCESS : ACLNN_ERR_PARAM_INVALID;
}

static int check_memory(const ls_tensor *tensors, int64_t itemsize) {
    for (int t = 0; t < LS_TENSORS; t++)
        if (check_view(NAMES[t], &tensors[t], itemsize) != ACLNN_SUCCESS)
            return ACLNN_ERR_PARAM_INVALID;
    const ls_tensor *y = &tensors[LS_Y];
    if (y->size == 0)
        return ACLNN_SUCCESS;
    if (ls_tensor_meets_itself(y) != LS_APART)
        return ls_fail(ACLNN_ERR_PARAM_INVALID,
            "gradInput with shape %s and strides %s has two indices at one address: expected one "
            "address each",
            ls_write_shape(y->shape, y->ndim).text, ls_write_shape(y->strides, y->ndim).text);
    for (int t = 0; t < LS_Y; t++) {
        const ls_meeting meeting = ls_tensors_meet(y, &tensors[t], itemsize);
        if (meeting != LS_APART && meeting != LS_SAME)
            return ls_fail(ACLNN_ERR_PARAM_INVALID,
                "gradInput overlaps %s in part: expected memory of its own or the very same view",
                NAMES[t]);
    }
    return ACLNN_SUCCESS;
}

static int take_tensors(const void *const *handles, ls_tensor *tensors) {
    for (int t = 0; t < LS_ARGUMENTS; t++) {
        const ls_tensor *found = ls_handle_find(LS_TENSOR, handles[t], NAMES[t]);
        if (found == NULL)
            return ACLNN_ERR_PARAM_INVALID;
        if (t < LS_TENSORS)
            tensors[t] = *found;
    }
    return ACLNN_SUCCESS;
}

static int prepare(const void *const *handles, ls_executor *made) {
    const ls_settings *settings = ls_settings_now();
    if (settings == NULL || take_tensors(handles, made->tensors) != ACLNN_SUCCESS
        || check_types(made->tensors, settings) != ACLNN_SUCCESS
        || check_shapes(made->tensors) != ACLNN_SUCCESS
        || check_formats(made->tensors) != ACLNN_SUCCESS)
        return ACLNN_ERR_PARAM_INVALID;
    memcpy(made->handles, handles, sizeof made->handles);
    made->format = (ls_format)format_of(made->tensors[0].type);
    made->workspace = made->tensors[LS_Y].size > 0 ? settings->workspace : 0;
    return check_memory(made->tensors, (int64_t)aclDataTypeSize(made->tensors[0].type));
}

static int first_null(
    const void *const *handles, const uint64_t *size, aclOpExecutor *const *executor) {
    static const int IN_ORDER[LS_ARGUMENTS] = {LS_G, LS_X, LS_BUFFER, LS_Y};
    for (int i = 0; i < LS_ARGUMENTS; i++)
        if (handles[IN_ORDER[i]] == NULL)
            return ls_fail(
                ACLNN_ERR_PARAM_NULLPTR, "%s is null: expected a tensor", NAMES[IN_ORDER[i]]);
    if (size == NULL || executor == NULL)
        return ls_fail(ACLNN_ERR_PARAM_NULLPTR, "%s is null: expected an address",
            size == NULL ? "workspaceSize" : "executor");
    return ACLNN_SUCCESS;
}

aclnnStatus aclnnLogSigmoidBackwardGetWorkspaceSize(const aclTensor *gradOutput,
    const aclTensor *self, const aclTensor *buffer, aclTensor *gradInput, uint64_t *workspaceSize,
    aclOpExecutor **executor) {
    const void *const handles[LS_ARGUMENTS] = {gradOutput, self, gradInput, buffer};
    int status = first_null(handles, workspaceSize, executor);
    if (status != ACLNN_SUCCESS)
        return status;
    *workspaceSize = 0;
    *executor = NULL;
    ls_executor *made = calloc(1, sizeof *made);
    if (made == NULL)
        return ls_fail(ACLNN_ERR_INNER_NULLPTR, "no memory for an executor");
    ls_lock();
    status = prepare(handles, made);
    void *handle = status == ACLNN_SUCCESS ? ls_handle_open(LS_EXECUTOR, made) : NULL;
    if (status == ACLNN_SUCCESS && handle == NULL)
        status = ls_fail(ACLNN_ERR_INNER_NULLPTR, "no memory for an executor");
    if (status == ACLNN_SUCCESS) {
        *workspaceSize = made->workspace;
        *executor = handle;
    } else {
        free(made);
    }
    ls_unlock();
    return status;
}

/* ---- executors ---- */

static int find_executor(aclOpExecutor *handle, ls_executor **found) {
    *found = ls_handle_find(LS_EXECUTOR, handle, "executor");
    return *found != NULL ? ACLNN_SUCCESS
        : handle == NULL  ? ACLNN_ERR_PARAM_NULLPTR
                          : ACLNN_ERR_PARAM_INVALID;
}

static void close_executor(const void *handle, ls_executor *executor, const char *fate) {
    ls_handle_close(handle, fate);
    free(executor);
}

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor *executor) {
    ls_executor *found;
    ls_lock();
    const int status = find_executor(executor, &found);
    if (status == ACLNN_SUCCESS)
        found->repeatable = 1;
    ls_unlock();
    return status;
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor) {
    ls_executor *found;
    ls_lock();
    const int status = find_executor(executor, &found);
    if (status == ACLNN_SUCCESS)
        close_executor(executor, found, "was destroyed");
    ls_unlock();
    return status;
}

void ls_executors_end(void) {
    size_t position = 0;
    for (void *handle; (handle = ls_handle_next(LS_EXECUTOR, &position)) != NULL;)
        close_executor(
            handle, ls_handle_find(LS_EXECUTOR, handle, "executor"), "was ended by aclFinalize");
}

/* ---- the second phase ---- */

static void run_computation(ls_task *task) {
    const ls_computation *computation = (const ls_computation *)task;
    /* A workspace is only ever asked for to try its handling; as a device would, scribble on it. */
    if (computation->workspace_size > 0)
        memset(computation->workspace, 0xa5, computation->workspace_size);
    computation->drive(&computation->views, &computation->job);
}

static ls_computation *compose(const ls_executor *executor, const ls_settings *settings) {
    ls_computation *made = calloc(1, sizeof *made);
    if (made == NULL)
        return NULL;
    const ls_tensor *tensors = executor->tensors;
    const int64_t itemsize = (int64_t)ls_itemsize(executor->format);
    made->task.run = run_computation;
    made->drive = settings->drive;
    made->views.ndim = (int)tensors[0].ndim;
    for (int t = 0; t < LS_TENSORS; t++) {
        made->views.base[t] = tensors[t].data + tensors[t].offset * itemsize;
        for (uint64_t d = 0; d < tensors[t].ndim; d++) {
            made->views.shape[d] = tensors[t].shape[d];
            made->views.strides[t][d] = ls_tensor_step(&tensors[t], d) * itemsize;
        }
    }
    made->job = (ls_job){.block = settings->kernel->block[LS_FP32][executor->format],
        .itemsize = (size_t)itemsize,
        .store = {.rounding = LS_RNE},
        .threads = tensors[0].size > LS_SERIAL ? settings->threads : 1};
    return made;
}

static int check_workspace(
    const ls_executor *executor, const void *workspace, uint64_t size, ls_allocation **found) {
    *found = NULL;
    if (size < executor->workspace)
        return ls_fail(ACLNN_ERR_PARAM_INVALID,
            "workspaceSize is %" PRIu64 ": expected the %s that the first phase asked for", size,
            ls_write_count(executor->workspace, "byte").text);
    if (size > 0 && workspace == NULL)
        return ls_fail(ACLNN_ERR_PARAM_NULLPTR, "workspace is null: expected device memory of %s",
            ls_write_count(size, "byte").text);
    if (size > 0 && (*found = ls_memory_find("workspace", workspace, size, 1)) == NULL)
        return ACLNN_ERR_PARAM_INVALID;
    return ACLNN_SUCCESS;
}

/* Tensors and memory were there in the first phase; see that they still are. */
static int check_again(const ls_executor *executor, ls_allocation **memory) {
    for (int t = 0; t < LS_ARGUMENTS; t++)
        if (ls_handle_find(LS_TENSOR, executor->handles[t], NAMES[t]) == NULL)
            return ACLNN_ERR_PARAM_INVALID;
    const int64_t itemsize = (int64_t)ls_itemsize(executor->format);
    for (int t = 0; t < LS_TENSORS; t++) {
        memory[t] = find_memory(NAMES[t], &executor->tensors[t], itemsize);
        if (memory[t] == NULL)
            return ACLNN_ERR_PARAM_INVALID;
    }
    return ACLNN_SUCCESS;
}

static int launch(const ls_executor *executor, void *workspace, uint64_t size, ls_stream *stream) {
    ls_allocation *memory[LS_TENSORS], *work;
    int status = check_workspace(executor, workspace, size, &work);
    if (status != ACLNN_SUCCESS || executor->tensors[LS_Y].size == 0)
        return status;
    status = check_again(executor, memory);
    if (status != ACLNN_SUCCESS)
        return status;
    ls_computation *task = compose(executor, ls_settings_now());
    if (task == NULL)
        return ls_fail(ACLNN_ERR_INNER_NULLPTR, "no memory for a computation");
    task->workspace = workspace;
    task->workspace_size = executor->workspace;
    const uint64_t number = ls_stream_submit(stream, &task->task);
    for (int t = 0; t < LS_TENSORS; t++)
        ls_memory_use(memory[t], stream, number, t == LS_Y);
    if (work != NULL)
        ls_memory_use(work, stream, number, 1);
    return ACLNN_SUCCESS;
}

aclnnStatus aclnnLogSigmoidBackward(
    void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream) {
    ls_executor *found;
    ls_lock();
    int status = find_executor(executor, &found);
    if (status == ACLNN_SUCCESS && ls_ready() != ACL_SUCCESS)
        status = ACLNN_ERR_RUNTIME_ERROR;
    if (status == ACLNN_SUCCESS) {
        ls_stream *on = ls_stream_find(stream);
        status = on != NULL ? launch(found, workspace, workspaceSize, on) : ACLNN_ERR_PARAM_INVALID;
    }
    if (status == ACLNN_SUCCESS && !found->repeatable)
        close_executor(executor, found, "has run already");
    ls_unlock();
    return status;
}
