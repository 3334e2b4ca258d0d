/* Events: moments of a stream that others can wait for and measure between. */
#include <stdlib.h>

#include "clock.h"
#include "state.h"

/* One recording of an event; shared by the event, its task and those who wait for it. */
typedef struct {
    int references, done;
    int lost; /* its stream stayed in the parent of this process */
    int64_t nanoseconds;
    ls_stream *stream;
    uint64_t number;
} ls_recording;

typedef struct {
    ls_recording *latest; /* NULL: never recorded */
} ls_event;

typedef struct {
    ls_task task;
    ls_recording *recording;
} ls_event_task;

static void release(ls_recording *recording) {
    if (recording == NULL || --recording->references > 0)
        return;
    ls_stream_release(recording->stream);
    free(recording);
}

static void run_record(ls_task *task) {
    ls_recording *recording = ((ls_event_task *)task)->recording;
    ls_lock();
    recording->nanoseconds = ls_now();
    recording->done = 1;
    release(recording);
    ls_tell();
    ls_unlock();
}

static void run_wait(ls_task *task) {
    ls_recording *recording = ((ls_event_task *)task)->recording;
    ls_lock();
    while (!recording->done)
        ls_await();
    release(recording);
    ls_unlock();
}

static ls_event *find(aclrtEvent event, const char *argument) {
    return ls_handle_find(LS_EVENT, event, argument);
}

aclError aclrtCreateEvent(aclrtEvent *event) {
    ls_lock();
    aclError status = ls_ready();
    if (status == ACL_SUCCESS && event == NULL)
        status =
            ls_fail(ACL_ERROR_INVALID_PARAM, "event is null: expected an address for the event");
    if (status == ACL_SUCCESS) {
        ls_event *made = calloc(1, sizeof *made);
        void *handle = made != NULL ? ls_handle_open(LS_EVENT, made) : NULL;
        if (handle != NULL) {
            *event = handle;
        } else {
            free(made);
            status = ls_fail(ACL_ERROR_BAD_ALLOC, "no memory for an event");
        }
    }
    ls_unlock();
    return status;
}

static void destroy(aclrtEvent handle, ls_event *event, const char *fate) {
    ls_handle_close(handle, fate);
    release(event->latest);
    free(event);
}

aclError aclrtDestroyEvent(aclrtEvent event) {
    ls_lock();
    ls_event *found = find(event, "event");
    if (found != NULL)
        destroy(event, found, "was destroyed");
    ls_unlock();
    return found != NULL ? ACL_SUCCESS : ACL_ERROR_INVALID_RESOURCE_HANDLE;
}

void ls_events_end(void) {
    size_t position = 0;
    for (void *handle; (handle = ls_handle_next(LS_EVENT, &position)) != NULL;)
        destroy(handle, find(handle, "event"), "was ended by aclFinalize");
}

void ls_events_lose(void) {
    size_t position = 0;
    for (void *handle; (handle = ls_handle_next(LS_EVENT, &position)) != NULL;) {
        ls_recording *recording = find(handle, "event")->latest;
        if (recording != NULL && !recording->done)
            recording->lost = 1;
    }
}

/* ACL_SUCCESS unless the latest recording will never come. */
static aclError check_comes(const ls_event *event, const char *argument) {
    if (event->latest == NULL || !event->latest->lost)
        return ACL_SUCCESS;
    return ls_fail(ACL_ERROR_INVALID_RESOURCE_HANDLE,
        "%s was recorded on a stream that was lost in fork(): expected aclrtRecordEvent on another",
        argument);
}

static aclError record(ls_event *event, ls_stream *stream) {
    ls_event_task *task = malloc(sizeof *task);
    ls_recording *recording = calloc(1, sizeof *recording);
    if (task == NULL || recording == NULL) {
        free(task);
        free(recording);
        return ls_fail(ACL_ERROR_BAD_ALLOC, "no memory to record an event");
    }
    ls_stream_retain(stream);
    recording->stream = stream;
    recording->references = 2; /* the event and the task */
    task->task.run = run_record;
    task->recording = recording;
    recording->number = ls_stream_submit(stream, &task->task);
    release(event->latest);
    event->latest = recording;
    return ACL_SUCCESS;
}

static aclError follow(ls_event *event, ls_stream *stream) {
    ls_recording *recording = event->latest;
    if (recording == NULL)
        return ACL_SUCCESS;
    if (recording->lost)
        return check_comes(event, "event");
    ls_event_task *task = malloc(sizeof *task);
    if (task == NULL)
        return ls_fail(ACL_ERROR_BAD_ALLOC, "no memory to wait for an event");
    recording->references++;
    task->task.run = run_wait;
    task->recording = recording;
    const uint64_t number = ls_stream_submit(stream, &task->task);
    /* Without memory for this note, memory counts as used for longer than it is. */
    ls_stream_follow(stream, number, recording->stream, recording->number);
    return ACL_SUCCESS;
}

static aclError on_stream(
    aclrtEvent event, aclrtStream stream, aclError (*act)(ls_event *event, ls_stream *stream)) {
    ls_lock();
    aclError status = ls_ready();
    if (status == ACL_SUCCESS) {
        ls_event *found = find(event, "event");
        ls_stream *at = found != NULL ? ls_stream_find(stream) : NULL;
        status = at != NULL ? act(found, at) : ACL_ERROR_INVALID_RESOURCE_HANDLE;
    }
    ls_unlock();
    return status;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
    return on_stream(event, stream, record);
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
    return on_stream(event, stream, follow);
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
    ls_lock();
    ls_event *found = find(event, "event");
    const aclError status =
        found != NULL ? check_comes(found, "event") : ACL_ERROR_INVALID_RESOURCE_HANDLE;
    ls_recording *recording = status == ACL_SUCCESS ? found->latest : NULL;
    if (recording != NULL) {
        recording->references++;
        while (!recording->done)
            ls_await();
        ls_stream_see(recording->stream, recording->number);
        release(recording);
    }
    ls_unlock();
    return status;
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status) {
    if (status == NULL)
        return ls_fail(
            ACL_ERROR_INVALID_PARAM, "status is null: expected an address for the status");
    ls_lock();
    ls_event *found = find(event, "event");
    const aclError comes =
        found != NULL ? check_comes(found, "event") : ACL_ERROR_INVALID_RESOURCE_HANDLE;
    if (comes == ACL_SUCCESS) {
        const int done = found->latest != NULL && found->latest->done;
        if (done)
            ls_stream_see(found->latest->stream, found->latest->number);
        *status = done ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    }
    ls_unlock();
    return comes;
}

static aclError measure(float *ms, aclrtEvent start_handle, aclrtEvent end_handle) {
    const ls_event *start = find(start_handle, "startEvent");
    const ls_event *end = start != NULL ? find(end_handle, "endEvent") : NULL;
    if (end == NULL)
        return ACL_ERROR_INVALID_RESOURCE_HANDLE;
    for (int i = 0; i < 2; i++) {
        const ls_event *event = i == 0 ? start : end;
        const char *name = i == 0 ? "startEvent" : "endEvent";
        if (event->latest == NULL)
            return ls_fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                "%s was never recorded: expected aclrtRecordEvent before", name);
        const aclError comes = check_comes(event, name);
        if (comes != ACL_SUCCESS)
            return comes;
        if (!event->latest->done)
            return ls_fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                "%s has not come yet: expected its stream to be synchronized before", name);
    }
    const int64_t elapsed = end->latest->nanoseconds - start->latest->nanoseconds;
    if (elapsed < 0)
        return ls_fail(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "endEvent came before startEvent");
    *ms = (float)((double)elapsed * 1e-6);
    return ACL_SUCCESS;
}

aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent) {
    if (ms == NULL)
        return ls_fail(ACL_ERROR_INVALID_PARAM, "ms is null: expected an address for the time");
    ls_lock();
    const aclError status = measure(ms, startEvent, endEvent);
    ls_unlock();
    return status;
}
