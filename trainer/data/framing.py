"""How a RecordIO file of images is laid out.

A record is one part or several. A part is the magic, a word (upper 3 bits: which part, lower 29: its bytes), the bytes,
zeros up to a multiple of 4. dmlc-core, whose format this is, cuts a record wherever its bytes hold the magic at a
multiple of 4 and leaves those 4 bytes out: so the magic at such a place always starts a part, and readers can find
their way again.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from trainer.errors import DataError

MAGIC = struct.pack("<I", 0xCED7230A)
PART_HEAD = struct.Struct("<4sI")
IMAGE_HEADER = struct.Struct("<IfQQ")  # number of extra labels, the one label, id, second id
LENGTH_BITS = 29
LENGTH_MASK = (1 << LENGTH_BITS) - 1
WHOLE, FIRST, MIDDLE, LAST = 0, 1, 2, 3


class BadRecordError(DataError):
    """One record that cannot be used; `reason` says why in words."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


class Image(NamedTuple):
    """What a record holds: its labels as float32 [label_width], its id, the picture's bytes."""

    labels: np.ndarray
    id: int
    picture: bytes


def unpack_image(payload: bytes) -> Image:
    """The parts of an image record; BadRecordError when it is too short for its own header."""
    if len(payload) < IMAGE_HEADER.size:
        raise BadRecordError(f"the record has {len(payload)} bytes, too few for an image header")
    extra, label, record_id, _ = IMAGE_HEADER.unpack_from(payload)
    start = IMAGE_HEADER.size + 4 * extra
    if start > len(payload):
        raise BadRecordError(f"the header announces {extra} labels, more than the record holds")
    if not extra:
        return Image(np.array([label], np.float32), record_id, payload[start:])
    return Image(np.frombuffer(payload, "<f4", extra, IMAGE_HEADER.size), record_id, payload[start:])


def parse_head(head: bytes) -> tuple[int, int]:
    """Which part of a record starts here, and its bytes; BadRecordError when none does."""
    if len(head) < PART_HEAD.size:
        raise BadRecordError("the file ends inside the record")
    magic, word = PART_HEAD.unpack(head)
    if magic != MAGIC:
        raise BadRecordError(f"no record starts here (found {magic.hex()}, the magic is {MAGIC.hex()})")
    return word >> LENGTH_BITS, word & LENGTH_MASK


def padded(length: int) -> int:
    """The bytes that a part of this length takes, without its head."""
    return (length + 3) & ~3


def join_parts(read: Callable[[int, int], bytes], offset: int, end: int) -> tuple[bytes, int]:
    """The bytes of the record at `offset`, and where the next one starts.

    `read(offset, size)` reads the file; nothing beyond `end` belongs to the record. BadRecordError when it is damaged.
    """
    pieces: list[bytes] = []
    while True:
        part, length = parse_head(read(offset, PART_HEAD.size))
        if part not in ((MIDDLE, LAST) if pieces else (WHOLE, FIRST)):
            raise BadRecordError(f"a part of kind {part} at byte {offset} is out of place")
        start, offset = offset + PART_HEAD.size, offset + PART_HEAD.size + padded(length)
        if offset > end:
            raise BadRecordError(f"the record claims {length} bytes, {offset - end} more than there are")
        pieces.append(read(start, length))
        if part in (WHOLE, LAST):
            return MAGIC.join(pieces), offset
