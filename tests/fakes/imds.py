"""Metadata services that do not answer as they should."""

import socket
import threading
from contextlib import contextmanager

from trainer.spot.imds import TOKEN
from trainer.spot.practice import Practice


class Faulty(Practice):
    """Practice's, whose tokens can be refused, and which is silent while `silent` is set."""

    def __init__(self):
        super().__init__()
        self.silent = threading.Event()
        self.over = threading.Event()
        self.token_answer: tuple[int, bytes] | None = None
        self.tokens_given = 0

    def answer(self, method, path, token):
        if self.silent.is_set():
            self.over.wait()
        if path == TOKEN:
            self.tokens_given += 1
            if self.token_answer:
                return self.token_answer
        return super().answer(method, path, token)


@contextmanager
def dripping(seconds_a_byte: float):
    """An address whose every answer comes byte by byte and has no end."""
    over = threading.Event()

    def drip(connection: socket.socket) -> None:
        with connection:
            text = b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 60000
            for byte in text:
                if over.wait(seconds_a_byte):
                    return
                try:
                    connection.sendall(bytes([byte]))
                except OSError:
                    return

    def accept(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=drip, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
