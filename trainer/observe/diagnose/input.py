"""Devices that wait for data: because of too few decode threads, no processor time left, or the disk."""

import math

from trainer.observe.diagnose.loss import LEAST_SHARE, Loss, ramp
from trainer.observe.diagnose.picture import Picture

# iowait counts only cores without other work, so on a machine of 64 cores a few threads that wait for the disk are a
# few %; what the kernel counts on an unhurried disk stays below 4.
IOWAIT = (4.0, 12.0)
# The same by threads: this part of the decode threads sits in a read.
WAITING_THREADS = (0.3, 0.6)
# A disk this busy has little left; it is the weaker sign, as disks that work in parallel are never full at 100 %.
DISK_UTIL = (80.0, 95.0)
# Cores are never all busy to the last %, and a pipeline is slowed before they are.
CPU_BUSY = (80.0, 95.0)
# With a decode thread for each core, more threads are no help, so less counts as full.
CPU_BUSY_ALL_THREADS = (65.0, 90.0)
# Of this part of the cores, decode threads are few.
FEW_THREADS = 0.25
# How sure waiting is by its share: below 3 % every healthy run has some.
WAIT = (0.03, 0.15)
# Most runs that wait for data, and of whose processor and disk nothing is known, have too few threads.
GUESS_STRENGTH = 0.45


def waiting_share(seen: Picture, others: float) -> tuple[float, float]:
    """The part of the time that devices wait for data, 0-1, and how sure that is; `others`: lost for other reasons.

    What training measures itself counts. Devices that stall for whole readings say the same, when nothing else
    explains it: a device that is only slow, or gets little work at a time, is not idle for so long.
    """
    stalled = max(0.0, seen.gpus.stalled - others)
    if seen.data_wait is not None:
        more = min(stalled, _lost(seen)) if seen.data_wait >= LEAST_SHARE else 0.0
        return max(seen.data_wait, more), ramp(seen.data_wait, *WAIT)
    if seen.gpus.util is not None:
        idle = max(0.0, 1 - seen.gpus.util / 100 - others)
        share = max(stalled, idle) if _has_sign(seen) or stalled >= 2 * LEAST_SHARE else 0.0
        return min(share, max(_lost(seen), LEAST_SHARE)), 0.8 * ramp(share, 0.05, 0.2)
    if seen.roof and _has_sign(seen) and (not seen.gpus.known or seen.gpus.blind):
        return max(0.0, _lost(seen) - others), 0.5 * ramp(_lost(seen), 0.05, 0.2)
    return 0.0, 0.0


def _lost(seen: Picture) -> float:
    """By the roof; without one anything may be lost."""
    return 1.0 if seen.attained is None else 1 - seen.attained


def _has_sign(seen: Picture) -> bool:
    """Whether processor, disk or threads look like an input that cannot keep up."""
    weights = input_weights(seen)
    return max(weights["disk"], weights["cpu"]) >= 0.5 or (few_threads(seen) and (seen.idle or 0) >= 50)


def few_threads(seen: Picture) -> bool:
    return bool(seen.decode_threads and seen.cores and seen.decode_threads <= FEW_THREADS * seen.cores)


def input_weights(seen: Picture) -> dict[str, float]:
    """How much of the waiting each kind accounts for; together 1."""
    disk = max(
        ramp(seen.iowait, *IOWAIT),
        _threads_in_reads(seen),
        ramp(seen.disk_util, *DISK_UTIL),
        0.9 * (seen.cold and (seen.busy is None or seen.busy < CPU_BUSY[0])),
    )
    all_threads = bool(seen.decode_threads and seen.cores and seen.decode_threads >= seen.cores > 2)
    cpu = ramp(seen.busy, *(CPU_BUSY_ALL_THREADS if all_threads else CPU_BUSY))
    # Cores that are all busy leave no idle time that could count as iowait: then it is no sign for them either.
    disk, cpu = disk * (1 - 0.6 * cpu), cpu * (1 - 0.4 * disk)
    weights = {"disk": disk, "cpu": cpu, "decode": max(0.0, 1 - disk - cpu)}
    total = sum(weights.values())
    return {kind: weight / total for kind, weight in weights.items()}


def _threads_in_reads(seen: Picture) -> float:
    """The sign of few threads on many cores, where the share of all cores says nothing."""
    if not (seen.iowait and seen.cores and seen.decode_threads) or (seen.disk_util or 100) < 50 or seen.iowait < 1.5:
        return 0.0
    return ramp(seen.iowait / 100 * seen.cores / seen.decode_threads, *WAITING_THREADS)


def input_losses(seen: Picture, share: float, strength: float) -> list[Loss]:
    """`share` of the time, split by kind; kinds that account for less than a fifth are left out."""
    if share < LEAST_SHARE:
        return []
    if not _knows_why(seen):
        advice = "Sample processor and disk, too (docs/samples.md): they tell threads, processor and disk apart."
        return [Loss("unknown", share, 0.5 * strength, _evidence_of_waiting(seen), advice)]
    weights = {kind: weight for kind, weight in input_weights(seen).items() if weight >= 0.2}
    total = sum(weights.values())
    makers = {"disk": _disk, "cpu": _cpu, "decode": _decode}
    waits = _evidence_of_waiting(seen)
    return [makers[kind](seen, share * weight / total, strength, waits) for kind, weight in weights.items()]


def _knows_why(seen: Picture) -> bool:
    known = (seen.busy, seen.iowait, seen.disk_util, seen.decode_threads)
    return seen.cold or any(value is not None for value in known)


def _evidence_of_waiting(seen: Picture) -> tuple[str, ...]:
    lines = []
    if seen.data_wait is not None:
        lines.append(f"training waits for data {100 * seen.data_wait:.0f} % of the time")
    if seen.gpus.stalled >= LEAST_SHARE:
        lines.append(
            f"the GPUs fall idle in turns: idle in {100 * seen.gpus.stalled:.0f} % of the readings, and between "
            f"{100 * seen.gpus.switches:.0f} % of neighbouring ones they go from busy to idle or back "
            f"(their average of {seen.gpus.util:.0f} % hides it)"
        )
    return tuple(lines)


def _cpu_line(seen: Picture) -> tuple[str, ...]:
    known = [
        f"{value:.1f} % {name}"
        for name, value in (("idle", seen.idle), ("iowait", seen.iowait), ("busy", seen.busy))
        if value is not None
    ]
    cores = f" of {seen.cores:g} cores" if seen.cores else ""
    threads = f"; {seen.decode_threads:g} decode threads" if seen.decode_threads else ""
    return (f"processor: {', '.join(known)}{cores}{threads}",) if known or threads else ()


def _disk_line(seen: Picture) -> tuple[str, ...]:
    rate = [f"reads {seen.read_mb_s:.1f} MB/s"] if seen.read_mb_s is not None else []
    util = [f"busy {seen.disk_util:.0f} % of the time"] if seen.disk_util is not None else []
    lines = [f"disk: {', '.join(rate + util)}"] if rate or util else []
    return (*lines, *(["the volume has not been read before (cold)"] if seen.cold else []))


def _decode(seen: Picture, share: float, strength: float, waits: tuple[str, ...]) -> Loss:
    certain = GUESS_STRENGTH + 0.25 * ramp(seen.idle, 10, 30) + 0.1 * few_threads(seen)
    certain += 0.1 * (seen.iowait is not None) + 0.1 * (None not in (seen.idle, seen.disk_util))
    return Loss(
        "input_bound_decode", share, strength * min(certain, 1.0), (*waits, *_cpu_line(seen), *_disk_line(seen)),
        _more_threads(seen, share),
    )


def _more_threads(seen: Picture, share: float) -> str:
    ask = "`python -m trainer tune` finds the fewest decode threads that feed the devices"
    if seen.decode_threads and (seen.decode_threads_asked or 0) > seen.decode_threads:
        return (
            f"{seen.decode_threads_asked:g} decode threads are asked for, {seen.decode_threads:g} decode: MXNet's "
            "iterator uses half of the processors that it sees at most. Take input_engine = \"kit\", and look whether "
            "the process may use all processors (taskset, a container's or a unit's limits)."
        )
    if not seen.decode_threads:
        return f"Raise decode_threads: the processor has time left. {ask}."
    want = math.ceil(1.25 * seen.decode_threads / max(1 - share, 0.1))
    most = int(seen.cores) if seen.cores else want
    if seen.decode_threads >= most:
        return (
            f"There is a decode thread for each core already ({seen.decode_threads:g}), and yet cores idle: look for "
            "what they wait for (a lock, a network file system), or pack the pictures smaller (pack --resize 256)."
        )
    return (
        f"Raise decode_threads from {seen.decode_threads:g} to {min(want, most)} or more"
        f"{f' (there are {seen.cores:g} cores)' if seen.cores else ''}; {ask}."
    )


def _cpu(seen: Picture, share: float, strength: float, waits: tuple[str, ...]) -> Loss:
    advice = (
        "The processor is the limit: pack the pictures smaller (pack --resize 256 halves the work or better), end what "
        "else computes on this machine, or rent one with more cores for each GPU. More decode threads do not help."
    )
    if few_threads(seen):
        advice = (
            f"{seen.decode_threads:g} decode threads cannot fill {seen.cores:g} cores: other processes do. End them "
            "(`top` lists them), then look again."
        )
    certain = 0.95 if seen.idle is not None else 0.7
    return Loss("input_bound_cpu", share, strength * certain, (*waits, *_cpu_line(seen), *_disk_line(seen)), advice)


def _disk(seen: Picture, share: float, strength: float, waits: tuple[str, ...]) -> Loss:
    signs = [ramp(seen.iowait, *IOWAIT) or _threads_in_reads(seen), ramp(seen.disk_util, *DISK_UTIL), float(seen.cold)]
    certain = min(1.0, 0.6 + 0.2 * sum(sign > 0.3 for sign in signs))
    if seen.cold:
        advice = (
            "The volume is read for the first time, which is slow when it comes from a snapshot: read the .rec file "
            "once (cat FILE > /dev/null) or wait until an epoch has done so, then look again."
        )
    else:
        advice = (
            "The disk is the limit: use a faster volume (more MB/s, not more GB), a local disk, or smaller records "
            "(pack --resize 256); a file that fits into memory is read once."
        )
    return Loss("input_bound_disk", share, strength * certain, (*waits, *_disk_line(seen), *_cpu_line(seen)), advice)
