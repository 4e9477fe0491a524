"""The stop path: whatever asks, training finishes its step, writes a checkpoint and exits with 0."""

import os
import signal


class StopRequest:
    """Set once, by whoever asks first; the loop looks at `reason` between steps and inside validation."""

    def __init__(self):
        self.reason: str | None = None

    def ask(self, reason: str) -> None:
        self.reason = self.reason or reason

    def __bool__(self) -> bool:
        return self.reason is not None


def stop_on_signals() -> StopRequest:
    """A request that the first SIGTERM or SIGINT sets; the second ends the process at once."""
    request = StopRequest()

    def on_signal(number, _frame):
        if request:
            os._exit(128 + number)
        request.ask("signal")

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    return request
