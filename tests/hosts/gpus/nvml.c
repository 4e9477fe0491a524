/* A libnvidia-ml.so.1 for hosts without a GPU. /etc/fake-gpus holds what nvmlInit returns (0: success), then one line a
   GPU: MAJOR MINOR NAME. */

#include <stdio.h>
#include <string.h>

#define GPUS 16
static struct { int major, minor; char name[64]; } gpus[GPUS];
static unsigned count;

int nvmlInit_v2(void) {
    FILE *file = fopen("/etc/fake-gpus", "r");
    int code = 9; /* no driver */
    if (!file || fscanf(file, "%d", &code) != 1) return code;
    for (count = 0; count < GPUS; count++)
        if (fscanf(file, "%d %d %63[^\n]", &gpus[count].major, &gpus[count].minor, gpus[count].name) != 3) break;
    fclose(file);
    return code;
}

int nvmlDeviceGetCount_v2(unsigned *result) { *result = count; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) { *handle = &gpus[index]; return index < count ? 0 : 2; }

int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
    *major = ((int *)handle)[0];
    *minor = ((int *)handle)[1];
    return 0;
}

int nvmlDeviceGetName(void *handle, char *name, unsigned length) {
    snprintf(name, length, "%s", (char *)handle + 2 * sizeof(int));
    return 0;
}

int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned length) {
    snprintf(uuid, length, "GPU-%p", handle);
    return 0;
}

const char *nvmlErrorString(int code) { return code == 18 ? "Driver/library version mismatch" : "fake error"; }
