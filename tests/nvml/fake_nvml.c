/* A libnvidia-ml.so.1 that answers from a text file, so that the real pynvml can be driven without a GPU.
 *
 * The file is named by NVML_STUB_FILE and read again on every call: replace it (by a rename) and the next call sees the
 * new GPUs. One `key = value` a line, `#` begins a comment. Before the first GPU: driver, err_init, err_count. A line
 * `gpu = NAME` begins a GPU; after it: uuid, total_mib, used_mib, reserved_mib, err_handle, err_name, err_mem, err_proc,
 * err_mig, mig, mig_devices, and any number of `proc = PID MIB` (or `proc = PID NA`). err_* are NVML's numbers. `hang_ms`,
 * before the first GPU, makes every memory call wait so long. Without a file the driver is not loaded.
 *
 * Compile with -DWITHOUT_MEMORY for a driver too old to have nvmlDeviceGetMemoryInfo.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15, VERSION_MISMATCH = 25
};
enum { MAX_GPUS = 16, MAX_PROCS = 32, TEXT = 96 };
#define MIB ((uint64_t)1 << 20)
#define NO_VALUE (~(uint64_t)0)

typedef struct { uint64_t total, free, used; } memory_v1;
typedef struct { uint32_t version; uint64_t total, reserved, free, used; } memory_v2;
typedef struct { uint32_t pid; uint64_t bytes; uint32_t gpu_instance, compute_instance; } process;

typedef struct {
    char name[TEXT], uuid[TEXT];
    uint64_t total, used, reserved;
    int err_handle, err_name, err_mem, err_proc, err_mig, mig, mig_devices;
    unsigned procs;
    process proc[MAX_PROCS];
} card;

typedef struct {
    char driver[TEXT];
    int present, err_init, err_count, hang_ms;
    unsigned cards;
    card card[MAX_GPUS];
} machine;

static int initialised;

static char *trimmed(char *text) {
    while (*text == ' ' || *text == '\t') text++;
    char *end = text + strlen(text);
    while (end > text && strchr(" \t\r\n", end[-1])) *--end = 0;
    return text;
}

static void store(machine *m, const char *key, const char *value) {
    card *c = m->cards ? &m->card[m->cards - 1] : NULL;
    if (!strcmp(key, "gpu")) {
        if (m->cards == MAX_GPUS) return;
        c = &m->card[m->cards++];
        snprintf(c->name, TEXT, "%s", value);
        snprintf(c->uuid, TEXT, "GPU-stub-%u", m->cards - 1);
        return;
    }
    int number = atoi(value);
    if (!c) {
        if (!strcmp(key, "driver")) snprintf(m->driver, TEXT, "%s", value);
        else if (!strcmp(key, "err_init")) m->err_init = number;
        else if (!strcmp(key, "err_count")) m->err_count = number;
        else if (!strcmp(key, "hang_ms")) m->hang_ms = number;
        return;
    }
    if (!strcmp(key, "uuid")) snprintf(c->uuid, TEXT, "%s", value);
    else if (!strcmp(key, "total_mib")) c->total = strtoull(value, NULL, 10) * MIB;
    else if (!strcmp(key, "used_mib")) c->used = strtoull(value, NULL, 10) * MIB;
    else if (!strcmp(key, "reserved_mib")) c->reserved = strtoull(value, NULL, 10) * MIB;
    else if (!strcmp(key, "err_handle")) c->err_handle = number;
    else if (!strcmp(key, "err_name")) c->err_name = number;
    else if (!strcmp(key, "err_mem")) c->err_mem = number;
    else if (!strcmp(key, "err_proc")) c->err_proc = number;
    else if (!strcmp(key, "err_mig")) c->err_mig = number;
    else if (!strcmp(key, "mig")) c->mig = number;
    else if (!strcmp(key, "mig_devices")) c->mig_devices = number;
    else if (!strcmp(key, "proc") && c->procs < MAX_PROCS) {
        char size[TEXT] = "NA";
        process *p = &c->proc[c->procs++];
        sscanf(value, "%u %95s", &p->pid, size);
        p->bytes = strcmp(size, "NA") ? strtoull(size, NULL, 10) * MIB : NO_VALUE;
        p->gpu_instance = p->compute_instance = 0xffffffffu;
    }
}

static void look(machine *m) {
    memset(m, 0, sizeof *m);
    strcpy(m->driver, "580.0");
    const char *path = getenv("NVML_STUB_FILE");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return;
    m->present = 1;
    char line[512];
    while (fgets(line, sizeof line, file)) {
        char *comment = strchr(line, '#'), *equals;
        if (comment) *comment = 0;
        if (!(equals = strchr(line, '='))) continue;
        *equals = 0;
        store(m, trimmed(line), trimmed(equals + 1));
    }
    fclose(file);
}

/* A handle is 1 + the card's place; a card that is not there any more is lost. */
static int find(machine *m, void *handle, card **found) {
    if (!initialised) return UNINITIALIZED;
    look(m);
    uintptr_t place = (uintptr_t)handle;
    if (!place || place > MAX_GPUS) return INVALID_ARGUMENT;
    if (place > m->cards) return GPU_IS_LOST;
    *found = &m->card[place - 1];
    return SUCCESS;
}

static int give(const char *value, char *into, unsigned room) {
    if (strlen(value) + 1 > room) return INSUFFICIENT_SIZE;
    strcpy(into, value);
    return SUCCESS;
}

int nvmlInitWithFlags(unsigned flags) {
    machine m;
    (void)flags;
    look(&m);
    if (!m.present) return DRIVER_NOT_LOADED;
    if (m.err_init) return m.err_init;
    initialised++;
    return SUCCESS;
}

int nvmlShutdown(void) {
    if (!initialised) return UNINITIALIZED;
    initialised--;
    return SUCCESS;
}

const char *nvmlErrorString(int code) {
    static char text[32];
    snprintf(text, sizeof text, "stub error %d", code);
    return text;
}

int nvmlSystemGetDriverVersion(char *into, unsigned room) {
    machine m;
    if (!initialised) return UNINITIALIZED;
    look(&m);
    return give(m.driver, into, room);
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    machine m;
    if (!initialised) return UNINITIALIZED;
    look(&m);
    *count = m.cards;
    return m.err_count;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    machine m;
    if (!initialised) return UNINITIALIZED;
    look(&m);
    if (index >= m.cards) return INVALID_ARGUMENT;
    *handle = (void *)(uintptr_t)(index + 1);
    return m.card[index].err_handle;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    machine m;
    if (!initialised) return UNINITIALIZED;
    look(&m);
    for (unsigned i = 0; i < m.cards; i++) {
        if (strcmp(m.card[i].uuid, uuid)) continue;
        *handle = (void *)(uintptr_t)(i + 1);
        return m.card[i].err_handle;
    }
    return NOT_FOUND;
}

int nvmlDeviceGetName(void *handle, char *into, unsigned room) {
    machine m;
    card *c;
    int code = find(&m, handle, &c);
    if (code) return code;
    return c->err_name ? c->err_name : give(c->name, into, room);
}

int nvmlDeviceGetUUID(void *handle, char *into, unsigned room) {
    machine m;
    card *c;
    int code = find(&m, handle, &c);
    return code ? code : give(c->uuid, into, room);
}

int nvmlDeviceGetMigMode(void *handle, unsigned *now, unsigned *later) {
    machine m;
    card *c;
    int code = find(&m, handle, &c);
    if (code) return code;
    if (c->err_mig) return c->err_mig;
    *now = *later = c->mig == 1;
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) {
    machine m;
    card *c;
    int code = find(&m, handle, &c);
    if (!code) *count = (unsigned)c->mig_devices;
    return code;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **into) {
    machine m;
    card *c;
    int code = find(&m, handle, &c);
    if (code) return code;
    if (index >= (unsigned)c->mig_devices) return NOT_FOUND;
    *into = handle;
    return SUCCESS;
}

#ifndef WITHOUT_MEMORY
static int ready(machine *m, void *handle, card **c) {
    int code = find(m, handle, c);
    if (code) return code;
    if (m->hang_ms) {
        struct timespec wait = {m->hang_ms / 1000, (m->hang_ms % 1000) * 1000000L};
        nanosleep(&wait, NULL);
    }
    return (*c)->err_mem;
}

int nvmlDeviceGetMemoryInfo(void *handle, memory_v1 *into) {
    machine m;
    card *c;
    int code = ready(&m, handle, &c);
    if (code) return code;
    into->total = c->total;
    into->used = c->used + c->reserved;
    into->free = c->total - into->used;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(void *handle, memory_v2 *into) {
    machine m;
    card *c;
    if (into->version != (sizeof *into | 2u << 24)) return VERSION_MISMATCH;
    int code = ready(&m, handle, &c);
    if (code) return code;
    into->total = c->total;
    into->reserved = c->reserved;
    into->used = c->used;
    into->free = c->total - c->used - c->reserved;
    return SUCCESS;
}
#endif

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, process *into) {
    machine m;
    card *c;
    int code = find(&m, handle, &c);
    if (code) return code;
    if (c->err_proc) return c->err_proc;
    unsigned room = into ? *count : 0;
    *count = c->procs;
    if (room < c->procs) return INSUFFICIENT_SIZE;
    if (c->procs) memcpy(into, c->proc, c->procs * sizeof *into);
    return SUCCESS;
}
