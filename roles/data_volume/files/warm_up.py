#!/usr/bin/python3
"""Reads every block of a disk once, in order, several reads at a time: a volume from a snapshot is slow only once.

warm_up.py DEVICE VOLUME_ID PROGRESS_FILE. The file holds one JSON object: volume_id, bytes_read, bytes_total,
bytes_per_second, seconds_left, finished. All below bytes_read has been read. A run that was ended continues there; a
volume that was read to its end is not read again, wherever it is attached.
"""

import json
import os
import sys
import threading
import time

# Each read of a block that is still in the snapshot waits some 10 ms, so many wait at once.
READERS = 16
READ_BYTES = 1 << 20
REPORT_SECONDS = 5.0


def main() -> None:
    device, volume_id, progress_file = sys.argv[1:]
    file = os.open(device, os.O_RDONLY)
    total = os.lseek(file, 0, os.SEEK_END)
    before = load(progress_file, volume_id)
    if before.get("finished") and before.get("bytes_total") == total:
        print(f"{volume_id} is warm")
        return
    start = min(before.get("bytes_read", 0), total) // READ_BYTES * READ_BYTES
    began = time.monotonic()
    report(progress_file, progress(volume_id, start, start, total, 0))
    for position in positions(file, start, total):
        report(progress_file, progress(volume_id, start, position, total, time.monotonic() - began))


def load(path: str, volume_id: str) -> dict:
    """What was written before about this volume; nothing when it was another one (the snapshot's source)."""
    try:
        with open(path) as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if found.get("volume_id") == volume_id else {}


def positions(file: int, start: int, total: int):
    """Yields, every few seconds and at the end, how far everything has been read."""
    offsets = iter(range(start, total, READ_BYTES))
    lock, errors, at_work = threading.Lock(), [], {}

    def read_on(reader: int) -> None:
        while True:
            with lock:
                offset = None if errors else next(offsets, None)
                at_work[reader] = total if offset is None else offset
            if offset is None:
                return
            try:
                os.pread(file, READ_BYTES, offset)
                # The page cache is for training, which reads through the file system.
                os.posix_fadvise(file, offset, READ_BYTES, os.POSIX_FADV_DONTNEED)
            except OSError as error:
                errors.append(error)

    readers = [threading.Thread(target=read_on, args=(number,), daemon=True) for number in range(READERS)]
    for reader in readers:
        reader.start()
    position = start
    while position < total:
        deadline = time.monotonic() + REPORT_SECONDS
        for reader in readers:
            reader.join(max(deadline - time.monotonic(), 0))
        if errors:
            raise errors[0]
        with lock:
            position = min(at_work.values())
        yield position


def progress(volume_id: str, start: int, position: int, total: int, seconds: float) -> dict:
    rate = (position - start) / seconds if seconds > 0 else 0
    return {
        "volume_id": volume_id, "bytes_read": position, "bytes_total": total, "bytes_per_second": round(rate),
        "seconds_left": round((total - position) / rate) if rate else None, "finished": position == total,
    }


def report(path: str, now: dict) -> None:
    with open(path + ".part", "w") as file:
        json.dump(now, file)
        os.fchmod(file.fileno(), 0o644)
    os.replace(path + ".part", path)
    left = "" if now["seconds_left"] is None else f", {now['seconds_left']} s left"
    print(
        f"{now['volume_id']}: {now['bytes_read'] / 1e9:.1f} of {now['bytes_total'] / 1e9:.1f} GB, "
        f"{now['bytes_per_second'] / 1e6:.0f} MB/s{left}", flush=True,
    )


if __name__ == "__main__":
    main()
