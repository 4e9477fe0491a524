"""The same training on a machine that nobody takes away: what the interrupted one must come to, bit for bit."""

import re
import shutil
import threading
from pathlib import Path

import host as hosts

from tests.rehearsal.playing import PROJECT
from tests.rehearsal.story.run import NAME, BrokenPromiseError, newest_sums

VOLUME = "vol-0fedcba9876543210"
LIMIT_SECONDS = 900
# What is of the place, and not of the training.
OF_THE_PLACE = re.compile(r"^(imds_url|checkpoint_mirror|epochs) = .*\n", re.MULTILINE)


class Reference:
    """Trains in a thread, on a host of its own, with a machine's trainer.toml, but for so many epochs."""

    def __init__(self, config: str, epochs: float, layers: list[Path], data: Path, folder: Path):
        self._config = f"epochs = {float(epochs)}\n" + OF_THE_PLACE.sub("", config)
        self._data = shutil.copy(data, folder / "reference.img")
        self._layers, self._sums, self._failure = layers, {}, None
        self._thread = threading.Thread(target=self._train, daemon=True)
        self._thread.start()

    def sums(self) -> dict[str, str]:
        """Of the arrays in its last checkpoint, once it has ended."""
        self._thread.join()
        if self._failure:
            raise BrokenPromiseError(f"the run without interruption could not be trained: {self._failure}")
        return self._sums

    def _train(self) -> None:
        try:
            host = hosts.up(self._layers, self._bring_code)
            try:
                self._train_on(host)
            finally:
                hosts.kill(host)
                hosts.down(host)
        except Exception as error:
            self._failure = error

    def _bring_code(self, host: hosts.Host) -> None:
        shutil.copytree(
            PROJECT / "trainer", host.root / "opt/trainer/trainer", ignore=shutil.ignore_patterns("__pycache__")
        )
        (host.root / "root/trainer.toml").write_text(self._config)

    def _train_on(self, host: hosts.Host) -> None:
        disk = host.attach(VOLUME, self._data)
        host.run(f"mkdir -p /data /var/lib/trainer/run/{NAME}; mount -o ro {disk} /data")
        host.run(
            "PYTHONPATH=/opt/trainer nice -n 19 /opt/mxnet/bin/python -P -m trainer train --no-monitor"
            " --config /root/trainer.toml", timeout_seconds=LIMIT_SECONDS,
        )  # fmt: skip
        self._sums = newest_sums(host)
