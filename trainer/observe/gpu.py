"""What the GPUs do, by NVML. The only module that imports pynvml (package nvidia-ml-py).

NVML may be absent, come later, break under a driver's update, lose a device, or take seconds for a call. So a thread of
its own asks, and whoever wants to know gets its last answer, if that is not too old.
"""

import os
import threading
import time
from contextlib import suppress

import pynvml

from trainer.observe.diagnose.gpus import MEASURES

MB = 1e6
# An answer older than this is no answer: the sample then has no `gpus` at all.
STALE_SECONDS = 5.0
# Between two tries to reach a driver that is not there (yet): doubled each time.
RETRY_SECONDS = (1.0, 60.0)
_THERMAL = pynvml.nvmlClocksThrottleReasonSwThermalSlowdown | pynvml.nvmlClocksThrottleReasonHwThermalSlowdown
_POWER = pynvml.nvmlClocksThrottleReasonSwPowerCap | pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown
# Older boards (K80) only say that the hardware slowed down, for heat or power: by the temperature it is heat.
_EITHER = pynvml.nvmlClocksThrottleReasonHwSlowdown
_HOT_CELSIUS = 80
# Memory errors since the driver was loaded that ECC could not correct: the run's numbers may be wrong.
_UNCORRECTED = (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC)
# Errors after which NVML has to be started again.
_BROKEN = (
    pynvml.NVML_ERROR_UNINITIALIZED, pynvml.NVML_ERROR_DRIVER_NOT_LOADED, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
)  # fmt: skip


class GpuReader:
    """Asks NVML once an interval, in a thread that does not keep the process alive."""

    def __init__(self, interval_seconds: float = 1.0):
        self._interval = interval_seconds
        self._answer: tuple[float, list[dict]] | None = None
        self._over = threading.Event()
        self._known: dict[str, dict] = {}  # by PCI bus id: who the devices are, also those that are gone
        self._thread = threading.Thread(target=self._ask_for_ever, name="nvml", daemon=True)
        self._thread.start()

    def latest(self) -> list[dict] | None:
        """Every device by PCI bus id, as samples.jsonl holds it; None when NVML is not there or has not answered.

        A device that was there once stays in the list: gone, it has nulls only, so that the others keep their places.
        """
        answer = self._answer
        return answer[1] if answer and time.monotonic() - answer[0] <= max(STALE_SECONDS, 2 * self._interval) else None

    def close(self) -> None:
        """Does not wait for a call that hangs."""
        self._over.set()
        self._thread.join(timeout=0.2)

    def _ask_for_ever(self) -> None:
        pause = RETRY_SECONDS[0]
        while not self._over.is_set():
            # Whatever NVML does, the next try is all that is left to do.
            with suppress(Exception):
                pynvml.nvmlInit()
                pause = RETRY_SECONDS[0]
                self._ask_while_it_answers()
            with suppress(Exception):
                pynvml.nvmlShutdown()
            self._over.wait(pause)
            pause = min(2 * pause, RETRY_SECONDS[1])

    def _ask_while_it_answers(self) -> None:
        while not self._over.is_set():
            devices = self._devices()
            self._answer = (time.monotonic(), devices)
            self._over.wait(self._interval)

    def _devices(self) -> list[dict]:
        """NVMLError when NVML as a whole no longer answers."""
        living = {}
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = _try(pynvml.nvmlDeviceGetHandleByIndex, index)
            identity = _identity(handle) if handle is not None else None
            if identity is not None:
                living[identity["pci_bus_id"]] = (identity, handle)
        self._known |= {bus: identity for bus, (identity, _) in living.items()}
        return [
            {"index": place, **self._known[bus], **_measures(living[bus][1] if bus in living else None)}
            for place, bus in enumerate(sorted(self._known))
        ]


def _try(call, *arguments):
    """None where the device does not know or is gone; raises when NVML itself has to be started again."""
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        if error.value in _BROKEN:
            raise
        return None


def _identity(handle) -> dict | None:
    """A device that is lost cannot even tell its name."""
    pci = _try(pynvml.nvmlDeviceGetPciInfo, handle)
    if pci is None:
        return None
    bus = pci.busId.decode() if isinstance(pci.busId, bytes) else str(pci.busId)
    return {"uuid": _try(pynvml.nvmlDeviceGetUUID, handle), "pci_bus_id": bus}


def _measures(handle) -> dict:
    """util in %, MB of 10^6 bytes, W, MHz, degrees Celsius; null is what this device cannot tell."""
    if handle is None:
        return {**dict.fromkeys(MEASURES), "throttle": None, "ecc_errors": None}
    util = _try(pynvml.nvmlDeviceGetUtilizationRates, handle)
    memory = _try(pynvml.nvmlDeviceGetMemoryInfo, handle)
    milliwatts = _try(pynvml.nvmlDeviceGetPowerUsage, handle)
    temperature = _try(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)
    return {
        "util": util and util.gpu,
        "mem_used_mb": memory and round(memory.used / MB),
        "mem_total_mb": memory and round(memory.total / MB),
        "power_w": None if milliwatts is None else round(milliwatts / 1000, 1),
        "sm_clock_mhz": _try(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
        "temperature_c": temperature,
        "throttle": _throttle(_try(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle), temperature),
        "ecc_errors": _try(pynvml.nvmlDeviceGetTotalEccErrors, handle, *_UNCORRECTED),
    }


def _throttle(reasons: int | None, temperature: float | None) -> str | None:
    """What holds the clocks down: "thermal", "power", or None for neither (and for a device that does not tell)."""
    if not reasons:
        return None
    if reasons & _THERMAL or (reasons & _EITHER and (temperature or 0) >= _HOT_CELSIUS and not reasons & _POWER):
        return "thermal"
    return "power" if reasons & (_POWER | _EITHER) else None


def used_gpus(devices: list[dict] | None, wanted: list[str]) -> dict:
    """`{"gpus": [...]}` of those that a run uses (`gpu(0)` is the first by PCI bus id), {} while it is not known.

    CUDA_VISIBLE_DEVICES, which the monitor inherits from its trainer, renumbers them. A run on the CPU uses none.
    """
    if not wanted:
        return {}
    numbers = [int(device[4:-1]) for device in wanted if device.startswith("gpu(")]
    if not numbers:
        return {"gpus": []}
    if devices is None:
        return {}
    visible = _visible(devices, os.environ.get("CUDA_VISIBLE_DEVICES"))
    return {"gpus": [visible[number] for number in numbers if number < len(visible)]}


def _visible(devices: list[dict], names: str | None) -> list[dict]:
    """In CUDA's order: by number or by the beginning of the UUID; the first name that fits none ends the list."""
    if names is None:
        return devices
    found = []
    for name in filter(None, map(str.strip, names.split(","))):
        fits = [device for device in devices if str(device["index"]) == name or _has_uuid(device, name)]
        if len(fits) != 1:
            break
        found += fits
    return found


def _has_uuid(device: dict, name: str) -> bool:
    return name.startswith("GPU-") and str(device.get("uuid")).startswith(name)
