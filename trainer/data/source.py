"""One file's records as rows of batches: many at once by the crop decoder, or one by one decoded whole."""

from collections.abc import Sequence

import numpy as np

from trainer.data import native
from trainer.data.augment import Augmentation
from trainer.data.bad_records import describe
from trainer.data.batch import Batch
from trainer.data.buffers import Buffers
from trainer.data.fill import fill_crops, fill_whole
from trainer.data.framing import BadRecordError
from trainer.data.labels import label_width
from trainer.data.records import RecordFile
from trainer.data.target import Target
from trainer.errors import DataError

# So many take some 20 ms: handing them over costs nothing, and a batch keeps several threads busy.
PICTURES_A_TASK = 16


class Source:
    """Fills rows of batches; several threads may do so at once."""

    def __init__(
        self, records: RecordFile, target: Target, augment: Augmentation, batch_size: int, crop_only: bool = True
    ):
        self.records, self._target, self._augment = records, target, augment
        self._buffers = Buffers((batch_size, 3, target.height, target.width), target.dtype)
        self._label_width = label_width(records)
        self._crops = crop_only and native.library() is not None

    def empty_batch(self, count: int, epoch: int, position: int) -> Batch:
        labels = (count,) if self._label_width == 1 else (count, self._label_width)
        return Batch(self._buffers.take()[:count], np.empty(labels, np.float32), epoch, position)

    def fill_crops(self, batch: Batch, row: int, records: np.ndarray, numbers: np.ndarray) -> Sequence[int]:
        """Fills a row with each of these records and says which it could not, for whatever reason."""
        if not self._crops:
            return range(len(records))
        rows = slice(row, row + len(records))
        sources = self.records.sources(records)
        done = fill_crops(sources, self._augment, numbers, self._target, batch.labels[rows], batch.images[rows])
        return np.flatnonzero(~done)

    def fill(self, batch: Batch, row: int, i: int, numbers: np.ndarray) -> None:
        """Fills one row with record i, decoded whole; BadRecordError."""
        labels, picture = self.records.read(i)
        if len(labels) != self._label_width:
            raise BadRecordError(f"the record has {len(labels)} labels, the first of the file {self._label_width}")
        fill_whole(picture, self._augment, numbers, self._target, batch.images[row])
        batch.labels[row] = labels if self._label_width > 1 else labels[0]

    def fill_in_order(self, batch: Batch, row: int) -> None:
        """Fills PICTURES_A_TASK rows, as far as the batch has them, with the records that follow its position."""
        count = min(PICTURES_A_TASK, len(batch.images) - row)
        first, numbers = batch.position + row, np.zeros((count, 0))
        for k in self.fill_crops(batch, row, np.arange(first, first + count), numbers):
            try:
                self.fill(batch, row + k, first + k, numbers[k])
            except BadRecordError as error:
                raise DataError(_refusal(self.records, first + k, error)) from error


def _refusal(records: RecordFile, i: int, error: BadRecordError) -> str:
    bad = describe(records, i, error.reason)
    return (
        f"{records.path}: the record with key {bad['key']} at byte {bad['offset']} is damaged "
        f"({error.reason}), and validation must see every record: pack the file again"
    )
