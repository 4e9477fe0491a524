"""What protects the server: who may ask, what a browser may do with an answer, and who has stalled for too long."""

import asyncio
import base64
import binascii
import hmac
import ipaddress
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from aiohttp import web

# 1,000 who watch, and some more. Beyond that a connection is closed at once.
MOST_CONNECTIONS = 1200
# For a request to arrive as a whole, for the next one to begin, and for a client to take a piece of an answer.
PATIENCE_SECONDS = 15.0
_PIECE_BYTES = 1 << 16
# plotly.js writes styles into the page; nothing comes from elsewhere, and nobody may frame it.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
}  # fmt: skip


def add_headers(headers) -> None:
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
    headers["Server"] = "trainer"


class Connections:
    """Closes those that neither ask nor listen: half a request, or none, for PATIENCE_SECONDS."""

    def __init__(self):
        self.server: web.Server | None = None
        self._busy: set = set()
        self._idle: dict = {}

    def accept(self) -> asyncio.Protocol:
        """The protocol of a new connection."""
        return _Refusing() if len(self.server.connections) >= MOST_CONNECTIONS else self.server()

    @web.middleware
    async def count(self, request: web.Request, handler: Callable) -> web.StreamResponse:
        self._busy.add(request.protocol)
        try:
            return await handler(request)
        except ConnectionError:  # the client is gone, and nobody needs to hear of it
            return web.Response()
        finally:
            self._busy.discard(request.protocol)

    async def sweep(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            now = time.monotonic()
            waiting = [one for one in self.server.connections if one not in self._busy]
            self._idle = {one: self._idle.get(one, now) for one in waiting}
            for one, since in self._idle.items():
                if now - since > PATIENCE_SECONDS:
                    one.force_close()


class _Refusing(asyncio.Protocol):
    def connection_made(self, transport: asyncio.Transport) -> None:
        transport.abort()


@web.middleware
async def check_host(request: web.Request, handler: Callable) -> web.StreamResponse:
    """A page of somebody else's, whose name was made to lead here, must not read this one in a browser."""
    if not _is_host(request.headers.get("Host", "localhost")):
        return web.Response(status=421, text="ask by IP address or as localhost\n")
    return await handler(request)


def _is_host(text: str) -> bool:
    try:
        host = urlsplit(f"//{text}").hostname or ""
        return host == "localhost" or bool(ipaddress.ip_address(host))
    except ValueError:
        return False


def asking_for(token: str):
    """A middleware that wants the token, as a bearer's or as the password of any user; /healthz is for everybody."""

    @web.middleware
    async def check(request: web.Request, handler: Callable) -> web.StreamResponse:
        given = _given(request.headers.get("Authorization", ""))
        if request.path != "/healthz" and not hmac.compare_digest(given, token.encode()):
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="trainer", charset="UTF-8"'})
        return await handler(request)

    return check


def _given(header: str) -> bytes:
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode(errors="replace")
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            pass
    return b""


async def send(request: web.Request, response: web.StreamResponse, body: bytes) -> web.StreamResponse:
    """The body in pieces, so that one who does not read costs the memory of a piece; ends with a stalled client."""
    response.content_length = len(body)
    await response.prepare(request)
    if request.method != "HEAD":
        for begin in range(0, len(body), _PIECE_BYTES):
            await push(request, response, body[begin : begin + _PIECE_BYTES])
    return response


async def push(request: web.Request, response: web.StreamResponse, piece: bytes) -> None:
    """ConnectionResetError when the client is gone, or has not taken what came before within PATIENCE_SECONDS."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await response.write(piece)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("the client does not read") from None
