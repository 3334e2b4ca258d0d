/* Asking the memory for what is needed a little later. */
#ifndef LSBENCH_FETCH_H
#define LSBENCH_FETCH_H

#include "convert.h"

/* The processor's own prefetcher stops at every page, and arithmetic leaves the memory idle there: loops
 * ask for what comes so many bytes later. Nothing is read by that; an address beyond the array does no
 * harm. Always inlined: gcc takes a function that only prefetches for one without effect, and drops calls. */
#define LS_AHEAD 2048

LS_INLINE void ls_ask(const void *address) {
#ifdef __GNUC__
    __builtin_prefetch(address, 0, 3);
#else
    (void)address;
#endif
}

/* The same for what is needed later than that, and had better not fill the nearest cache. */
LS_INLINE void ls_ask_early(const void *address) {
#ifdef __GNUC__
    __builtin_prefetch(address, 0, 2);
#else
    (void)address;
#endif
}

/* What will be written. */
LS_INLINE void ls_ask_to_write(const void *address) {
#ifdef __GNUC__
    __builtin_prefetch(address, 1, 3);
#else
    (void)address;
#endif
}

#endif
