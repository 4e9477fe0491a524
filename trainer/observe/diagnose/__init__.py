"""From samples to a verdict: what holds a run below its roof, by evidence. Pure: reads and writes nothing.

The samples' format is in docs/samples.md. A run's time is shared out among causes (trainer.observe.diagnose.accounts);
what each costs in images/s is its share of the time, at the roof's speed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainer.observe.diagnose.accounts import AT_THE_ROOF, losses
from trainer.observe.diagnose.loss import Loss, ramp
from trainer.observe.diagnose.picture import Picture, picture
from trainer.observe.diagnose.standstill import standstill
from trainer.observe.diagnose.window import window

VERDICTS = (
    "input_bound_decode", "input_bound_cpu", "input_bound_disk", "device_bound", "batch_too_small", "sync_bound",
    "memory_pressure", "one_device_slow", "thermal_throttle", "device_lost", "hung", "checkpoint_bound", "unknown",
)  # fmt: skip
# Watching alone proves nothing: measuring does (trainer.observe.diagnose.proof).
MOST_CERTAIN = 0.95
# Fewer samples than this are a glance: their verdict is less sure.
ENOUGH_SAMPLES = 10
# Busy devices, in %: kernels leave short pauses between them.
DEVICE_BUSY = 85.0
# Busy devices that have data and train this part of their roof are at it: a roof is measured without validation,
# checkpoints and the report, and on synthetic data.
NEAR_THE_ROOF = 0.85


@dataclass(frozen=True)
class Finding:
    """One cause: what it costs, how sure it is (0-1), why, and what to do."""

    verdict: str
    cost_images_per_second: float
    confidence: float
    evidence: tuple[str, ...]
    advice: str


@dataclass(frozen=True)
class Diagnosis:
    """`ranked`: dearest first, never empty. `roof`: images/s, measured, else `roof_is_estimated`; None: unknown."""

    ranked: tuple[Finding, ...]
    images_per_second: float | None
    roof_images_per_second: float | None
    roof_is_estimated: bool
    missing: tuple[str, ...]
    samples: int
    seconds: float

    @property
    def verdict(self) -> str:
        return self.ranked[0].verdict

    @property
    def attained(self) -> float | None:
        """The part of the roof, 0-1."""
        if self.images_per_second is None or not self.roof_images_per_second:
            return None
        return min(self.images_per_second / self.roof_images_per_second, 1.0)

    def to_json(self) -> dict:
        """What `doctor --json` prints."""
        return {
            "verdict": self.verdict,
            "ranked": [
                {
                    "verdict": finding.verdict, "cost_images_per_second": finding.cost_images_per_second,
                    "confidence": finding.confidence,
                }
                for finding in self.ranked
            ],
            "evidence": list(dict.fromkeys(line for finding in self.ranked for line in finding.evidence)),
            "advice": self.ranked[0].advice,
            "images_per_second": _rounded(self.images_per_second),
            "roof_images_per_second": _rounded(self.roof_images_per_second),
            "roof_is_estimated": self.roof_is_estimated,
            "attained": None if self.attained is None else round(self.attained, 3),
            "missing": list(self.missing), "samples": self.samples, "seconds": round(self.seconds, 1),
        }  # fmt: skip


def diagnose(samples: Sequence[dict]) -> Diagnosis:
    """The verdict on a run by its samples, oldest first; takes samples with missing and odd values."""
    seen_window = window([sample for sample in samples if isinstance(sample, dict)])
    seen = picture(seen_window)
    found = standstill(seen, seen_window) or losses(seen)
    roof, estimated = _roof(seen, found, bool(seen_window.standstill))
    attained = () if seen.attained is None or seen_window.standstill else (_attained_line(seen),)
    ranked = [_finding(loss, seen, roof, attained) for loss in found] or [_without_losses(seen, roof)]
    ranked.sort(key=lambda finding: -finding.cost_images_per_second)
    return Diagnosis(
        ranked=tuple(ranked),
        images_per_second=0.0 if seen_window.standstill else seen.images_per_second,
        roof_images_per_second=roof,
        roof_is_estimated=estimated,
        missing=seen.missing,
        samples=len(seen_window.all),
        seconds=seen.seconds + seen_window.standstill_seconds,
    )


def _roof(seen: Picture, found: list[Loss], stands_still: bool) -> tuple[float | None, bool]:
    """As measured, but never below what was trained; else the speed without the time lost."""
    speed = seen.images_per_second
    if seen.roof:
        return max(seen.roof, speed or 0.0), False
    if stands_still or speed is None:
        return speed or None, True
    total = sum(loss.share for loss in found)
    return (speed / (1 - total) if found and total < 1 else None), True


def _finding(loss: Loss, seen: Picture, roof: float | None, attained: tuple[str, ...]) -> Finding:
    return Finding(
        loss.verdict, round(loss.share * (roof or 0.0), 1), _confidence(loss.strength, seen),
        (*loss.evidence, *attained), loss.advice,
    )


def _confidence(strength: float, seen: Picture) -> float:
    enough = 0.5 + 0.5 * ramp(seen.samples, 1, ENOUGH_SAMPLES)
    return round(max(0.01, min(strength, MOST_CERTAIN) * (0.35 + 0.65 * seen.coverage) * enough), 2)


def _without_losses(seen: Picture, roof: float | None) -> Finding:
    """Nothing costs anything that can be seen: the devices are at their roof, or too little is known."""
    strength, lines = _at_the_roof(seen)
    if not strength:
        return _unknown(seen, roof)
    advice = "Faster or more devices, or lower precision, would help."
    if seen.attained is None:
        advice = "The devices seem to be the limit. `python -m trainer tune`, or `doctor --prove`, measures their roof."
    if seen.gpus.power_capped:
        lines.append(f"GPU {', '.join(seen.gpus.power_capped)} runs at its power limit")
        advice += " GPUs at their power limit run faster with a higher one (nvidia-smi -q -d POWER)."
    return Finding("device_bound", 0.0, _confidence(strength, seen), tuple(lines), advice)


def _at_the_roof(seen: Picture) -> tuple[float, list[str]]:
    """How sure it is that the devices are the limit, and why."""
    fed, busy = _yes(seen.data_wait, lambda wait: wait < 0.1), _yes(seen.gpus.util, lambda util: util >= DEVICE_BUSY)
    lines = [f"training waits for data {100 * seen.data_wait:.0f} % of the time"] if fed else []
    lines += [f"the GPUs are busy {seen.gpus.util:.0f} % of the time"] if busy is not None else []
    if not seen.images_per_second:
        return 0.0, []
    if seen.attained is not None:
        lines.append(_attained_line(seen))
        return _strength_below_a_roof(seen, fed, busy), lines
    if fed and (busy or _trains_on_processors(seen)):
        return 0.7, [*lines, "no roof is known to hold the speed against"]
    return 0.0, []


def _strength_below_a_roof(seen: Picture, fed: bool | None, busy: bool | None) -> float:
    if seen.attained >= AT_THE_ROOF:
        return 0.75 + 0.1 * (fed is True) + 0.1 * (busy is True)
    if fed is False or busy is False or not (fed or busy):
        return 0.0
    if seen.attained >= NEAR_THE_ROOF:
        return 0.45 + 0.1 * (fed is True) + 0.1 * (busy is True)
    return 0.4 if fed and busy and seen.gpus.power_capped else 0.0


def _yes(value: float | None, test: Callable[[float], bool]) -> bool | None:
    return None if value is None else test(value)


def _trains_on_processors(seen: Picture) -> bool:
    """The samples say that there are no GPUs, or the cores are all busy although none waits for data."""
    return (seen.gpus.known and not seen.gpus.expected) or (not seen.gpus.known and (seen.busy or 0) >= DEVICE_BUSY)


def _attained_line(seen: Picture) -> str:
    return f"{seen.images_per_second:,.0f} images/s of a roof of {seen.roof:,.0f} ({100 * seen.attained:.0f} %)"


def _unknown(seen: Picture, roof: float | None) -> Finding:
    gap = max(0.0, (roof or 0.0) - (seen.images_per_second or 0.0)) if seen.images_per_second else 0.0
    lines = [_attained_line(seen)] if seen.attained is not None else []
    if seen.samples < 2:
        lines.append(f"{seen.samples or 'no'} sample{'s' * (seen.samples != 1)}")
    elif not seen.images_per_second:
        lines.append("no step has been trained yet, as far as the samples tell")
    if seen.gpus.blind:
        lines.append("no GPU answers although steps go on: the driver's interface (NVML) is at fault")
    if seen.missing:
        lines.append(f"missing: {', '.join(seen.missing)}")
    advice = "Look again when more is known: `python -m trainer doctor --live` watches a run, `--prove` measures roofs."
    return Finding("unknown", round(gap, 1), _confidence(0.3, seen), tuple(lines), advice)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
