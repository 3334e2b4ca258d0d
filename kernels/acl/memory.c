/* Memory of the device and of the host: who owns which bytes, and which stream still needs them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "quarantine.h"
#include "state.h"

#define LS_ALIGNMENT 64

/* The last task of a stream that reads or writes an allocation, and the last that writes it. */
typedef struct {
    ls_stream *stream;
    uint64_t last, last_write;
} ls_use;

struct ls_allocation {
    char *start;
    size_t size;
    uint64_t serial; /* counted from 1: an address may come again, this does not */
    int device;
    int held; /* by host threads that copy, or for good where a use could not be noted */
    ls_use *uses;
    size_t use_count, use_room;
};

/* Sorted by address. */
static ls_allocation **allocations;
static size_t count, room;
static uint64_t made_so_far;

/* Index of the first allocation that starts after an address. */
static size_t after(const void *address) {
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if ((uintptr_t)allocations[middle]->start <= (uintptr_t)address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

ls_allocation *ls_memory_at(const void *address) {
    const size_t at = after(address);
    if (at == 0)
        return NULL;
    ls_allocation *found = allocations[at - 1];
    return (uintptr_t)address - (uintptr_t)found->start < found->size ? found : NULL;
}

uint64_t ls_memory_serial(const ls_allocation *allocation) {
    return allocation != NULL ? allocation->serial : 0;
}

static const char *kind_name(int device) { return device ? "device memory" : "host memory"; }

/* What is known of an address that is not what it should be. */
static int fail_address(int status, const char *argument, const void *address, int device) {
    const ls_allocation *found = ls_memory_at(address);
    const char *is = found != NULL      ? kind_name(found->device)
        : ls_quarantine_has(address, 1) ? "memory that was freed"
        : device                        ? "foreign memory, not of aclrtMalloc"
                                        : "foreign memory, not of aclrtMallocHost";
    return ls_fail(status, "%s is %p, %s: expected %s", argument, address, is, kind_name(device));
}

ls_allocation *ls_memory_find(const char *argument, const void *address, size_t bytes, int device) {
    ls_allocation *found = ls_memory_at(address);
    if (found == NULL || found->device != device) {
        fail_address(0, argument, address, device);
        return NULL;
    }
    const size_t left = found->size - (size_t)((const char *)address - found->start);
    if (bytes > left) {
        ls_fail(0, "%s reaches %s from %p, expected at most the %zu that its allocation has left",
            argument, ls_write_count(bytes, "byte").text, address, left);
        return NULL;
    }
    return found;
}

/* Whether all pages of [address, address + bytes) exist; msync has nothing to write back there. */
static int is_mapped(const void *address, size_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)address;
    const uintptr_t start = from & ~(page - 1);
    return msync((void *)start, (size_t)(from - start) + bytes, MS_ASYNC) == 0 || errno != ENOMEM;
}

int ls_memory_check_foreign(const char *argument, const void *address, size_t bytes) {
    const uintptr_t from = (uintptr_t)address;
    const size_t at = after(address);
    const char *reaches = NULL;
    if (ls_quarantine_has(address, 1)) {
        fail_address(0, argument, address, 0);
        return 0;
    }
    if (bytes > UINTPTR_MAX - from)
        reaches = "past the last address";
    else if (at < count && (uintptr_t)allocations[at]->start - from < bytes)
        reaches = allocations[at]->device ? "into device memory" : "into memory of aclrtMallocHost";
    else if (ls_quarantine_has(address, bytes))
        reaches = "into memory that was freed";
    else if (bytes > 0 && !is_mapped(address, bytes))
        reaches = "memory that the process does not have";
    if (reaches == NULL)
        return 1;
    ls_fail(0, "%s is %p, foreign memory of %s that reaches %s: expected host memory", argument,
        address, ls_write_count(bytes, "byte").text, reaches);
    return 0;
}

/* Forget uses that the host has waited for. */
static void prune(ls_allocation *allocation) {
    for (size_t i = 0; i < allocation->use_count;) {
        ls_use *use = &allocation->uses[i];
        if (!ls_stream_seen(use->stream, use->last)) {
            i++;
            continue;
        }
        ls_stream_release(use->stream);
        *use = allocation->uses[--allocation->use_count];
    }
}

void ls_memory_use(ls_allocation *allocation, ls_stream *stream, uint64_t number, int writes) {
    prune(allocation);
    size_t i = 0;
    while (i < allocation->use_count && allocation->uses[i].stream != stream)
        i++;
    if (i == allocation->use_room) {
        const size_t wanted = i ? 2 * i : 2;
        ls_use *moved = realloc(allocation->uses, wanted * sizeof *moved);
        if (moved == NULL) {
            allocation->held++;
            return;
        }
        allocation->uses = moved;
        allocation->use_room = wanted;
    }
    if (i == allocation->use_count) {
        ls_stream_retain(stream);
        allocation->uses[allocation->use_count++] = (ls_use){.stream = stream};
    }
    allocation->uses[i].last = number;
    if (writes)
        allocation->uses[i].last_write = number;
}

int ls_memory_is_used(ls_allocation *allocation) {
    prune(allocation);
    return allocation->use_count > 0 || allocation->held > 0;
}

int ls_memory_is_written(const ls_allocation *allocation) {
    for (size_t i = 0; i < allocation->use_count; i++)
        if (!ls_stream_seen(allocation->uses[i].stream, allocation->uses[i].last_write))
            return 1;
    return 0;
}

int ls_memory_is_device(const ls_allocation *allocation) { return allocation->device; }

void ls_memory_hold(ls_allocation *allocation) { allocation->held++; }

void ls_memory_let_go(ls_allocation *allocation) { allocation->held--; }

void ls_memory_lose_holds(void) {
    for (size_t i = 0; i < count; i++)
        allocations[i]->held = 0;
}

size_t ls_memory_list(void) {
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "lsbench acl: not freed: %s of %s at %p\n",
            ls_write_count(allocations[i]->size, "byte").text, kind_name(allocations[i]->device),
            (void *)allocations[i]->start);
    return count;
}

static int insert(ls_allocation *made) {
    if (count == room) {
        const size_t wanted = room ? 2 * room : 64;
        ls_allocation **moved = realloc(allocations, wanted * sizeof *moved);
        if (moved == NULL)
            return 0;
        allocations = moved;
        room = wanted;
    }
    const size_t at = after(made->start);
    memmove(&allocations[at + 1], &allocations[at], (count - at) * sizeof *allocations);
    allocations[at] = made;
    count++;
    return 1;
}

/* Memory from the system, for which freed memory is given up where there is no other; not for sizes
 * that no machine has. */
static void *ask_system(size_t size) {
    void *start = NULL;
    if (posix_memalign(&start, LS_ALIGNMENT, size) == 0)
        return start;
    if ((uint64_t)size >> 40 != 0)
        return NULL;
    ls_quarantine_end();
    return posix_memalign(&start, LS_ALIGNMENT, size) == 0 ? start : NULL;
}

static aclError allocate(const char *argument, void **address, size_t size, int device) {
    const aclError status = ls_ready();
    if (status != ACL_SUCCESS)
        return status;
    if (address == NULL)
        return ls_fail(
            ACL_ERROR_INVALID_PARAM, "%s is null: expected an address for the memory", argument);
    *address = NULL;
    if (size == 0)
        return ls_fail(ACL_ERROR_INVALID_PARAM, "size is 0: expected at least 1 byte");
    ls_allocation *made = calloc(1, sizeof *made);
    char *start = made != NULL ? ask_system(size) : NULL;
    if (start != NULL)
        *made = (ls_allocation){
            .start = start, .size = size, .serial = ++made_so_far, .device = device};
    if (start == NULL || !insert(made)) {
        free(start);
        free(made);
        return ls_fail(
            ACL_ERROR_RT_MEMORY_ALLOCATION, "size is %zu: there is not so much memory", size);
    }
    *address = start;
    return ACL_SUCCESS;
}

static aclError release(const char *argument, void *address, int device) {
    if (address == NULL)
        return ls_fail(ACL_ERROR_INVALID_PARAM, "%s is null: expected an allocation", argument);
    ls_allocation *found = ls_memory_at(address);
    if (found == NULL || found->device != device)
        return fail_address(ACL_ERROR_INVALID_PARAM, argument, address, device);
    if (found->start != address)
        return ls_fail(ACL_ERROR_INVALID_PARAM,
            "%s points %s into an allocation: expected its first byte, %p", argument,
            ls_write_count((size_t)((char *)address - found->start), "byte").text,
            (void *)found->start);
    if (ls_memory_is_used(found))
        return ls_fail(ACL_ERROR_RT_MEMORY_FREE,
            "%s is %p, which a stream still uses: expected its stream to be synchronized before",
            argument, address);
    const size_t at = after(address) - 1;
    memmove(&allocations[at], &allocations[at + 1], (count - at - 1) * sizeof *allocations);
    count--;
    ls_quarantine_take(found->start, found->size);
    free(found->uses);
    free(found);
    return ACL_SUCCESS;
}

static const char *const policies = "a policy of aclrtMemMallocPolicy";

aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
    const unsigned page = (unsigned)policy & 0xffu;
    if (page > ACL_MEM_MALLOC_NORMAL_ONLY_P2P || ((unsigned)policy & ~0x11ffu) != 0)
        return ls_fail(ACL_ERROR_INVALID_PARAM, "policy is %d: expected %s", (int)policy, policies);
    ls_lock();
    const aclError status = allocate("devPtr", devPtr, size, 1);
    ls_unlock();
    return status;
}

aclError aclrtMallocHost(void **hostPtr, size_t size) {
    ls_lock();
    const aclError status = allocate("hostPtr", hostPtr, size, 0);
    ls_unlock();
    return status;
}

aclError aclrtFree(void *devPtr) {
    ls_lock();
    const aclError status = release("devPtr", devPtr, 1);
    ls_unlock();
    return status;
}

aclError aclrtFreeHost(void *hostPtr) {
    ls_lock();
    const aclError status = release("hostPtr", hostPtr, 0);
    ls_unlock();
    return status;
}
