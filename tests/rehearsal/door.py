"""A port of this machine that leads to another one: how a host reaches what listens on loopback."""

import contextlib
import socket
import threading
from collections.abc import Iterator

Address = tuple[str, int]


@contextlib.contextmanager
def door(address: Address, target: Address) -> Iterator[None]:
    """Whoever connects to `address` speaks with `target`, for as long as the block lasts."""
    with socket.create_server(address) as listener:
        threading.Thread(target=_open, args=(listener, target), daemon=True).start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def _open(listener: socket.socket, target: Address) -> None:
    while True:
        try:
            caller, _ = listener.accept()
        except OSError:  # the block has ended
            return
        threading.Thread(target=_connect, args=(caller, target), daemon=True).start()


def _connect(caller: socket.socket, target: Address) -> None:
    with caller, socket.create_connection(target) as answerer:
        back = threading.Thread(target=_pass_on, args=(answerer, caller), daemon=True)
        back.start()
        _pass_on(caller, answerer)
        back.join()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(1 << 16):
            sink.sendall(chunk)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
