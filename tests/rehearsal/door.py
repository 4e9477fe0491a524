"""A port of this machine that leads to another one: how a host reaches what listens on loopback."""

import contextlib
import socket
import threading
from collections.abc import Iterator

Address = tuple[str, int]


@contextlib.contextmanager
def door(address: Address, target: Address, shut: threading.Event | None = None) -> Iterator[None]:
    """Whoever connects to `address` speaks with `target`, for as long as the block lasts; nobody while it is `shut`."""
    with socket.create_server(address) as listener:
        threading.Thread(target=_open, args=(listener, target, shut or threading.Event()), daemon=True).start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def _open(listener: socket.socket, target: Address, shut: threading.Event) -> None:
    while True:
        try:
            caller, _ = listener.accept()
        except OSError:  # the block has ended
            return
        if shut.is_set():
            caller.close()
            continue
        threading.Thread(target=_connect, args=(caller, target, shut), daemon=True).start()


def _connect(caller: socket.socket, target: Address, shut: threading.Event) -> None:
    with caller, socket.create_connection(target) as answerer:
        back = threading.Thread(target=_pass_on, args=(answerer, caller, shut), daemon=True)
        back.start()
        _pass_on(caller, answerer, shut)
        back.join()


def _pass_on(source: socket.socket, sink: socket.socket, shut: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while (chunk := source.recv(1 << 16)) and not shut.is_set():
            sink.sendall(chunk)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
