"""A metadata service to rehearse with: on loopback, with a notice when it is told to give one."""

import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from trainer.spot.imds import NOTICE, NOTICE_SECONDS, REBALANCE, TOKEN


class Practice:
    """What the service answers at each path, by (status, body); 404 elsewhere. Change it at any time."""

    def __init__(self):
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.tokens: set[str] = set()
        self.url = ""

    def give_notice(self, action: str = "terminate") -> None:
        """The machine goes in NOTICE_SECONDS."""
        gone = datetime.now(UTC) + timedelta(seconds=NOTICE_SECONDS)
        self._put(NOTICE, {"action": action, "time": f"{gone:%Y-%m-%dT%H:%M:%SZ}"})

    def recommend_rebalance(self) -> None:
        self._put(REBALANCE, {"noticeTime": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"})

    def answer(self, method: str, path: str, token: str | None) -> tuple[int, bytes]:
        """As IMDSv2 does: a token is asked for with PUT, and nothing else is answered without one."""
        if (method, path) == ("PUT", TOKEN):
            self.tokens.add(fresh := secrets.token_urlsafe(16))
            return 200, fresh.encode()
        if token not in self.tokens:
            return 401, b""
        return self.answers.get(path, (404, b""))

    def _put(self, path: str, value: dict) -> None:
        self.answers[path] = 200, json.dumps(value).encode()


@contextmanager
def serving(practice: Practice) -> Iterator[Practice]:
    """Answers at `practice.url` until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):  # noqa: N802 (http.server's name)
            status, body = practice.answer(self.command, self.path, self.headers.get("X-aws-ec2-metadata-token"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_GET  # noqa: N815

        def log_message(self, *_):
            """Nothing: the console is the rehearsal's."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        practice.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield practice
        finally:
            server.shutdown()
