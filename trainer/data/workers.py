"""Threads that a read which never returns cannot turn into a process which never ends."""

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

# Long enough for any picture, short enough for a service that is told to stop.
_CLOSE_SECONDS = 5.0


class Workers:
    """A pool of daemon threads. The standard pool's threads are waited for when the interpreter ends, come what may."""

    def __init__(self, count: int):
        self._tasks: queue.SimpleQueue = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._work, name="decode", daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def submit(self, task: Callable[[], None]) -> Future:
        """Does the task in a thread, in the order of the calls."""
        future: Future = Future()
        self._tasks.put((future, task))
        return future

    def close(self) -> None:
        """Drops what has not begun and waits for the rest, but not for a thread that hangs."""
        while True:
            try:
                self._tasks.get_nowait()[0].cancel()
            except queue.Empty:
                break
        for _ in self._threads:
            self._tasks.put(None)
        until = time.monotonic() + _CLOSE_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _work(self) -> None:
        while (item := self._tasks.get()) is not None:
            future, task = item
            if future.set_running_or_notify_cancel():
                _do(future, task)
            del item, future, task  # they hold a batch, which is not free for use while they do


def _do(future: Future, task: Callable[[], None]) -> None:
    try:
        future.set_result(task())
    except BaseException as error:
        future.set_exception(error)
