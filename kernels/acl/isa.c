/* One library, several instruction sets: the processor is asked before one is entered. */
#include <stdio.h>
#include <string.h>

#include "settings.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* What compilers' names for features leave out: F16C, MOVBE and LZCNT. */
static int has_rest_of_v3(void) {
    unsigned a, b, basic = 0, d, extended = 0;
    if (!__get_cpuid(1, &a, &b, &basic, &d) || !__get_cpuid(0x80000001u, &a, &b, &extended, &d))
        return 0;
    return (basic >> 29 & 1) && (basic >> 22 & 1) && (extended >> 5 & 1);
}

__attribute__((unused)) static int runs_v3(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi")
        && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") && has_rest_of_v3();
}

__attribute__((unused)) static int runs_v4(void) {
    return runs_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
        && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512vl");
}
#endif

__attribute__((unused)) static int runs_always(void) { return 1; }

typedef struct {
    const char *name;
    const ls_compute *compute;
    int (*runs)(void);
} ls_isa;

/* The build defines LS_ISA_... for each that it compiled. */
#ifdef LS_ISA_x86_64_v4
extern const ls_compute ls_compute__x86_64_v4;
#endif
#ifdef LS_ISA_x86_64_v3
extern const ls_compute ls_compute__x86_64_v3;
#endif
#ifdef LS_ISA_x86_64
extern const ls_compute ls_compute__x86_64;
#endif
#ifdef LS_ISA_plain
extern const ls_compute ls_compute__plain;
#endif

/* Best first. */
static const ls_isa SETS[] = {
#ifdef LS_ISA_x86_64_v4
    {"x86_64_v4", &ls_compute__x86_64_v4, runs_v4},
#endif
#ifdef LS_ISA_x86_64_v3
    {"x86_64_v3", &ls_compute__x86_64_v3, runs_v3},
#endif
#ifdef LS_ISA_x86_64
    {"x86_64", &ls_compute__x86_64, runs_always},
#endif
#ifdef LS_ISA_plain
    {"plain", &ls_compute__plain, runs_always},
#endif
};

#define LS_SETS (sizeof SETS / sizeof SETS[0])

const char *ls_isa_choose(const char *name, const ls_compute **compute) {
    char usable[128] = "";
    for (size_t i = 0; i < LS_SETS; i++) {
        if (!SETS[i].runs())
            continue;
        if (name == NULL || strcmp(SETS[i].name, name) == 0) {
            *compute = SETS[i].compute;
            return SETS[i].name;
        }
        const size_t used = strlen(usable);
        snprintf(usable + used, sizeof usable - used, "%s%s", used ? ", " : "", SETS[i].name);
    }
    ls_fail(0, "LSBENCH_ISA is %s: expected one that was built and runs here: %s", name, usable);
    return NULL;
}
