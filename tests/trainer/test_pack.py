import gzip
import hashlib
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import cv2
import mxnet as mx
import numpy as np
import pytest
import simplejpeg
import tiny_data
from typer.testing import CliRunner

from trainer.commands.app import app
from trainer.data.data_set import Options
from trainer.data.decode import decode
from trainer.data.framing import MAGIC
from trainer.data.manifest import read_manifest
from trainer.data.pack import pack
from trainer.data.records import open_records
from trainer.errors import ConfigError, DataError, DiskError

IM2REC = Path(mx.__file__).parent / "tools" / "im2rec.py"
# trainer.learn first: MXNet asks numpy for names that newer ones lack.
RUN_SCRIPT = "import runpy, sys, trainer.learn; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"


def noise(seed, height=20, width=30):
    return np.random.default_rng(seed).integers(0, 255, (height, width, 3), np.uint8)


def jpeg(seed, height=20, width=30):
    return simplejpeg.encode_jpeg(noise(seed, height, width))


def png(seed, channels=3):
    return cv2.imencode(".png", noise(seed)[..., :channels])[1].tobytes()


def put(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def class_folders(root, classes=("cat", "dog"), count=10):
    return put(root, {f"{c}/{i}.jpg": jpeg(100 * k + i) for k, c in enumerate(classes) for i in range(count)})


def packed(source, out, threads=2, **options):
    return pack(source, out, Options(**options), threads, lambda total: nullcontext(lambda done: None))


def pictures(rec):
    records = open_records(rec)
    return {int(key): records.read(i)[1] for i, key in enumerate(records.keys)}


def listed(lst):
    rows = [line.split("\t") for line in lst.read_text().splitlines()]
    return {int(key): (float(label), name) for key, label, name in rows}


def im2rec(folder, root, *options):
    """What MXNet's own tool packs from the lists in a folder."""
    command = [sys.executable, "-c", RUN_SCRIPT, str(IM2REC), str(folder) + "/", str(root), "--pass-through", *options]
    subprocess.run(command, check=True, capture_output=True)


def assert_same_as_im2rec(out, source, folder, *options):
    for name in ("train", "val"):
        shutil.copy(out / f"{name}.lst", put(folder, {}) / f"{name}.lst")
    im2rec(folder, source, *options)
    for name in ("train.rec", "train.idx", "val.rec", "val.idx"):
        assert (out / name).read_bytes() == (folder / name).read_bytes(), name


@pytest.fixture
def lists(tmp_path):
    (tmp_path / "lists").mkdir()
    return tmp_path / "lists"


def test_the_same_bytes_as_im2rec(tmp_path, lists):
    source = class_folders(tmp_path / "photos", ("zebra", "ant", "Bee"))
    put(source, {
        "ant/grey.png": png(5, 1), "ant/sub/deep.JPEG": jpeg(6), "ant/a b.png": png(7),
        "Bee/magic.jpg": jpeg(8)[:2] + b"\xff\xfe\x00\x14ab" + MAGIC * 4 + jpeg(8)[2:],
    })  # fmt: skip
    result = packed(source, tmp_path / "out")
    assert result.train["rejected"] == result.val["rejected"] == []
    assert_same_as_im2rec(tmp_path / "out", source, lists)
    kept = [*pictures(tmp_path / "out" / "train.rec").values(), *pictures(tmp_path / "out" / "val.rec").values()]
    assert any(MAGIC * 4 in picture for picture in kept)


def test_gaps_in_the_keys_are_those_of_im2rec(tmp_path, lists):
    source = class_folders(tmp_path / "photos")
    put(source, {"cat/3.jpg": b"", "dog/00.jpg": b"no picture"})
    result = packed(source, tmp_path / "out")
    assert len(result.train["rejected"]) + len(result.val["rejected"]) == 2
    keys = [key for name in ("train", "val") for key in listed(tmp_path / "out" / f"{name}.lst")]
    assert len(keys) == 19
    assert keys != [*range(result.train["records"]), *range(result.val["records"])]
    assert_same_as_im2rec(tmp_path / "out", source, lists)


def test_the_order_is_that_of_im2recs_own_list(tmp_path, lists):
    """Of a training folder whose classes hold files only, im2rec's recursive list gives the same labels and order."""
    source = tmp_path / "photos"
    class_folders(source / "train", ("b", "a", "C"), 12)
    class_folders(source / "val", ("b", "a"), 2)
    packed(source, tmp_path / "out")
    command = [sys.executable, "-c", RUN_SCRIPT, str(IM2REC), str(lists / "own"), str(source / "train")]
    subprocess.run([*command, "--list", "--recursive", "--no-shuffle"], check=True, capture_output=True)
    own = {key: (label, f"train/{name}") for key, (label, name) in listed(lists / "own.lst").items()}
    assert listed(tmp_path / "out" / "train.lst") == own


def test_folders_in_a_class_belong_to_it_and_come_after_its_files(tmp_path):
    source = class_folders(tmp_path / "photos" / "train", ("a", "b"), 1)
    class_folders(tmp_path / "photos" / "val", ("a", "b"), 1)
    put(source, {f"a/{name}.png": png(1) for name in ("z", "y/1", "x/2", "x/1", "x/w/1")})
    packed(tmp_path / "photos", tmp_path / "out")
    names = ["a/0.jpg", "a/z.png", "a/x/1.png", "a/x/2.png", "a/x/w/1.png", "a/y/1.png", "b/0.jpg"]
    assert list(listed(tmp_path / "out" / "train.lst").values()) == [
        (float(name.startswith("b")), f"train/{name}") for name in names
    ]


@pytest.mark.parametrize("name", ["val", "validation", "test"])
def test_a_folder_for_validation(tmp_path, name):
    class_folders(tmp_path / "photos" / "train", ("a", "b", "c"), 3)
    class_folders(tmp_path / "photos" / name, ("c", "a"), 2)
    result = packed(tmp_path / "photos", tmp_path / "out")
    assert (result.train["records"], result.val["records"]) == (9, 4)
    assert result.val["classes"] == ["a", "b", "c"]
    assert result.val["class_counts"] == [2, 0, 2]
    assert [label for label, _ in listed(tmp_path / "out" / "val.lst").values()] == [0, 0, 2, 2]


def test_the_manifest(tmp_path):
    source = class_folders(tmp_path / "photos")
    put(source, {"cat/0.jpg": b"", "cat/notes.txt": b"words", "loose.jpg": jpeg(0), ".hidden/x.jpg": jpeg(1)})
    result = packed(source, tmp_path / "out", val_share=0.2)
    manifest = read_manifest(tmp_path / "out" / "train.rec")
    assert manifest == result.train
    assert manifest["records"] == sum(manifest["class_counts"]) == len(open_records(tmp_path / "out" / "train.rec"))
    for kind in ("rec", "idx"):
        content = (tmp_path / "out" / f"train.{kind}").read_bytes()
        assert manifest[f"{kind}_sha256"] == hashlib.sha256(content).hexdigest()
    assert manifest["rec_bytes"] == (tmp_path / "out" / "train.rec").stat().st_size
    assert manifest["classes"] == ["cat", "dog"]
    assert result.train["rejected"] + result.val["rejected"] == [{"file": "cat/0.jpg", "reason": "empty"}]
    assert result.ignored == 2


def test_the_split_is_by_name_only_and_in_every_class(tmp_path):
    names = ["a", "b", "c"]
    for root, count in (("one", 20), ("two", 20), ("more", 21)):
        class_folders(tmp_path / root, names, count)
        packed(tmp_path / root, tmp_path / f"{root}.out")
    val = {root: {name for _, name in listed(tmp_path / f"{root}.out" / "val.lst").values()} for root in ("one", "two")}
    assert val["one"] == val["two"]
    assert [sum(name.startswith(c) for name in val["one"]) for c in names] == [2, 2, 2]
    more = {name for _, name in listed(tmp_path / "more.out" / "val.lst").values()}
    assert len(more & val["one"]) >= 4


def test_a_class_of_two_gives_one_to_validation_and_a_class_of_one_none(tmp_path):
    put(tmp_path / "p", {"a/0.jpg": jpeg(0), "a/1.jpg": jpeg(1), "b/0.jpg": jpeg(2)})
    result = packed(tmp_path / "p", tmp_path / "out")
    assert (result.train["class_counts"], result.val["class_counts"]) == ([1, 1], [1, 0])


BAD_PICTURES = {
    "empty": (b"", "empty"),
    "words": (b"<html>not found</html>", "neither JPEG nor PNG"),
    "half a JPEG": (jpeg(1)[:-300], "cut before its end marker"),
    "JPEG without end marker": (jpeg(1)[:-2], "cut before its end marker"),
    "JPEG's first bytes": (jpeg(1)[:40], "cut inside its header"),
    "half a PNG": (png(1)[:-300], "cut before its end"),
    "changed PNG": (png(1)[:200] + b"x" + png(1)[201:], "wrong checksum"),
}


@pytest.mark.parametrize("threads", [1, 3])
def test_damaged_pictures_are_named_and_the_others_packed(tmp_path, threads):
    source = class_folders(tmp_path / "photos" / "train")
    class_folders(tmp_path / "photos" / "val", count=1)
    put(source, {f"cat/{name}.jpg": content for name, (content, _) in BAD_PICTURES.items()})
    os.mkfifo(source / "dog" / "pipe.jpg")
    (source / "dog" / "dangling.png").symlink_to("nowhere")
    put(source, {"dog/tab\there.jpg": jpeg(0)})
    result = packed(tmp_path / "photos", tmp_path / "out", threads=threads)
    reasons = {Path(bad["file"]).stem: bad["reason"] for bad in result.train["rejected"]}
    assert reasons.pop("dangling") == "No such file or directory"
    assert "tab or a line break" in reasons.pop("tab\there")
    assert reasons.keys() == BAD_PICTURES.keys()
    assert all(BAD_PICTURES[name][1] in reason for name, reason in reasons.items())
    kept = listed(tmp_path / "out" / "train.lst")
    assert pictures(tmp_path / "out" / "train.rec") == {
        key: (tmp_path / "photos" / name).read_bytes() for key, (_, name) in kept.items()
    }
    assert len(kept) == 20


def with_exif_thumbnail(picture):
    segment = b"Exif\0\0" + jpeg(9, 8, 8)
    return picture[:2] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + picture[2:]


def test_a_thumbnails_end_is_not_the_pictures_and_bytes_after_the_end_do_not_matter(tmp_path):
    whole = with_exif_thumbnail(jpeg(1))
    source = class_folders(tmp_path / "p" / "train")
    class_folders(tmp_path / "p" / "val", count=1)
    put(source, {"cat/whole.jpg": whole, "cat/more.jpg": whole + bytes(100)})
    put(source, {"cat/cut.jpg": whole[:-2], "cat/header.jpg": whole[: whole.rfind(b"\xff\xda")]})
    result = packed(tmp_path / "p", tmp_path / "out")
    assert [bad["file"] for bad in result.train["rejected"]] == ["train/cat/cut.jpg", "train/cat/header.jpg"]


def test_resizing_scales_the_short_side_down_and_never_up(tmp_path):
    sizes = {"wide": (100, 300), "tall": (90, 60), "small": (20, 30), "exact": (48, 70)}
    for part in ("train", "val"):
        put(tmp_path / "p" / part, {f"{c}/{name}.jpg": jpeg(1, *size) for name, size in sizes.items() for c in "ab"})
    put(tmp_path / "p" / "train", {"a/wide.png": cv2.imencode(".png", noise(3, 96, 200))[1].tobytes()})
    put(tmp_path / "p" / "train", {"a/flipped.jpg": jpeg(1, 100, 100)[:-400] + b"\xff\xd9"})
    result = packed(tmp_path / "p", tmp_path / "out", resize=48)
    assert [bad["file"] for bad in result.train["rejected"]] == ["train/a/flipped.jpg"]
    packed_sizes = {}
    for key, picture in pictures(tmp_path / "out" / "train.rec").items():
        name = listed(tmp_path / "out" / "train.lst")[key][1]
        packed_sizes[Path(name).name] = decode(picture).shape[:2]
        if Path(name).stem in ("small", "exact"):
            assert picture == (tmp_path / "p" / name).read_bytes()
    assert packed_sizes == {
        "wide.jpg": (48, 144),
        "tall.jpg": (72, 48),
        "small.jpg": (20, 30),
        "exact.jpg": (48, 70),
        "wide.png": (48, 100),
    }


def test_a_second_time_nothing_is_done(tmp_path):
    source = class_folders(tmp_path / "photos")
    out = tmp_path / "out"
    assert packed(source, out).changed
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    again = packed(source, out)
    assert not again.changed
    assert again.train["records"] == 18
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == before


CHANGES = {
    "new picture": lambda source, out: put(source, {"cat/new.jpg": jpeg(999)}),
    "other content": lambda source, out: put(source, {"cat/0.jpg": jpeg(999)}),
    "later time": lambda source, out: os.utime(source / "cat" / "0.jpg", ns=(1, 1)),
    "fewer pictures": lambda source, out: (source / "cat" / "0.jpg").unlink(),
    "renamed class": lambda source, out: (source / "cat").rename(source / "lion"),
    "missing record file": lambda source, out: (out / "val.rec").unlink(),
    "missing index": lambda source, out: (out / "train.idx").unlink(),
    "cut record file": lambda source, out: os.truncate(out / "train.rec", 100),
    "missing manifest": lambda source, out: (out / "train.json").unlink(),
    "broken manifest": lambda source, out: (out / "train.json").write_text("{"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_any_change_packs_again(tmp_path, change):
    source = class_folders(tmp_path / "photos", ("cat", "dog", "emu"), 4)
    out = tmp_path / "out"
    packed(source, out)
    change(source, out)
    assert packed(source, out).changed
    assert not packed(source, out).changed
    assert len(open_records(out / "train.rec")) + len(open_records(out / "val.rec")) in (11, 12, 13)


def test_other_options_pack_again(tmp_path):
    source = class_folders(tmp_path / "photos")
    for options in ({}, {"resize": 10}, {"resize": 10, "quality": 50}, {"val_share": 0.3}):
        assert packed(source, tmp_path / "out", **options).changed


NO_DATA_SETS = {
    "nothing": ({}, "at least 2 classes, holds no folders"),
    "pictures only": ({"a.jpg": jpeg(0)}, "at least 2 classes"),
    "one class": ({"cat/a.jpg": jpeg(0)}, "at least 2 classes, holds cat"),
    "an empty class": ({"cat/a.jpg": jpeg(0), "dog/readme.txt": b""}, "1 of 2 class folders hold no pictures.*dog"),
    "no validation": ({"train/a/1.jpg": jpeg(0), "train/b/1.jpg": jpeg(0)}, "must also hold one of val/"),
    "a class only in validation": (
        {"train/a/1.jpg": jpeg(0), "train/b/1.jpg": jpeg(0), "val/c/1.jpg": jpeg(0)}, "val: holds classes.*: c",
    ),
    "empty validation": (
        {"train/a/1.jpg": jpeg(0), "train/b/1.jpg": jpeg(0), "val/a/x.txt": b""}, "val: holds no pictures",
    ),
    "all damaged": ({f"{c}/{i}.jpg": b"" for c in "ab" for i in range(3)}, "none of the 4 pictures for train.rec"),
}  # fmt: skip


@pytest.mark.parametrize("files, message", NO_DATA_SETS.values(), ids=NO_DATA_SETS)
def test_what_is_no_data_set_is_refused_in_words(tmp_path, files, message):
    put(tmp_path / "p", {})
    (tmp_path / "p").mkdir(exist_ok=True)
    with pytest.raises(DataError, match=message):
        packed(put(tmp_path / "p", files), tmp_path / "out")
    assert not list(tmp_path.glob("out/*"))


def idx_bytes(array):
    return struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def idx_folder(root, zipped=True):
    generator = np.random.default_rng(0)
    for prefix, count in (("train", 40), ("t10k", 20)):
        images = generator.integers(0, 255, (count, 28, 28), np.uint8)
        labels = (np.arange(count) % 10).astype(np.uint8)
        for name, array in ((f"{prefix}-images-idx3-ubyte", images), (f"{prefix}-labels-idx1-ubyte", labels)):
            content = idx_bytes(cv2.GaussianBlur(array, (0, 0), 2) if array.ndim == 3 else array)
            put(root, {name + ".gz": gzip.compress(content)} if zipped else {name: content})
    return root


@pytest.mark.parametrize("zipped", [True, False])
def test_idx_files(tmp_path, zipped):
    source = idx_folder(tmp_path / "mnist", zipped)
    result = packed(source, tmp_path / "out")
    assert (result.train["records"], result.val["records"]) == (40, 20)
    assert result.train["classes"] == [str(i) for i in range(10)]
    assert result.train["class_counts"] == [4] * 10
    records = open_records(tmp_path / "out" / "train.rec")
    assert [records.read(i)[0].tolist() for i in range(40)] == [[i % 10] for i in range(40)]
    raw = (
        (source / "train-images-idx3-ubyte").read_bytes()
        if not zipped
        else gzip.decompress((source / "train-images-idx3-ubyte.gz").read_bytes())
    )
    expected = np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 28, 28)
    for i in range(40):
        image = decode(records.read(i)[1]).astype(int)
        assert np.abs(image - expected[i][..., None]).max() <= 6
    assert not packed(source, tmp_path / "out").changed


TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
BAD_IDX = {
    "no labels": (TRAIN_LABELS, lambda content: None, f"must hold {TRAIN_LABELS}"),
    "wrong magic": (TRAIN_IMAGES, lambda content: b"\1" + content[1:], "must be an IDX file"),
    "labels for pictures": (TRAIN_LABELS, lambda content: b"\0\0\x08\x03" + content[4:], "must be an IDX file"),
    "empty": (TRAIN_IMAGES, lambda content: b"", "starts with nothing"),
    "cut header": (TRAIN_IMAGES, lambda content: content[:10], "must be an IDX file"),
    "cut": (TRAIN_IMAGES, lambda content: content[:-1], "must hold 31360 bytes for 40 x 28 x 28, holds 31359"),
    "too long": (TRAIN_IMAGES, lambda content: content + b"x", "holds 31361"),
    "cut gzip": (TRAIN_IMAGES, lambda content: gzip.compress(content)[:-20], "cannot be read"),
    "changed gzip": (TRAIN_IMAGES, lambda content: gzip.compress(content)[:500] + bytes(50), "cannot be read"),
    "no pictures": (TRAIN_IMAGES, lambda content: b"\0\0\x08\x03" + bytes(12), "as many pictures as labels"),
    "a label less": (TRAIN_LABELS, lambda content: idx_bytes(np.zeros(39, np.uint8)), "hold 40 of 28 x 28 and 39"),
}


@pytest.mark.parametrize("name, damage, message", BAD_IDX.values(), ids=BAD_IDX)
def test_damaged_idx_files(tmp_path, name, damage, message):
    source = idx_folder(tmp_path / "mnist", zipped=False)
    content = damage((source / name).read_bytes())
    (source / name).unlink()
    if content is not None:
        (source / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        packed(source, tmp_path / "out")


def test_a_killed_pack_leaves_nothing_under_a_final_name(tmp_path):
    large = jpeg(0, 700, 700)
    source = put(tmp_path / "photos", {f"{c}/{i}.jpg": large for c in "ab" for i in range(400)})
    process = subprocess.Popen(
        [sys.executable, "-m", "trainer", "pack", str(source), str(tmp_path / "out"), "--resize", "600"],
        cwd=Path(__file__).parents[2],
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("out/.train.rec.partial")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {".train.rec.partial", ".train.idx.partial"}
    packed(class_folders(tmp_path / "few"), tmp_path / "out")
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".rec", ".idx", ".lst", ".json"}


def test_too_little_space_is_told_before_anything_is_written(tmp_path, monkeypatch):
    source = class_folders(tmp_path / "photos")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1000, 0, 1000))
    with pytest.raises(DiskError, match="out: packing needs up to .* MB free there, got 0 MB"):
        packed(source, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is not there")
def test_a_full_disk_is_a_disk_error(tmp_path):
    source = class_folders(tmp_path / "photos")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".train.rec.partial").symlink_to("/dev/full")
    with pytest.raises(DiskError, match="writing failed: No space left"):
        packed(source, tmp_path / "out")


def test_a_pack_that_fails_late_leaves_no_manifest_of_an_earlier_one(tmp_path):
    source, out = class_folders(tmp_path / "photos"), tmp_path / "out"
    packed(source, out)
    put(source, {"cat/new.jpg": jpeg(999)})
    (out / ".train.lst.partial").mkdir()
    with pytest.raises(DiskError, match="train.lst.partial: writing failed"):
        packed(source, out)
    assert read_manifest(out / "train.rec") is None


def command(*arguments):
    return CliRunner().invoke(app, ["pack", *map(str, arguments)])


def test_the_command_counts_and_names_what_it_leaves_out(tmp_path):
    source = class_folders(tmp_path / "photos")
    put(source, {"cat/x.jpg": b"words", "cat/readme.txt": b""})
    for changed in (True, False):
        result = command(source, tmp_path / "out", "--json")
        assert result.exit_code == 66
        assert "left out: cat/x.jpg: neither JPEG nor PNG" in result.stderr
        found = json.loads(result.stdout)
        assert found["changed"] is changed
        assert found["train"]["records"] + found["val"]["records"] == 20
        assert found["train"]["path"] == str(tmp_path / "out" / "train.rec")
        assert (found["ignored"], found["classes"]) == (1, ["cat", "dog"])


def test_the_command_in_words(tmp_path):
    source = class_folders(tmp_path / "photos")
    first, second = (command(source, tmp_path / "out", "--val-share", "0.3") for _ in range(2))
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert "train.rec: 14 records" in first.stdout
    assert "unchanged" in second.stdout


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--resize", "0"], "--resize must be"),
        (["--quality", "101"], "--quality must be"),
        (["--val-share", "1"], "--val-share must be"),
        (["--threads", "0"], "--threads must be"),
    ],
)
def test_impossible_options(tmp_path, arguments, message):
    with pytest.raises(ConfigError, match=message):
        CliRunner().invoke(
            app, ["pack", str(class_folders(tmp_path / "p")), str(tmp_path / "out"), *arguments], catch_exceptions=False
        )


def test_impossible_folders(tmp_path):
    source = class_folders(tmp_path / "p")
    for folders, message in (((source, source / "out"), "outside of SOURCE"), ((source / "no", tmp_path), "a folder")):
        with pytest.raises(ConfigError, match=message):
            CliRunner().invoke(app, ["pack", *map(str, folders)], catch_exceptions=False)


def pack_two_classes(folder, count, add):
    """Packs `count` pictures in each of the classes a and b, after `add` has put something beside them."""
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            (folder / name / f"{number}.jpg").write_bytes(tiny_data.picture(number % 2, number))
    add(folder)
    return pack(folder, folder.parent / "out", Options(), 1, lambda _total: nullcontext(lambda _done: None))


def test_a_link_to_a_folder_above_brings_nothing_again(tmp_path):
    packed = pack_two_classes(tmp_path / "source", 3, lambda folder: (folder / "b" / "loop").symlink_to(".."))
    assert packed.train["class_counts"] == [2, 2]
    assert packed.val["class_counts"] == [1, 1]


def test_pictures_of_other_kinds_are_refused_by_name(tmp_path):
    packed = pack_two_classes(
        tmp_path / "source", 20, lambda folder: (folder / "a" / "photo.webp").write_bytes(b"RIFF....WEBP")
    )
    refused = packed.train["rejected"] + packed.val["rejected"]
    assert [entry["file"] for entry in refused] == ["a/photo.webp"]
