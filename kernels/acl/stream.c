/* Streams: a worker thread each, which does the stream's tasks in order beside the host. */
#include <stdlib.h>

#include "state.h"

/* Tasks from `number` on follow task `other_number` of another stream. */
typedef struct {
    uint64_t number, other_number;
    ls_stream *other;
} ls_follow;

struct ls_stream {
    int references; /* the handle or the default, the worker, uses of memory, recordings */
    int closing;
    ls_stream *next; /* of all streams */
    pthread_t worker;
    pthread_cond_t wake;
    ls_task *first, *last, *running;
    uint64_t submitted, completed;
    uint64_t seen; /* the host has waited for tasks up to this one */
    ls_follow *follows;
    size_t follow_count, follow_room;
};

static ls_stream *default_stream;
/* All that have not been freed, whoever knows them. */
static ls_stream *streams;

void ls_stream_retain(ls_stream *stream) { stream->references++; }

void ls_stream_release(ls_stream *stream) {
    if (--stream->references > 0)
        return;
    for (size_t i = 0; i < stream->follow_count; i++)
        ls_stream_release(stream->follows[i].other);
    free(stream->follows);
    ls_stream **place = &streams;
    while (*place != stream)
        place = &(*place)->next;
    *place = stream->next;
    pthread_cond_destroy(&stream->wake);
    free(stream);
}

static void *work(void *argument) {
    ls_stream *stream = argument;
    ls_lock();
    while (stream->first != NULL || !stream->closing) {
        if (stream->first == NULL) {
            ls_await_on(&stream->wake);
            continue;
        }
        ls_task *task = stream->first;
        stream->first = task->next;
        stream->running = task;
        ls_unlock();
        task->run(task);
        ls_lock();
        stream->completed = task->number;
        stream->running = NULL;
        free(task);
        ls_tell();
    }
    ls_unlock();
    return NULL;
}

static ls_stream *start(void) {
    ls_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL)
        return NULL;
    stream->references = 1;
    stream->next = streams;
    streams = stream;
    pthread_cond_init(&stream->wake, NULL);
    if (pthread_create(&stream->worker, NULL, work, stream) != 0) {
        ls_stream_release(stream);
        return NULL;
    }
    return stream;
}

ls_stream *ls_stream_find(aclrtStream handle) {
    if (handle != NULL)
        return ls_handle_find(LS_STREAM, handle, "stream");
    if (default_stream == NULL && (default_stream = start()) == NULL)
        ls_fail(0, "the default stream cannot be started: the system refuses another thread");
    return default_stream;
}

uint64_t ls_stream_submit(ls_stream *stream, ls_task *task) {
    task->next = NULL;
    task->number = ++stream->submitted;
    if (stream->first == NULL)
        stream->first = task;
    else
        stream->last->next = task;
    stream->last = task;
    pthread_cond_signal(&stream->wake);
    return task->number;
}

int ls_stream_seen(const ls_stream *stream, uint64_t number) { return number <= stream->seen; }

void ls_stream_see(ls_stream *stream, uint64_t number) {
    if (number > stream->seen)
        stream->seen = number;
    for (size_t i = 0; i < stream->follow_count;) {
        const ls_follow follow = stream->follows[i];
        if (follow.number > number) {
            i++;
            continue;
        }
        stream->follows[i] = stream->follows[--stream->follow_count];
        ls_stream_see(follow.other, follow.other_number);
        ls_stream_release(follow.other);
    }
}

int ls_stream_follow(ls_stream *stream, uint64_t number, ls_stream *other, uint64_t other_number) {
    if (stream == other || ls_stream_seen(other, other_number))
        return 1;
    if (stream->follow_count == stream->follow_room) {
        const size_t wanted = stream->follow_room ? 2 * stream->follow_room : 8;
        ls_follow *moved = realloc(stream->follows, wanted * sizeof *moved);
        if (moved == NULL)
            return 0;
        stream->follows = moved;
        stream->follow_room = wanted;
    }
    ls_stream_retain(other);
    stream->follows[stream->follow_count++] = (ls_follow){number, other_number, other};
    return 1;
}

static void wait_for(ls_stream *stream) {
    const uint64_t target = stream->submitted;
    ls_stream_retain(stream);
    while (stream->completed < target)
        ls_await();
    ls_stream_see(stream, target);
    ls_stream_release(stream);
}

/* Let the worker finish its tasks and go (locked; the lock is free meanwhile). */
static void end(ls_stream *stream) {
    stream->closing = 1;
    pthread_cond_signal(&stream->wake);
    ls_unlock();
    pthread_join(stream->worker, NULL);
    ls_lock();
    ls_stream_see(stream, stream->submitted);
    ls_stream_release(stream);
}

void ls_streams_wait(void) {
    size_t position = 0;
    for (void *handle; (handle = ls_handle_next(LS_STREAM, &position)) != NULL;)
        wait_for(ls_handle_find(LS_STREAM, handle, "stream"));
    if (default_stream != NULL)
        wait_for(default_stream);
}

void ls_streams_end(void) {
    size_t position = 0;
    for (void *handle; (handle = ls_handle_next(LS_STREAM, &position)) != NULL;) {
        ls_stream *stream = ls_handle_find(LS_STREAM, handle, "stream");
        ls_handle_close(handle, "was ended by aclFinalize");
        end(stream);
    }
    if (default_stream != NULL) {
        ls_stream *stream = default_stream;
        default_stream = NULL;
        end(stream);
    }
}

/* They keep the reference of their handle, and so are never freed: nobody can tell whether their
 * condition is at rest. */
void ls_streams_lose(void) {
    size_t position = 0;
    for (void *handle; (handle = ls_handle_next(LS_STREAM, &position)) != NULL;)
        ls_handle_close(handle, "was lost in fork(), its thread stayed in the parent");
    default_stream = NULL;
    for (ls_stream *stream = streams; stream != NULL; stream = stream->next)
        stream->seen = UINT64_MAX;
}

static aclError create(aclrtStream *stream) {
    const aclError status = ls_ready();
    if (status != ACL_SUCCESS)
        return status;
    if (stream == NULL)
        return ls_fail(
            ACL_ERROR_INVALID_PARAM, "stream is null: expected an address for the stream");
    ls_stream *made = start();
    void *handle = made != NULL ? ls_handle_open(LS_STREAM, made) : NULL;
    if (handle == NULL) {
        if (made != NULL)
            end(made);
        return ls_fail(
            ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "no stream: the system refuses another thread");
    }
    *stream = handle;
    return ACL_SUCCESS;
}

aclError aclrtCreateStream(aclrtStream *stream) {
    ls_lock();
    const aclError status = create(stream);
    ls_unlock();
    return status;
}

aclError aclrtDestroyStream(aclrtStream stream) {
    aclError status = ACL_ERROR_INVALID_RESOURCE_HANDLE;
    ls_lock();
    ls_stream *found = ls_handle_find(LS_STREAM, stream, "stream");
    if (found != NULL) {
        ls_handle_close(stream, "was destroyed");
        end(found);
        status = ACL_SUCCESS;
    }
    ls_unlock();
    return status;
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
    ls_lock();
    aclError status = ls_ready();
    if (status == ACL_SUCCESS) {
        ls_stream *found = ls_stream_find(stream);
        if (found != NULL)
            wait_for(found);
        else
            status = ACL_ERROR_INVALID_RESOURCE_HANDLE;
    }
    ls_unlock();
    return status;
}

aclError aclrtSynchronizeDevice(void) {
    ls_lock();
    const aclError status = ls_ready();
    if (status == ACL_SUCCESS)
        ls_streams_wait();
    ls_unlock();
    return status;
}
