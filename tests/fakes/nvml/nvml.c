/* A libnvidia-ml.so.1 without a driver: answers from the file that FAKE_NVML names, or else from /etc/fake-nvml, read anew
   at each call.

   Line 1: what nvmlInit returns (0: success). Then one line a device, thirteen whole numbers and a name:
   present util used_mb total_mb power_mw sm_clock_mhz temperature throttle_reasons error delay_ms ecc_errors
   capability_major capability_minor name
   present 0: the device is not counted, and those behind it move up. A measure of -1 is not supported. A util of -1000
   or below: busy and idle in turns of so many ms, odd devices when even ones are not. error: what every call about the
   device but its place returns (15: lost). delay_ms: how long its utilisation takes. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEVICES 64
enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, DRIVER_NOT_LOADED = 9 };
enum { PRESENT, UTIL, USED, TOTAL, POWER, CLOCK, TEMPERATURE, REASONS, ERROR, DELAY, ECC, MAJOR, MINOR, FIELDS };

static int init, count;
static long table[DEVICES][FIELDS];
static char names[DEVICES][64]; /* a handle is the address of its device's name */

static int load(void) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = fopen(path ? path : "/etc/fake-nvml", "r");
    if (!file) return DRIVER_NOT_LOADED;
    if (fscanf(file, "%d", &init) != 1) init = DRIVER_NOT_LOADED;
    for (count = 0; count < DEVICES; count++) {
        int field = 0;
        while (field < FIELDS && fscanf(file, "%ld", &table[count][field]) == 1) field++;
        if (field < FIELDS || fscanf(file, " %63[^\n]", names[count]) != 1) break;
    }
    fclose(file);
    return init;
}

static int place(void *handle) { return (int)((char (*)[sizeof *names])handle - names); }

static int measure(void *handle, int field, long *value) {
    int code = load(), device = place(handle);
    if (code) return code;
    if (device < 0 || device >= count) return INVALID_ARGUMENT;
    if (table[device][ERROR]) return (int)table[device][ERROR];
    if (field == UTIL && table[device][DELAY]) usleep((useconds_t)table[device][DELAY] * 1000);
    *value = table[device][field];
    if (field == UTIL && *value <= -1000) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        long ms = now.tv_sec * 1000L + now.tv_nsec / 1000000L;
        *value = (ms / -*value + device) % 2 ? 100 : 0;
    }
    return *value == -1 ? NOT_SUPPORTED : SUCCESS;
}

int nvmlInit_v2(void) { return load(); }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return load(); }
int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int code) {
    return code == 15 ? "GPU is lost" : code == 18 ? "Driver/library version mismatch" : "fake error";
}

int nvmlDeviceGetCount_v2(unsigned *result) {
    int code = load();
    *result = 0;
    for (int device = 0; device < count; device++) *result += table[device][PRESENT] != 0;
    return code;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    int code = load();
    if (code) return code;
    for (int device = 0; device < count; device++)
        if (table[device][PRESENT] && !index--) {
            *handle = names[device];
            return SUCCESS;
        }
    return INVALID_ARGUMENT;
}

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char text[32]; };

int nvmlDeviceGetPciInfo_v3(void *handle, struct pci *pci) {
    long ignored;
    int code = measure(handle, PRESENT, &ignored), device = place(handle);
    memset(pci, 0, sizeof *pci);
    /* Against the order of the indices: the first index is the highest address. */
    snprintf(pci->text, sizeof pci->text, "00000000:%02X:1E.0", 0x40 - device);
    return code;
}

int nvmlDeviceGetUUID(void *handle, char *text, unsigned length) {
    long ignored;
    int code = measure(handle, PRESENT, &ignored);
    snprintf(text, length, "GPU-%08d-fake", place(handle));
    return code;
}

int nvmlDeviceGetName(void *handle, char *text, unsigned length) {
    long ignored;
    int code = measure(handle, PRESENT, &ignored);
    if (!code) snprintf(text, length, "%s", (char *)handle);
    return code;
}

int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
    long values[2] = {0};
    int code = measure(handle, MAJOR, &values[0]), other = measure(handle, MINOR, &values[1]);
    *major = (int)values[0];
    *minor = (int)values[1];
    return code ? code : other;
}

struct rates { unsigned gpu, memory; };
int nvmlDeviceGetUtilizationRates(void *handle, struct rates *rates) {
    long value = 0;
    int code = measure(handle, UTIL, &value);
    rates->gpu = rates->memory = (unsigned)value;
    return code;
}

struct memory { unsigned long long total, free, used; };
int nvmlDeviceGetMemoryInfo(void *handle, struct memory *memory) {
    long used = 0, total = 0;
    int code = measure(handle, TOTAL, &total), other = measure(handle, USED, &used);
    memory->total = total * 1000000ULL;
    memory->used = used * 1000000ULL;
    memory->free = memory->total - memory->used;
    return code ? code : other;
}

static int number(void *handle, int field, unsigned *result) {
    long value = 0;
    int code = measure(handle, field, &value);
    *result = (unsigned)value;
    return code;
}

int nvmlDeviceGetPowerUsage(void *handle, unsigned *result) { return number(handle, POWER, result); }
int nvmlDeviceGetClockInfo(void *handle, int type, unsigned *result) { (void)type; return number(handle, CLOCK, result); }
int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *result) {
    (void)sensor;
    return number(handle, TEMPERATURE, result);
}

int nvmlDeviceGetTotalEccErrors(void *handle, int type, int counter, unsigned long long *result) {
    long value = 0;
    int code = measure(handle, ECC, &value);
    (void)type, (void)counter;
    *result = (unsigned long long)value;
    return code;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *result) {
    long value = 0;
    int code = measure(handle, REASONS, &value);
    *result = (unsigned long long)value;
    return code;
}
