"""The doctor's word on the last quarter of an hour, asked anew now and then."""

import time
from collections import deque

from trainer.observe.diagnose import diagnose
from trainer.observe.own_verdict import LAST_SAMPLES, LEAST_SAMPLES
from trainer.observe.verdicts import in_words

# A diagnosis of 16 GPUs takes a noticeable part of a second.
_PAUSE_SECONDS = 10.0


class Doctor:
    """Keeps the newest samples and what they say."""

    def __init__(self):
        self._samples: deque[dict] = deque(maxlen=LAST_SAMPLES)
        self._fresh, self._due = False, 0.0
        self._found: dict | None = None

    def read(self, sample: dict) -> None:
        self._samples.append(sample)
        self._fresh = True

    @property
    def last(self) -> dict:
        """The newest sample; {} when there is none."""
        return self._samples[-1] if self._samples else {}

    def found(self) -> dict | None:
        """`in_words` of the diagnosis; None with few samples."""
        if self._fresh and len(self._samples) >= LEAST_SAMPLES and time.monotonic() >= self._due:
            self._found = in_words(diagnose(list(self._samples)))
            self._fresh, self._due = False, time.monotonic() + _PAUSE_SECONDS
        return self._found
