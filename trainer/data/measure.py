"""How fast the input pipeline is: images a second and processor time an image, of several engines in turn."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

import simplejpeg

from trainer.data.framing import BadRecordError
from trainer.data.loader import TrainLoader
from trainer.data.mxnet_engine import MxnetLoader
from trainer.data.records import RecordFile, open_records

# kit: this machine's decoder. kit-wheel: without the crop decoder. decode: whole JPEGs to pixels and nothing else.
ENGINES = ("kit", "kit-wheel", "mxnet", "decode")
# The first batches start threads and fill queues.
_WARM_UP_BATCHES = 4


@dataclass(frozen=True)
class Work:
    """What each engine does: random resized crops to size x size, flips, batches."""

    batch_size: int = 64
    size: int = 224
    dtype: str = "float32"
    mean: tuple[float, float, float] = (123.68, 116.779, 103.939)
    std: tuple[float, float, float] = (58.393, 57.12, 57.375)


@dataclass(frozen=True)
class Speed:
    images_per_second: float
    cpu_ms_per_image: float


# Steps, each of which gives the number of images that it made.
Steps = Iterator[int]


def measure(
    path: Path, engines: list[str], threads: list[int], *, rounds: int, seconds: float, work: Work,
    advance: Callable[[float], None] = lambda _: None,
) -> list[dict]:
    """Rows of engine, threads, images_per_second and cpu_ms_per_image (medians over the rounds), share_of_linear.

    Every round has a turn of each engine at each number of threads, so that a slow spell of the machine meets them all.
    share_of_linear: of the speed at the fewest threads times the factor by which the threads grew. DataError.
    """
    found: dict[tuple[str, int], list[Speed]] = defaultdict(list)
    records = open_records(path)
    try:
        for _ in range(rounds):
            for engine in engines:
                for count in threads:
                    with _STARTERS[engine](records, count, work) as steps:
                        found[engine, count].append(_timed(steps, seconds))
                    advance(1)
    finally:
        records.close()
    return _rows(found)


def _timed(steps: Steps, seconds: float) -> Speed:
    for _ in islice(steps, _WARM_UP_BATCHES):
        pass
    images, cpu, began = 0, time.process_time(), time.monotonic()
    while time.monotonic() - began < seconds:
        images += next(steps)
    wall, cpu = time.monotonic() - began, time.process_time() - cpu
    return Speed(images / wall, 1000 * cpu / images)


def _rows(found: dict[tuple[str, int], list[Speed]]) -> list[dict]:
    speeds = {place: median(speed.images_per_second for speed in turns) for place, turns in found.items()}
    return [
        {
            "engine": engine, "threads": threads, "images_per_second": round(speeds[engine, threads], 1),
            "cpu_ms_per_image": round(median(turn.cpu_ms_per_image for turn in turns), 4),
            "share_of_linear": round(_share_of_linear(speeds, engine, threads), 3),
        }
        for (engine, threads), turns in found.items()
    ]  # fmt: skip


def _share_of_linear(speeds: dict[tuple[str, int], float], engine: str, threads: int) -> float:
    fewest = min(count for name, count in speeds if name == engine)
    return speeds[engine, threads] / (speeds[engine, fewest] * threads / fewest)


def _loader_arguments(work: Work, threads: int) -> dict:
    return {
        "batch_size": work.batch_size, "image_shape": (3, work.size, work.size), "mean": work.mean, "std": work.std,
        "augmentation": "crop", "seed": 0, "threads": threads,
    }  # fmt: skip


def _kit(crop_only: bool):
    @contextmanager
    def start(records: RecordFile, threads: int, work: Work) -> Iterator[Steps]:
        loader = TrainLoader(records, **_loader_arguments(work, threads), dtype=work.dtype, crop_only=crop_only)
        try:
            yield (len(batch.labels) for batch in loader.at(0, 0))
        finally:
            loader.close()

    return start


@contextmanager
def _mxnet(records: RecordFile, threads: int, work: Work) -> Iterator[Steps]:
    """MXNet's iterator as it is: what the kit's interface adds to it is not counted against it."""
    loader = MxnetLoader(records, **_loader_arguments(work, threads))

    def steps() -> Steps:
        for epoch in range(1_000_000):
            for batch in loader.iterator(epoch, 0):
                batch.data[0].wait_to_read()
                yield work.batch_size - batch.pad

    yield steps()


@contextmanager
def _decode(records: RecordFile, threads: int, work: Work) -> Iterator[Steps]:
    pictures = list(_jpegs(records))
    pool = ThreadPoolExecutor(threads)

    def decode(k: int) -> int:
        for j in range(k, k + work.batch_size):
            simplejpeg.decode_jpeg(pictures[j % len(pictures)], "RGB")
        return work.batch_size

    def steps() -> Steps:
        tasks = [pool.submit(decode, n * work.batch_size) for n in range(2 * threads)]
        while True:
            tasks.append(pool.submit(decode, len(tasks) * work.batch_size))
            yield tasks.pop(0).result()

    try:
        yield steps()
    finally:
        pool.shutdown(cancel_futures=True)


def _jpegs(records: RecordFile, most_bytes: int = 200_000_000) -> Iterator[bytes]:
    for i in range(len(records)):
        try:
            picture = records.read(i)[1]
            simplejpeg.decode_jpeg(picture, "RGB")
        except (BadRecordError, ValueError):
            continue
        most_bytes -= len(picture)
        if most_bytes < 0:
            return
        yield picture


_STARTERS = {"kit": _kit(crop_only=True), "kit-wheel": _kit(crop_only=False), "mxnet": _mxnet, "decode": _decode}
