/* Handles: slots with generations. A slot is reused only when many others have been, oldest first.
 */
#include <stdlib.h>

#include "state.h"

/* Bits 48 to 63 of no user-space address; then 20 bits of generation, 24 of index, 4 of zeros. */
#define LS_TAG UINT64_C(0x1a5e)
#define LS_GENERATIONS (UINT32_C(1) << 20)
#define LS_MOST (UINT32_C(1) << 24)
/* Dead slots that are kept before one is reused. */
#define LS_REST 1024

_Static_assert(sizeof(void *) == 8, "handles need 64-bit addresses");

typedef struct {
    void *object;
    const char *fate; /* NULL while alive */
    uint32_t generation, next_dead;
    ls_kind kind;
} ls_slot;

static ls_slot *slots;
static uint32_t count, room, dead, oldest_dead, newest_dead;

static const char *const KINDS[LS_KINDS] = {"a tensor", "an executor", "a stream", "an event"};

static void *dressed(uint32_t index, uint32_t generation) {
    return (void *)(uintptr_t)(LS_TAG << 48 | (uint64_t)generation << 28 | (uint64_t)index << 4);
}

static int grow(void) {
    const uint32_t wanted = room ? 2 * room : 256;
    ls_slot *moved = wanted > LS_MOST ? NULL : realloc(slots, wanted * sizeof *slots);
    if (moved == NULL)
        return 0;
    slots = moved;
    room = wanted;
    return 1;
}

/* A slot to be filled: the one that has been dead longest, or a new one. */
static ls_slot *take_slot(uint32_t *index) {
    if (dead > LS_REST || (dead > 0 && count == LS_MOST)) {
        *index = oldest_dead;
        oldest_dead = slots[*index].next_dead;
        dead--;
        slots[*index].generation = (slots[*index].generation + 1) % LS_GENERATIONS;
        return &slots[*index];
    }
    if (count == room && !grow())
        return NULL;
    *index = count++;
    slots[*index].generation = 0;
    return &slots[*index];
}

void *ls_handle_open(ls_kind kind, void *object) {
    uint32_t index;
    ls_slot *slot = take_slot(&index);
    if (slot == NULL)
        return NULL;
    slot->object = object;
    slot->kind = kind;
    slot->fate = NULL;
    return dressed(index, slot->generation);
}

/* The slot that a handle names, whatever has become of it; NULL for an address that is none. */
static ls_slot *slot_of(const void *handle) {
    const uint64_t bits = (uint64_t)(uintptr_t)handle, index = bits >> 4 & (LS_MOST - 1);
    return bits >> 48 == LS_TAG && (bits & 15) == 0 && index < count ? &slots[index] : NULL;
}

static int is_current(const ls_slot *slot, const void *handle) {
    return slot->generation == ((uint64_t)(uintptr_t)handle >> 28 & (LS_GENERATIONS - 1));
}

void *ls_handle_find(ls_kind kind, const void *handle, const char *argument) {
    const ls_slot *slot = slot_of(handle);
    const char *wanted = KINDS[kind];
    if (handle == NULL)
        ls_fail(0, "%s is null: expected %s", argument, wanted);
    else if (slot == NULL)
        ls_fail(0, "%s is %p, which nothing here returned: expected %s", argument, handle, wanted);
    else if (!is_current(slot, handle))
        ls_fail(0, "%s is gone since long: expected %s", argument, wanted);
    else if (slot->kind != kind)
        ls_fail(0, "%s is %s: expected %s", argument, KINDS[slot->kind], wanted);
    else if (slot->fate != NULL)
        ls_fail(0, "%s %s: expected %s that is alive", argument, slot->fate, wanted);
    else
        return slot->object;
    return NULL;
}

int ls_handle_lives(const void *handle) {
    const ls_slot *slot = slot_of(handle);
    return slot != NULL && is_current(slot, handle) && slot->fate == NULL;
}

void ls_handle_close(const void *handle, const char *fate) {
    ls_slot *slot = slot_of(handle);
    const uint32_t index = (uint32_t)(slot - slots);
    slot->fate = fate;
    slot->object = NULL;
    if (dead++ == 0)
        oldest_dead = index;
    else
        slots[newest_dead].next_dead = index;
    newest_dead = index;
}

void *ls_handle_next(ls_kind kind, size_t *position) {
    for (; *position < count; ++*position) {
        const ls_slot *slot = &slots[*position];
        if (slot->kind == kind && slot->fate == NULL)
            return dressed((uint32_t)(*position)++, slot->generation);
    }
    return NULL;
}
