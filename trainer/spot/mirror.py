"""A second place in an S3 bucket. Credentials, region and endpoint come as boto3 finds them: roles, files, AWS_*."""

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from trainer.spot.place import PlaceError, SwappedError

# S3 takes parts from 5 MiB on and at most 10,000 of them: 78 GiB a file.
PART_BYTES = 8 << 20
# A notice leaves two minutes: an endpoint that does not answer must be given up, and tried again, well before.
_CLIENT = Config(connect_timeout=5, read_timeout=20, retries={"mode": "standard", "total_max_attempts": 2})
_SHA256 = {"ChecksumAlgorithm": "SHA256"}
_NOT_THERE = ("NoSuchKey", "404")
_SWAPPED = ("PreconditionFailed", "ConditionalRequestConflict")


class Bucket:
    """`s3://<bucket>/<prefix>`. The bucket must be there."""

    def __init__(self, bucket: str, prefix: str):
        self.bucket, self.prefix = bucket, prefix
        with self._told():
            self.client = boto3.Session().client("s3", config=_CLIENT)

    def sizes(self, prefix: str) -> dict[str, int]:
        with self._told():
            found = self._pages("list_objects_v2", "Contents", Prefix=f"{self.prefix}/{prefix}")
            return {entry["Key"].removeprefix(self.prefix + "/"): entry["Size"] for entry in found}

    def put(self, key: str, file, sha256: str, pace) -> None:
        """In parts when it is large; parts that are there from an earlier try are not sent again."""
        with self._told():
            first = file.read(PART_BYTES)
            if len(first) < PART_BYTES:
                _refuse_damage(key, hashlib.sha256(first), sha256)
                self._send("put_object", first, Key=self._key(key))
                pace(len(first))
            else:
                file.seek(0)
                self._put_parts(key, file, sha256, pace)

    def copy(self, key: str, path: Path, pace) -> None:
        one_by_one = TransferConfig(use_threads=False)  # for `pace`, which holds up whoever calls it
        with self._told():
            self.client.upload_file(str(path), self.bucket, self._key(key), _SHA256, pace, one_by_one)

    def get(self, key: str, path: Path) -> None:
        with self._told():
            self.client.download_file(self.bucket, self._key(key), str(path))

    def read(self, key: str) -> tuple[bytes | None, str | None]:
        with self._told():
            try:
                answer = self.client.get_object(Bucket=self.bucket, Key=self._key(key))
                return answer["Body"].read(), answer["ETag"]
            except ClientError as error:
                if error.response["Error"]["Code"] in _NOT_THERE:
                    return None, None
                raise

    def swap(self, key: str, data: bytes, tag: str | None) -> str:
        condition = {"IfMatch": tag} if tag else {"IfNoneMatch": "*"}
        with self._told():
            try:
                return self._send("put_object", data, Key=self._key(key), **condition)["ETag"]
            except ClientError as error:
                if error.response["Error"]["Code"] in _SWAPPED:
                    raise SwappedError(f"{key}: somebody else wrote it meanwhile") from error
                raise

    def keep_only(self, directories: Iterable[str]) -> None:
        kept = tuple(f"{self.prefix}/checkpoints/{directory}/" for directory in directories)
        everything = {"Prefix": f"{self.prefix}/checkpoints/"}
        with self._told():
            for entry in self._pages("list_objects_v2", "Contents", **everything):
                if not entry["Key"].startswith(kept):
                    self.client.delete_object(Bucket=self.bucket, Key=entry["Key"])
            for upload in self._pages("list_multipart_uploads", "Uploads", **everything):
                if not upload["Key"].startswith(kept):
                    self._abort(upload["Key"], upload["UploadId"])

    def _put_parts(self, key: str, file, sha256: str, pace) -> None:
        where = {"Bucket": self.bucket, "Key": self._key(key), "UploadId": self._upload_of(self._key(key))}
        there = {part["PartNumber"]: part for part in self._pages("list_parts", "Parts", **where)}
        digest, parts = hashlib.sha256(), []
        while chunk := file.read(PART_BYTES):
            digest.update(chunk)
            parts.append(self._part(chunk, there.get(len(parts) + 1), pace, PartNumber=len(parts) + 1, **where))
        try:
            _refuse_damage(key, digest, sha256)
        except PlaceError:
            self._abort(where["Key"], where["UploadId"])
            raise
        self.client.complete_multipart_upload(MultipartUpload={"Parts": parts}, **where)

    def _part(self, chunk: bytes, there: dict | None, pace, **where) -> dict:
        """A key's content never changes (its directory is named after it): a part of that size is that part."""
        if there and there["Size"] == len(chunk):
            tag = there["ETag"]
        else:
            tag = self._send("upload_part", chunk, **where)["ETag"]
            pace(len(chunk))
        return {"PartNumber": where["PartNumber"], "ETag": tag, "ChecksumSHA256": _base64(chunk)}

    def _upload_of(self, key: str) -> str:
        """The unfinished upload of a key, or a new one."""
        for upload in self._pages("list_multipart_uploads", "Uploads", Prefix=key):
            if upload["Key"] == key:
                return upload["UploadId"]
        return self.client.create_multipart_upload(Bucket=self.bucket, Key=key, **_SHA256)["UploadId"]

    def _send(self, call: str, data: bytes, **where) -> dict:
        """S3 computes the SHA-256 of what arrived and refuses it when it is another one."""
        checksum = {"ChecksumSHA256": _base64(data), **_SHA256}
        return getattr(self.client, call)(**({"Bucket": self.bucket} | where), Body=data, **checksum)

    def _abort(self, key: str, upload: str) -> None:
        self.client.abort_multipart_upload(Bucket=self.bucket, Key=key, UploadId=upload)

    def _pages(self, call: str, what: str, **where) -> Iterator[dict]:
        for page in self.client.get_paginator(call).paginate(**({"Bucket": self.bucket} | where)):
            yield from page.get(what, [])

    def _key(self, key: str) -> str:
        return f"{self.prefix}/{key}"

    @contextmanager
    def _told(self):
        try:
            yield
        except (BotoCoreError, ClientError, Boto3Error) as error:
            raise PlaceError(f"s3://{self.bucket}/{self.prefix}: {error}") from error


def _refuse_damage(key: str, digest, sha256: str) -> None:
    if digest.hexdigest() != sha256:
        raise PlaceError(f"{key}: is damaged here: its SHA-256 is not the one in checksums.json")


def _base64(data: bytes) -> str:
    return b64encode(hashlib.sha256(data).digest()).decode()
