/* The process's use of the device: aclInit to aclFinalize, and device 0 in between. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "quarantine.h"
#include "settings.h"
#include "state.h"

static int initialised, was_initialised;
static int users;  /* aclrtSetDevice less aclrtResetDevice */
static int forked; /* the device was set by the process that this one was forked from */

aclError ls_ready(void) {
    if (!initialised)
        return ls_fail(ACL_ERROR_UNINITIALIZE, "not initialised: expected aclInit before");
    if (users == 0 && forked)
        return ls_fail(ACL_ERROR_RT_CONTEXT_NULL,
            "no device in this process, which was forked from the one that had it: expected "
            "aclrtSetDevice(0) before");
    if (users == 0)
        return ls_fail(ACL_ERROR_RT_CONTEXT_NULL, "no device: expected aclrtSetDevice(0) before");
    return ACL_SUCCESS;
}

void ls_device_lose(void) {
    forked = users > 0 || forked;
    users = 0;
}

static aclError check_file(const char *path) {
    struct stat about;
    const char *is = path[0] == '\0' ? "empty" : path;
    const int found = stat(path, &about) == 0;
    if (found && !S_ISDIR(about.st_mode) && access(path, R_OK) == 0)
        return ACL_SUCCESS;
    return ls_fail(ACL_ERROR_INVALID_FILE, "configPath is %s%s: expected NULL or a file to read",
        is, found && S_ISDIR(about.st_mode) ? ", a directory" : "");
}

static aclError initialise(const char *path) {
    if (initialised)
        return ls_fail(ACL_ERROR_REPEAT_INITIALIZE, "aclInit was called before: expected it once");
    aclError status = path != NULL ? check_file(path) : ACL_SUCCESS;
    if (status == ACL_SUCCESS)
        status = ls_settings_read();
    if (status == ACL_SUCCESS)
        initialised = was_initialised = 1;
    return status;
}

aclError aclInit(const char *configPath) {
    ls_lock();
    const aclError status = initialise(configPath);
    ls_unlock();
    return status;
}

/* List on stderr what is alive; returns how many things. */
static size_t list_handles(ls_kind kind, const char *what) {
    size_t position = 0, found = 0;
    for (void *handle; (handle = ls_handle_next(kind, &position)) != NULL; found++)
        fprintf(stderr, "lsbench acl: not destroyed: %s %p\n", what, handle);
    return found;
}

static void list_leaks(void) {
    const size_t found = ls_tensors_list() + list_handles(LS_EXECUTOR, "executor")
        + list_handles(LS_STREAM, "stream") + list_handles(LS_EVENT, "event") + ls_memory_list();
    fprintf(stderr, "lsbench acl: %s\n", ls_write_count(found, "leak").text);
}

aclError aclFinalize(void) {
    ls_lock();
    aclError status = ACL_SUCCESS;
    if (!initialised) {
        status = was_initialised
            ? ls_fail(ACL_ERROR_REPEAT_FINALIZE, "aclFinalize was called before: expected it once")
            : ls_fail(ACL_ERROR_UNINITIALIZE, "not initialised: expected aclInit before");
    } else {
        if (ls_settings_now()->check)
            list_leaks();
        initialised = users = forked = 0;
        ls_streams_end();
        ls_events_end();
        ls_executors_end();
        ls_tensors_end();
        ls_quarantine_end();
    }
    ls_unlock();
    return status;
}

static aclError check_device(int32_t device) {
    if (!initialised)
        return ls_fail(ACL_ERROR_UNINITIALIZE, "not initialised: expected aclInit before");
    if (device != 0)
        return ls_fail(ACL_ERROR_RT_INVALID_DEVICEID, "deviceId is %d: expected 0, the only device",
            (int)device);
    return ACL_SUCCESS;
}

aclError aclrtSetDevice(int32_t deviceId) {
    ls_lock();
    const aclError status = check_device(deviceId);
    if (status == ACL_SUCCESS)
        users++;
    ls_unlock();
    return status;
}

aclError aclrtResetDevice(int32_t deviceId) {
    ls_lock();
    aclError status = check_device(deviceId);
    if (status == ACL_SUCCESS)
        status = ls_ready();
    if (status == ACL_SUCCESS) {
        ls_streams_wait();
        if (users > 0)
            users--;
    }
    ls_unlock();
    return status;
}

aclError aclrtGetDevice(int32_t *deviceId) {
    if (deviceId == NULL)
        return ls_fail(
            ACL_ERROR_INVALID_PARAM, "deviceId is null: expected an address for the number");
    ls_lock();
    const aclError status = ls_ready();
    if (status == ACL_SUCCESS)
        *deviceId = 0;
    ls_unlock();
    return status;
}

aclError aclrtGetDeviceCount(uint32_t *count) {
    if (count == NULL)
        return ls_fail(
            ACL_ERROR_INVALID_PARAM, "count is null: expected an address for the number");
    *count = 1;
    return ACL_SUCCESS;
}
