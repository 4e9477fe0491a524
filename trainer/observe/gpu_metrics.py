"""The GPUs of a sample as metrics, each named by its PCI bus id: numbers move when a device is lost."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from trainer.observe.gpu import MB
from trainer.observe.history import is_number
from trainer.observe.metric import counter_by, gauge, gauge_by

# No machine has more; whatever a file says, there are no more series than that.
MOST_GPUS = 64


def gpu_metrics(sample: dict) -> Iterator[Metric]:
    """Nothing for a run without GPUs. A measure that a device cannot tell makes no series."""
    expected = sample.get("gpus_expected")
    if not (is_number(expected) and expected > 0):
        return
    answered = isinstance(sample.get("gpus"), list)
    yield gauge("trainer_gpus_expected", "GPUs that the run asked for", expected)
    yield gauge("trainer_nvml_up", "Whether the driver answers", int(answered))
    if answered:
        yield from _of_each(_by_name(sample["gpus"]))


def _by_name(gpus: list) -> dict[str, dict]:
    known = [entry for entry in gpus if isinstance(entry, dict)][:MOST_GPUS]
    return {str(entry.get("pci_bus_id") or entry.get("uuid") or entry.get("index")): entry for entry in known}


def _of_each(gpus: dict[str, dict]) -> Iterator[Metric]:
    up = {name: int(_answers(entry)) for name, entry in gpus.items()}
    yield gauge("trainer_gpus_answering", "GPUs of the run that answer", sum(up.values()))
    yield gauge_by("trainer_gpu_up", "Whether the GPU answers", "gpu", up)
    for name, help_text, key, factor in _GAUGES:
        yield gauge_by(name, help_text, "gpu", _values(gpus, key, factor))
    errors = _values(gpus, "ecc_errors", 1)
    yield counter_by("trainer_gpu_ecc_errors", "Memory errors that could not be corrected, since the driver was "
                     "loaded", "gpu", errors)  # fmt: skip


def _answers(entry: dict) -> bool:
    """A device that is lost has nulls only."""
    return any(is_number(entry.get(key)) for _, _, key, _ in _GAUGES)


def _values(gpus: dict[str, dict], key: str, factor: float) -> dict[str, float | None]:
    return {name: entry[key] * factor if is_number(entry.get(key)) else None for name, entry in gpus.items()}


_GAUGES = (
    ("trainer_gpu_utilization_ratio", "Share of the time in which any kernel ran; a hung GPU has 1", "util", 0.01),
    ("trainer_gpu_memory_used_bytes", "Memory in use", "mem_used_mb", MB),
    ("trainer_gpu_memory_limit_bytes", "Memory that the GPU has", "mem_total_mb", MB),
    ("trainer_gpu_temperature_celsius", "Temperature", "temperature_c", 1),
    ("trainer_gpu_power_watts", "Power draw", "power_w", 1),
)  # fmt: skip
