"""A diagnosis in the words that a person would use."""

from trainer.observe.diagnose import Diagnosis, Finding
from trainer.observe.words import number, percent

TITLES = {
    "input_bound_decode": "the devices wait for data: too few decode threads",
    "input_bound_cpu": "the devices wait for data: the processor has no time left",
    "input_bound_disk": "the devices wait for data: the disk is too slow",
    "device_bound": "the devices are the limit: nothing to gain by settings",
    "batch_too_small": "the batch is too small to keep the devices at work",
    "sync_bound": "the devices wait for each other",
    "memory_pressure": "the machine runs out of memory",
    "one_device_slow": "one device is slower than the others, which wait for it",
    "thermal_throttle": "heat holds the devices' clocks down",
    "device_lost": "a device is gone",
    "hung": "training hangs: no step is finished any more",
    "checkpoint_bound": "checkpoints take too much of the time",
    "unknown": "not clear what the limit is",
}


def one_line(diagnosis: Diagnosis) -> str:
    """What holds the run back, and how far below its roof."""
    worst = diagnosis.ranked[0]
    return f"{TITLES[worst.verdict]} ({', '.join([*_cost(worst), *_attained(diagnosis)])})"


def full_text(diagnosis: Diagnosis) -> str:
    """Every finding with its evidence and the next step, the dearest first."""
    parts = [_finding_text(finding) for finding in diagnosis.ranked]
    known = ", ".join(_attained(diagnosis)) or "speed and roof are not known"
    seen = f"{diagnosis.samples:,} samples over {diagnosis.seconds:,.0f} s; {known}"
    lacks = [f"missing: {', '.join(diagnosis.missing)}"] if diagnosis.missing else []
    return "\n\n".join([*parts, "\n".join([seen, *lacks])])


def in_words(found: Diagnosis) -> dict:
    """{verdict, title, text, advice, evidence, confidence, speed, roof, roof_is_estimated, attained, losses}.

    losses: [{verdict, title, cost (images/s)}], the dearest first.
    """
    return {
        "verdict": found.verdict, "title": TITLES[found.verdict], "text": one_line(found),
        "advice": found.ranked[0].advice, "evidence": list(found.ranked[0].evidence),
        "confidence": found.ranked[0].confidence, "speed": found.images_per_second,
        "roof": found.roof_images_per_second, "roof_is_estimated": found.roof_is_estimated, "attained": found.attained,
        "losses": [
            {"verdict": one.verdict, "title": TITLES[one.verdict], "cost": one.cost_images_per_second}
            for one in found.ranked
            if one.cost_images_per_second > 0
        ],
    }  # fmt: skip


def _finding_text(finding: Finding) -> str:
    lines = [f"{finding.verdict}: {TITLES[finding.verdict]}"]
    lines.append(f"  {', '.join([*_cost(finding), f'confidence {percent(finding.confidence, 0)}'])}")
    lines += [f"  - {line}" for line in finding.evidence]
    return "\n".join([*lines, f"  next: {finding.advice}"])


def _cost(finding: Finding) -> list[str]:
    cost = finding.cost_images_per_second
    return [f"costs {number(round(cost, 1))} images/s"] if cost else []


def _attained(diagnosis: Diagnosis) -> list[str]:
    speed, roof = diagnosis.images_per_second, diagnosis.roof_images_per_second
    if speed is None:
        return []
    if diagnosis.attained is None:
        return [f"{number(round(speed, 1))} images/s"]
    kind = "an estimated roof" if diagnosis.roof_is_estimated else "the roof"
    share = percent(diagnosis.attained, 0)
    return [f"{number(round(speed, 1))} images/s, {share} of {kind} of {number(round(roof, 1))}"]
