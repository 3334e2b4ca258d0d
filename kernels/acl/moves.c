/* Copies and fills, at once or on a stream: no byte outside an allocation is touched. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "settings.h"
#include "state.h"

/* Bytes to be written at `to`: copied from `from`, or `value` where that is NULL. */
typedef struct {
    ls_task task;
    char *to;
    const char *from;
    size_t bytes;
    int value;
    /* The allocations at both ends, NULL for memory that nothing here returned. */
    ls_allocation *target, *source;
} ls_move;

static void run_move(ls_task *task) {
    const ls_move *move = (const ls_move *)task;
    if (move->from == NULL)
        memset(move->to, move->value, move->bytes);
    else
        memmove(move->to, move->from, move->bytes);
}

/* One end of a copy: device memory must be an allocation; of host memory that aclrtMallocHost did
 * not return no more is known than that it is there and nothing else. */
static int check_end(
    const char *argument, const void *address, size_t bytes, int device, ls_allocation **found) {
    const ls_allocation *known = ls_memory_at(address);
    *found = NULL;
    if (!device && known == NULL)
        return ls_memory_check_foreign(argument, address, bytes);
    *found = ls_memory_find(argument, address, bytes, device);
    return *found != NULL;
}

/* Which memory the two ends of a copy are to lie in, by its kind. */
static int ends_of(
    aclrtMemcpyKind kind, const void *to, const void *from, int *to_device, int *from_device) {
    const ls_allocation *target = ls_memory_at(to), *source = ls_memory_at(from);
    switch (kind) {
    case ACL_MEMCPY_HOST_TO_HOST:
    case ACL_MEMCPY_HOST_TO_DEVICE:
    case ACL_MEMCPY_DEVICE_TO_HOST:
    case ACL_MEMCPY_DEVICE_TO_DEVICE:
        *to_device = kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
        *from_device = kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
        return 1;
    case ACL_MEMCPY_DEFAULT:
        *to_device = target != NULL && ls_memory_is_device(target);
        *from_device = source != NULL && ls_memory_is_device(source);
        return 1;
    default:
        return 0;
    }
}

static aclError check_copy(ls_move *move, size_t most, aclrtMemcpyKind kind) {
    int to_device, from_device;
    if (move->to == NULL || move->from == NULL)
        return ls_fail(ACL_ERROR_INVALID_PARAM, "%s is null: expected an address",
            move->to == NULL ? "dst" : "src");
    if (!ends_of(kind, move->to, move->from, &to_device, &from_device))
        return ls_fail(ACL_ERROR_INVALID_PARAM,
            "kind is %d: expected 0 to 4, a kind of aclrtMemcpyKind", (int)kind);
    if (move->bytes > most)
        return ls_fail(ACL_ERROR_INVALID_PARAM,
            "count is %zu: expected at most destMax, which is %zu", move->bytes, most);
    if (!check_end("dst", move->to, move->bytes, to_device, &move->target)
        || !check_end("src", move->from, move->bytes, from_device, &move->source))
        return ACL_ERROR_INVALID_PARAM;
    return ACL_SUCCESS;
}

static aclError check_fill(ls_move *move, size_t most) {
    if (move->to == NULL)
        return ls_fail(ACL_ERROR_INVALID_PARAM, "devPtr is null: expected an address");
    if (move->bytes > most)
        return ls_fail(ACL_ERROR_INVALID_PARAM,
            "count is %zu: expected at most maxCount, which is %zu", move->bytes, most);
    const ls_allocation *known = ls_memory_at(move->to);
    const int device = known == NULL || ls_memory_is_device(known);
    return check_end("devPtr", move->to, move->bytes, device, &move->target)
        ? ACL_SUCCESS
        : ACL_ERROR_INVALID_PARAM;
}

/* With LSBENCH_ACL_CHECK=1: a host thread touches what a stream may still be at work on. */
static void warn_early(const ls_move *move) {
    if (!ls_settings_now()->check)
        return;
    if (move->source != NULL && ls_memory_is_written(move->source))
        fprintf(stderr,
            "lsbench acl: %p is read before the stream that writes it was synchronized: its bytes "
            "may be "
            "old\n",
            (const void *)move->from);
    if (move->target != NULL && ls_memory_is_used(move->target))
        fprintf(stderr,
            "lsbench acl: %p is written before the stream that uses it was synchronized\n",
            (void *)move->to);
}

/* Do it in this thread; the allocations cannot be freed meanwhile (locked, the lock is free
 * while bytes move). */
static aclError move_now(ls_move *move) {
    ls_allocation *const ends[] = {move->target, move->source};
    warn_early(move);
    for (int i = 0; i < 2; i++)
        if (ends[i] != NULL)
            ls_memory_hold(ends[i]);
    ls_unlock();
    run_move(&move->task);
    ls_lock();
    for (int i = 0; i < 2; i++)
        if (ends[i] != NULL)
            ls_memory_let_go(ends[i]);
    return ACL_SUCCESS;
}

static aclError move_later(const ls_move *move, aclrtStream handle) {
    ls_stream *stream = ls_stream_find(handle);
    if (stream == NULL)
        return ACL_ERROR_INVALID_RESOURCE_HANDLE;
    ls_move *task = malloc(sizeof *task);
    if (task == NULL)
        return ls_fail(ACL_ERROR_BAD_ALLOC, "no memory to put a copy on a stream");
    *task = *move;
    task->task.run = run_move;
    const uint64_t number = ls_stream_submit(stream, &task->task);
    if (move->target != NULL)
        ls_memory_use(move->target, stream, number, 1);
    if (move->source != NULL)
        ls_memory_use(move->source, stream, number, 0);
    return ACL_SUCCESS;
}

aclError aclrtMemcpy(
    void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind) {
    ls_move move = {.to = dst, .from = src, .bytes = count};
    ls_lock();
    aclError status = ls_ready();
    if (status == ACL_SUCCESS)
        status = check_copy(&move, destMax, kind);
    if (status == ACL_SUCCESS)
        status = move_now(&move);
    ls_unlock();
    return status;
}

aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count,
    aclrtMemcpyKind kind, aclrtStream stream) {
    ls_move move = {.to = dst, .from = src, .bytes = count};
    ls_lock();
    aclError status = ls_ready();
    if (status == ACL_SUCCESS)
        status = check_copy(&move, destMax, kind);
    if (status == ACL_SUCCESS)
        status = move_later(&move, stream);
    ls_unlock();
    return status;
}

aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count) {
    ls_move move = {.to = devPtr, .bytes = count, .value = value};
    ls_lock();
    aclError status = ls_ready();
    if (status == ACL_SUCCESS)
        status = check_fill(&move, maxCount);
    if (status == ACL_SUCCESS)
        status = move_now(&move);
    ls_unlock();
    return status;
}

aclError aclrtMemsetAsync(
    void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
    ls_move move = {.to = devPtr, .bytes = count, .value = value};
    ls_lock();
    aclError status = ls_ready();
    if (status == ACL_SUCCESS)
        status = check_fill(&move, maxCount);
    if (status == ACL_SUCCESS)
        status = move_later(&move, stream);
    ls_unlock();
    return status;
}
