"""ImageNet (ILSVRC2012) as it is handed out: a tar of a tar for each class, a tar of the validation pictures."""

import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from trainer.data.matlab import read_structs
from trainer.data.tars import Member, members
from trainer.errors import DataError

TRAIN_TAR, VAL_TAR = "ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar"
DEVKIT = "ILSVRC2012_devkit_t12.tar.gz"
# A class a line, in the classes' order: its number in WordNet, and its words if need be. The names that MXNet, Kaggle
# and TensorFlow give it.
SYNSET_LISTS = ("synset.txt", "synsets.txt", "LOC_synset_mapping.txt", "imagenet_lsvrc_2015_synsets.txt")
# TensorFlow's: the class of each validation picture, in their order.
VAL_LIST = "imagenet_2012_validation_synset_labels.txt"

Synsets = dict[str, int]


class TarPicture(NamedTuple):
    """name: in the tar files. label: the number of its class. tar, start, size: where its bytes lie."""

    name: str
    label: int
    tar: Path
    start: int
    size: int


@dataclass(frozen=True)
class TrainPictures:
    """Those of the training tar, read as they are asked for. class_tars: the label of each inner tar."""

    tar: Path
    class_tars: list[tuple[int, Member]]

    def __iter__(self) -> Iterator[TarPicture]:
        for label, inner in self.class_tars:
            for member in members(self.tar, inner.start, inner.size):
                name = f"{Path(inner.name).stem}/{Path(member.name).name}"
                yield TarPicture(name, label, self.tar, member.start, member.size)


@dataclass(frozen=True)
class ValPictures:
    """Those of the validation tar. labels: of picture 1, 2, ...; the pictures' names end in these numbers."""

    tar: Path
    labels: list[int]

    def __iter__(self) -> Iterator[TarPicture]:
        found = 0
        for member in members(self.tar):
            found += 1
            yield TarPicture(Path(member.name).name, self._label(member.name), self.tar, member.start, member.size)
        if found != len(self.labels):
            raise DataError(f"{self.tar}: must hold the {len(self.labels)} pictures that have labels, holds {found}")

    def _label(self, name: str) -> int:
        number = re.search(r"_(\d+)\.JPEG$", name)
        if not number or not 1 <= int(number[1]) <= len(self.labels):
            raise DataError(
                f"{self.tar}: must hold pictures named ..._1.JPEG to ..._{len(self.labels)}.JPEG, holds {name}"
            )
        return self.labels[int(number[1]) - 1]


@dataclass(frozen=True)
class ImageNet:
    """classes: "n01440764 tench, Tinca tinca", ... in the order of their labels."""

    classes: list[str]
    train: TrainPictures
    val: ValPictures


def is_imagenet_folder(folder: Path) -> bool:
    return (folder / TRAIN_TAR).exists() or (folder / VAL_TAR).exists()


def read_imagenet(folder: Path) -> ImageNet:
    """Classes, labels and the class tars, all checked against each other; DataError names what is missing or wrong."""
    for name in (TRAIN_TAR, VAL_TAR):
        if not (folder / name).is_file():
            raise DataError(f"{folder}: must hold both {TRAIN_TAR} and {VAL_TAR}, {name} is missing")
    devkit = _read_devkit(folder / DEVKIT) if (folder / DEVKIT).is_file() else None
    classes = _classes(folder, devkit)
    synsets = {line.split()[0]: label for label, line in enumerate(classes)}
    if len(synsets) < len(classes):
        raise DataError(f"{folder}: the list of classes holds {len(classes) - len(synsets)} of them twice")
    labels = _val_labels(folder, synsets, devkit)
    train = TrainPictures(folder / TRAIN_TAR, _class_tars(folder / TRAIN_TAR, synsets))
    return ImageNet(classes, train, ValPictures(folder / VAL_TAR, labels))


@dataclass(frozen=True)
class _Devkit:
    """classes: as ImageNet's, in the order of their numbers in WordNet. val: that number, for each picture."""

    classes: list[str]
    val: list[str]


def _read_devkit(path: Path) -> _Devkit:
    data = path.name.removesuffix(".tar.gz") + "/data/"
    try:
        with tarfile.open(path) as archive:
            meta, truth = (
                archive.extractfile(data + name).read()
                for name in ("meta.mat", "ILSVRC2012_validation_ground_truth.txt")
            )
        leaves = [row for row in read_structs(meta, "synsets") if row["num_children"][0] == 0]
        by_number = {int(row["ILSVRC2012_ID"][0]): row["WNID"] for row in leaves}
        val = [by_number[int(number)] for number in truth.split()]
    except (tarfile.TarError, OSError, EOFError, KeyError, ValueError) as error:
        raise DataError(f"{path}: must be ImageNet's development kit, but cannot be read: {error}") from error
    return _Devkit(sorted(f"{row['WNID']} {row['words']}" for row in leaves), val)


def _classes(folder: Path, devkit: _Devkit | None) -> list[str]:
    for path in (folder / name for name in SYNSET_LISTS):
        if path.is_file():
            return _lines(path)
    if devkit is None:
        raise DataError(f"{folder}: must hold the list of classes: one of {', '.join(SYNSET_LISTS)}, or {DEVKIT}")
    return devkit.classes


def _val_labels(folder: Path, synsets: Synsets, devkit: _Devkit | None) -> list[int]:
    path = folder / VAL_LIST
    if not path.is_file() and devkit is None:
        raise DataError(f"{folder}: must hold the labels of the validation pictures: {VAL_LIST} or {DEVKIT}")
    names = _lines(path) if path.is_file() else devkit.val
    unknown = sorted(set(names) - synsets.keys())
    if unknown:
        raise DataError(f"{folder}: validation pictures are of classes that are not in the list: {_some(unknown)}")
    return [synsets[name] for name in names]


def _lines(path: Path) -> list[str]:
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: must be a list of text lines, but cannot be read: {error}") from error
    if not (lines := [line for line in lines if line]):
        raise DataError(f"{path}: must hold a class a line, is empty")
    return lines


def _class_tars(path: Path, synsets: Synsets) -> list[tuple[int, Member]]:
    """Each class's inner tar, in the classes' order."""
    inner = {Path(member.name).stem: member for member in members(path)}
    unknown, missing = sorted(inner.keys() - synsets.keys()), sorted(synsets.keys() - inner.keys())
    if unknown or missing:
        raise DataError(
            f"{path}: must hold a tar file for each class of the list"
            + (f"; missing: {_some(missing)}" if missing else "")
            + (f"; not in the list: {_some(unknown)}" if unknown else "")
        )
    return [(label, inner[name]) for name, label in synsets.items()]


def _some(names: list[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
