/* A stand-in for libnvidia-ml.so.1 that plays a scenario, for tests on machines without a GPU.
 *
 * The file that NVML_STUB_SCENARIO names is read at nvmlInit. Lines:
 *   init CODE                     nvmlInit fails with this code
 *   gpus N                        how many GPUs there are (1)
 *   name INDEX TEXT               what one is called (NVIDIA H100 80GB HBM3)
 *   width W / generation G        of the PCIe link now (16, 5)
 *   mig                           the GPUs are split, each into one instance
 *   unsupported WORD              of: utilization memory power clock temperature throttle pcie processes processes_v3
 *                                 limits link pci
 *   lost INDEX SECOND             a GPU falls off its bus
 *   clock PATH                    the time in seconds is read from this file, instead of passing since nvmlInit
 *   row SECOND GPU UTIL MEMUTIL MEMORY_MB WATTS MHZ CELSIUS THROTTLE_HEX RX_KB TX_KB
 *   process SECOND GPU PID MEMORY_MB     is on a GPU from then on
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, LOST = 15 };
enum { MOST_GPUS = 16, MOST_ROWS = 4096 };

typedef struct device { int index; } *handle;
typedef struct {
    double second;
    int gpu;
    unsigned util, memutil, watts, mhz, celsius, rx, tx;
    unsigned long long megabytes, throttle;
} row;
typedef struct { double second; int gpu; unsigned pid; unsigned long long megabytes; } occupant;

static struct device devices[2 * MOST_GPUS]; /* the second half are the instances of the first */
static char names[MOST_GPUS][96];
static double lost_at[MOST_GPUS];
static row rows[MOST_ROWS];
static occupant occupants[MOST_ROWS];
static int gpus, row_count, occupant_count, mig, init_code, width, generation;
static char unsupported[512], clock_path[1024];
static double began;

static double monotonic(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static double now(void) {
    double second = 0;
    FILE *file;
    if (!clock_path[0]) return monotonic() - began;
    file = fopen(clock_path, "r");
    if (file) {
        if (fscanf(file, "%lf", &second) != 1) second = 0;
        fclose(file);
    }
    return second;
}

static void read_line(const char *line) {
    char word[64] = "", rest[1024] = "";
    int index;
    double second;
    row r = {0};
    occupant o = {0};
    sscanf(line, "%63s %1023[^\n]", word, rest);
    if (!strcmp(word, "init")) init_code = atoi(rest);
    else if (!strcmp(word, "gpus")) gpus = atoi(rest) > MOST_GPUS ? MOST_GPUS : atoi(rest);
    else if (!strcmp(word, "width")) width = atoi(rest);
    else if (!strcmp(word, "generation")) generation = atoi(rest);
    else if (!strcmp(word, "mig")) mig = 1;
    else if (!strcmp(word, "clock")) snprintf(clock_path, sizeof clock_path, "%s", rest);
    else if (!strcmp(word, "unsupported") && strlen(unsupported) + strlen(rest) + 3 < sizeof unsupported) {
        strcat(unsupported, " ");
        strcat(unsupported, rest);
        strcat(unsupported, " ");
    } else if (!strcmp(word, "name") && sscanf(rest, "%d", &index) == 1 && index < MOST_GPUS && strchr(rest, ' '))
        snprintf(names[index], sizeof names[index], "%.90s", strchr(rest, ' ') + 1);
    else if (!strcmp(word, "lost") && sscanf(rest, "%d %lf", &index, &second) == 2 && index < MOST_GPUS)
        lost_at[index] = second;
    else if (!strcmp(word, "row") && row_count < MOST_ROWS &&
             sscanf(rest, "%lf %d %u %u %llu %u %u %u %llx %u %u", &r.second, &r.gpu, &r.util, &r.memutil, &r.megabytes,
                    &r.watts, &r.mhz, &r.celsius, &r.throttle, &r.rx, &r.tx) == 11)
        rows[row_count++] = r;
    else if (!strcmp(word, "process") && occupant_count < MOST_ROWS &&
             sscanf(rest, "%lf %d %u %llu", &o.second, &o.gpu, &o.pid, &o.megabytes) == 4)
        occupants[occupant_count++] = o;
}

int nvmlInitWithFlags(unsigned flags) {
    const char *path = getenv("NVML_STUB_SCENARIO");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[2048];
    (void)flags;
    gpus = 1;
    row_count = occupant_count = mig = init_code = 0;
    width = 16;
    generation = 5;
    unsupported[0] = clock_path[0] = 0;
    began = monotonic();
    for (int i = 0; i < MOST_GPUS; i++) {
        devices[i].index = i;
        devices[MOST_GPUS + i].index = MOST_GPUS + i;
        lost_at[i] = 1e18;
        strcpy(names[i], "NVIDIA H100 80GB HBM3");
    }
    while (file && fgets(line, sizeof line, file)) read_line(line);
    if (file) fclose(file);
    return init_code;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == NOT_SUPPORTED ? "Not Supported" : "Error of the stub"; }

/* Whether a device answers a question of this kind. */
static int answer(handle device, const char *kind) {
    char padded[64];
    if (device->index < MOST_GPUS && now() >= lost_at[device->index]) return LOST;
    snprintf(padded, sizeof padded, " %s ", kind);
    return strstr(unsupported, padded) ? NOT_SUPPORTED : OK;
}
#define ASK(kind) do { int code = answer(device, kind); if (code) return code; } while (0)

static row current(handle device) {
    row found = {0};
    double time = now();
    found.watts = 70;
    found.mhz = 210;
    found.celsius = 35;
    for (int i = 0; i < row_count; i++)
        if (rows[i].gpu == device->index && rows[i].second <= time) found = rows[i];
    return found;
}

int nvmlDeviceGetCount_v2(unsigned *count) { *count = gpus; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, handle *device) {
    if ((int)index >= gpus) return INVALID;
    *device = &devices[index];
    return OK;
}
int nvmlDeviceGetName(handle device, char *text, unsigned length) {
    snprintf(text, length, "%s", names[device->index]);
    return OK;
}
int nvmlDeviceGetUUID(handle device, char *text, unsigned length) {
    int instance = device->index >= MOST_GPUS;
    snprintf(text, length, "%s-00000000-0000-0000-0000-%012d", instance ? "MIG" : "GPU", device->index % MOST_GPUS);
    return OK;
}
int nvmlDeviceGetMigMode(handle device, unsigned *mode, unsigned *pending) {
    (void)device;
    *mode = *pending = mig;
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(handle device, unsigned *count) { (void)device; *count = 7; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(handle device, unsigned index, handle *instance) {
    if (index) return NOT_FOUND;
    *instance = &devices[MOST_GPUS + device->index];
    return OK;
}

typedef struct { unsigned gpu, memory; } utilization;
int nvmlDeviceGetUtilizationRates(handle device, utilization *out) {
    ASK("utilization");
    if (mig) return NOT_SUPPORTED;
    out->gpu = current(device).util;
    out->memory = current(device).memutil;
    return OK;
}
typedef struct { unsigned long long total, free, used; } memory;
int nvmlDeviceGetMemoryInfo(handle device, memory *out) {
    ASK("memory");
    out->total = 81559ull << 20;
    out->used = current(device).megabytes << 20;
    out->free = out->total - out->used;
    return OK;
}
int nvmlDeviceGetPowerUsage(handle device, unsigned *out) { ASK("power"); *out = current(device).watts * 1000; return OK; }
int nvmlDeviceGetPowerManagementLimit(handle device, unsigned *out) { ASK("limits"); *out = 500000; return OK; }
int nvmlDeviceGetPowerManagementDefaultLimit(handle device, unsigned *out) { ASK("limits"); *out = 700000; return OK; }
int nvmlDeviceGetClockInfo(handle device, int kind, unsigned *out) {
    ASK("clock");
    *out = kind == 1 ? current(device).mhz : 0;
    return OK;
}
int nvmlDeviceGetMaxClockInfo(handle device, int kind, unsigned *out) {
    ASK("limits");
    *out = kind == 1 ? 1980 : 0;
    return OK;
}
int nvmlDeviceGetTemperature(handle device, int sensor, unsigned *out) {
    (void)sensor;
    ASK("temperature");
    *out = current(device).celsius;
    return OK;
}
/* A driver before 535: the newer name of this question is missing. */
int nvmlDeviceGetCurrentClocksThrottleReasons(handle device, unsigned long long *out) {
    ASK("throttle");
    *out = current(device).throttle;
    return OK;
}
int nvmlDeviceGetPcieThroughput(handle device, int counter, unsigned *out) {
    ASK("pcie");
    *out = counter == 0 ? current(device).tx : current(device).rx;
    return OK;
}
int nvmlDeviceGetCurrPcieLinkGeneration(handle device, unsigned *out) {
    ASK("link");
    *out = current(device).util ? generation : 1; /* links slow down while a GPU idles */
    return OK;
}
int nvmlDeviceGetCurrPcieLinkWidth(handle device, unsigned *out) { ASK("link"); *out = width; return OK; }
int nvmlDeviceGetMaxPcieLinkGeneration(handle device, unsigned *out) { ASK("link"); *out = 5; return OK; }
int nvmlDeviceGetMaxPcieLinkWidth(handle device, unsigned *out) { ASK("link"); *out = 16; return OK; }

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci;
int nvmlDeviceGetPciInfo_v3(handle device, pci *out) {
    ASK("pci");
    memset(out, 0, sizeof *out);
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", 0x1A + device->index);
    return OK;
}

typedef struct { unsigned pid; unsigned long long bytes; unsigned instance, compute; } process;
int nvmlDeviceGetComputeRunningProcesses_v2(handle device, unsigned *count, process *out) {
    unsigned room = *count, found = 0;
    double time;
    ASK("processes");
    time = now();
    for (int i = 0; i < occupant_count; i++) {
        if (occupants[i].gpu != device->index || occupants[i].second > time) continue;
        if (found < room && out) {
            out[found].pid = occupants[i].pid;
            out[found].bytes = occupants[i].megabytes << 20;
            out[found].instance = out[found].compute = ~0u;
        }
        found++;
    }
    *count = found;
    return found > room ? TOO_SMALL : OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(handle device, unsigned *count, process *out) {
    ASK("processes_v3");
    return nvmlDeviceGetComputeRunningProcesses_v2(device, count, out);
}
