/* What the files of the C interface share: one lock, messages, handles, memory, streams.
 *
 * One mutex guards every table and every queue; it is never held while elements are computed or
 * bytes are copied. Functions marked (locked) expect the caller to hold it.
 */
#ifndef LSBENCH_ACL_STATE_H
#define LSBENCH_ACL_STATE_H

#include <pthread.h>
#include <stdint.h>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"

#if defined(__GNUC__)
#define LS_LIKE_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define LS_LIKE_PRINTF(text, first)
#endif

/* ---- lock (state.c) ---- */
void ls_lock(void);
void ls_unlock(void);
/* Sleep until ls_tell is called somewhere (locked; the lock is free meanwhile). */
void ls_await(void);
void ls_await_on(pthread_cond_t *condition);
/* Wake all who sleep in ls_await. */
void ls_tell(void);

/* ---- messages (message.c) ---- */
/* Leave words for aclGetRecentErrMsg and return the status. */
int ls_fail(int status, const char *format, ...) LS_LIKE_PRINTF(2, 3);
/* "1 byte", "2 bytes" */
typedef struct {
    char text[48];
} ls_count_text;
ls_count_text ls_write_count(uint64_t count, const char *noun);

/* ---- device (device.c) ---- */
/* ACL_SUCCESS, or why the runtime cannot be used yet (locked). */
int ls_ready(void);

/* ---- handles (handles.c) ----
 * A handle is an index and a generation dressed as an address that no memory can have. It is
 * looked up, never followed: a stale or foreign one is told from a live one. */
typedef enum { LS_TENSOR, LS_EXECUTOR, LS_STREAM, LS_EVENT, LS_KINDS } ls_kind;

/* NULL where memory is short (locked). */
void *ls_handle_open(ls_kind kind, void *object);
/* The object; NULL, and a message that names the argument, for any other address (locked). */
void *ls_handle_find(ls_kind kind, const void *handle, const char *argument);
/* `fate` is a constant: what a later use is told ("was destroyed") (locked). */
void ls_handle_close(const void *handle, const char *fate);
/* Whether it is alive, without a message (locked). */
int ls_handle_lives(const void *handle);
/* The next live handle of a kind at or after *position, which is moved past it; NULL at the end
 * (locked). */
void *ls_handle_next(ls_kind kind, size_t *position);

/* ---- streams (stream.c) ---- */
typedef struct ls_stream ls_stream;

/* Work of a stream; what it needs follows in a struct whose first member this is. `run` is called
 * without the lock and must leave the task to be freed. */
typedef struct ls_task {
    struct ls_task *next;
    uint64_t number;
    void (*run)(struct ls_task *task);
} ls_task;

/* The stream of a handle, NULL being the default one; NULL and a message otherwise (locked). */
ls_stream *ls_stream_find(aclrtStream handle);
/* Queue a task; returns its number in the stream, counted from 1 (locked). */
uint64_t ls_stream_submit(ls_stream *stream, ls_task *task);
void ls_stream_retain(ls_stream *stream);
void ls_stream_release(ls_stream *stream);
/* Whether the host has waited for a task (locked). */
int ls_stream_seen(const ls_stream *stream, uint64_t number);
/* Record that the host has waited for all tasks up to `number`, and with them for those of other
 * streams that they waited for (locked). */
void ls_stream_see(ls_stream *stream, uint64_t number);
/* Record that tasks from `number` on follow task `other_number` of another stream (locked). */
int ls_stream_follow(ls_stream *stream, uint64_t number, ls_stream *other, uint64_t other_number);
/* Wait for all streams (locked). */
void ls_streams_wait(void);
/* End all streams; their work is done first (locked). */
void ls_streams_end(void);

/* ---- memory (memory.c) ---- */
typedef struct ls_allocation ls_allocation;

/* The allocation that holds an address, or NULL (locked). */
ls_allocation *ls_memory_at(const void *address);
/* The allocation that holds bytes [address, address + bytes), of device or host memory; NULL and a
 * message that names the argument where there is none (locked). */
ls_allocation *ls_memory_find(const char *argument, const void *address, size_t bytes, int device);
/* Whether bytes that start in no allocation can be host memory: they exist, and none of them is the
 * device's, another allocation's or freed; 0 and a message otherwise (locked). */
int ls_memory_check_foreign(const char *argument, const void *address, size_t bytes);
int ls_memory_is_device(const ls_allocation *allocation);
/* The number that no other allocation had or will have, whatever its address; 0 for NULL (locked).
 */
uint64_t ls_memory_serial(const ls_allocation *allocation);
/* Note that a task uses an allocation, which cannot be freed before the host has waited for it
 * (locked). */
void ls_memory_use(ls_allocation *allocation, ls_stream *stream, uint64_t number, int writes);
/* Whether a task that the host has not waited for uses it, or writes it (locked). */
int ls_memory_is_used(ls_allocation *allocation);
int ls_memory_is_written(const ls_allocation *allocation);
/* Forbid to free it, and allow that again (locked). */
void ls_memory_hold(ls_allocation *allocation);
void ls_memory_let_go(ls_allocation *allocation);
/* List on stderr what is allocated; returns how many (locked). */
size_t ls_memory_list(void);
/* The same of tensors that are alive (tensor.c). */
size_t ls_tensors_list(void);

/* ---- what a forked child has lost (called in it, with no other thread there) ---- */
/* The device is to be set anew. */
void ls_device_lose(void);
/* Streams have no worker any more; what they were to do is not done. */
void ls_streams_lose(void);
/* Events that had not come will not come. */
void ls_events_lose(void);
/* Nobody copies any more. */
void ls_memory_lose_holds(void);

/* ---- what aclFinalize ends (locked) ---- */
void ls_events_end(void);
void ls_tensors_end(void);
void ls_executors_end(void);

#endif
