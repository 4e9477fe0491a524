"""A monitor somewhere else, as `watch` reads it: one message a second over HTTP."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from trainer.errors import ConfigError

_PATIENCE_SECONDS = 10.0


class NoConnectionError(Exception):
    """The monitor does not answer (any more)."""


def is_address(run: str) -> bool:
    return run.startswith(("http://", "https://"))


def messages(address: str, token_file: Path | None) -> Iterator[dict]:
    """What LiveView.now gives over there, as it comes. NoConnectionError; ConfigError when the token is not taken."""
    request = urllib.request.Request(address.rstrip("/") + "/events", headers=_headers(token_file))
    # A monitor is at a private address or at the end of a tunnel: no proxy leads there.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=ssl.create_default_context())
    )
    try:
        with opener.open(request, timeout=_PATIENCE_SECONDS) as answer:
            for line in answer:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
    except urllib.error.HTTPError as error:
        if error.code == 401:
            raise ConfigError(f"--token-file must hold the token of {address}, got {token_file or 'none'}") from None
        raise NoConnectionError(f"HTTP {error.code}") from None
    except (OSError, ValueError) as error:
        raise NoConnectionError(str(getattr(error, "reason", error))) from None
    raise NoConnectionError("it ended the connection")


def _headers(token_file: Path | None) -> dict[str, str]:
    if token_file is None:
        return {}
    try:
        return {"Authorization": f"Bearer {token_file.read_text(encoding='ascii').strip()}"}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--token-file must be a readable file of ASCII text, got {token_file}: {error}") from None
