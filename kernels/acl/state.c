/* The one lock of the C interface, and the condition that everybody waits on. */
#include "state.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

void ls_lock(void) { pthread_mutex_lock(&mutex); }

void ls_unlock(void) { pthread_mutex_unlock(&mutex); }

void ls_await_on(pthread_cond_t *condition) { pthread_cond_wait(condition, &mutex); }

void ls_await(void) { ls_await_on(&changed); }

void ls_tell(void) { pthread_cond_broadcast(&changed); }
