"""s3_fetch.py, which brings a data set's source from S3 to the machine that packs it, against the double."""

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

from tests.fakes.aws.clients import client
from tests.roles.playing import ROLES

OBJECTS = {"a/1.jpg": b"one" * 1000, "a/2.jpg": b"two", "b/c/3.jpg": b"", "big.tar": bytes(range(256)) * 20_000}


@pytest.fixture(scope="module")
def fetcher():
    spec = importlib.util.spec_from_file_location("s3_fetch", ROLES / "data_set/files/s3_fetch.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def bucket(aws):
    """A bucket with the objects below source/, in a double that lasts as long as the test."""
    with aws({"regions": {"us-east-1": {}}}):
        s3 = client(os.environ["AWS_ENDPOINT_URL"], "s3")
        s3.create_bucket(Bucket="pictures")
        for name, content in OBJECTS.items():
            s3.put_object(Bucket="pictures", Key=f"source/{name}", Body=content)
        s3.put_object(Bucket="pictures", Key="source-of-others/x", Body=b"x")
        s3.put_object(Bucket="pictures", Key="source/folder/", Body=b"")
        yield s3


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "fetched").mkdir()
    return tmp_path / "fetched"


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


@pytest.mark.parametrize("url", ["s3://pictures/source", "s3://pictures/source/"])
def test_all_below_the_prefix_comes_once(fetcher, bucket, folder, url):
    first = fetcher.main(url, str(folder))
    assert files(folder) == OBJECTS
    assert first == {"changed": True, "files": 4, "bytes": sum(map(len, OBJECTS.values()))}
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert not fetcher.main(url, str(folder))["changed"]
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()} == before


def test_it_goes_on_where_it_was_ended(fetcher, bucket, folder):
    etag = bucket.head_object(Bucket="pictures", Key="source/big.tar")["ETag"].strip('"')
    (folder / f".big.tar.{etag}.partial").write_bytes(b"?" * 1_000_000)
    fetcher.main("s3://pictures/source", str(folder))
    assert (folder / "big.tar").read_bytes() == b"?" * 1_000_000 + OBJECTS["big.tar"][1_000_000:]


def test_what_an_older_version_left_is_not_gone_on_with(fetcher, bucket, folder):
    (folder / ".big.tar.0123.partial").write_bytes(b"?" * 1000)
    (folder / "a").mkdir()
    (folder / "a/2.jpg").write_bytes(b"old")
    os.utime(folder / "a/2.jpg", (0, 0))  # a file of the same size and second is taken for the object
    fetcher.main("s3://pictures/source", str(folder))
    assert files(folder).items() >= OBJECTS.items()


def test_a_whole_bucket(fetcher, bucket, folder):
    assert fetcher.main("s3://pictures", str(folder))["files"] == 5


def test_nothing_there_no_room_and_names_that_lead_out(fetcher, bucket, folder, monkeypatch):
    with pytest.raises(fetcher.Refused, match="s3://pictures/none must hold files") as caught:
        fetcher.main("s3://pictures/none", str(folder))
    assert caught.value.args[0] == 66
    bucket.put_object(Bucket="pictures", Key="source/../x", Body=b"x")
    with pytest.raises(fetcher.Refused, match="leads out of the folder"):
        fetcher.main("s3://pictures/source", str(folder))
    bucket.delete_object(Bucket="pictures", Key="source/../x")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1000, 0, 1000))
    with pytest.raises(fetcher.Refused, match="fetching needs 5 MB free, got 0 MB"):
        fetcher.main("s3://pictures/source", str(folder))
    assert files(folder) == {}
