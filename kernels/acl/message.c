/* The last error of each thread, in words. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "state.h"

#define LS_MESSAGE 1024

static _Thread_local char latest[LS_MESSAGE], handed_out[LS_MESSAGE];

int ls_fail(int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(latest, sizeof latest, format, arguments);
    va_end(arguments);
    return status;
}

ls_count_text ls_write_count(uint64_t count, const char *noun) {
    ls_count_text written;
    snprintf(
        written.text, sizeof written.text, "%" PRIu64 " %s%s", count, noun, count == 1 ? "" : "s");
    return written;
}

const char *aclGetRecentErrMsg(void) {
    if (latest[0] == '\0')
        return NULL;
    memcpy(handed_out, latest, sizeof latest);
    latest[0] = '\0';
    return handed_out;
}
