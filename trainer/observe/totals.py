"""What a run's events add up to, across all its starts: counted from the log, so that no restart loses anything."""

from dataclasses import dataclass, field

from trainer.observe.history import is_number, resumed_step

# Closed sets: whatever else a log holds is "other", so that no label can grow without bound.
OTHER = "other"
INTERRUPTIONS = ("notice", "crash", "out_of_memory", "host_restarted", "host_lost", "killed", OTHER)
RESTARTS = (
    "signal", "request", "notice", "until_step", "non_finite_loss", "error", "crash", "out_of_memory",
    "host_restarted", "host_lost", "killed", OTHER,
)  # fmt: skip
STEP_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
CHECKPOINT_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300)


class Histogram:
    """Counts by upper bound, as Prometheus wants them (cumulative)."""

    def __init__(self, bounds: tuple[float, ...]):
        self.bounds, self.counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float, times: int = 1) -> None:
        self.sum += value * times
        place = next((place for place, bound in enumerate(self.bounds) if value <= bound), len(self.bounds))
        self.counts[place] += times

    def buckets(self) -> list[tuple[str, int]]:
        total, result = 0, []
        for bound, count in zip([*map(str, map(float, self.bounds)), "+Inf"], self.counts, strict=True):
            total += count
            result.append((bound, total))
        return result


@dataclass
class Totals:
    """`add` each event once, oldest first. Steps that were trained twice count twice: they were paid for twice."""

    steps: int = 0
    samples: int = 0
    data_wait_seconds: float = 0.0
    step_seconds: Histogram = field(default_factory=lambda: Histogram(STEP_SECONDS))
    """Of each report, its mean as often as it has steps."""
    checkpoint_seconds: Histogram = field(default_factory=lambda: Histogram(CHECKPOINT_SECONDS))
    checkpoint_failures: int = 0
    bad_records: int = 0
    imds_errors: int = 0
    mirror_failures_before: int = 0
    """On the machines before."""
    mirror_failures: int = 0
    """On the machine of the newest start, whose starts count on."""
    interruptions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(INTERRUPTIONS, 0))
    restarts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RESTARTS, 0))
    newest: dict[str, dict] = field(default_factory=dict)
    """The newest event of each kind that is used here."""
    validating: bool = False

    def __post_init__(self):
        self._at = (0, 0)  # the step and samples up to which is counted
        self._ended: str | None = None  # why the newest start is over
        self._imds_before = self._imds_now = 0

    @property
    def finished(self) -> bool:
        """Whether the run's last epoch is done."""
        return self._ended == "finished"

    def add(self, event: dict) -> None:
        """Events of unknown kinds, and those without a number that they need, are passed over."""
        kind, act = event.get("kind"), None
        if isinstance(kind, str) and is_number(event.get("t")):
            act = _ACTS.get(kind)
        if act and act(self, event) is not False:
            self.newest[kind] = event
            self.validating = kind == "validating" or (self.validating and kind not in _ENDS_VALIDATION)

    def _start(self, event: dict) -> None:
        if "start" in self.newest:
            self.restarts[self._ended if self._ended in self.restarts else OTHER] += 1
            if event.get("host") != self.newest["start"].get("host"):
                self.mirror_failures_before += self.mirror_failures
                self.mirror_failures = 0
        self._ended = None
        step, batch = resumed_step(event), event.get("batch_size")
        samples = event.get("resumed_samples", step * batch if is_number(batch) else None)
        self._at = (step, samples if is_number(samples) else 0)
        self._imds_before, self._imds_now = self.imds_errors, 0

    def _step(self, event: dict) -> bool | None:
        if not (is_number(event.get("step")) and is_number(event.get("samples"))):
            return False
        self._count_time(event, self._count_up_to(event["step"], event["samples"]))
        return None

    def _count_up_to(self, step: float, samples: float) -> int:
        """How many steps that is more."""
        steps = int(max(step - self._at[0], 0))
        self.steps += steps
        self.samples += int(max(samples - self._at[1], 0))
        self._at = (step, samples)
        return steps

    def _count_time(self, event: dict, steps: int) -> None:
        speed, batch = event.get("images_per_second"), self.newest.get("start", {}).get("batch_size")
        if steps and is_number(batch) and is_number(speed) and speed > 0:
            self.step_seconds.add(batch / speed, steps)
            share = event.get("data_wait_share")
            self.data_wait_seconds += steps * batch / speed * share if is_number(share) else 0.0

    def _checkpoint(self, event: dict) -> None:
        if is_number(event.get("seconds")):
            self.checkpoint_seconds.add(event["seconds"])

    def _checkpoint_failed(self, event: dict) -> None:
        self.checkpoint_failures += 1

    def _bad_record(self, event: dict) -> None:
        self.bad_records += 1

    def _imds(self, event: dict) -> None:
        """Its `errors` are those of one process so far."""
        errors = event.get("errors")
        self._imds_now = max(self._imds_now, int(errors) if is_number(errors) else 0)
        self.imds_errors = self._imds_before + self._imds_now

    def _mirror(self, event: dict) -> None:
        failures = event.get("failures")
        self.mirror_failures = max(self.mirror_failures, int(failures) if is_number(failures) else 0)

    def _notice(self, event: dict) -> None:
        self.interruptions["notice"] += 1

    def _interrupted(self, event: dict) -> None:
        self._ended = str(event.get("reason"))
        self.interruptions[self._ended if self._ended in self.interruptions else OTHER] += 1

    def _stop(self, event: dict) -> None:
        """After the last steps, which no report of their own tells of."""
        self._ended = str(event.get("reason"))
        if is_number(event.get("step")) and is_number(event.get("samples")):
            self._count_up_to(event["step"], event["samples"])

    def _keep(self, event: dict) -> None:
        """Only the newest one counts."""


_ENDS_VALIDATION = ("start", "step", "validation", "stop")
_ACTS = {
    "start": Totals._start, "step": Totals._step, "checkpoint": Totals._checkpoint,
    "checkpoint_failed": Totals._checkpoint_failed, "bad_record": Totals._bad_record, "imds": Totals._imds,
    "mirror": Totals._mirror, "notice": Totals._notice, "interrupted": Totals._interrupted, "stop": Totals._stop,
    "validation": Totals._keep, "validating": Totals._keep,
}  # fmt: skip
