"""What a run's events say about this moment: the part of a sample that only training knows."""

import json
import time
from collections import deque
from pathlib import Path

from trainer import volume
from trainer.observe.history import is_number
from trainer.observe.tail import Follower
from trainer.run import Run

# A speed that nobody renews is old news: after this time, or three times the usual interval, it is null.
STALE_SECONDS = 15.0
# But no first step after so long is a speed of 0. (Training a large network on a few cores takes minutes a step.)
FIRST_STEP_SECONDS = 600.0
# The share of checkpoints is that of the last minutes: one save is no share.
CHECKPOINT_SECONDS = 300.0
CHECKPOINT_LEAST_SECONDS = 60.0


class TrainingState:
    """Follows events.jsonl."""

    def __init__(self, run: Run):
        self._follower = Follower(run.events)
        self._tuning = run.tuning
        self._restart({})
        self.devices: list[str] = []
        """As in the configuration: `gpu(0)`, `cpu(0)`, ...; empty until training has started."""

    def sample(self, now: float | None = None) -> dict:
        """The fields at this moment (see docs/samples.md); null where training has not said yet."""
        now = time.time() if now is None else now
        for event in self._follower.new():
            self._read(event)
        return {
            **self._speed(now), "steps": self._steps, "decode_threads": self._start.get("decode_threads_effective"),
            "batch_size": self._start.get("batch_size"), "activity": self._activity,
            **self._optional(now),
        }  # fmt: skip

    def _read(self, event: dict) -> None:
        kind, t = event.get("kind"), event.get("t")
        if not is_number(t):
            return
        if kind == "start":
            self._restart(event)
            self.devices = [device for device in event.get("devices") or [] if isinstance(device, str)]
        elif kind == "step" and is_number(event.get("step")):
            self._interval = t - self._step["t"] if self._step else t - self._start.get("t", t)
            self._step, self._steps = event, event["step"]
        elif kind == "checkpoint":
            seconds = event.get("blocked_seconds", event.get("seconds"))
            self._saves.append((t, seconds if is_number(seconds) else 0.0))
        self._activity = {"validating": "validation", "stop": "stopped"}.get(kind, self._after(kind))

    def _after(self, kind: str) -> str:
        return "training" if kind in ("start", "step", "validation") else self._activity

    def _restart(self, start: dict) -> None:
        self._start, self._step, self._interval = start, None, 0.0
        # Unknown before the first step of this start: preparing it takes minutes, and is no standstill.
        self._steps = None
        self._saves: deque[tuple[float, float]] = deque(maxlen=1000)
        self._activity = "training"

    def _speed(self, now: float) -> dict:
        if not self._step and self._start and now - self._start["t"] > FIRST_STEP_SECONDS:
            return {"images_per_second": 0.0, "data_wait_share": None, "step_seconds": None}
        step = self._step or {}
        if step and now - step["t"] > max(STALE_SECONDS, 3 * self._interval):
            step = {}
        speed, batch = step.get("images_per_second"), self._start.get("batch_size")
        known = is_number(speed) and speed > 0 and is_number(batch)
        return {
            "images_per_second": speed, "data_wait_share": step.get("data_wait_share"),
            "step_seconds": round(batch / speed, 4) if known else None,
        }  # fmt: skip

    def _optional(self, now: float) -> dict:
        gpus = sum(device.startswith("gpu") for device in self.devices)
        found = {"gpus_expected": gpus} if self.devices else {}
        config = self._start.get("config") or {}
        asked = config.get("decode_threads")
        found |= {"decode_threads_asked": asked} if is_number(asked) else {}
        found |= {"cold_volume": True} if config and volume.warm_up(Path(config["data_train"])) else {}
        roof = read_roof(self._tuning, self._start)
        found |= {"roof_images_per_second": roof} if roof else {}
        share = self._checkpoint_share(now)
        return found | ({"checkpoint_share": share} if share is not None else {})

    def _checkpoint_share(self, now: float) -> float | None:
        """Time in which training stood still for a checkpoint; None before it has trained for a while."""
        seconds = min(now - self._start.get("t", now), CHECKPOINT_SECONDS)
        if seconds < CHECKPOINT_LEAST_SECONDS:
            return None
        return round(min(1.0, sum(spent for t, spent in self._saves if t > now - seconds) / seconds), 4)


def read_roof(tuning: Path, start: dict) -> float | None:
    """The lowest roof that `tune` measured for this run, in images/s.

    None without a tuning, and when it is another kind of machine's than that of the start event `start`.
    """
    try:
        found = json.loads(tuning.read_text())
        roof, measured_on = found.get("roof_images_per_second"), found.get("host_kind")
    except (OSError, ValueError, AttributeError):
        return None
    is_of_here = start.get("host_kind", measured_on) == measured_on
    return roof if is_of_here and is_number(roof) and roof > 0 else None
