/* The libcuda.so.1 of a driver that finds no device: what MXNet's library is linked against, and nothing that computes. */

#define CALL(name) int name(void) { return 100; /* CUDA_ERROR_NO_DEVICE */ }
CALL(cuInit) CALL(cuDeviceGet) CALL(cuDevicePrimaryCtxRetain) CALL(cuGetErrorString) CALL(cuGraphKernelNodeGetParams)
CALL(cuGraphNodeGetType) CALL(cuLaunchKernel) CALL(cuModuleGetFunction) CALL(cuModuleLoadData) CALL(cuModuleLoadDataEx)
CALL(cuModuleUnload)

int cuDriverGetVersion(int *version) { *version = 11040; /* of driver 470 */ return 0; }
