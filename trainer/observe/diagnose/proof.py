"""What measurements of the halves of training say about a diagnosis."""

from dataclasses import dataclass, replace

from trainer.observe.diagnose import Diagnosis, Finding
from trainer.observe.words import number

# Two measurements that differ by less are equal: short ones scatter by a few %.
SAME = 0.1
PROVEN, REFUTED = 0.98, 0.1


@dataclass(frozen=True)
class Measured:
    """Images/s of the input alone (with the run's decode threads, and with twice as many) and of the network alone."""

    input: float
    input_with_twice_the_threads: float
    decode_threads: int
    network: float | None = None
    beside_the_run: bool = False


def proven(diagnosis: Diagnosis, measured: Measured) -> Diagnosis:
    """The diagnosis with its confidences moved by the measurements, and the roof that they found."""
    lines = _lines(measured)
    ranked = [_moved(finding, measured, lines) for finding in diagnosis.ranked]
    ranked.sort(key=lambda finding: (finding.confidence <= REFUTED, -finding.cost_images_per_second))
    halves = [measured.input, *([measured.network] if measured.network is not None else [])]
    roof = None if measured.network is None else min(halves)
    if roof is None:
        return replace(diagnosis, ranked=tuple(ranked))
    return replace(
        diagnosis, ranked=tuple(ranked), roof_is_estimated=False,
        roof_images_per_second=max(roof, diagnosis.images_per_second or 0.0),
    )  # fmt: skip


def _lines(measured: Measured) -> tuple[str, ...]:
    beside = ", beside the run" if measured.beside_the_run else ""
    lines = [
        f"measured{beside}: the input alone gives {number(measured.input)} images/s with {measured.decode_threads} "
        f"decode threads, {number(measured.input_with_twice_the_threads)} with {2 * measured.decode_threads}"
    ]
    if measured.network is not None:
        lines.append(f"measured: the network alone trains {number(measured.network)} images/s")
    return tuple(lines)


def _moved(finding: Finding, measured: Measured, lines: tuple[str, ...]) -> Finding:
    confidence = _confidence(finding, measured)
    return replace(finding, confidence=confidence, evidence=(*finding.evidence, *lines))


def _confidence(finding: Finding, measured: Measured) -> float:
    starved = measured.network is not None and measured.input < (1 - SAME) * measured.network
    fed = measured.network is not None and measured.input > (1 + SAME) * measured.network
    threads_help = measured.input_with_twice_the_threads > (1 + SAME) * measured.input
    if finding.verdict == "input_bound_decode":
        if fed and not measured.beside_the_run:
            return REFUTED
        return PROVEN if threads_help and (starved or measured.network is None) else finding.confidence
    if finding.verdict in ("input_bound_cpu", "input_bound_disk") and starved and not threads_help:
        return PROVEN
    if finding.verdict == "device_bound" and fed:
        return PROVEN
    return REFUTED if finding.verdict == "device_bound" and starved else finding.confidence
