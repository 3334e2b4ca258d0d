/* Freed memory, kept for a while so that no later allocation has its addresses. */
#ifndef LSBENCH_ACL_QUARANTINE_H
#define LSBENCH_ACL_QUARANTINE_H

#include <stddef.h>

/* Take memory that nobody may use any more; it goes back to the system when many others have come
 * after it (locked). */
void ls_quarantine_take(void *start, size_t size);
/* Whether some of the bytes [address, address + bytes) were freed not long ago (locked). */
int ls_quarantine_has(const void *address, size_t bytes);
/* Give everything back to the system (locked). */
void ls_quarantine_end(void);

#endif
