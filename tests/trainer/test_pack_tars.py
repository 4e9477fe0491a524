"""pack reads ImageNet as it is handed out: a tar of class tars, a tar of pictures, the development kit."""

import base64
import gzip
import hashlib
import io
import json
import tarfile
from contextlib import nullcontext

import cv2
import numpy as np
import pytest
import simplejpeg
from typer.testing import CliRunner

from trainer.commands.app import app
from trainer.data.data_set import Options
from trainer.data.decode import decode
from trainer.data.imagenet import DEVKIT, SYNSET_LISTS, TRAIN_TAR, VAL_LIST, VAL_TAR
from trainer.data.matlab import read_structs
from trainer.data.pack import pack
from trainer.data.records import open_records
from trainer.data.tars import members
from trainer.errors import DataError

# Three classes and a node above them, in the layout of the development kit; written by SciPy's savemat, compressed.
META = base64.b64decode(
    "TUFUTEFCIDUuMCBNQVQtZmlsZSBQbGF0Zm9ybTogcG9zaXgsIENyZWF0ZWQgb246IE1vbiBOb3YgMzAgMTc6NTU6MjQgMjAyNgAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABSU0PAAAAMgAAAHic42NgYAgAYjYg5gBiPgYIYIXyGYGYGUqDxPJLMlKL"
    "gDQPEEswIAAjlGaC0gCB7QLbDwAAAKABAAB4nO2VQU/CMBTHizAUNQsaDx77AThsOB3cSNQEEuNBDR6XOsrWuHVmLUG+gR/bFlctDQbYjvqSt+X/"
    "1v9vbfO62QAA2AKgKe4HIvfAV1iFboisFbkvki0ow5yJ5w1wUtQ/RI7uHscP113H7QajGwl4vv+6f8c8yydML0RJxlYKdJYGYUySSY7psrAiFINi"
    "HsSYRDEvLDxHhAYkRRFmwBbFHvhZj22sp6aljGOtDorxA83fWONvaePbhaZO13X7fq+vcYYbOOcGR+pXwuE0e+/A8Sx5wwymKMwzTpi5rnU8y+BJ"
    "zVKUJMV8yuyLCjne0fxNw69C+Vuar+p7y/jPrGp+dQ6q9IPj+BeXO3BsgyP1LY0SwmIoDh3H+XactsGRiShUqJcc48l/P+zmr2vvH4Ay/eB6nuNf"
    "eRpn0/fh1OBIzTEN4w58IjREkMvr9vM6NHhST3PM4jla9laV/VHx1/pC7XP5vhDh+p7zyzrWcZoGR2pMOeGL7eZxZPilFn8JyGPEIWGV9kM/J8MN"
    "/rrh1/+H6vur88rMx6roV/EJjQJjgQ=="
)
KIT_FOX, SETTER, TENCH = "n02119789", "n02100735", "n01440764"
SYNSETS = f"{SETTER} English setter\n{TENCH} tench, Tinca tinca\n{KIT_FOX} kit fox, Vulpes macrotis\n"
VAL = [KIT_FOX, TENCH, TENCH, SETTER]


def noise(seed, channels=3):
    return np.random.default_rng(seed).integers(0, 255, (20, 30, channels), np.uint8)


def jpeg(seed):
    return simplejpeg.encode_jpeg(noise(seed))


def png(seed):
    return cv2.imencode(".png", noise(seed))[1].tobytes()


def cmyk(seed):
    return simplejpeg.encode_jpeg(noise(seed, 4), 90, "CMYK")


def tar(files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def train_tar(classes):
    return tar({f"{name}.tar": tar(files) for name, files in classes.items()})


PICTURES = {
    TENCH: {f"{TENCH}_{i}.JPEG": jpeg(i) for i in range(4)},
    KIT_FOX: {f"{KIT_FOX}_1.JPEG": png(10), f"{KIT_FOX}_2.JPEG": cmyk(11)},
    SETTER: {f"{SETTER}_7.JPEG": jpeg(12), f"{SETTER}_3.JPEG": jpeg(13)},
}
VAL_PICTURES = {f"ILSVRC2012_val_0000000{i}.JPEG": jpeg(20 + i) for i in (2, 1, 4, 3)}
DEVKIT_FILES = {"meta.mat": META, "ILSVRC2012_validation_ground_truth.txt": b"1\n3\n3\n2\n"}


def imagenet(folder, pictures=PICTURES, **files):
    """The tars, the classes and those of the validation pictures; `files` come in their place (None: not there)."""
    folder.mkdir(exist_ok=True)
    content = {
        "train": (TRAIN_TAR, train_tar(pictures)), "val": (VAL_TAR, tar(VAL_PICTURES)),
        "synsets": (SYNSET_LISTS[0], SYNSETS.encode()), "labels": (VAL_LIST, "\n".join(VAL).encode()),
    }
    for what, (name, default) in content.items():
        if (bytes_ := files.get(what, default)) is not None:
            (folder / name).write_bytes(bytes_)
    return folder


def add_devkit(folder, files=DEVKIT_FILES):
    packed = tar({f"ILSVRC2012_devkit_t12/data/{name}": content for name, content in files.items()})
    (folder / DEVKIT).write_bytes(gzip.compress(packed))
    return folder


def packed(source, out, threads=2, **options):
    return pack(source, out, Options(**options), threads, lambda total: nullcontext(lambda done: None))


def records(rec):
    found = open_records(rec)
    return [(int(labels[0]), picture) for labels, picture in (found.read(i) for i in range(len(found)))]


@pytest.mark.parametrize("threads", [1, 3])
def test_the_list_gives_the_classes_their_order_and_every_byte_is_kept(tmp_path, threads):
    result = packed(imagenet(tmp_path / "tars"), tmp_path / "out", threads)
    assert result.train["classes"] == SYNSETS.splitlines()
    order = [SETTER, TENCH, KIT_FOX]
    expected = [(label, picture) for label, name in enumerate(order) for picture in PICTURES[name].values()]
    assert records(tmp_path / "out/train.rec") == expected
    assert result.train["class_counts"] == [2, 4, 2]
    assert result.train["rec_sha256"] == hashlib.sha256((tmp_path / "out/train.rec").read_bytes()).hexdigest()


def test_validation_pictures_get_their_labels_by_number_whatever_their_order(tmp_path):
    packed(imagenet(tmp_path / "tars"), tmp_path / "out")
    assert records(tmp_path / "out/val.rec") == [
        (label, VAL_PICTURES[f"ILSVRC2012_val_0000000{i}.JPEG"]) for i, label in ((2, 1), (1, 2), (4, 0), (3, 1))
    ]


def test_the_development_kit_alone_will_do(tmp_path):
    folder = add_devkit(imagenet(tmp_path / "tars", synsets=None, labels=None))
    result = packed(folder, tmp_path / "out")
    words = [f"{TENCH} tench, Tinca tinca", f"{SETTER} English setter", f"{KIT_FOX} kit fox, Vulpes macrotis"]
    assert result.train["classes"] == words
    assert [label for label, _ in records(tmp_path / "out/val.rec")] == [0, 2, 1, 0]


def test_a_png_with_a_jpegs_name_and_four_inks_come_through(tmp_path):
    packed(imagenet(tmp_path / "tars"), tmp_path / "out")
    as_png, inks = (picture for label, picture in records(tmp_path / "out/train.rec") if label == 2)
    assert (decode(as_png) == noise(10)[..., ::-1]).all()
    assert decode(inks).shape == (20, 30, 3)
    result = packed(tmp_path / "tars", tmp_path / "small", resize=10)
    assert not result.train["rejected"]
    small = [decode(picture).shape for label, picture in records(tmp_path / "small/train.rec") if label == 2]
    assert small == [(10, 15, 3)] * 2
    checked = CliRunner().invoke(app, ["check", str(tmp_path / "out/train.rec"), "--json"])
    assert json.loads(checked.stdout)["ok"]


def test_bad_pictures_are_named(tmp_path):
    more = PICTURES | {TENCH: PICTURES[TENCH] | {f"{TENCH}_9.JPEG": jpeg(1)[:-300], f"{TENCH}_8.JPEG": b"words"}}
    result = packed(imagenet(tmp_path / "tars", more), tmp_path / "out")
    assert result.train["rejected"] == [
        {"file": f"{TENCH}/{TENCH}_9.JPEG", "reason": "damaged JPEG: cut before its end marker"},
        {"file": f"{TENCH}/{TENCH}_8.JPEG", "reason": "neither JPEG nor PNG"},
    ]
    assert result.train["records"] == 8


def test_what_is_packed_is_not_packed_again_and_one_half_is_enough_to_go_on(tmp_path):
    folder, out = imagenet(tmp_path / "tars"), tmp_path / "out"
    assert packed(folder, out).changed
    assert not packed(folder, out).changed
    before = (out / "train.rec").stat().st_mtime_ns
    (out / "val.json").unlink()
    assert packed(folder, out).changed
    assert (out / "train.rec").stat().st_mtime_ns == before
    (folder / VAL_LIST).write_text("\n".join(reversed(VAL)))
    assert packed(folder, out).changed
    assert (out / "train.rec").stat().st_mtime_ns != before


def test_validation_that_fails_leaves_the_training_records_for_the_next_time(tmp_path):
    folder, out = imagenet(tmp_path / "tars", labels="\n".join(VAL[:3]).encode()), tmp_path / "out"
    with pytest.raises(DataError, match="named ..._1.JPEG to ..._3.JPEG, holds ILSVRC2012_val_00000004.JPEG"):
        packed(folder, out)
    assert {path.name for path in out.iterdir()} == {"train.rec", "train.idx", "train.json"}


def without_end_marker(content):
    """Cut where the last file's blocks end, as a copy that stopped there."""
    return content[: -(-len(content.rstrip(b"\0")) // 512) * 512]


REFUSED = {
    "no training tar": ({"train": None}, "ILSVRC2012_img_train.tar is missing"),
    "no validation tar": ({"val": None}, "ILSVRC2012_img_val.tar is missing"),
    "no list of classes": ({"synsets": None}, "must hold the list of classes: one of synset.txt"),
    "no labels": ({"labels": None}, "must hold the labels of the validation pictures"),
    "an empty list": ({"synsets": b"\n"}, "synset.txt: must hold a class a line, is empty"),
    "no text": ({"synsets": b"\xff\xfe"}, "synset.txt: must be a list of text lines"),
    "a class twice": ({"synsets": (SYNSETS + SYNSETS).encode()}, "holds 3 of them twice"),
    "a class too many": ({"synsets": (SYNSETS + "n1 x").encode()}, "for each class of the list; missing: n1"),
    "a class too few": ({"synsets": SYNSETS[:25].encode(), "labels": SETTER.encode()}, "not in the list: n014"),
    "a label of no class": ({"labels": b"n7"}, "classes that are not in the list: n7"),
    "a label too many": ({"labels": "\n".join([*VAL, TENCH]).encode()}, "the 5 pictures that have labels, holds 4"),
    "no tar": ({"train": b"<html>" * 1000}, "must be a tar file, but cannot be read"),
    "an empty file": ({"val": b""}, "must be a tar file, but cannot be read"),
    "a tar cut inside a class": ({"train": train_tar(PICTURES)[:3000]}, "is cut inside n01440764.tar"),
    "a tar cut at a header": ({"val": tar(VAL_PICTURES)[:1024 + 512]}, "is cut"),
    "a tar cut in its last picture's padding": ({"val": tar(VAL_PICTURES).rstrip(b"\0")}, "unexpected end of data"),
    "a tar without its end": ({"val": without_end_marker(tar(VAL_PICTURES))}, "is cut or damaged at byte"),
}  # fmt: skip


@pytest.mark.parametrize("files, message", REFUSED.values(), ids=REFUSED)
def test_what_is_not_whole_is_refused_in_words(tmp_path, files, message):
    with pytest.raises(DataError, match=message):
        packed(imagenet(tmp_path / "tars", **files), tmp_path / "out")
    assert not (tmp_path / "out/val.rec").exists()


def test_a_changed_header_inside_a_class_tar_is_no_silent_end(tmp_path):
    damaged = train_tar(PICTURES).replace(f"{TENCH}_2.JPEG".encode(), f"{TENCH}_X.JPEG".encode())
    with pytest.raises(DataError, match="is cut or damaged at byte"):
        packed(imagenet(tmp_path / "tars", train=damaged), tmp_path / "out")
    assert not (tmp_path / "out/train.rec").exists()


def test_a_tar_inside_a_tar_is_read_in_place(tmp_path):
    (tmp_path / "a.tar").write_bytes(train_tar(PICTURES))
    outer = {member.name: member for member in members(tmp_path / "a.tar")}
    inner = list(members(tmp_path / "a.tar", *outer[f"{KIT_FOX}.tar"][1:]))
    content = (tmp_path / "a.tar").read_bytes()
    assert {m.name: content[m.start : m.start + m.size] for m in inner} == PICTURES[KIT_FOX]


BAD_KITS = {
    "no ground truth": {"meta.mat": META},
    "no MATLAB file": DEVKIT_FILES | {"meta.mat": b"words"},
    "a cut MATLAB file": DEVKIT_FILES | {"meta.mat": META[:300]},
    "a number of no class": DEVKIT_FILES | {"ILSVRC2012_validation_ground_truth.txt": b"4"},
}


@pytest.mark.parametrize("files", BAD_KITS.values(), ids=BAD_KITS)
def test_damaged_development_kits(tmp_path, files):
    folder = add_devkit(imagenet(tmp_path / "tars", labels=None), files)
    with pytest.raises(DataError, match="must be ImageNet's development kit, but cannot be read"):
        packed(folder, tmp_path / "out")


def test_any_cut_of_the_matlab_file_is_a_value_error():
    assert [row["WNID"] for row in read_structs(META, "synsets")] == [KIT_FOX, SETTER, TENCH, "n00001740"]
    for size in range(0, len(META), 7):
        with pytest.raises(ValueError):
            read_structs(META[:size], "synsets")


def test_the_command(tmp_path):
    done = CliRunner().invoke(app, ["pack", str(imagenet(tmp_path / "tars")), str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["train"]["records"] == 8
