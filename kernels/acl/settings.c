/* The settings: environment variables, and the products with their data types. */
#if defined(__linux__)
#define _GNU_SOURCE
#include <sched.h>
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "settings.h"

#include "lsbench/lsbench_acl.h"

#define LS_TWO_TYPES (1u << LS_FP32 | 1u << LS_FP16)
#define LS_ALL_TYPES (LS_TWO_TYPES | 1u << LS_BF16)

typedef struct {
    const char *name;
    unsigned types; /* 0: the product does not have the operator */
} ls_product;

/* The operator's page; the first is the default. */
static const ls_product PRODUCTS[] = {
    {"Atlas A2", LS_ALL_TYPES},
    {"Atlas A3", LS_ALL_TYPES},
    {"Atlas inference", LS_TWO_TYPES},
    {"Atlas training", LS_TWO_TYPES},
    {"Ascend 950PR", 0},
    {"Ascend 950DT", 0},
    {"Atlas 200I/500 A2", 0},
};

#define LS_PRODUCTS (sizeof PRODUCTS / sizeof PRODUCTS[0])

static ls_settings now;
static int are_read;

/* The value of a variable; NULL where it is not set or empty. */
static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static aclError read_number(const char *name, uint64_t least, uint64_t most, uint64_t *number) {
    const char *value = variable(name);
    if (value == NULL)
        return ACL_SUCCESS;
    char *end;
    errno = 0;
    const unsigned long long read = strtoull(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != '\0' || errno != 0 || read < least
        || read > most)
        return ls_fail(ACL_ERROR_INVALID_PARAM, "%s is %s: expected %s%llu %s %llu", name, value,
            least + 1 == most ? "" : "a number from ", (unsigned long long)least,
            least + 1 == most ? "or" : "to", (unsigned long long)most);
    *number = read;
    return ACL_SUCCESS;
}

static uint64_t usable_processors(void) {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (uint64_t)CPU_COUNT(&set);
#endif
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint64_t)online : 1;
}

static aclError find_product(const char *argument, const char *name, ls_settings *settings) {
    char known[256] = "";
    for (size_t i = 0; i < LS_PRODUCTS; i++) {
        if (name == NULL || strcmp(PRODUCTS[i].name, name) == 0) {
            settings->product = PRODUCTS[i].name;
            settings->types = PRODUCTS[i].types;
            return ACL_SUCCESS;
        }
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", PRODUCTS[i].name);
    }
    return ls_fail(ACL_ERROR_INVALID_PARAM, "%s is %s: expected one of %s", argument, name, known);
}

static aclError find_kernel(const ls_compute *compute, const char *name, ls_settings *settings) {
    char known[256] = "";
    for (int i = 0; i < compute->count; i++) {
        if (strcmp(compute->kernels[i].name, name) == 0) {
            settings->kernel = &compute->kernels[i];
            return ACL_SUCCESS;
        }
        const size_t used = strlen(known);
        snprintf(
            known + used, sizeof known - used, "%s%s", used ? ", " : "", compute->kernels[i].name);
    }
    return ls_fail(
        ACL_ERROR_INVALID_PARAM, "LSBENCH_ACL_KERNEL is %s: expected one of %s", name, known);
}

static aclError read_all(ls_settings *settings) {
    const ls_compute *compute = NULL;
    const char *kernel = variable("LSBENCH_ACL_KERNEL");
    uint64_t threads = usable_processors(), check = 0;
    settings->isa = ls_isa_choose(variable("LSBENCH_ISA"), &compute);
    aclError status = settings->isa != NULL ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM;
    if (status == ACL_SUCCESS) {
        settings->drive = compute->drive;
        status = find_kernel(compute, kernel != NULL ? kernel : "exact", settings);
    }
    if (status == ACL_SUCCESS)
        status = find_product("LSBENCH_ACL_PRODUCT", variable("LSBENCH_ACL_PRODUCT"), settings);
    if (status == ACL_SUCCESS)
        status = read_number("LSBENCH_ACL_CHECK", 0, 1, &check);
    if (status == ACL_SUCCESS)
        status = read_number("LSBENCH_ACL_THREADS", 1, 256, &threads);
    if (status == ACL_SUCCESS)
        status = read_number("LSBENCH_ACL_WORKSPACE", 0, UINT64_C(1) << 40, &settings->workspace);
    settings->check = (int)check;
    settings->threads = (int)threads;
    return status;
}

aclError ls_settings_read(void) {
    ls_settings read = {.product = NULL};
    const aclError status = read_all(&read);
    if (status == ACL_SUCCESS) {
        now = read;
        are_read = 1;
    }
    return status;
}

const ls_settings *ls_settings_now(void) {
    if (!are_read && ls_settings_read() != ACL_SUCCESS)
        return NULL;
    return &now;
}

const char *lsbenchAclDescribe(void) {
    static _Thread_local char line[128];
    ls_lock();
    const ls_settings *settings = ls_settings_now();
    if (settings != NULL)
        snprintf(line, sizeof line, "lsbench acl: kernel %s (%s)", settings->kernel->name,
            settings->isa);
    ls_unlock();
    return settings != NULL ? line : NULL;
}

aclError lsbenchAclSetProduct(const char *product) {
    if (product == NULL)
        return ls_fail(ACL_ERROR_INVALID_PARAM, "product is null: expected the name of one");
    ls_lock();
    ls_settings changed = {.product = NULL};
    const ls_settings *settings = ls_settings_now();
    aclError status = settings != NULL ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM;
    if (status == ACL_SUCCESS) {
        changed = *settings;
        status = find_product("product", product, &changed);
    }
    if (status == ACL_SUCCESS)
        now = changed;
    ls_unlock();
    return status;
}
