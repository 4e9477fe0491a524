"""Whether the labels of a file fit the configuration, found before anything is trained on them."""

import numpy as np

from trainer.data.framing import BadRecordError
from trainer.data.records import RecordFile, spread
from trainer.errors import DataError

# Reading a label is one small read; files above it are sampled evenly instead.
_ALL_RECORDS = 100_000
_SAMPLED_RECORDS = 10_000


def check_labels(records: RecordFile, label_width: int, num_classes: int) -> None:
    """DataError unless every record looked at has `label_width` labels, the first a class number below `num_classes`.

    Damaged records are passed over: the loader deals with them.
    """
    count = len(records)
    for i in spread(count, count if count <= _ALL_RECORDS else _SAMPLED_RECORDS):
        try:
            labels = records.labels(i)
        except BadRecordError:
            continue
        if len(labels) != label_width:
            raise DataError(
                f"{_place(records, i)} holds {len(labels)} labels, but label_width is {label_width}: "
                "pack the file again or change label_width"
            )
        if not _is_class(labels[0], num_classes):
            raise DataError(
                f"{_place(records, i)} has label {_plain(labels)}, but num_classes is {num_classes}: "
                f"labels must be whole numbers from 0 to {num_classes - 1}"
            )


def label_width(records: RecordFile) -> int:
    """How many labels the records have, by the first whole one; DataError when there is none."""
    for i in range(len(records)):
        try:
            return len(records.labels(i))
        except BadRecordError:
            continue
    raise DataError(f"{records.path}: none of its {len(records)} records is whole")


def _is_class(label: float, num_classes: int) -> bool:
    return bool(0 <= label < num_classes) and label == int(label)


def _plain(labels: np.ndarray) -> str:
    return ", ".join(f"{label:g}" for label in labels)


def _place(records: RecordFile, i: int) -> str:
    return f"{records.path}: the record with key {records.keys[i]} at byte {records.offsets[i]}"
