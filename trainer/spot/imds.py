"""Asks the machine's metadata service (EC2's IMDSv2) whether this spot machine is to be taken away.

A notice asks training to stop, a rebalance recommendation asks for a checkpoint. 404 is the normal answer. Whatever
else goes wrong is counted, told once a change, and never ends the watching.
"""

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from trainer.spot.stop import StopRequest

POLL_SECONDS = 5.0
CALL_SECONDS = 2.0
# AWS announces the end of a spot machine this long before.
NOTICE_SECONDS = 120.0
NOTICE = "/latest/meta-data/spot/instance-action"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
TOKEN = "/latest/api/token"
_TOKEN_SECONDS = 21600
_LONGEST_ANSWER = 65536


class ImdsError(Exception):
    """An answer that says nothing about the machine's future."""


@contextmanager
def watching(url: str | None, stop: StopRequest, report: Callable[..., None]) -> Iterator[None]:
    """Watches in a thread until the block ends; nothing when url is None. `report` gets notice, rebalance, imds."""
    if url is None:
        yield
        return
    over = threading.Event()
    watch = Watch(Metadata(url), stop, report)
    threading.Thread(target=_run, args=(watch, over), name="imds", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _run(watch: "Watch", over: threading.Event) -> None:
    while not watch.noticed:
        watch.poll()
        if over.wait(POLL_SECONDS):
            return


class Watch:
    """What one look after the other has found out."""

    def __init__(self, metadata: "Metadata", stop: StopRequest, report: Callable[..., None]):
        self._metadata, self._stop, self._report = metadata, stop, report
        self._recommended = None
        self._ok, self._errors = True, 0
        self.noticed = False

    def poll(self) -> None:
        """One look. Raises nothing: neither the service nor a full disk may end the watching."""
        problems = [problem for look in (self._look_for_notice, self._look_for_rebalance) if (problem := _try(look))]
        self._errors += len(problems)
        if self._ok == bool(problems):
            self._ok = not problems
            _try(lambda: self._report("imds", ok=self._ok, errors=self._errors, reason=" and ".join(problems) or None))

    def _look_for_notice(self) -> None:
        found = self._metadata.get(NOTICE)
        if found is None:
            return
        if not isinstance(found.get("action"), str):
            raise ImdsError(f"{NOTICE} must name an action, got {found}")
        self._stop.ask("notice", deadline=_deadline(found.get("time")))
        self.noticed = True
        self._report("notice", action=found["action"], time=found.get("time"), source="imds")

    def _look_for_rebalance(self) -> None:
        found = self._metadata.get(REBALANCE)
        if found is None or found == self._recommended:
            return
        self._recommended = found
        self._stop.ask_save()
        self._report("rebalance", time=found.get("noticeTime"))


def _try(act: Callable[[], None]) -> str | None:
    """What went wrong, in words."""
    try:
        act()
    except Exception as error:
        return str(error) or type(error).__name__
    return None


def _deadline(moment) -> float:
    """A notice's time on time.monotonic(), at most NOTICE_SECONDS ahead.

    That is also what a time in the past means (a clock is wrong: this machine is still there), or none at all.
    """
    try:
        left = (datetime.fromisoformat(moment) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):
        left = NOTICE_SECONDS
    return time.monotonic() + (min(left, NOTICE_SECONDS) if left > 0 else NOTICE_SECONDS)


class Metadata:
    """Reads the metadata service; never by a proxy or a redirect, of which http.client knows nothing."""

    def __init__(self, url: str):
        self._place = urlsplit(url).netloc
        self._token, self._renew_at = None, 0.0

    def get(self, path: str) -> dict | None:
        """The JSON object at a path, None for 404. Raises ImdsError for all else, OSError when nobody answers."""
        if time.monotonic() >= self._renew_at:
            self._renew()
        status, body = self._call("GET", path, {"X-aws-ec2-metadata-token": self._token})
        if status == 401:
            self._renew()
            status, body = self._call("GET", path, {"X-aws-ec2-metadata-token": self._token})
        if status == 404:
            return None
        if status != 200:
            raise ImdsError(f"{path} answers {status}")
        return _object(path, body)

    def _renew(self) -> None:
        self._renew_at = 0.0
        seconds = str(_TOKEN_SECONDS)
        status, body = self._call("PUT", TOKEN, {"X-aws-ec2-metadata-token-ttl-seconds": seconds})
        if status != 200 or not re.fullmatch(rb"[!-~]+", body):
            raise ImdsError(f"{TOKEN} answers {status}{'' if status != 200 else ' without a token'}")
        self._token = body.decode()
        self._renew_at = time.monotonic() + 0.9 * _TOKEN_SECONDS

    def _call(self, method: str, path: str, headers: dict) -> tuple[int, bytes]:
        began = time.monotonic()
        with closing(HTTPConnection(self._place, timeout=CALL_SECONDS)) as connection:
            try:
                connection.connect()
                with _limited(connection.sock):
                    connection.request(method, path, headers=headers)
                    answer = connection.getresponse()
                    return answer.status, answer.read(_LONGEST_ANSWER)
            except (HTTPException, OSError, ValueError) as error:
                late = time.monotonic() - began >= CALL_SECONDS
                why = f"no answer within {CALL_SECONDS:g} s" if late else str(error) or type(error).__name__
                raise ImdsError(f"{method} http://{self._place}{path}: {why}") from error


@contextmanager
def _limited(connected: socket.socket) -> Iterator[None]:
    """The whole call within CALL_SECONDS: a socket's own time-out starts anew with each byte that arrives."""

    def cut() -> None:
        with suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(CALL_SECONDS, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _object(path: str, body: bytes) -> dict:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ImdsError(f"{path} must be a JSON object, got {body[:80]!r}")
    return found
