"""What the server shows, renewed once a second in a thread of its own: no request waits for a file or a device."""

import asyncio
import gzip
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from trainer.observe.live import LiveView
from trainer.observe.metrics import RunMetrics
from trainer.observe.monitor import AFTER_SECONDS, lacks_sampler, spawn_monitor
from trainer.run import Run

PERIOD_SECONDS = 1.0
# The history is heavier: whoever opens the page within this time gets the same one.
HISTORY_SECONDS = 2.0
# Between two tries to start the sampler of a run that has none.
SAMPLER_SECONDS = 10.0
# After this long without a renewal (a disk that hangs) the numbers are none.
STALE_SECONDS = 10.0

# A comment, which a page does not see: old numbers that come anew would look new.
NOTHING_NEW = b":\n\n"


class Pulse:
    """`metrics` and `message` (a server-sent event) as of the last beat; `wait` for the next one."""

    def __init__(self, run: Run):
        self.view = LiveView(run)
        self.metrics = self.message = b""
        self._run, self._metrics = run, RunMetrics(run)
        self._at = -STALE_SECONDS
        self._beat = asyncio.Event()
        self._history, self._history_at, self._one = b"", -HISTORY_SECONDS, asyncio.Lock()
        self._sampler, self._sampler_at = None, -SAMPLER_SECONDS
        self._told: dict[str, str] = {}
        # One thread each: a long look into the past must not hold up the present.
        self._present, self._past = (ThreadPoolExecutor(1, thread_name_prefix=name) for name in ("present", "past"))

    @property
    def fresh(self) -> bool:
        return time.monotonic() - self._at < STALE_SECONDS

    async def run(self, on_beat) -> None:
        """Beats until it is cancelled; `on_beat()` is called after each."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await loop.run_in_executor(self._present, self._renew)
            before, self._beat = self._beat, asyncio.Event()
            before.set()
            on_beat()
            await asyncio.sleep(max(PERIOD_SECONDS - (loop.time() - began), 0.1))

    async def wait(self) -> None:
        await self._beat.wait()

    async def history(self) -> bytes:
        """JSON, compressed by gzip; made once for all who ask at the same time."""
        async with self._one:
            if time.monotonic() - self._history_at > HISTORY_SECONDS:
                self._history = await self.in_thread(self._make_history)
                self._history_at = time.monotonic()
            return self._history

    async def in_thread(self, call, *arguments):
        return await asyncio.get_running_loop().run_in_executor(self._past, call, *arguments)

    def _make_history(self) -> bytes:
        return gzip.compress(_json(self.view.history()), compresslevel=5)

    def _renew(self) -> None:
        """Whatever goes wrong with one part is told once, and leaves the other parts alone."""
        self._try("sampler", self._keep_sampler)
        read = self._try("metrics", self._renew_metrics)
        if read:
            self._at = time.monotonic()
        if not (read and self._try("page", self._renew_message)):
            self.message = NOTHING_NEW

    def _keep_sampler(self) -> None:
        """A process of its own: a driver that takes it down leaves the page and the metrics up."""
        if self._sampler and self._sampler.poll() is None:
            return
        if time.monotonic() - self._sampler_at > SAMPLER_SECONDS and lacks_sampler(self._run):
            self._sampler, self._sampler_at = spawn_monitor(self._run, AFTER_SECONDS), time.monotonic()

    def _renew_metrics(self) -> None:
        self._metrics.refresh()
        self.metrics = self._metrics.text()

    def _renew_message(self) -> None:
        self.message = b"data: %s\n\n" % _json(self.view.now())

    def _try(self, what: str, act) -> bool:
        try:
            act()
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            if self._told.get(what) != told:
                print(f"{what}: {told}", file=sys.stderr, flush=True)
            self._told[what] = told
            return False
        self._told.pop(what, None)
        return True


def be_nice() -> None:
    """Training has the processors first; but whoever asks must not wait for long."""
    os.nice(5)


def _json(value) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
