"""What a search found, and how much each knob gained."""

from dataclasses import asdict, dataclass

from trainer.tune.figures import CONFIDENCE_SHARE, Figure
from trainer.tune.known import Known


@dataclass
class Tuning:
    """images/s of all devices together; shares and factors are plain numbers.

    batch_size and decode_threads are the choice. largest_batch fits; sufficient_batch is the smallest that is as fast
    (None: not looked for). roof_images_per_second: the lowest of `roofs` (None: none was measured). credit: by which
    factor each knob made training faster, one after the other from `start` on; batch_alone: what the batch would have
    gained without the threads. confidence_share: half of the 95 % interval. grid_seconds: what trying everything would
    have taken.
    """

    batch_size: int
    largest_batch: int | None
    sufficient_batch: int | None
    decode_threads: int
    images_per_second: float
    roof_images_per_second: float | None
    attained_share: float | None
    roofs: dict[str, float]
    start: dict[str, float]
    credit: dict[str, float]
    batch_alone: float
    confidence_share: float
    noisy: bool
    proven: bool
    grid_seconds: float
    probes: int
    notes: list[str]

    def as_json(self) -> dict:
        return asdict(self)


def tuning(known: Known, batch: int, sufficient: int, proof: Figure | None, notes: list[str]) -> Tuning:
    final = proof or Figure(known.expected(batch, known.threads), known.error)
    start = known.rate(known.start_batch, known.start_threads)
    with_threads = final.rate if batch == known.start_batch else known.rate(known.start_batch, known.threads)
    credit = {"decode_threads": with_threads / start, "batch_size": final.rate / with_threads}
    float32 = known.book.known("float32", batch, 0)
    if float32 is not None:
        credit["precision"] = known.networks[batch].rate / float32.rate
    roofs = known.roofs()
    roof = min(roofs.values(), default=None)
    return Tuning(
        batch_size=batch, largest_batch=known.largest, sufficient_batch=min(sufficient, batch),
        decode_threads=known.threads, images_per_second=round(final.rate, 4),
        roof_images_per_second=roof and round(roof, 4),
        attained_share=roof and round(min(1.0, final.rate / roof), 4),
        roofs={name: round(rate, 4) for name, rate in roofs.items()},
        start={
            "batch_size": known.start_batch, "decode_threads": known.start_threads, "images_per_second": round(start, 4)
        },
        credit={knob: round(factor, 4) for knob, factor in credit.items()},
        batch_alone=round(known.rate(batch, known.start_threads) / start, 4),
        confidence_share=round(final.confidence_share, 4), noisy=final.confidence_share > CONFIDENCE_SHARE,
        proven=proof is not None, grid_seconds=known.grid_seconds(), probes=known.book.probes, notes=notes,
    )  # fmt: skip
