"""What systemd is told of a training, by sd_notify; nobody is told where there is no systemd."""

from collections.abc import Callable

from sdnotify import SystemdNotifier

PROGRESS_KINDS = ("step", "validation", "checkpoint")
# To end in after all is saved: reports, and the last look at the second place.
END_SECONDS = 30.0
# A step or a save may take longer than those that were measured: other programs use the disk, too.
SLOWER = 3.0

_notify = SystemdNotifier().notify


def telling_systemd(report: Callable[..., None], stop, notify: Callable[[str], None] = _notify) -> Callable[..., None]:
    """`report` that tells systemd, too: ready with the first step, alive with each further one.

    `stop` (a StopRequest): once somebody asks, systemd hears how long ending will take, by what steps and saves have
    taken so far, so that a TimeoutStopSec that is too short ends no save half-way.
    """
    step_seconds = save_seconds = batch = 0.0

    def stopping(more_seconds: float = 0.0) -> None:
        seconds = SLOWER * (step_seconds + save_seconds) + more_seconds + END_SECONDS
        notify(f"STOPPING=1\nEXTEND_TIMEOUT_USEC={seconds * 1e6:.0f}")

    def reporting(kind: str, **fields) -> None:
        nonlocal step_seconds, save_seconds, batch
        report(kind, **fields)
        if kind == "start":
            batch = fields["batch_size"]
        if kind == "step":
            step_seconds = max(step_seconds, batch / max(fields["images_per_second"], 1e-9))
        if kind == "checkpoint":
            save_seconds = max(save_seconds, fields["seconds"])
        if kind in PROGRESS_KINDS:
            notify(f"READY=1\nWATCHDOG=1\nSTATUS=step {fields['step']:,}")
        if stop:
            stopping(fields["seconds"] if kind == "mirror_wait" else 0.0)

    stop.when_asked(stopping)
    return reporting


def tell_end(words: str) -> None:
    """Of a training that ended in order. Ready, for one that had nothing left to do reports no step."""
    _notify(f"READY=1\nSTATUS={words}")
