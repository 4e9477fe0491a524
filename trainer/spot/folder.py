"""A second place in a folder of this machine: another disk, a network file system."""

import hashlib
import shutil
from collections.abc import Iterable
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path

from trainer.files import draft_of, sync
from trainer.spot.owner import KEY
from trainer.spot.place import PlaceError, SwappedError

CHUNK_BYTES = 1 << 20


@contextmanager
def _told():
    try:
        yield
    except OSError as error:
        raise PlaceError(f"{error.filename or 'the mirror'}: {error.strerror}") from error


def _copy(file, to: Path, pace) -> str:
    """The SHA-256 of what was copied."""
    digest = hashlib.sha256()
    with open(to, "wb") as copy:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            copy.write(chunk)
            pace(len(chunk))
    return digest.hexdigest()


class Folder:
    """`<root>/<run's name>`. The root must be there: an unmounted disk is not an empty mirror."""

    def __init__(self, root: Path, run_name: str):
        if not root.is_dir():
            raise PlaceError(f"{root}: must be a directory that exists (checkpoint_mirror), got none; make or mount it")
        self.base = root / run_name

    def sizes(self, prefix: str) -> dict[str, int]:
        with _told():
            files = (path for path in (self.base / prefix).glob("**/*") if path.is_file() and path.suffix != ".draft")
            return {str(path.relative_to(self.base)): path.stat().st_size for path in files}

    def put(self, key: str, file, sha256: str, pace) -> None:
        with _told(), draft_of(self._made(key)) as draft:
            if _copy(file, draft, pace) != sha256:
                raise PlaceError(f"{key}: is damaged here: its SHA-256 is not the one in checksums.json")

    def copy(self, key: str, path: Path, pace) -> None:
        with _told(), draft_of(self._made(key)) as draft, open(path, "rb") as file:
            _copy(file, draft, pace)

    def get(self, key: str, path: Path) -> None:
        with _told():
            shutil.copyfile(self.base / key, path)

    def read(self, key: str) -> tuple[bytes | None, bytes | None]:
        with _told():
            try:
                data = (self.base / key).read_bytes()
            except FileNotFoundError:
                data = None
        return data, data

    def swap(self, key: str, data: bytes, tag: bytes | None) -> bytes:
        with _told(), self._locked(key):
            if self.read(key)[1] != tag:
                raise SwappedError(f"{self.base / key}: somebody else wrote it meanwhile")
            with draft_of(self.base / key) as draft:
                draft.write_bytes(data)
        return data

    def keep_only(self, directories: Iterable[str]) -> None:
        with _told():
            for path in (self.base / "checkpoints").glob("*"):
                if path.name not in directories:
                    shutil.rmtree(path)
            with self._locked(KEY):  # whoever claims the place has a draft of it meanwhile
                for draft in self.base.glob("**/.*.draft"):  # of a killed writer: there is one mirror a run
                    draft.unlink()

    @contextmanager
    def _locked(self, key: str):
        with open(self._made(f".{key}.lock"), "w") as lock:
            flock(lock, LOCK_EX)
            yield

    def _made(self, key: str) -> Path:
        path = self.base / key
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            for parent in (path.parent, *path.parent.parents):
                sync(parent)
                if parent == self.base.parent:
                    break
        return path
