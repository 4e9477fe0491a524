"""The routes: /, /assets/*, /history.json, /events, /metrics, /healthz."""

import gzip
import hashlib
from functools import cache

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from trainer.observe.serve.guard import push, send
from trainer.observe.serve.pulse import Pulse

# An asset of another content has another name.
_FOR_EVER = "private, max-age=31536000, immutable"


def routes(pulse: Pulse) -> list[web.RouteDef]:
    pages = _Pages(pulse)
    return [
        web.get("/", pages.page), web.get("/assets/{name}", pages.asset), web.get("/history.json", pages.history),
        web.get("/events", pages.events, allow_head=False), web.get("/metrics", pages.metrics),
        web.get("/healthz", pages.health),
    ]  # fmt: skip


class _Pages:
    def __init__(self, pulse: Pulse):
        self._pulse = pulse
        self._asset = cache(self._read_asset)

    async def page(self, request: web.Request) -> web.StreamResponse:
        body = await self._pulse.in_thread(self._pulse.view.page)
        return await send(request, web.StreamResponse(headers={"Content-Type": "text/html; charset=utf-8"}), body)

    async def asset(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if self._pulse.view.asset(name) is None:  # nothing is kept of names that somebody made up
            raise web.HTTPNotFound
        body, kind, tag = await self._pulse.in_thread(self._asset, name)
        headers = {"Content-Type": kind, "ETag": tag, "Cache-Control": _FOR_EVER}
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=headers)
        return await self._compressed(request, headers, body)

    async def history(self, request: web.Request) -> web.StreamResponse:
        return await self._compressed(request, {"Content-Type": "application/json"}, await self._pulse.history())

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Whoever is too slow for all gets the newest only."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await push(request, response, b"retry: 2000\n\n" + self._pulse.message)
        while True:
            await self._pulse.wait()
            await push(request, response, self._pulse.message)

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        """None rather than old ones: a scrape that fails is seen, a number that stands still is not."""
        if not self._pulse.fresh:
            raise web.HTTPServiceUnavailable(text="the run's directory has not been read for a while\n")
        return await send(request, web.StreamResponse(headers={"Content-Type": CONTENT_TYPE_LATEST}),
                          self._pulse.metrics)  # fmt: skip

    async def health(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text="ok\n") if self._pulse.fresh else web.Response(text="stale\n", status=503)

    def _read_asset(self, name: str) -> tuple[bytes, str, str]:
        body, kind = self._pulse.view.asset(name)
        return gzip.compress(body), kind, f'"{hashlib.sha256(body).hexdigest()[:32]}"'

    async def _compressed(self, request: web.Request, headers: dict, body: bytes) -> web.StreamResponse:
        """body: compressed by gzip, which is undone for the few who do not take it."""
        headers = headers | {"Vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            headers["Content-Encoding"] = "gzip"
        else:
            body = await self._pulse.in_thread(gzip.decompress, body)
        return await send(request, web.StreamResponse(headers=headers), body)
