"""Structs from a MATLAB 5 file, of which ImageNet's development kit has one (format: MathWorks, "MAT-File Format")."""

import struct
import zlib
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

_HEADER_BYTES = 128
_NUMBERS = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8", 13: "<u8"}
_TEXTS = {1: "ascii", 2: "ascii", 4: "utf-16-le", 16: "utf-8", 17: "utf-16-le"}
_MATRIX, _COMPRESSED = 14, 15
_STRUCT, _CHARACTERS = 2, 4


def read_structs(content: bytes, name: str) -> list[dict[str, Any]]:
    """The elements of a struct array: texts as str, numbers as flat arrays, all else as None.

    ValueError when the file is none of MATLAB 5, damaged, or has no such array.
    """
    if len(content) < _HEADER_BYTES or content[126:128] != b"IM":
        raise ValueError("no little-endian MATLAB 5 file")
    try:
        for kind, data in _elements(content[_HEADER_BYTES:]):
            if kind == _COMPRESSED:
                kind, data = next(_elements(zlib.decompress(data)))
            if kind == _MATRIX and _name(data) == name:
                return _structs(data)
    except (struct.error, zlib.error, StopIteration, IndexError, KeyError, UnicodeDecodeError) as error:
        raise ValueError(f"damaged MATLAB file ({error})") from error
    raise ValueError(f'no array "{name}"')


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, bytes) of each element; small ones have both in 8 bytes."""
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if kind >> 16:
            kind, size, start, at = kind & 0xFFFF, kind >> 16, at + 4, at + 8
        else:
            start = at + 8
            at = start + (size if kind == _COMPRESSED else (size + 7) & ~7)
        if start + size > len(data):
            raise IndexError("an element is cut")
        yield kind, data[start : start + size]


def _name(matrix: bytes) -> str:
    parts = [data for _, data in _elements(matrix)]
    return parts[2].decode("ascii")


def _structs(matrix: bytes) -> list[dict[str, Any]]:
    (_, flags), (_, dimensions), _, (_, length), (_, names), *values = _elements(matrix)
    if flags[0] != _STRUCT:
        raise ValueError("no array of structs")
    step = int.from_bytes(length, "little")
    fields = [names[at : at + step].rstrip(b"\0").decode("ascii") for at in range(0, len(names), step)]
    count = prod(np.frombuffer(dimensions, "<i4").tolist())
    if not fields or len(values) != count * len(fields):
        raise IndexError("structs are missing")
    parsed = [_value(data) for _, data in values]
    return [dict(zip(fields, parsed[at : at + len(fields)], strict=True)) for at in range(0, len(parsed), len(fields))]


def _value(matrix: bytes) -> Any:
    parts = list(_elements(matrix))
    if len(parts) < 4:
        return None
    kind, data = parts[3]
    if parts[0][1][0] == _CHARACTERS:
        return data.decode(_TEXTS[kind])
    return np.frombuffer(data, _NUMBERS[kind]) if kind in _NUMBERS else None
