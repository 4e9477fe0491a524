"""The HTTP server: every request passes the gate, then the double's own answers, then moto."""

import contextlib
import json
import re
import socket
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from moto.core.request import Request
from moto.ec2.responses import EC2Response
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server
from werkzeug.wrappers import Response

from . import control, gate, instances, policies, pricing
from .call import Call, error_response, read_call
from .install import install
from .scenario import Scenario
from .world import World, set_world, world

UNANSWERED = ("refused", "hang", "lost", "held")


class Handler(MotoRequestHandler):
    """Says nothing about requests: the log of calls does."""

    protocol_version = "HTTP/1.1"

    def log(self, *_: Any) -> None:
        pass


class Application:
    def __init__(self) -> None:
        self.moto = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        if environ["PATH_INFO"].startswith(control.PREFIX):
            return control.answer(environ)(environ, start_response)
        started, call = time.time(), read_call(environ)
        world().closing.wait(gate.latency_seconds(world(), call))
        fault, response = self._decide(call, environ)
        code = response.headers.pop("x-double-code", None)
        world().record(gate.entry(call, started, response.status_code, code, fault))
        if fault in UNANSWERED:
            _never_answer(environ, wait=fault in ("held", "hang"))
        return response(environ, start_response)

    def _decide(self, call: Call, environ: dict[str, Any]) -> tuple[str, Response]:
        """The word of a fault, "ok" without one, and the answer."""
        refused = gate.refusal(world(), call)
        if refused:
            return "ok", _refuse(call, refused, gate.MESSAGES.get(refused, "The security token is invalid"))
        with world().lock:
            world().settle()
            documents = world().scenario.policies.get(call.caller)
            if documents is not None and (why := policies.denial(call, documents)):
                return "ok", _refuse(call, "UnauthorizedOperation" if call.service == "ec2" else "AccessDenied", why)
            fault, message = gate.next_fault(world(), call, instances.zone_of(call))
            if fault in ("refused", "hang"):
                return fault, Response()
            if fault not in ("ok", "vanish", "lost", "held"):
                return fault, _refuse(call, fault, message)
            if fault == "vanish":
                instances.vanish(call)
            return fault, self._answer(call, environ)

    def _answer(self, call: Call, environ: dict[str, Any]) -> Response:
        try:
            if call.service == "pricing":
                return _pricing(call)
            if call.service == "ec2":
                status, headers, body = EC2Response.dispatch(Request(environ))
                return _with_code(Response(body, status, headers))
            return _with_code(Response.from_app(self.moto, environ, buffered=True))
        except Exception as error:
            traceback.print_exc()
            text = f"The double of AWS cannot do {call.service}:{call.action}: {error!r}"
            return _refuse(call, "InvalidAction", text)


def _pricing(call: Call) -> Response:
    if call.region not in pricing.HOME_REGIONS:
        return _refuse(call, "UnrecognizedClientException", f"There is no price list in {call.region}")
    if call.action != "GetProducts":
        return _refuse(call, "InvalidAction", f"The double of AWS has no pricing:{call.action}")
    return Response(json.dumps(pricing.get_products(call.parameters)), content_type="application/x-amz-json-1.1")


def _refuse(call: Call, code: str, message: str) -> Response:
    response = error_response(call, code, message)
    response.headers["x-double-code"] = code
    return response


def _with_code(response: Response) -> Response:
    """Notes the error's code in a header, for the log."""
    if response.status_code >= 400:
        text = response.get_data(as_text=True)
        found = re.search(r"<Code>(.*?)</Code>", text) or re.search(r'"__type": "(.*?)"', text)
        response.headers["x-double-code"] = found[1] if found else str(response.status_code)
    return response


def _never_answer(environ: dict[str, Any], wait: bool) -> None:
    """Closes the connection without an answer; with `wait`, only when the double ends or the caller has gone."""
    connection: socket.socket = environ["werkzeug.socket"]
    while wait and not world().closing.wait(0.05):
        if _hung_up(connection):
            break
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    raise ConnectionAbortedError


def _hung_up(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def start(scenario: Scenario, port: int = 0, log: Path | None = None) -> BaseWSGIServer:
    """A server that already listens on loopback; its state is new. One at a time in a process, as moto's state is."""
    set_world(World(scenario, log))
    install(world())
    server = make_server("127.0.0.1", port, Application(), threaded=True, request_handler=Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    return server


def stop(server: BaseWSGIServer) -> None:
    world().closing.set()
    server.shutdown()
    server.server_close()


@contextlib.contextmanager
def running(scenario: Scenario, log: Path | None = None) -> Iterator[str]:
    """The endpoint of a double that lives as long as the block: `with running(Scenario(...)) as endpoint`."""
    server = start(scenario, log=log)
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        stop(server)
