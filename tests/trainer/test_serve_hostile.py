"""Clients that stall, flood, reset and talk garbage: the server stays up and training does not notice."""

import json
import random
import resource
import select
import socket
import struct
import subprocess
import threading
import time
from contextlib import suppress

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_logs import sample, start, steps, write_run
from serving import serving
from test_monitor import until
from training import FILES, write_config
from training import start as start_trainer

from trainer.observe.serve.guard import MOST_CONNECTIONS

ASK = b"GET /events HTTP/1.1\r\nHost: [::1]\r\n\r\n"
WATCHERS = 1000
MB = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def many_files():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Of a run on 16 GPUs; it waits for a client for one second only."""
    folder = tmp_path_factory.mktemp("hostile")
    gpus = [{"pci_bus_id": f"00000000:{bus:02X}:1E.0", "util": 97, "mem_used_mb": 9000} for bus in range(16)]
    machine = [sample(time.time() + second, gpus_expected=16, gpus=gpus) for second in range(-30, 600)]
    run = write_run(folder / "r", [start(time.time() - 100), *steps(time.time() - 90, 10, 90)], machine)
    with serving(run, folder, patient=False) as server:
        until(lambda: server.get("/healthz")[0] == 200)
        yield server
        assert server.errors == ""


def memory_mb(server) -> float:
    return psutil.Process(server.process.pid).memory_info().rss / MB


def connections(server) -> int:
    rows = psutil.Process(server.process.pid).net_connections()
    return sum(row.status == "ESTABLISHED" for row in rows)


def answers(server) -> bool:
    """False while it has as many clients as it takes."""
    try:
        return server.get("/metrics")[0] == 200
    except OSError:
        return False


def is_closed(client: socket.socket) -> bool:
    """Whether the server has closed it; what it said before is read and forgotten."""
    client.setblocking(False)
    try:
        while client.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


@pytest.mark.parametrize(
    "said",
    [b"", b"GET", b"GET /metrics HTTP/1.1\r\nHost: [::1]\r\nX-Long: ", b"GET /metrics HTTP/1.1\r\nHost: [::1]\r\n\r\n",
     b"POST / HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 1000000\r\n\r\nx"],
    ids=["nothing", "a word", "half a header", "a whole request and no more", "half a body"],
)  # fmt: skip
def test_who_stalls_is_dropped(server, said):
    client = server.connect(said)
    until(lambda: is_closed(client))
    client.close()


def test_who_drips_is_dropped(server):
    """A byte now and then is no request."""
    client, began = server.connect(b"GET /metrics HTTP/1.1\r\nX: "), time.monotonic()
    while not is_closed(client):
        assert time.monotonic() - began < 10
        try:
            client.sendall(b"y")
        except ConnectionError:
            break
        time.sleep(0.2)
    client.close()


def test_who_asks_for_events_and_does_not_read_them_is_dropped(server):
    before = memory_mb(server)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    client.connect(("127.0.0.1", server.port))
    page = server.get("/")[2].decode()
    asset = page.partition('src="assets/')[2].partition('"')[0]
    client.sendall(f"GET /assets/{asset} HTTP/1.1\r\nHost: [::1]\r\n\r\n".encode())
    until(lambda: connections(server) == 0)
    assert memory_mb(server) - before < 30
    client.close()


def test_a_thousand_watchers_all_see_each_second_and_scrapes_are_answered(server):
    until(lambda: answers(server))
    before = memory_mb(server)
    clients = [server.connect(ASK) for _ in range(WATCHERS)]
    got = [0] * WATCHERS
    reader = threading.Thread(target=read_all, args=(clients, got))
    reader.start()
    while reader.is_alive():
        assert server.get("/metrics")[0] == 200
        time.sleep(0.2)
    assert min(got) >= 3, sorted(got)[:10]
    assert memory_mb(server) - before < 150
    for client in clients:
        client.close()
    until(lambda: connections(server) == 0)


def read_all(clients, got):
    """Counts each one's messages, until all have three or a minute is over."""
    poll, places = select.poll(), {}
    for place, client in enumerate(clients):
        poll.register(client, select.POLLIN)
        places[client.fileno()] = place
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and min(got) < 3:
        for descriptor, _ in poll.poll(200):
            place = places[descriptor]
            got[place] += clients[place].recv(1 << 16).count(b"data: ")


@pytest.mark.slow
def test_more_than_it_takes_are_closed_at_once_and_the_others_stay(server):
    until(lambda: answers(server) and connections(server) == 0)
    clients = [server.connect(ASK) for _ in range(MOST_CONNECTIONS)]
    until(lambda: connections(server) == MOST_CONNECTIONS)
    surplus = [server.connect() for _ in range(20)]
    for client in surplus:
        until(lambda client=client: is_closed(client))
    assert not is_closed(clients[0])
    for client in clients + surplus:
        client.close()
    until(lambda: answers(server))


def test_who_resets_in_the_middle_is_forgotten(server):
    for _ in range(300):
        client = server.connect(random.choice([
            b"", b"GET /", ASK, b"GET /history.json HTTP/1.1\r\nHost: [::1]\r\n\r\n",
        ]))  # fmt: skip
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    until(lambda: answers(server))


REQUESTS = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x00" * 100, b"\r\n" * 1000, b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n", b"GET " + b"/a" * 10_000 + b" HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000 + b"\r\n", b"GET / HTTP/1.1\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: [::1]\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"\xff\xfe" * 500,
    b"GET / HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: [::1]\r\nContent-Length: -1\r\n\r\n", b"GET http://[::1 HTTP/1.1\r\nHost: [::1]\r\n\r\n",
    b"GET /assets/%00 HTTP/1.1\r\nHost: [::1]\r\n\r\n",
    b"GET /assets/..%2f..%2fetc%2fpasswd HTTP/1.1\r\nHost: [::1]\r\n\r\n",
    b"GET //metrics HTTP/1.1\r\nHost: [::1]\r\n\r\n", b"GET /%ff%fe HTTP/1.1\r\nHost: [::1]\r\n\r\n",
    b"GET /events HTTP/1.1\r\nHost: [::1]\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + b"\x81\x05hello",
    b"CONNECT other:443 HTTP/1.1\r\nHost: other:443\r\n\r\n", b"GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n" * 500,
    b"GET /metrics HTTP/1.1\r\nHost: [::1]\r\nAccept-Encoding: \xff\r\nAuthorization: Basic \xff\r\n\r\n",
    b"HEAD /history.json HTTP/1.1\r\nHost: [::1]\r\nRange: bytes=0-99999999999\r\n\r\n",
]  # fmt: skip


def say(server, words: bytes) -> bytes:
    """What the server answers to it, as far as it comes soon."""
    client = server.connect()
    client.settimeout(0.1)
    try:
        client.sendall(words)
        return client.recv(1 << 16)
    except (OSError, TimeoutError):
        return b""
    finally:
        client.close()


@pytest.mark.parametrize("words", REQUESTS, ids=lambda words: repr(words[:24]))
def test_garbage_of_every_known_kind(server, words):
    answer = say(server, words)
    assert b"root:" not in answer
    assert not answer.startswith(b"HTTP/1.1 500"), answer
    assert server.get("/metrics")[0] == 200


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.binary(max_size=300),
        st.tuples(st.sampled_from(REQUESTS), st.integers(0, 200), st.binary(min_size=1, max_size=4)).map(
            lambda parts: parts[0][: parts[1]] + parts[2] + parts[0][parts[1] :][:2000]
        ),
        st.text(max_size=100).map(lambda path: f"GET /{path} HTTP/1.1\r\nHost: [::1]\r\n\r\n".encode(errors="replace")),
    )
)
def test_garbage_of_no_known_kind(server, words):
    client = server.connect()
    client.setblocking(False)
    with suppress(OSError):
        client.send(words)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert not say(server, words).startswith(b"HTTP/1.1 500")


def test_after_all_that_it_answers_and_has_said_nothing(server):
    until(lambda: answers(server))
    assert server.process.poll() is None
    assert server.errors == ""


def test_training_is_the_same_with_a_server_under_attack(tiny_recipe, tmp_path):
    """Bit for bit."""
    quiet = write_config(tiny_recipe, run_directory=str(tmp_path / "run" / "quiet"))
    loud = write_config(tiny_recipe, run_directory=str(tmp_path / "run" / "loud"))
    assert start_trainer(quiet, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait(300) == 0
    with serving(loud, tmp_path, patient=False) as server:
        trainer = start_trainer(loud, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        watchers = [server.connect(ASK) for _ in range(50)]
        while trainer.poll() is None:
            for words in random.sample(REQUESTS, 3):
                say(server, words)
        assert trainer.returncode == 0
        until(lambda: json.loads(loud.report_json.read_text())["finished"])
        until(lambda: b"trainer_finished 1.0" in server.get("/metrics")[2])
        for watcher in watchers:
            watcher.close()
    assert [weights(loud, name) for name in FILES] == [weights(quiet, name) for name in FILES]


def weights(run, name):
    return (run.checkpoints / run.latest.read_text().strip() / name).read_bytes()
