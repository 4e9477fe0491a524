"""The crop decoder against whole decoding and against Pillow, and against damage."""

import io
import os
import subprocess
import sys

import cv2
import numpy as np
import pytest
import simplejpeg
from PIL import Image

from trainer.data import native
from trainer.data.augment import Views
from trainer.data.decode import decode
from trainer.data.fill import fill_whole
from trainer.data.framing import BadRecordError
from trainer.data.native import build
from trainer.data.target import Target

WHY_NOT = build.build()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=f"no crop decoder here: {WHY_NOT}")


def photo(height, width, seed=0):
    """Coarse and fine detail in all colours."""
    generator = np.random.default_rng(seed)
    coarse = generator.integers(0, 235, (height // 8 + 2, width // 8 + 2, 3), np.uint8)
    return cv2.resize(coarse, (width, height)) + generator.integers(0, 20, (height, width, 3), np.uint8)


def levels(height, width):
    return Target.of((3, height, width), (0, 0, 0), (1, 1, 1), "uint8")


def crop(picture, box, height, width, flip=False):
    """uint8 [height, width, 3], None when the decoder leaves it undone."""
    sources, out = native.Sources.in_memory([picture]), np.empty((1, 3, height, width), np.uint8)
    sources.measure(np.empty(1, np.float32))
    done = sources.render(Views(np.array([box]), np.array([flip])), levels(height, width), out)
    return out[0].transpose(1, 2, 0) if done.all() else None


def boxes(height, width, count, seed=0):
    generator = np.random.default_rng(seed)
    for _ in range(count):
        box_height, box_width = generator.integers(1, height + 1), generator.integers(1, width + 1)
        left, top = generator.integers(0, width - box_width + 1), generator.integers(0, height - box_height + 1)
        yield int(left), int(top), int(box_width), int(box_height)


@pytest.mark.parametrize("sampling", ["444", "422", "420", "440", "411"])
@pytest.mark.parametrize("height, width", [(64, 64), (97, 131), (33, 250), (200, 49)])
def test_unscaled_crops_are_exactly_those_of_the_whole_picture(sampling, height, width):
    picture = simplejpeg.encode_jpeg(photo(height, width), 92, "RGB", sampling)
    whole = simplejpeg.decode_jpeg(picture, "RGB")
    for left, top, box_width, box_height in boxes(height, width, 60):
        expected = whole[top : top + box_height, left : left + box_width]
        assert np.array_equal(crop(picture, (left, top, box_width, box_height), box_height, box_width), expected)


def pillow(picture, box, height, width, reduced_by=1):
    """What Pillow's libjpeg decodes, cropped, then scaled linearly by OpenCV."""
    image = Image.open(io.BytesIO(picture))
    if reduced_by > 1:
        image.draft("RGB", (image.width // reduced_by, image.height // reduced_by))
    left, top, box_width, box_height = (value // reduced_by for value in box)
    part = np.asarray(image.convert("RGB"))[top : top + box_height, left : left + box_width]
    return cv2.resize(part, (width, height), interpolation=cv2.INTER_LINEAR)


@pytest.mark.parametrize("mode", ["444", "420", "grey"])
def test_scaled_crops_are_pillows_within_a_level(mode):
    image = photo(300, 400)
    picture = (
        simplejpeg.encode_jpeg(image[..., :1].copy(), 90, "GRAY") if mode == "grey"
        else simplejpeg.encode_jpeg(image, 90, "RGB", mode)
    )  # fmt: skip
    for box in boxes(300, 400, 80):
        if box[2] < 2 * 96 or box[3] < 2 * 96:
            expected = pillow(picture, box, 96, 96).astype(int)
            assert np.abs(crop(picture, box, 96, 96) - expected).max() <= 1
            assert np.abs(crop(picture, box, 96, 96, flip=True)[:, ::-1] - expected).max() <= 1


@pytest.mark.parametrize("reduced_by, side", [(2, 256), (4, 512), (8, 1024)])
def test_crops_of_large_pictures_are_pillows_reduced_ones_within_a_level(reduced_by, side):
    picture = simplejpeg.encode_jpeg(photo(side + 64, side + 128), 90)
    box = (64, 32, side, side)
    expected = pillow(picture, box, 100, 100, reduced_by).astype(int)
    assert np.abs(crop(picture, box, 100, 100) - expected).max() <= 1


def test_large_pictures_look_as_when_averaged_over_all_their_pixels():
    picture = simplejpeg.encode_jpeg(cv2.GaussianBlur(photo(700, 900), (0, 0), 2), 95)
    box, whole = (50, 20, 800, 650), np.empty((3, 96, 96), np.uint8)
    fill_whole(picture, lambda *_: Views(np.array([box]), np.array([False])), np.zeros(0), levels(96, 96), whole)
    assert np.abs(crop(picture, box, 96, 96).astype(int) - whole.transpose(1, 2, 0)).mean() < 3


def test_exif_is_ignored_and_red_comes_first():
    image = np.zeros((32, 48, 3), np.uint8)
    image[..., 0] = 200
    stream, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(image).save(stream, "JPEG", quality=95, exif=exif)
    shown = crop(stream.getvalue(), (0, 0, 48, 32), 32, 48)
    assert np.abs(shown - image.astype(int)).max() <= 3


def encoded(mode, format="JPEG", **options):
    stream = io.BytesIO()
    Image.fromarray(photo(48, 64)).convert(mode).save(stream, format, **options)
    return stream.getvalue()


UNUSUAL = {
    "CMYK": encoded("CMYK"), "progressive": encoded("RGB", progressive=True), "PNG": encoded("RGB", "PNG"),
    "nothing": b"", "words": b"words" * 99, "start alone": b"\xff\xd8",
}  # fmt: skip


@pytest.mark.parametrize("picture", UNUSUAL.values(), ids=UNUSUAL)
def test_unusual_pictures_are_left_to_the_other_decoder(picture):
    assert crop(picture, (0, 0, 8, 8), 8, 8) is None


def test_cmyk_and_png_become_pillows_rgb():
    for picture, most in ((UNUSUAL["CMYK"], 2), (UNUSUAL["PNG"], 0)):
        expected = np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")).astype(int)
        assert np.abs(decode(picture) - expected).max() <= most


def test_damage_in_or_above_the_crop_and_a_missing_end_are_seen():
    picture = simplejpeg.encode_jpeg(photo(200, 200), 90)
    middle = len(picture) // 2
    top, bottom = (0, 0, 200, 20), (0, 180, 200, 20)
    broken = picture[:middle] + b"\xff\xd9" + picture[middle:]
    assert crop(picture, top, 8, 8) is not None
    assert crop(picture[:-2], top, 8, 8) is None
    assert crop(picture[:middle], top, 8, 8) is None
    assert crop(broken, bottom, 8, 8) is None
    assert crop(broken, top, 8, 8) is not None


OUTSIDE = [(-1, 0, 8, 8), (0, -1, 8, 8), (60, 0, 8, 8), (0, 30, 8, 8), (0, 0, 0, 8), (2**31 - 1, 0, 9, 9)]


@pytest.mark.parametrize("box", OUTSIDE)
def test_a_box_outside_the_picture_is_refused(box):
    assert crop(simplejpeg.encode_jpeg(photo(32, 64)), box, 8, 8) is None


def mutated(generator, picture):
    damaged = bytearray(picture)
    for _ in range(generator.integers(1, 6)):
        at = int(generator.integers(0, min(len(damaged), 700 if generator.random() < 0.5 else len(damaged))))
        damaged[at] = generator.integers(256)
    return bytes(damaged[: generator.integers(1, len(damaged))] if generator.random() < 0.1 else damaged)


def test_what_the_crop_decoder_accepts_lies_in_the_picture_or_is_refused_by_both():
    generator = np.random.default_rng(0)
    kinds = [simplejpeg.encode_jpeg(photo(90, 120), 80, "RGB", s) for s in ("444", "420")] + [UNUSUAL["progressive"]]
    pictures = [mutated(generator, kinds[k % len(kinds)]) for k in range(3000)]
    sources = native.Sources.in_memory(pictures)
    sizes = sources.measure(np.empty(len(pictures), np.float32))
    out = np.empty((len(pictures), 3, 16, 16), np.uint8)
    views = Views(np.column_stack([np.zeros_like(sizes), sizes[:, ::-1]]), np.zeros(len(pictures), bool))
    done = sources.render(views, levels(16, 16), out)
    assert 300 < done.sum() < 2900
    for k in np.flatnonzero(done):
        try:
            assert decode(pictures[k]).shape[:2] == tuple(sizes[k])
        except BadRecordError:
            assert pictures[k].count(b"\xff\xd9")  # damage behind the last pixel


def run_build(path):
    return subprocess.run(
        [sys.executable, "-m", "trainer.data.native"], env={**os.environ, "PATH": path}, capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip


def test_building_again_finds_it():
    assert run_build(os.environ["PATH"]).startswith("found ")


def test_without_a_compiler_building_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "library_path", lambda: tmp_path / "crop.so")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build.build() == "no C compiler"
    cc = tmp_path / "cc"
    cc.write_text("#!/bin/sh\necho 'crop.c:1: fatal error: jpeglib.h: No such file' >&2; exit 1\n")
    cc.chmod(0o755)
    assert build.build() == "compiling failed: crop.c:1: fatal error: jpeglib.h: No such file"
    cc.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done; echo junk >"$2"\n')
    assert build.build().startswith("what was built does not work: ")
    assert list(tmp_path.iterdir()) == [cc]


def test_without_the_library_the_other_decoder_is_named(tmp_path, monkeypatch):
    assert native.decoder_name() == native.CROPS
    with pytest.raises(OSError):
        native.load(tmp_path / "none.so")
    monkeypatch.setattr(native, "library", lambda: None)
    assert native.decoder_name() == native.WHOLE
