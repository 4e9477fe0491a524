"""Damaged record files, many of them, through open, check and load: `python fuzz_records.py COUNT FIRST_SEED FOLDER`.

Prints how many files each step accepted. Any exception but DataError, a crash or a hang is a fault; memory is limited.
"""

import faulthandler
import resource
import struct
import sys
from contextlib import closing
from itertools import islice
from pathlib import Path

import cv2
import numpy as np
import simplejpeg

from trainer.data.framing import MAGIC
from trainer.data.loader import TrainLoader
from trainer.data.record_writer import RecordWriter
from trainer.data.records import index_path, open_records
from trainer.data.verify import verify
from trainer.errors import DataError

MEMORY_BYTES = 3 << 30
SECONDS_A_FILE = 20
WORDS = [0, 1, 0x1FFFFFFF, 0xFFFFFFFF, 0x20000000, 0x40000000, 0x60000000, 0x7FFFFFFF, 24, 23, 3]


def whole_file(path: Path) -> bytes:
    """Records of several kinds of pictures, of one and of several parts."""
    generator = np.random.default_rng(0)
    image = cv2.resize(generator.integers(0, 255, (6, 8, 3), np.uint8), (40, 30))
    pictures = [simplejpeg.encode_jpeg(image, 80, "RGB", sampling) for sampling in ("444", "420", "422")]
    pictures += [cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])[1].tobytes()]
    pictures += [cv2.imencode(".png", image)[1].tobytes(), pictures[0] + b"\0" * 3 + MAGIC * 3]
    with RecordWriter(path) as writer:
        for key, picture in enumerate(pictures):
            writer.write(key, float(key % 2), picture)
        writer.publish()
    return path.read_bytes()


def damaged(generator: np.random.Generator, content: bytes) -> bytes:
    """Bits flipped, bytes replaced, lengths and magics put anywhere, parts cut out, doubled or swapped."""
    data = bytearray(content)
    for _ in range(generator.integers(1, 5)):
        if len(data) < 8:
            break
        at, end = sorted(generator.integers(0, len(data), 2).tolist())
        kind = generator.integers(8)
        if kind == 0:
            data[at] ^= 1 << generator.integers(8)
        elif kind == 1:
            data[at] = generator.integers(256)
        elif kind == 2:
            data[at & ~3 : (at & ~3) + 4] = struct.pack("<I", WORDS[generator.integers(len(WORDS))])
        elif kind == 3:
            data[at & ~3 : (at & ~3) + 4] = MAGIC
        elif kind == 4 and generator.random() < 0.3:
            del data[at:]
        elif kind == 5 and generator.random() < 0.3:
            del data[at:end]
        elif kind == 6:
            data[at:at] = data[at:end][:200]
        else:
            found = content.find(MAGIC, at)  # a record's own head: its length, label, number of labels
            if found >= 0 and found + 24 < len(data):
                place = found + 4 * int(generator.integers(1, 6))
                data[place : place + 4] = struct.pack("<I", WORDS[generator.integers(len(WORDS))])
    return bytes(data)


def accepted(steps: dict, name: str, step) -> None:
    try:
        step()
        steps[name] += 1
    except DataError as error:
        assert str(error)


def load(path: Path) -> None:
    with closing(open_records(path)) as records:
        loader = TrainLoader(
            records, batch_size=8, image_shape=(3, 16, 16), mean=(0, 0, 0), std=(1, 1, 1), augmentation="imagenet",
            seed=0, threads=2,
        )  # fmt: skip
        with closing(loader):
            for batch in islice(loader.at(0, 0), 2):
                assert np.isfinite(batch.images).all()


def main(count: int, seed: int, folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    path, steps = folder / "f.rec", {"open": 0, "check": 0, "load": 0}
    content, index = whole_file(path), index_path(path).read_bytes()
    generator = np.random.default_rng(seed)
    for _ in range(count):
        faulthandler.dump_traceback_later(SECONDS_A_FILE, exit=True)
        path.write_bytes(damaged(generator, content))
        index_path(path).write_bytes(damaged(generator, index) if generator.random() < 0.1 else index)
        accepted(steps, "open", lambda: open_records(path).close())
        accepted(steps, "check", lambda: verify(path, threads=1, rebuild_index=False, advance=lambda _: None))
        if generator.random() < 0.3:  # an index for what is left, so that more files get as far as loading
            accepted(steps, "check", lambda: verify(path, threads=1, rebuild_index=True, advance=lambda _: None))
        accepted(steps, "load", lambda: load(path))
    faulthandler.cancel_dump_traceback_later()
    print(count, *steps.values(), most_memory_mb())


def most_memory_mb() -> int:
    """The process's own peak: getrusage would count what its parent had before it started this program."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
