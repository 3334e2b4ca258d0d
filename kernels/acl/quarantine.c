/* Freed memory: no address of it is handed out again before LS_KEPT others were freed after it.
 *
 * Whole pages are released at once, so that the quarantine costs addresses and little memory. What
 * is left of the bytes is made NaN in every format, and forbidden where a sanitizer watches.
 */
#if defined(__linux__)
#define _DEFAULT_SOURCE
#include <sys/mman.h>
#endif
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "quarantine.h"

#if defined(__SANITIZE_ADDRESS__)
#define LS_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LS_POISONS 1
#endif
#endif
#ifdef LS_POISONS
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(start, size) ((void)(start), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(start, size) ((void)(start), (void)(size))
#endif

/* Ranges, and bytes of addresses, that are kept; the newest range stays whatever its size. */
#define LS_KEPT 256
#define LS_KEPT_BYTES (UINT64_C(1) << 32)

typedef struct {
    char *start;
    size_t size;
} ls_range;

static ls_range kept[LS_KEPT];
static size_t oldest, count;
static uint64_t bytes_kept;

static void drop_oldest(void) {
    const ls_range range = kept[oldest];
    oldest = (oldest + 1) % LS_KEPT;
    count--;
    bytes_kept -= range.size;
    ASAN_UNPOISON_MEMORY_REGION(range.start, range.size);
    free(range.start);
}

/* NaN in every format in the bytes from `start` on. */
static void spoil(char *start, size_t size) { memset(start, 0xff, size); }

static void empty(char *start, size_t size) {
#if defined(__linux__)
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)start;
    const size_t head = (size_t)(-from & (page - 1));
    const size_t whole = size > head ? (size - head) & ~(size_t)(page - 1) : 0;
    if (whole > 0 && madvise(start + head, whole, MADV_DONTNEED) == 0) {
        spoil(start, head);
        spoil(start + head + whole, size - head - whole);
        return;
    }
#endif
    spoil(start, size);
}

void ls_quarantine_take(void *start, size_t size) {
    while (count == LS_KEPT || (count > 0 && bytes_kept + size > LS_KEPT_BYTES))
        drop_oldest();
    empty(start, size);
    ASAN_POISON_MEMORY_REGION(start, size);
    kept[(oldest + count++) % LS_KEPT] = (ls_range){start, size};
    bytes_kept += size;
}

int ls_quarantine_has(const void *address, size_t bytes) {
    const uintptr_t from = (uintptr_t)address;
    for (size_t i = 0; i < count; i++) {
        const ls_range *range = &kept[(oldest + i) % LS_KEPT];
        const uintptr_t start = (uintptr_t)range->start;
        if (from < start ? bytes > start - from : from - start < range->size)
            return 1;
    }
    return 0;
}

void ls_quarantine_end(void) {
    while (count > 0)
        drop_oldest();
}
