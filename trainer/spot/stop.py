"""The stop path: whatever asks, training finishes its step, writes a checkpoint and exits with 0."""

import os
import signal
import socket
import threading
import time
from collections import deque


class StopRequest:
    """Who asked training to stop, or to write a checkpoint and go on. Any thread may ask; nothing here waits.

    The loop looks at it between steps, inside validation and while it waits for data. True once somebody asked.
    """

    def __init__(self):
        # Appending is atomic, so neither a thread nor a signal handler needs a lock (which could be held already).
        self._asked: deque[tuple[str, float]] = deque()
        self._deadlines: deque[float] = deque()
        self._saves: deque[str] = deque()

    def ask(self, reason: str, deadline: float | None = None) -> None:
        """Asks to stop. deadline: time.monotonic() by which the machine is gone."""
        if deadline is not None:
            self._deadlines.append(deadline)
        self._asked.append((reason, time.monotonic()))

    def ask_save(self, reason: str) -> None:
        """Asks for a checkpoint at the next step, and to go on."""
        self._saves.append(reason)

    def take_save(self) -> str | None:
        """Why a checkpoint was asked for since this was last called; None when it was not."""
        reason = self._saves[0] if self._saves else None
        self._saves.clear()
        return reason

    @property
    def reason(self) -> str | None:
        """What the first who asked gave as the reason: "signal", "notice", "until_step", ..."""
        return self._asked[0][0] if self._asked else None

    @property
    def asked_at(self) -> float | None:
        """time.monotonic() of the first who asked."""
        return self._asked[0][1] if self._asked else None

    @property
    def deadline(self) -> float | None:
        """time.monotonic() by which the machine is gone; None when nobody said so."""
        return min(self._deadlines, default=None)

    def __bool__(self) -> bool:
        return bool(self._asked)


def stop_on_signals() -> StopRequest:
    """A request that the first SIGTERM or SIGINT sets; the second ends the process at once.

    A thread acts on them: Python's own handlers wait until the main thread is back from a step in C. A notice or
    another request before the first signal counts as no signal.
    """
    request = StopRequest()
    ours, pythons = socket.socketpair()
    pythons.setblocking(False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(pythons.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_act_on_signals, args=(ours, pythons, request), name="signals", daemon=True).start()
    return request


def _act_on_signals(ours: socket.socket, _pythons: socket.socket, request: StopRequest) -> None:
    """Python writes each signal's number to the other end, which lives as long as this thread."""
    signalled = False
    while True:
        number = ours.recv(1)[0]
        if number not in (signal.SIGTERM, signal.SIGINT):
            continue
        if signalled:
            os._exit(128 + number)
        signalled = True
        request.ask("signal")
