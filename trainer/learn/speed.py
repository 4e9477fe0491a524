"""Images/s and the share of time spent waiting for data, over the last stretch of steps and over the whole run."""

import time


class Speed:
    """A stopwatch that is paused while training does something else (validation, saving)."""

    def __init__(self):
        self._before_pause_seconds = 0.0
        self._running_since: float | None = time.monotonic()
        self._restart_window()

    def train_seconds(self) -> float:
        """All the time that was not paused."""
        running = time.monotonic() - self._running_since if self._running_since is not None else 0.0
        return self._before_pause_seconds + running

    def add(self, samples: int, wait_seconds: float) -> None:
        self._window_samples += samples
        self._wait_seconds += wait_seconds

    def pause(self) -> None:
        self._before_pause_seconds = self.train_seconds()
        self._running_since = None

    def resume(self) -> None:
        """The stretch starts afresh: its time would hold the pause."""
        self._running_since = time.monotonic()
        self._restart_window()

    def window_seconds(self) -> float:
        return time.monotonic() - self._window_start

    def take_window(self) -> dict:
        """`images_per_second` and `data_wait_share` since the last call."""
        seconds = max(self.window_seconds(), 1e-9)
        result = {
            "images_per_second": round(self._window_samples / seconds, 2),
            "data_wait_share": round(min(1.0, self._wait_seconds / seconds), 4),
        }
        self._restart_window()
        return result

    def _restart_window(self) -> None:
        self._window_start, self._window_samples, self._wait_seconds = time.monotonic(), 0, 0.0
