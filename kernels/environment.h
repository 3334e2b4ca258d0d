/* The calling thread's floating-point control state: rounding direction, FTZ and DAZ. */
#ifndef LSBENCH_ENVIRONMENT_H
#define LSBENCH_ENVIRONMENT_H

#include <fenv.h>

#if defined(__x86_64__) || defined(__SSE2__)
#include <xmmintrin.h>
#elif defined(__aarch64__)
#include <stdint.h>
#endif

/* Bits of the state. aarch64 has one flag, FZ, for inputs and results alike. */
enum { LS_FTZ = 1, LS_DAZ = 2 };

/* The flush flags that are set, or -1 where this build cannot read them. */
static inline int ls_get_flush(void) {
#if defined(__x86_64__) || defined(__SSE2__)
    const unsigned int control = _mm_getcsr();
    return (control & 0x8000u ? LS_FTZ : 0) | (control & 0x0040u ? LS_DAZ : 0);
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control & (UINT64_C(1) << 24) ? LS_FTZ | LS_DAZ : 0;
#else
    return -1;
#endif
}

/* Set the flush flags of the calling thread; returns 0 where this build cannot. */
static inline int ls_set_flush(int flags) {
#if defined(__x86_64__) || defined(__SSE2__)
    const unsigned int control = _mm_getcsr() & ~0x8040u;
    _mm_setcsr(control | (flags & LS_FTZ ? 0x8000u : 0u) | (flags & LS_DAZ ? 0x0040u : 0u));
    return 1;
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    control &= ~(UINT64_C(1) << 24);
    control |= flags ? UINT64_C(1) << 24 : 0;
    __asm__ volatile("msr fpcr, %0" : : "r"(control));
    return 1;
#else
    return flags == 0;
#endif
}

/* 0 to nearest, 1 downward, 2 upward, 3 toward zero. */
static inline int ls_get_direction(void) {
    switch (fegetround()) {
    case FE_DOWNWARD:
        return 1;
    case FE_UPWARD:
        return 2;
    case FE_TOWARDZERO:
        return 3;
    default:
        return 0;
    }
}

static inline int ls_set_direction(int direction) {
    static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    return direction >= 0 && direction < 4 && fesetround(modes[direction]) == 0;
}

#endif
