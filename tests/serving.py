"""A real server of a run in a process of its own, and clients of every kind."""

import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from trainer.run import Run

PROJECT = Path(__file__).resolve().parents[1]
# The command with a shorter patience: the tests need not wait as long as a server must.
_IMPATIENT = """
import sys
from trainer.observe.serve import guard
guard.PATIENCE_SECONDS = 1.0
from trainer.__main__ import main
sys.exit(main())
"""


class Server:
    """Its `process`, where it answers, and all that it said."""

    def __init__(self, process: subprocess.Popen, url: str, errors: Path):
        self.process, self.url, self._errors = process, url.rstrip("/"), errors
        self.port = int(re.search(r":(\d+)$", self.url)[1])

    def get(self, path: str, headers: dict | None = None, **options):
        """(status, headers, body)."""
        request = urllib.request.Request(self.url + path, headers=headers or {})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), *options.values())
        try:
            with opener.open(request, timeout=20) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def connect(self, request: bytes = b"") -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        client.sendall(request)
        return client

    @property
    def errors(self) -> str:
        return self._errors.read_text()


@contextmanager
def serving(run: Run, folder: Path, *options: str, patient: bool = True, **environment: str):
    """The run's server at a free port of 127.0.0.1 until the block ends; it must live until then."""
    program = ["-m", "trainer"] if patient else ["-c", _IMPATIENT]
    command = [sys.executable, *program, "monitor", "--run", str(run.directory), "--port", "0", *options]
    errors = folder / "server.err"
    with (
        open(errors, "w") as said,
        subprocess.Popen(
            command, cwd=PROJECT, env=os.environ | environment, stdout=subprocess.PIPE, stderr=said, text=True
        ) as process,
    ):
        try:
            line = process.stdout.readline()
            assert line, errors.read_text()
            yield Server(process, line.split(": ", 1)[1].strip(), errors)
            assert process.poll() is None, errors.read_text()
        finally:
            process.terminate()
            try:
                process.wait(20)
            finally:
                process.kill()  # one that does not end is told, not waited for


def value(text: str, series: str) -> float | None:
    """Of one series in Prometheus's text format, named as it stands there; None when it is not there."""
    found = re.search(rf"^{re.escape(series)} (\S+)$", text, flags=re.MULTILINE)
    return float(found[1]) if found else None
