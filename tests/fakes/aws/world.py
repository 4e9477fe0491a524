"""The state of the double beside moto's own: the scenario, the clock, what is still to happen, the calls so far."""

import heapq
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .scenario import Scenario, Timing, value_at


class World:
    """One per process, as moto's state is. Handlers hold `lock`; waiting for latency does not."""

    def __init__(self, scenario: Scenario, log: Path | None = None):
        self.scenario = scenario
        self.log = log
        self.started = time.time()
        self.lock = threading.RLock()
        self.closing = threading.Event()
        self.calls: list[dict[str, Any]] = []
        self.tokens: dict[tuple[str, str, str], tuple[str, Any]] = {}  # (region, action, token) -> (parameters, answer)
        self.fault_hits: Counter[int] = Counter()
        self.buckets: dict[tuple[int, str, str], tuple[float, float]] = {}
        self.ledger: list[dict[str, Any]] = []  # what costs money, and when, in seconds since the start
        self.restores: dict[tuple[str, str, str], float] = {}  # (region, snapshot, zone) -> when fast restore was asked
        self.consoles: dict[str, str] = {}
        self._births: dict[str, float] = {}
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def offset(self) -> float:
        """Seconds since the start of the double."""
        return time.time() - self.started

    def now(self, series: Any) -> float | None:
        return value_at(series, self.offset())

    def timing(self, region: str) -> Timing:
        return self.scenario.timing_of(region)

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Does `action` at the first call that comes after so many seconds."""
        heapq.heappush(self._due, (time.time() + seconds, next(self._order), action))

    def settle(self) -> None:
        """Does all that is due."""
        while self._due and self._due[0][0] <= time.time():
            heapq.heappop(self._due)[2]()

    def born(self, thing_id: str) -> None:
        """Something new: its id and tags are seen as late as the scenario says."""
        self._births[thing_id] = time.time()

    def is_seen(self, thing_id: str, region: str) -> bool:
        return time.time() - self._births.get(thing_id, 0.0) >= self.timing(region).ids

    def tags_are_seen(self, thing_id: str, region: str) -> bool:
        return time.time() - self._births.get(thing_id, 0.0) >= self.timing(region).tags

    def record(self, call: dict[str, Any]) -> None:
        """Adds a call to the log: one JSON object a line."""
        with self.lock:
            self.calls.append(call)
            if self.log:
                with self.log.open("a") as file:
                    file.write(json.dumps(call) + "\n")


_current: list[World] = []


def set_world(world: World) -> None:
    _current[:] = [world]


def world() -> World:
    """The world of this process's double."""
    return _current[0]
