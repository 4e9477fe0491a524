"""Opens the port and serves until it is told to end."""

import asyncio
import logging
import os
import resource
import signal
import socket
from contextlib import suppress

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from sdnotify import SystemdNotifier

from trainer.errors import ConfigError
from trainer.observe.serve.guard import PATIENCE_SECONDS, Connections, add_headers, asking_for, check_host
from trainer.observe.serve.pages import routes
from trainer.observe.serve.place import Place
from trainer.observe.serve.pulse import Pulse, be_nice
from trainer.run import Run

# What one client can make the server keep: some headers of a few kB.
_LIMITS = {"max_line_size": 4096, "max_field_size": 4096, "max_headers": 50}


def serve(run: Run, place: Place, say=print) -> None:
    """Until SIGTERM or SIGINT, which end the process. say(line): told the address once it listens.

    ConfigError when the port cannot be had.
    """
    listening = _listen(place)
    be_nice()
    _allow_many_files()
    logging.getLogger("aiohttp.server").addFilter(_is_news)
    with suppress(asyncio.CancelledError):
        asyncio.run(_serve(run, place, listening, say))
    os._exit(0)  # an orderly exit would wait for a thread at a disk that hangs, and free a day of samples for seconds


def _listen(place: Place) -> socket.socket:
    family = socket.AF_INET6 if ":" in place.address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((place.address, place.port))
        listening.listen(1024)
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"--address and --port must be free on this machine, got {place.address} and {place.port}: {error.strerror}"
        ) from None
    return listening


def _is_news(record: logging.LogRecord) -> bool:
    """Garbage from a client is none: it would fill the log."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def _allow_many_files() -> None:
    with suppress(ValueError, OSError):  # a unit may forbid it
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 8192), most))


async def _serve(run: Run, place: Place, listening: socket.socket, say) -> None:
    loop, notify = asyncio.get_running_loop(), SystemdNotifier().notify
    pulse = Pulse(run)
    runner, connections = await _runner(pulse, place)
    tls = {"ssl": place.tls, "ssl_handshake_timeout": PATIENCE_SECONDS} if place.tls else {}
    server = await loop.create_server(connections.accept, sock=listening, **tls)
    tasks = [asyncio.create_task(job) for job in (pulse.run(lambda: _alive(pulse, notify)), connections.sweep())]
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, tasks[0].cancel)
    notify("READY=1")
    say(f"{run.name}: {Place(place.address, listening.getsockname()[1], tls=place.tls).url}")
    try:
        await asyncio.gather(*tasks)
    finally:
        notify("STOPPING=1")
        server.close()
        await runner.cleanup()


async def _runner(pulse: Pulse, place: Place) -> tuple[web.AppRunner, Connections]:
    app = web.Application()
    app.add_routes(routes(pulse))

    async def on_prepare(request, response):
        add_headers(response.headers)

    app.on_response_prepare.append(on_prepare)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, lingering_time=0, **_LIMITS)
    # The runner's server is made by its setup, and the middleware that counts must be there before.
    connections = Connections()
    app.middlewares.extend([connections.count, check_host, *([asking_for(place.token)] if place.token else [])])
    await runner.setup()
    connections.server = runner.server
    return runner, connections


def _alive(pulse: Pulse, notify) -> None:
    """systemd starts a server anew that has shown nothing for longer than its WatchdogSec."""
    if pulse.fresh:
        notify("WATCHDOG=1")
