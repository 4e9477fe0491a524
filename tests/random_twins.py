"""Models of hosts, drawn at random and meant to be nasty, and the exhaustive grid that a search is compared with."""

import math
import random

from trainer.tune.twin import Twin

# The tolerance up to this noise, and above it.
QUIET, TOLERANCE, NOISY_TOLERANCE = 0.005, 0.02, 0.05
GRID_PROBE_SECONDS = 50


def random_twin(seed: int) -> Twin:
    """1-16 GPUs, 2-128 processors, odd ones too; rates that rise, peak, are flat or rough; decoding far below and far
    above the devices; tiny disks; memory for 1 image a device up to thousands; no noise up to 5 %."""
    draw = random.Random(seed)
    gpus = draw.choice([1, 1, 2, 3, 4, 5, 6, 8, 8, 12, 16])
    vcpus = draw.choice([draw.randint(2, 128), draw.choice([2, 4, 8, 32, 64, 128]), draw.choice([3, 5, 9, 17, 63])])
    table = _rates(draw)
    roof = gpus * max(table.values())
    parallel = draw.choice([1.0, draw.uniform(0.8, 1), draw.uniform(0.95, 1)])
    image_kb = draw.uniform(5, 500)
    memory = draw.choice([4000, 11439, 16000, 24000, 80000])
    images = draw.choice([1, 2, 3, draw.randint(1, 16), draw.randint(8, 300), draw.randint(8, 300)])
    fixed = draw.uniform(0, 0.7) * memory
    return Twin(
        vcpus=vcpus, gpus=gpus, gpu_memory_mb=memory, memory_mb_fixed=fixed,
        memory_mb_per_image=(memory - fixed) / (images + 0.999 * draw.random()),
        decode_images_per_second_per_thread=roof * _log_uniform(draw, 0.05, 20) * (1 - parallel + parallel / vcpus),
        decode_parallel_fraction=parallel, disk_mb_per_second=roof * _log_uniform(draw, 0.2, 50) * image_kb / 1000,
        image_kb=image_kb, noise=draw.choice([0, 0, draw.uniform(0, 0.005), 0.005, draw.uniform(0.005, 0.05), 0.05]),
        gpu_images_per_second=table,
    )  # fmt: skip


def _rates(draw: random.Random) -> dict[int, float]:
    top, half = _log_uniform(draw, 10, 2000), draw.uniform(0.3, 15)
    batches = sorted({draw.choice([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256]) for _ in range(8)})
    rates = {batch: top * batch / (batch + half) for batch in batches}
    kind = draw.choice(["saturating", "saturating", "saturating", "peak", "flat", "one point", "rough"])
    if kind == "flat":
        return {1: top, 64: top * 1.005}
    if kind == "one point":
        return {draw.choice([1, 2, 8, 32]): top}
    if kind == "rough":
        return {batch: rate * draw.uniform(0.9, 1.1) for batch, rate in rates.items()}
    if kind == "peak":
        best, fall = draw.choice(batches), draw.uniform(0.7, 0.99)
        return {b: rate if b <= best else rates[best] * fall ** (batches.index(b) - batches.index(best))
                for b, rate in rates.items()}  # fmt: skip
    return rates


def _log_uniform(draw: random.Random, low: float, high: float) -> float:
    return math.exp(draw.uniform(math.log(low), math.log(high)))


def powers_and(most: int) -> list[int]:
    """1, 2, 4, ... and the most."""
    return [*(1 << k for k in range((most - 1).bit_length())), most] if most > 1 else [1]


def largest_batch(twin: Twin) -> int:
    images = int((twin.gpu_memory_mb - twin.memory_mb_fixed) / twin.memory_mb_per_image) + 1
    while not twin.fits(images * twin.gpus):
        images -= 1
    return images * twin.gpus


def grid(twin: Twin) -> tuple[float, float]:
    """The best throughput of an exhaustive grid, and the seconds that it takes."""
    batches = [images * twin.gpus for images in powers_and(largest_batch(twin) // twin.gpus)]
    threads = powers_and(twin.vcpus)
    best = max(twin.throughput(batch, count) for batch in batches for count in threads)
    return best, GRID_PROBE_SECONDS * len(batches) * len(threads)


def fewest_threads(twin: Twin, batch: int) -> int:
    """That are within the tolerance of what all of them give."""
    enough = (1 - TOLERANCE) * twin.throughput(batch, twin.vcpus)
    return next(count for count in range(1, twin.vcpus + 1) if twin.throughput(batch, count) >= enough)
