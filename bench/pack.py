"""Packing speed: pass-through records of 110 KB pictures from a warm cache, beside a plain copy of the same bytes."""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import simplejpeg

PICTURES, CLASSES, ROUNDS = 2000, 4, 3
LEAST_IMAGES_PER_SECOND = 2000


def make_pictures(folder: Path) -> None:
    """Noisy JPEGs of about 110 KB: few distinct ones, for packing does not look inside."""
    generator = np.random.default_rng(0)
    pictures = [
        simplejpeg.encode_jpeg(generator.integers(0, 256, (375, 500, 3), dtype=np.uint8), quality=30) for _ in range(8)
    ]
    for number in range(PICTURES):
        place = folder / f"class{number % CLASSES}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:05d}.jpg").write_bytes(pictures[number % len(pictures)])


def seconds_to_copy(folder: Path, out: Path) -> float:
    started = time.monotonic()
    with open(out, "wb") as file:
        for path in sorted(folder.rglob("*.jpg")):
            file.write(path.read_bytes())
    return time.monotonic() - started


def seconds_to_pack(folder: Path, out: Path) -> float:
    shutil.rmtree(out, ignore_errors=True)
    program = (
        "import sys, time; from pathlib import Path; from contextlib import nullcontext\n"
        "from trainer.data.pack import Options, pack\n"
        "started = time.monotonic(); folder, out = map(Path, sys.argv[1:])\n"
        "pack(folder, out, Options(), 2, lambda *a, **k: nullcontext(lambda *a: None))\n"
        "print(time.monotonic() - started)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(folder), str(out)], check=True, capture_output=True, text=True
    )
    return float(result.stdout)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="kit-bench-") as scratch:
        folder, out = Path(scratch, "pictures"), Path(scratch, "packed")
        make_pictures(folder)
        size_kb = next(folder.rglob("*.jpg")).stat().st_size / 1000
        rounds = [(seconds_to_copy(folder, Path(scratch, "copy")), seconds_to_pack(folder, out)) for _ in range(ROUNDS)]
    copy, pack = min(row[0] for row in rounds), min(row[1] for row in rounds)
    rate = PICTURES / pack
    print(f"{PICTURES} pictures of {size_kb:.0f} KB: copied in {copy:.2f} s, packed in {pack:.2f} s")
    holds = rate >= LEAST_IMAGES_PER_SECOND
    print(f"{'ok    ' if holds else 'MISSED'}  pack: {rate:,.0f} images/s (at least {LEAST_IMAGES_PER_SECOND:,})")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
