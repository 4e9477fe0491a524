"""The second place for checkpoints: `<checkpoint_mirror>/<run's name>`, in a folder or in an S3 bucket.

A place has

    sizes(prefix)              {key: bytes} of the files whose key starts so
    put(key, file, sha256, pace)   a file that never changes again; calls `pace(bytes)` as they are sent
    copy(key, path, pace)      a file that grows; the newer copy replaces the older one
    get(key, path)             brings a file here
    read(key)                  (bytes or None, tag of this version)
    swap(key, data, tag)       writes if the version is still that of `tag` and returns the new tag; else SwappedError
    keep_only(directories)     removes all other directories under checkpoints/, unfinished uploads included

Keys are relative to the place. Files appear whole or not at all. Errors: PlaceError.
"""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from trainer.errors import DiskError


class PlaceError(DiskError):
    """The second place cannot be reached, or refuses."""


class SwappedError(PlaceError):
    """Somebody else wrote that file meanwhile."""


def place_of(url: str, run_name: str):
    """The place of a run; PlaceError when it cannot be used."""
    if url.startswith("file:"):
        from trainer.spot.folder import Folder

        return Folder(folder_of(url), run_name)
    from trainer.spot.mirror import Bucket  # boto3 takes half a second to import

    parts = urlsplit(url)
    return Bucket(parts.netloc, "/".join([*filter(None, parts.path.split("/")), run_name]))


def folder_of(url: str) -> Path:
    """The directory of a file:// URL."""
    return Path(unquote(urlsplit(url).path))
