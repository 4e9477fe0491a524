"""The stop path: whatever asks, training finishes its step, writes a checkpoint and exits with 0."""

import functools
import os
import signal
import socket
import threading
import time
from collections.abc import Callable


class StopRequest:
    """Who asked training to stop, or to write a checkpoint and go on. Any thread may ask.

    The loop looks at it between steps, inside validation and while it waits for data. True once somebody asked.

    reason: what the first who asked gave as the reason: "signal", "notice", "until_step", ...; asked_at: its
    time.monotonic(). deadline: time.monotonic() by which the machine is gone, None when nobody said so.
    """

    def __init__(self):
        self.reason: str | None = None
        self.asked_at: float | None = None
        self.deadline: float | None = None
        self._lock, self._save = threading.Lock(), threading.Event()
        self._when_asked: Callable[[], None] = lambda: None

    def ask(self, reason: str, deadline: float | None = None) -> None:
        """Asks to stop. The first reason and the nearest deadline count."""
        with self._lock:
            if deadline is not None:
                self.deadline = min(deadline, self.deadline or deadline)
            first = self.reason is None
            if first:
                self.asked_at, self.reason = time.monotonic(), reason
        if first:
            self._when_asked()

    def when_asked(self, call: Callable[[], None]) -> None:
        """Calls it once somebody asks, in the thread of who asks; now when somebody has."""
        self._when_asked = call
        if self:
            call()

    def ask_save(self) -> None:
        """Asks for a checkpoint at the next step, and to go on."""
        self._save.set()

    def take_save(self) -> bool:
        """Whether a checkpoint was asked for since this was last called."""
        if not self._save.is_set():
            return False
        self._save.clear()
        return True

    def __bool__(self) -> bool:
        return self.reason is not None


@functools.cache
def stop_on_signals() -> StopRequest:
    """A request that the first SIGTERM or SIGINT sets; the second ends the process at once.

    One a process, however often this is called. A thread acts on signals: Python's own handlers wait until the main
    thread is back from a step in C. A notice or another request before the first signal counts as no signal.
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
