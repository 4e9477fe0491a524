"""Why a trainer ended without a word: from its lease, its crash.txt, the kernel's counters and the events."""

import socket

from trainer import crash
from trainer.machine import boot_id, memory_kills
from trainer.observe import events
from trainer.run import Run


def why(run: Run, lease: dict | None) -> dict | None:
    """The fields of an `interrupted` event; None when the last trainer ended in order, or its end has been told.

    lease: what the last trainer left (`trainer.lease.last`), None on a machine that has only its events.
    reason: "crash" (with `signal` and, where known, `where` in the Python code), "out_of_memory" (since the trainer's
    last sign of life, the kernel has ended some process of this machine for lack of memory), "host_restarted",
    "host_lost" (it ran on another machine), "killed" (none of these: SIGKILL, or a second request to stop). step: the
    last one known.
    seen: unix seconds of its last sign of life. host: where it ran.
    """
    log = list(events.read(run.events))
    told = next((event for event in reversed(log) if event.get("kind") in ("start", "stop", "interrupted")), {})
    if lease is None:
        return _ended(log, told, {}) if told.get("kind") == "start" else None
    began_after = lease.get("started", 0) > told.get("t", 0)
    if lease.get("ended") or not (told.get("kind") == "start" or began_after):
        return None
    return _ended(log, told, lease) | _cause(run, lease)


def _ended(log: list[dict], told: dict, lease: dict) -> dict:
    """All but the cause, which without a lease can only be the machine."""
    host = lease.get("host") or told.get("host")
    steps = (event["step"] for event in reversed(log) if event.get("kind") in ("step", "checkpoint", "stop"))
    return {
        "reason": "killed" if host == socket.gethostname() else "host_lost",
        "host": host,
        "step": next(steps, None),
        "seen": max(lease.get("heartbeat", 0), log[-1]["t"] if log else 0),
    }


def _cause(run: Run, lease: dict) -> dict:
    if crashed := crash.left_by(run):
        return {"reason": "crash", **crashed}
    if lease.get("host") != socket.gethostname():
        return {"reason": "host_lost"}
    if lease.get("boot_id") != boot_id():
        return {"reason": "host_restarted"}
    before, now = lease.get("memory_kills"), memory_kills()
    if before is not None and now is not None and now > before:
        return {"reason": "out_of_memory"}
    return {"reason": "killed"}


def words(interrupted: dict) -> str:
    """The same as a sentence."""
    what = _WORDS.get(interrupted.get("reason"), "it ended without a word").format(
        host=interrupted.get("host"), signal=interrupted.get("signal")
    )
    if interrupted.get("where"):
        what += f" at {interrupted['where']}"
    step = interrupted.get("step")
    return what if step is None else f"{what}, after step {step:,}"


_WORDS = {
    "crash": "it crashed ({signal})",
    "out_of_memory": "perhaps memory ran out: since its last sign of life, the kernel ended a process on {host} for it",
    "host_restarted": "its machine {host} was restarted",
    "host_lost": "its machine {host} was lost or left",
    "killed": "it was killed",
}
