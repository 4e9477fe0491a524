"""The damaged records that training met: each named once, and an end to it when they are too many."""

import threading

from trainer.data.framing import BadRecordError
from trainer.data.records import RecordFile
from trainer.errors import DataError

_LISTED = 20


class BadRecords:
    """Collects from several threads. `share` of the records may be bad: above it the data set is damaged, not merely
    imperfect. One always may, so that a small file survives it too, unless the share is 0."""

    def __init__(self, records: RecordFile, share: float):
        self._records = records
        self._limit = min(len(records) - 1, max(1, int(share * len(records)))) if share else 0
        self._found: dict[int, str] = {}
        self._told = 0
        self._lock = threading.Lock()

    def add(self, i: int, error: BadRecordError) -> None:
        """Notes record i; DataError with the list once there are too many."""
        with self._lock:
            self._found.setdefault(int(i), error.reason)
            if len(self._found) > self._limit:
                raise DataError(self._summary())

    def news(self) -> list[dict]:
        """key, offset and reason of each record found since the last call."""
        with self._lock:
            fresh = list(self._found.items())[self._told :]
            self._told += len(fresh)
        return [describe(self._records, i, reason) for i, reason in fresh]

    def _summary(self) -> str:
        listed = [describe(self._records, i, reason) for i, reason in sorted(self._found.items())[:_LISTED]]
        lines = [f"  key {bad['key']} at byte {bad['offset']}: {bad['reason']}" for bad in listed]
        return (
            f"{self._records.path}: {len(self._found)} of {len(self._records)} records are damaged, "
            f"more than the {self._limit} allowed:\n"
            + "\n".join(lines)
            + f"\nList all with: python -m trainer check {self._records.path}"
        )


def describe(records: RecordFile, i: int, reason: str) -> dict:
    return {"key": int(records.keys[i]), "offset": int(records.offsets[i]), "reason": reason}
