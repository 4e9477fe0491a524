"""Pictures from bytes: always RGB, never turned by EXIF, refused when any of it is damaged."""

import struct
import zlib

import cv2
import numpy as np
import simplejpeg

from trainer.data.framing import BadRecordError

cv2.setNumThreads(1)  # the loader's threads are the parallelism

# Above it a picture is a mistake or an attack: 100 megapixels take 300 MB in memory.
MOST_PIXELS = 100_000_000

_JPEG, _PNG = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"
_IGNORE_EXIF = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION


def decode(picture: bytes) -> np.ndarray:
    """The picture as uint8 [height, width, 3], RGB. BadRecordError, with the reason, unless it is whole."""
    if picture.startswith(_JPEG):
        return _decode_jpeg(picture)
    if picture.startswith(_PNG):
        check_png(picture)
    return _decode_other(picture)


def _decode_jpeg(picture: bytes) -> np.ndarray:
    try:
        height, width, colorspace, _ = simplejpeg.decode_jpeg_header(picture)
        _check_pixels(height, width)
        if colorspace in ("CMYK", "YCCK"):
            return _cmyk_to_rgb(simplejpeg.decode_jpeg(picture, "CMYK"))
        return simplejpeg.decode_jpeg(picture, "RGB")
    except ValueError as error:
        raise BadRecordError(f"damaged JPEG: {error}") from error


def _cmyk_to_rgb(inks: np.ndarray) -> np.ndarray:
    """CMYK pictures store 255 minus the ink, as Adobe does and every decoder assumes."""
    return ((inks[..., :3].astype(np.uint16) * inks[..., 3:] + 127) // 255).astype(np.uint8)


def _decode_other(picture: bytes) -> np.ndarray:
    try:
        image = cv2.imdecode(np.frombuffer(picture, np.uint8), _IGNORE_EXIF)
    except cv2.error as error:
        raise BadRecordError(f"no picture that OpenCV can read: {error.err}") from error
    if image is None:
        raise BadRecordError(f"no picture (starts with {picture[:4].hex() or 'nothing'})")
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)


def check_jpeg(picture: bytes) -> None:
    """Finds a JPEG that was cut, without decoding it; BadRecordError.

    The pixels' end marker is sought behind the header's segments, where an EXIF thumbnail has one of its own.
    """
    at = 2
    while picture[at : at + 1] == b"\xff":
        marker = picture[at + 1 : at + 2]
        if marker == b"\xff":
            at += 1
        elif marker == b"\xda":
            if picture.rfind(b"\xff\xd9", at) < 0:
                raise BadRecordError("damaged JPEG: cut before its end marker")
            return
        else:
            at += 2 + int.from_bytes(picture[at + 2 : at + 4], "big")
    raise BadRecordError("damaged JPEG: cut inside its header")


def check_png(picture: bytes) -> None:
    """Finds a PNG that was cut or changed, by its chunks' checksums; BadRecordError. OpenCV would return half of it."""
    at, kind = len(_PNG), b""
    while kind != b"IEND":
        length, kind = struct.unpack_from(">I4s", picture, at) if at + 8 <= len(picture) else (0, b"")
        end = at + 8 + length
        if not kind or end + 4 > len(picture):
            raise BadRecordError("damaged PNG: cut before its end")
        if zlib.crc32(memoryview(picture)[at + 4 : end]) != int.from_bytes(picture[end : end + 4], "big"):
            raise BadRecordError(f"damaged PNG: wrong checksum at byte {at}")
        if kind == b"IHDR" and length == 13:
            width, height = struct.unpack_from(">II", picture, at + 8)
            _check_pixels(height, width)
        at = end + 4


def check_picture(picture: bytes) -> None:
    """Whether the bytes are a whole JPEG or PNG, as far as can be told without decoding; BadRecordError."""
    if picture.startswith(_JPEG):
        check_jpeg(picture)
    elif picture.startswith(_PNG):
        check_png(picture)
    else:
        raise BadRecordError("neither JPEG nor PNG" if picture else "empty")


def _check_pixels(height: int, width: int) -> None:
    if height * width > MOST_PIXELS:
        raise BadRecordError(f"a picture of {width} x {height} pixels, more than {MOST_PIXELS // 1_000_000} megapixels")
