import struct
import zlib

import cv2
import numpy as np
import pytest
import simplejpeg
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.data.decode import check_picture, decode
from trainer.data.framing import BadRecordError


def smooth(height=40, width=60, channels=3):
    """A picture that JPEG keeps well: colours that change slowly, different in each channel and corner."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [50 + 150 * y / height, 200 - 150 * x / width, 20 + 100 * x / width + 100 * y / height, 255 - 2 * y]
    return np.stack(planes[:channels], -1).astype(np.uint8)


def png(image):
    return cv2.imencode(".png", image)[1].tobytes()


def bgr(image):
    return np.ascontiguousarray(image[..., ::-1])


def exif_turned(picture):
    """The same JPEG with an EXIF orientation of 6 (a quarter turn)."""
    tiff = b"MM\0*\0\0\0\x08" + struct.pack(">HHHIHHI", 1, 0x0112, 3, 1, 6, 0, 0)
    return picture[:2] + b"\xff\xe1" + struct.pack(">H", len(tiff) + 8) + b"Exif\0\0" + tiff + picture[2:]


RGB = smooth()
GREY = smooth(channels=1)
GREY_AS_RGB = np.repeat(GREY, 3, axis=2)
JPEG = simplejpeg.encode_jpeg(RGB, 95, "RGB", "444")

PICTURES = {
    "JPEG": (JPEG, RGB),
    "JPEG with EXIF": (exif_turned(JPEG), RGB),
    "JPEG with bytes behind it": (JPEG + b"\0" * 9, RGB),
    "grey JPEG": (simplejpeg.encode_jpeg(GREY, 95, "GRAY"), GREY_AS_RGB),
    "progressive JPEG": (cv2.imencode(".jpg", bgr(RGB), [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])[1].tobytes(), RGB),
    "PNG": (png(bgr(RGB)), RGB),
    "grey PNG": (png(GREY), GREY_AS_RGB),
    "PNG of 16 bits": (png(bgr(RGB).astype(np.uint16) * 257), RGB),
    "PNG with alpha": (png(np.dstack([bgr(RGB), GREY])), RGB),
    "BMP": (cv2.imencode(".bmp", bgr(RGB))[1].tobytes(), RGB),
}


@pytest.mark.parametrize("picture, expected", PICTURES.values(), ids=PICTURES)
def test_every_kind_becomes_rgb(picture, expected):
    image = decode(picture)
    assert image.dtype == np.uint8
    assert image.shape == expected.shape
    assert np.abs(image.astype(int) - expected).max() <= 8


@pytest.mark.parametrize("quality", [70, 95])
def test_cmyk_has_the_colours_that_opencv_gives_it(quality):
    picture = simplejpeg.encode_jpeg(smooth(channels=4), quality, "CMYK")
    reference = cv2.imdecode(np.frombuffer(picture, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
    assert np.abs(decode(picture).astype(int) - reference).max() <= 2  # one rounds, the other cuts off


def test_pixels_are_those_of_another_libjpeg():
    image = np.random.default_rng(0).integers(0, 255, (90, 70, 3), np.uint8)
    picture = simplejpeg.encode_jpeg(image, 80)
    reference = cv2.imdecode(np.frombuffer(picture, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
    assert np.abs(decode(picture).astype(int) - reference).max() <= 1


def with_size(picture, height, width):
    at = picture.index(b"\xff\xc0")
    return picture[: at + 5] + struct.pack(">HH", height, width) + picture[at + 9 :]


DAMAGED = {
    "nothing": (b"", "no picture"),
    "words": (b"no picture at all", "no picture .*6e6f2070"),
    "half a JPEG": (JPEG[: len(JPEG) // 2], "damaged JPEG: Premature end"),
    "JPEG without its end": (JPEG[:-2], "damaged JPEG: Premature end"),
    "JPEG's header": (JPEG[:100], "damaged JPEG"),
    "end marker too early": (JPEG[: len(JPEG) - 60] + b"\xff\xd9", "damaged JPEG"),
    "half a PNG": (png(bgr(RGB))[:-100], "damaged PNG: cut"),
    "changed PNG": (png(RGB)[:90] + b"\0\0\0" + png(RGB)[93:], "damaged PNG: wrong checksum"),
    "PNG's first bytes": (png(RGB)[:10], "damaged PNG: cut"),
    "huge JPEG": (with_size(JPEG, 65000, 65000), "65000 x 65000 pixels, more than 100 megapixels"),
}


@pytest.mark.parametrize("picture, message", DAMAGED.values(), ids=DAMAGED)
def test_damage_is_found_and_named(picture, message):
    with pytest.raises(BadRecordError, match=message):
        decode(picture)


def test_a_png_of_impossible_size_is_refused_before_it_is_decoded():
    picture = bytearray(png(RGB))
    picture[16:24] = struct.pack(">II", 60000, 60000)
    picture[29:33] = struct.pack(">I", zlib.crc32(picture[12:29]))
    with pytest.raises(BadRecordError, match="more than 100 megapixels"):
        decode(bytes(picture))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([JPEG, png(RGB), *[picture for picture, _ in PICTURES.values()]]), st.data())
def test_damaged_pictures_raise_one_kind_of_error(picture, data):
    damaged = bytearray(picture)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(1, len(damaged))) :]
    for judge in (decode, check_picture):
        try:
            judge(bytes(damaged))
        except BadRecordError as error:
            assert error.reason
