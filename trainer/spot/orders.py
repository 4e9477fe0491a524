"""What the trainer tells the mirror process through its standard input: a line = hurry; the end = the trainer is gone.

A pipe ends with the process that holds its other end, however that process ends.
"""

import os
import select
import time


class Orders:
    """`hurry`: a stop is near, so no bandwidth cap and no long pause; `ended`: finish and end."""

    def __init__(self, descriptor: int, mb_per_second: float | None = None):
        self._descriptor = descriptor
        self._seconds_a_byte = 1 / (mb_per_second * 1e6) if mb_per_second else 0.0
        self._due = 0.0
        self.hurry = self.ended = False

    def wait(self, seconds: float) -> None:
        """Returns early when there is something new to know."""
        if self.ended:
            time.sleep(seconds)
        elif select.select([self._descriptor], [], [], seconds)[0]:
            said = os.read(self._descriptor, 1024)
            self.hurry = True
            self.ended = not said

    def pace(self, sent_bytes: int) -> None:
        """Waits so long that no more goes out than the cap allows."""
        now = time.monotonic()
        self._due = max(self._due, now) + sent_bytes * self._seconds_a_byte
        while not self.hurry and (left := self._due - time.monotonic()) > 0:
            self.wait(left)
