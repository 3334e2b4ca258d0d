/* The one lock of the C interface, the condition that everybody waits on, and what fork() leaves.
 *
 * A forked child has the memory of its parent and none of its threads. The lock is taken around
 * fork(), so that the child finds every table whole; the streams, whose threads stayed behind, are
 * lost in it. Its handlers allocate and free nothing: a sanitizer may hold its allocator's lock.
 */
#include "state.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_once_t watched = PTHREAD_ONCE_INIT;

static void before_fork(void) { pthread_mutex_lock(&mutex); }

static void after_fork(void) { pthread_mutex_unlock(&mutex); }

static void begin_child(void) {
    /* Threads that slept here are not in this process; what they left in these is forgotten. */
    pthread_mutex_init(&mutex, NULL);
    pthread_cond_init(&changed, NULL);
    ls_device_lose();
    ls_streams_lose();
    ls_events_lose();
    ls_memory_lose_holds();
}

static void watch(void) { pthread_atfork(before_fork, after_fork, begin_child); }

void ls_lock(void) {
    pthread_once(&watched, watch);
    pthread_mutex_lock(&mutex);
}

void ls_unlock(void) { pthread_mutex_unlock(&mutex); }

void ls_await_on(pthread_cond_t *condition) { pthread_cond_wait(condition, &mutex); }

void ls_await(void) { ls_await_on(&changed); }

void ls_tell(void) { pthread_cond_broadcast(&changed); }
