"""The plan over probes: pure, the same for a host and for the model of one.

Roofs first, then the threads that feed the best of them, then the batch: in the article the threads were the knob that
mattered.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Literal

from trainer.errors import ConfigError
from trainer.tune import proof
from trainer.tune.batches import choose_batches, find_batches
from trainer.tune.figures import EXPLORE, PROOF, Book, DoesNotFitError, Figure, OutOfTimeError, Probe, Prober
from trainer.tune.known import Host, Known
from trainer.tune.memory_limit import largest_that_fits
from trainer.tune.result import Tuning, tuning
from trainer.tune.threads import find_threads

Choice = Literal["largest", "sufficient"]
Told = Callable[[Probe, Figure | None], None]

# Of a short budget, for the proof.
_PROOF_SHARE = 0.2


def search(host: Host, prober: Prober, choice: Choice = "largest", told: Told = lambda probe, figure: None) -> Tuning:
    """Finds the batch and the decode threads of a host within the prober's time. `told` hears of each probe.

    choice: of the batches that are as fast as the best the largest, or the smallest. ConfigError when not even one
    image a device fits, or the time is too short for anything.
    """
    budget_seconds, shortest_proof = prober.seconds_left(), prober.seconds_for(proof.SHORTEST_SECONDS)
    least = prober.seconds_for(EXPLORE.most_seconds) + shortest_proof
    if budget_seconds < least:
        raise ConfigError(f"--budget-seconds must be at least {least:.0f} here, got {budget_seconds:.0f}")
    most_reserved = max(shortest_proof, _PROOF_SHARE * budget_seconds)
    book = Book(prober, told, min(prober.seconds_for(PROOF.most_seconds), most_reserved))
    known, notes = _begin(host, book), []
    largest, smallest = _measure_all(known, notes)
    chosen = largest if choice == "largest" else smallest
    batch, figure = proof.prove(known, chosen)
    if figure is None and known.book.known("training", known.start_batch, known.start_threads):
        batch, known.threads = known.start_batch, known.start_threads
    with suppress(OutOfTimeError):
        _measure_credit(known, batch)
    notes += _notes(known, largest, chosen, batch, figure)
    return tuning(known, batch, smallest, figure, notes)


def _begin(host: Host, book: Book) -> Known:
    """Trains as the host begins, and finds the largest batch that fits."""
    devices = host.devices
    known = Known(
        host, book, start_batch=max(1, host.batch // devices) * devices, start_threads=min(host.threads, host.vcpus)
    )
    known.threads = known.start_threads
    with suppress(DoesNotFitError):
        book.measure("training", known.start_batch, known.threads)
    known.largest = _largest(known)
    known.start_batch = min(known.start_batch, known.largest)
    return known


def _largest(known: Known) -> int:
    """ConfigError when not even one image a device fits."""
    host, book, devices = known.host, known.book, known.host.devices
    readings = {batch // devices: mb for batch, mb in book.memory.items()}

    def fits(images: int) -> bool:
        try:
            book.measure("network", images * devices, 0)
        except DoesNotFitError:
            return False
        readings[images] = book.memory[images * devices]
        return readings[images] <= host.memory_mb

    first, most = known.start_batch // devices, _most_images(known)
    if known.start_batch in book.too_large:
        first, most = 1, first - 1
    elif first in readings:
        # So many fit even if all of the memory in use were images.
        first = max(first, int(first * host.memory_mb / readings[first]))
    largest = 0
    try:
        largest = largest_that_fits(fits, readings, host.memory_mb, first, most) if most != 0 else 0
    except OutOfTimeError:
        largest = max((images for images, mb in readings.items() if mb <= host.memory_mb), default=0)
        if not largest:
            raise ConfigError("--budget-seconds must be more: it ended before a batch was found that fits") from None
    if not largest:
        raise ConfigError(
            f"the devices' memory ({host.memory_mb:,.0f} MB) must hold one image each, but a batch of {devices} does "
            "not fit: a smaller network, smaller images or a larger device is needed"
        )
    return largest * devices


def _most_images(known: Known) -> int | None:
    """On one device, where there is a limit other than memory."""
    limits = [most for most in (known.host.most_batch, known.book.prober.most_batch()) if most is not None]
    return min(limits) // known.host.devices if limits else None


def _measure_all(known: Known, notes: list[str]) -> tuple[int, int]:
    """The largest and the smallest batch that are as fast as any; sets the threads."""
    try:
        known.book.figure("disk", 0, 0)
        find_threads(known)
        _measure_credit(known, known.largest)
        find_batches(known)
    except OutOfTimeError:
        notes.append("the time budget ended before everything was measured")
    if not known.is_complete:
        return known.largest, known.largest
    batches = choose_batches(known)
    with suppress(OutOfTimeError):
        find_threads(known)  # a network that turned out to be faster needs more of them
    return batches


def _measure_credit(known: Known, batch: int) -> None:
    """Training with the threads alone changed; the rest is measured already.

    Where the host could not begin as it was asked to, what the parts promise is compared with, if they tell it.
    """
    book = known.book
    if known.is_complete and not known.decode.tells(known.start_threads):
        book.figure("training", known.start_batch, known.start_threads)
    if known.start_batch != batch:
        book.figure("training", known.start_batch, known.threads)
    if known.host.precision != "float32":
        book.figure("float32", batch, 0)


def _notes(known: Known, largest: int, chosen: int, batch: int, figure: Figure | None) -> list[str]:
    notes = []
    if largest < known.largest:
        notes.append(f"a batch of {known.largest} fits, but is slower than one of {largest}")
    if batch < chosen:
        notes.append(f"a batch of {chosen} fits in training, but not with a validation and a checkpoint")
    if figure is None:
        notes.append("the time budget left no time for a proof: what the search began with is kept")
    return notes
