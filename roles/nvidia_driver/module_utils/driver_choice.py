"""Which driver a machine's GPUs can run, and what has to happen next: pure functions."""

import re

# Kepler, by PCI device id; R470 is the last branch that knows it. K10, K20, K20X, K40, K80, GRID K520.
KEPLER = {"118f", "1021", "1022", "1023", "1024", "1026", "1027", "1028", "1029", "102a", "102d", "102e", "118a"}
PACKAGES = {
    "470": [
        "nvidia-tesla-470-kernel-dkms", "nvidia-tesla-470-smi", "libnvidia-tesla-470-cuda1",
        "libnvidia-tesla-470-ptxjitcompiler1", "libnvidia-tesla-470-cfg1", "nvidia-persistenced",
    ],
    "current": [
        "nvidia-kernel-dkms", "nvidia-smi", "libcuda1", "libnvidia-ptxjitcompiler1", "libnvidia-cfg1",
        "nvidia-persistenced",
    ],
}
# What Debian calls the module's file; once loaded it is called nvidia.
MODULES = {"470": "nvidia-tesla-470", "current": "nvidia-current"}
# Which of several installed branches modprobe loads; left alone, Debian takes the newest.
ALTERNATIVES = {"470": "/usr/lib/nvidia/tesla-470", "current": "/usr/lib/nvidia/current"}


class RefusedError(Exception):
    """The machine cannot be given a driver as asked."""


def gpu_ids(devices):
    """Device ids of the NVIDIA GPUs among PCI devices (class, vendor, device; as sysfs writes them).

    Class 0x0300 is a VGA controller, 0x0302 a 3D controller; NVIDIA's sound devices have another one.
    """
    return [
        device.removeprefix("0x") for kind, vendor, device in devices
        if vendor == "0x10de" and kind.startswith(("0x0300", "0x0302"))
    ]


def choose(ids, wanted, count):
    """"470" or "current". Raises RefusedError."""
    if len(ids) != count:
        raise RefusedError(f"nvidia_driver_gpus must be the number of GPUs on the PCI bus, {len(ids)}, got {count}")
    old = sorted(set(ids) & KEPLER)
    if old and len(old) != len(set(ids)):
        raise RefusedError(f"no one driver runs both kinds of GPU here: {', '.join(sorted(set(ids)))}")
    able = "470" if old else "current"
    if old and wanted == "current":
        raise RefusedError(f"branch 470 is the last that knows the GPUs here (PCI id {', '.join(old)}), got {wanted}")
    return wanted or able


def next_step(loaded, built, has_nouveau):
    """What makes the built module the loaded one: "", "load" or "reboot". `loaded` and `built` are versions."""
    if not built:
        raise RefusedError("the driver's module is not built for the running kernel")
    if has_nouveau or (loaded and loaded != built):
        return "reboot"
    return "" if loaded else "load"


def must_choose(branch, query):
    """Whether modprobe loads another branch, by what `update-alternatives --query nvidia` prints.

    A branch that is not among the alternatives yet cannot be chosen.
    """
    found = re.findall(r"^(Value|Alternative): (.*)$", query, flags=re.MULTILINE)
    return ("Alternative", ALTERNATIVES[branch]) in found and ("Value", ALTERNATIVES[branch]) not in found


def compile_errors(log, lines=12):
    """What a failed build says: the compiler's first errors, else the last of make's, else its last lines.

    In a parallel build make goes on telling who else has failed, long after the reason.
    """
    said = log.splitlines()
    errors = [line for line in said if re.search(r"\berror: ", line)]
    stops = [line for line in said if " *** " in line]
    return "\n".join(errors[:lines] or (stops or said)[-lines:])
