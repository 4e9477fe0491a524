"""S3 on loopback: moto, behind a door that can misbehave, and that checks SHA-256 as S3 does (moto does not)."""

import functools
import hashlib
import io
import logging
import socket
import threading
from base64 import b64encode
from collections.abc import Callable

import boto3
import botocore.session
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIAFORTESTSONLY", "AWS_SECRET_ACCESS_KEY": "a-secret-for-tests",
    "AWS_SESSION_TOKEN": "a-token-for-tests", "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
}
# Each new session reads the models of S3 anew, a fifth of a second: in tests once is enough.
botocore.session.create_loader = functools.cache(botocore.session.create_loader)
_MOTO = DomainDispatcherApplication(create_backend_app)
logging.getLogger("werkzeug").setLevel(logging.ERROR)

# A fault takes (environ, start_response) and answers in moto's place, or returns None to let the request pass.
Fault = Callable


class S3:
    """A server on 127.0.0.1 with one bucket; `fault` misbehaves for those requests that it likes to."""

    def __init__(self, bucket: str):
        self.bucket, self.fault, self.requests = bucket, None, []
        self._port, self._server = 0, None
        self.start()
        self.client = boto3.client("s3", endpoint_url=self.url, **_credentials())
        self.client.create_bucket(Bucket=bucket)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def environment(self) -> dict[str, str]:
        return CREDENTIALS | {"AWS_ENDPOINT_URL": self.url}

    def start(self) -> None:
        """Again on the same port after `stop`; what was stored is still there."""
        self._server = make_server(
            "127.0.0.1", self._port, self._answer, threaded=True, request_handler=MotoRequestHandler
        )
        self._port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        """From now on connections are refused."""
        self._server.shutdown()
        self._server.server_close()

    def objects(self) -> list[bytes]:
        """What everything in the bucket says."""
        found = self.client.list_objects_v2(Bucket=self.bucket).get("Contents", [])
        return [self.client.get_object(Bucket=self.bucket, Key=entry["Key"])["Body"].read() for entry in found]

    def unfinished(self) -> list[str]:
        found = self.client.list_multipart_uploads(Bucket=self.bucket)
        return [upload["Key"] for upload in found.get("Uploads", [])]

    def sent(self, method: str, part_of_url: str) -> int:
        return sum(line.startswith(method) and part_of_url in line for line in self.requests)

    def _answer(self, environ, start_response):
        self.requests.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{environ.get('QUERY_STRING', '')}")
        answer = self.fault and self.fault(environ, start_response)
        if answer is None:
            answer = _wrong_checksum(environ, start_response)
        return _MOTO(environ, start_response) if answer is None else answer


def is_upload(environ) -> bool:
    """Of a checkpoint's file, or of a part of it."""
    return environ["REQUEST_METHOD"] == "PUT" and "/checkpoints/" in environ["PATH_INFO"]


def is_download(environ) -> bool:
    return environ["REQUEST_METHOD"] == "GET" and "/checkpoints/" in environ["PATH_INFO"]


def error(code: str, message: str, status: str) -> Fault:
    """S3 answers every request with an error."""

    def fault(_environ, start_response):
        start_response(status, [("Content-Type", "application/xml")])
        return [f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()]

    return fault


def silence(over: threading.Event) -> Fault:
    """No answer until `over` is set."""

    def fault(_environ, _start_response):
        over.wait(30)

    return fault


def cut_upload(after: int) -> Fault:
    """The connection breaks in the middle of the body of the upload number `after` (from 0) and of each later one."""
    count = iter(range(10**6))

    def fault(environ, start_response):
        if is_upload(environ) and next(count) >= after:
            environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]) // 2)
            _hang_up(environ)
            start_response("200 OK", [])
            return []
        return None

    return fault


def damage_upload(environ, _start_response):
    """A byte of each upload changes on the way."""
    if is_upload(environ):
        body = bytearray(_body(environ))
        body[len(body) // 2] ^= 1
        environ["wsgi.input"] = io.BytesIO(bytes(body))


def cut_download(environ, start_response):
    """Downloads of checkpoints end half-way."""
    if not is_download(environ):
        return None
    body = b"".join(_MOTO(environ, start_response))

    def half():
        yield body[: len(body) // 2]
        _hang_up(environ)

    return half()


def _wrong_checksum(environ, start_response):
    """What S3 does with a body whose SHA-256 is not the one in the header."""
    expected = environ.get("HTTP_X_AMZ_CHECKSUM_SHA256")
    if expected is None or environ["REQUEST_METHOD"] != "PUT":
        return None
    if b64encode(hashlib.sha256(_body(environ)).digest()).decode() == expected:
        return None
    return error("BadDigest", "The SHA256 you specified did not match the calculated checksum.", "400 Bad Request")(
        environ, start_response
    )


def _body(environ) -> bytes:
    """Of a request, which can still be read after that."""
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _hang_up(environ) -> None:
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)


def _credentials() -> dict[str, str]:
    return {
        "aws_access_key_id": CREDENTIALS["AWS_ACCESS_KEY_ID"], "region_name": CREDENTIALS["AWS_DEFAULT_REGION"],
        "aws_secret_access_key": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    }
