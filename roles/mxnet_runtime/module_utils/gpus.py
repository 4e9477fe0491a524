"""The GPUs of this machine, asked of NVML: there is no Python package of it yet when this is needed."""

import ctypes


class NvmlError(Exception):
    """The driver's library is there and does not answer."""


def gpus_here():
    """[{"name", "uuid", "capability": [major, minor]}] of each GPU; empty where no driver is. Raises NvmlError."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return []
    call(nvml, "nvmlInit_v2")
    count = ctypes.c_uint()
    call(nvml, "nvmlDeviceGetCount_v2", ctypes.byref(count))
    return [gpu(nvml, index) for index in range(count.value)]


def gpu(nvml, index):
    handle, major, minor = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
    call(nvml, "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
    call(nvml, "nvmlDeviceGetCudaComputeCapability", handle, ctypes.byref(major), ctypes.byref(minor))
    return {
        "name": text(nvml, "nvmlDeviceGetName", handle), "uuid": text(nvml, "nvmlDeviceGetUUID", handle),
        "capability": [major.value, minor.value],
    }


def text(nvml, function, handle):
    buffer = ctypes.create_string_buffer(96)
    call(nvml, function, handle, buffer, ctypes.c_uint(len(buffer)))
    return buffer.value.decode()


def call(nvml, function, *arguments):
    code = getattr(nvml, function)(*arguments)
    if code:
        nvml.nvmlErrorString.restype = ctypes.c_char_p
        raise NvmlError(f"{function}: {nvml.nvmlErrorString(code).decode()} (NVML error {code})")
