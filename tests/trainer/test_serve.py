"""The server beside a run: what it answers, to whom, and that it lives on when the trainer does not."""

import base64
import json
import os
import socket
import ssl
import subprocess
import sys
import time
import urllib.request

import psutil
import pytest
from run_logs import finished, sample, start, steps, stop, write_run
from serving import PROJECT, serving, value
from test_monitor import TRAINER, samples, until

from trainer.errors import ConfigError
from trainer.observe.serve import place

TOKEN = "a-token-that-nobody-guesses"


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "r", finished(time.time() - 300), [sample(time.time())])


@pytest.fixture
def own_server(run, tmp_path):
    """Of a run that the test changes."""
    with serving(run, tmp_path) as server:
        until(lambda: server.get("/healthz")[0] == 200)
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Of a run that is over."""
    folder = tmp_path_factory.mktemp("served")
    with serving(write_run(folder / "r", finished(time.time() - 300), [sample(time.time())]), folder) as server:
        until(lambda: server.get("/healthz")[0] == 200)
        yield server


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    path.chmod(0o600)
    return path


def metrics(server) -> str:
    status, _, body = server.get("/metrics")
    return body.decode() if status == 200 else ""


def events(client: socket.socket):
    """The JSON objects that a stream of events brings."""
    with client.makefile("rb") as lines:
        for line in lines:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


def command(run, *options: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "trainer", "monitor", "--run", str(run.directory), *options],
        cwd=PROJECT, capture_output=True, text=True, timeout=20,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html"), ("/history.json", "application/json"), ("/metrics", "text/plain"),
        ("/healthz", "text/plain"),
    ],
)  # fmt: skip
def test_it_answers(server, path, kind):
    status, headers, body = server.get(path)
    assert (status, headers.get_content_type(), bool(body)) == (200, kind, True), server.errors


def test_assets_are_kept_by_the_browser_and_come_compressed(server):
    page = server.get("/")[2].decode()
    name = page.partition('src="assets/')[2].partition('"')[0]
    status, headers, body = server.get(f"/assets/{name}", {"Accept-Encoding": "gzip"})
    assert (status, headers["Content-Encoding"], body[:2]) == (200, "gzip", b"\x1f\x8b")
    plain = server.get(f"/assets/{name}")
    assert "Content-Encoding" not in plain[1]
    assert len(plain[2]) > len(body)
    assert server.get(f"/assets/{name}", {"If-None-Match": headers["ETag"]})[0] == 304
    for wrong in ("no-such.js", "..%2F..%2Fconfig.toml", "%2e%2e"):
        assert server.get(f"/assets/{wrong}")[0] == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8470", 200), ("localhost", 200), ("LOCALHOST:9000", 200), ("[::1]:8470", 200), ("10.0.0.5", 200),
        ("evil.example.com", 421), ("evil.example.com:8470", 421), ("127.0.0.1.evil.example.com", 421),
        ("localhost@evil.example.com", 421), ("[::1", 421), ("::1", 421), ("x", 421), ("", 421),
    ],
)  # fmt: skip
def test_a_name_that_somebody_else_made_to_lead_here_is_refused(server, host, status):
    for path in ("/", "/metrics", "/history.json", "/events", "/healthz"):
        client = server.connect(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 %d" % status), path
        client.close()


@pytest.mark.parametrize("path", ["/", "/metrics", "/events/", "/nothing", "/assets/none.js"])
def test_a_browser_may_load_nothing_from_elsewhere_and_show_it_nowhere_else(server, path):
    headers = server.get(path)[1]
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert not any("http" in source or "*" in source for source in policy.values())
    assert (headers["X-Content-Type-Options"], headers["X-Frame-Options"]) == ("nosniff", "DENY")
    assert "aiohttp" not in headers["Server"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "TRACE"])
def test_nothing_can_be_changed(server, method):
    client = server.connect(f"{method} /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode())
    assert client.recv(100).startswith(b"HTTP/1.1 405")
    client.close()


def test_all_clients_get_the_same_message_each_second(server):
    ask = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    first, second = server.connect(ask), server.connect(ask)
    one, other = events(first), events(second)
    seen = [next(one) for _ in range(4)], [next(other) for _ in range(4)]
    times = [[message["t"] for message in messages] for messages in seen]
    assert len(set(times[0]) & set(times[1])) >= 3
    assert times[0] == sorted(set(times[0]))
    assert 2 < times[0][-1] - times[0][0] < 8
    first.close(), second.close()


def test_a_run_that_is_over_is_shown(server):
    text = metrics(server)
    assert (value(text, "trainer_up"), value(text, "trainer_finished")) == (0, 1)
    assert value(text, "trainer_steps_total") == 200


def test_what_happens_is_shown_and_the_trainers_death_too(run, own_server):
    lease = [sys.executable, "-c", TRAINER, str(run.directory)]
    with subprocess.Popen(lease, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as trainer:
        assert trainer.stdout.readline() == "trains\n"
        with open(run.events, "a") as log:
            for event in [start(time.time(), resumed_step=200), *steps(time.time(), 210, 230)]:
                log.write(json.dumps(event) + "\n")
        until(lambda: value(metrics(own_server), "trainer_steps_total") == 230)
        assert value(metrics(own_server), "trainer_up") == 1
        # Nobody sampled it: the server found somebody who does, and who lives on without the server.
        until(lambda: len(samples(run)) >= 3)
        (sampler,) = psutil.Process(own_server.process.pid).children()
        assert "monitor" in sampler.cmdline() and "--port" not in sampler.cmdline()
        trainer.kill()
    until(lambda: value(metrics(own_server), "trainer_up") == 0)
    # A GPU that took the trainer down is still seen.
    seen = len(samples(run))
    until(lambda: len(samples(run)) >= seen + 3)
    assert sampler.is_running()


def test_one_sampler_however_many_servers(run, own_server, tmp_path):
    (tmp_path / "second").mkdir()
    lease = [sys.executable, "-c", TRAINER, str(run.directory)]
    with (
        serving(run, tmp_path / "second") as second,
        subprocess.Popen(lease, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as trainer,
    ):
        assert trainer.stdout.readline() == "trains\n"
        until(lambda: len(samples(run)) >= 4)
        newest = [entry["t"] for entry in samples(run)][1:]
        assert all(later - earlier > 0.5 for earlier, later in zip(newest, newest[1:], strict=False))
        assert second.get("/healthz")[0] == 200
        trainer.kill()


def test_a_port_that_is_taken_is_said_and_the_one_that_has_it_goes_on(run, server):
    done = command(run, "--port", str(server.port))
    assert done.returncode == 78
    assert f"--address and --port must be free on this machine, got 127.0.0.1 and {server.port}" in done.stderr
    assert server.get("/healthz")[0] == 200


def test_the_address_alone_listens(server):
    listening = {row.laddr for row in psutil.Process(server.process.pid).net_connections() if row.status == "LISTEN"}
    assert listening == {("127.0.0.1", server.port)}


@pytest.mark.parametrize(
    "address",
    ["0.0.0.0", "::", "8.8.8.8", "2606:4700::1", "::ffff:0.0.0.0", "::ffff:8.8.8.8", "localhost", "", "224.0.0.1"],
)
def test_the_internet_is_refused(address):
    with pytest.raises(ConfigError, match="--address must be"):
        place(address, 8470, None, None, None)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.5", "172.31.4.4", "192.168.1.2", "::1", "fd00::1"])
def test_private_addresses_are_taken(address):
    assert place(address, 8470, None, None, None).address == address


def test_options_of_the_server_without_a_port_are_refused(run):
    done = command(run, "--address", "10.0.0.5")
    assert (done.returncode, "must come with --port" in done.stderr) == (78, True)


def test_an_address_of_another_machine_is_said(run):
    done = command(run, "--address", "10.255.255.254", "--port", "8470")
    assert done.returncode == 78 and "Cannot assign requested address" in done.stderr


def test_only_those_who_have_the_token_see_anything(run, token_file, tmp_path):
    with serving(run, tmp_path, "--token-file", str(token_file)) as server:
        until(lambda: server.get("/healthz")[0] == 200)
        basic = base64.b64encode(f"anybody:{TOKEN}".encode()).decode()
        right = [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"Basic {basic}"]
        wrong = ["", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Basic !!", "Basic " + basic[:-8], TOKEN,
                 "Bearer \xff"]  # fmt: skip
        for path in ("/", "/metrics", "/history.json", "/events", "/nothing"):
            for header in wrong:
                status, headers, body = server.get(path, {"Authorization": header})
                assert (status, body) == (401, b""), (path, header)
                assert headers["WWW-Authenticate"].startswith("Basic")
        for header in right:
            assert server.get("/metrics", {"Authorization": header})[0] == 200
        assert TOKEN not in server.errors + " ".join(psutil.Process(server.process.pid).cmdline())


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        (None, 0, "must be a readable file"), (TOKEN, 0o644, "must not be readable by everybody"),
        ("short", 0o600, "at least 16"), ("", 0o600, "at least 16"), ("two words are no token", 0o600, "one word"),
        ("é" * 20, 0o600, "ASCII"),
    ],
)  # fmt: skip
def test_a_token_that_protects_nothing_is_refused(tmp_path, text, mode, says):
    path = tmp_path / "token"
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    with pytest.raises(ConfigError, match=says):
        place("127.0.0.1", 8470, path, None, None)


def test_tls_from_files(run, tmp_path):
    certificate, key = certificate_of(tmp_path)
    options = ("--tls-certificate", str(certificate), "--tls-key", str(key))
    with serving(run, tmp_path, *options) as server:
        assert server.url.startswith("https://")
        trusting = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(certificate)))
        until(lambda: server.get("/healthz", https=trusting)[0] == 200)
        assert server.get("/", https=trusting)[0] == 200
        plain = server.connect(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" not in plain.recv(100)
        plain.close()
        assert server.get("/healthz", https=trusting)[0] == 200


def test_half_a_certificate_and_a_wrong_one_are_refused(tmp_path):
    certificate, key = certificate_of(tmp_path)
    with pytest.raises(ConfigError, match="must be given together, got only --tls-key"):
        place("127.0.0.1", 8470, None, None, key)
    with pytest.raises(ConfigError, match="must be a PEM pair"):
        place("127.0.0.1", 8470, None, key, certificate)


def certificate_of(folder):
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=trainer",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


def test_systemd_hears_when_it_is_ready_and_that_it_lives(run, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(20)
        with serving(run, tmp_path, NOTIFY_SOCKET=str(tmp_path / "notify")):
            heard = [systemd.recv(100) for _ in range(3)]
            assert heard == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]
        systemd.setblocking(False)
        last = []
        while message := receive(systemd):
            last.append(message)
    assert last[-1] == b"STOPPING=1"


def test_it_ends_at_once_while_browsers_watch_and_its_disk_hangs(run, tmp_path):
    with serving(run, tmp_path) as server:
        watchers = [events(server.connect(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")) for _ in range(5)]
        assert [next(watcher)["state"] for watcher in watchers] == ["finished"] * 5
        os.mkfifo(run.price)
        writer = os.open(run.price, os.O_WRONLY)  # begins when the server reads it, which then waits for ever
        began = time.monotonic()
    assert time.monotonic() - began < 2
    os.close(writer)
    assert all(len(list(watcher)) <= 1 for watcher in watchers)  # what was on its way, then the end
    assert server.errors == ""


def receive(systemd):
    try:
        return systemd.recv(100)
    except BlockingIOError:
        return None


def test_a_run_directory_that_cannot_be_read_any_more_is_no_news(run, own_server):
    """Old numbers that look new would be worse than none."""
    assert own_server.get("/metrics")[0] == 200
    watcher = own_server.connect(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    next(events(watcher))
    hidden = run.directory.with_name("hidden")
    os.rename(run.directory, hidden)
    until(lambda: own_server.get("/metrics")[0] == 503)
    assert own_server.get("/healthz")[0] == 503
    late = own_server.connect(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    back = time.time()
    os.rename(hidden, run.directory)
    until(lambda: own_server.get("/metrics")[0] == 200)
    # Whoever came meanwhile was told nothing, and whoever watched nothing in the last ten seconds.
    assert next(events(late))["t"] > back
    told = events(watcher)
    times = [next(told)["t"]]
    while times[-1] < back:
        times.append(next(told)["t"])
    assert times[-1] - ([back - 60] + times)[-2] > 8
    watcher.close(), late.close()


def test_a_stop_of_the_run_is_seen(run, own_server):
    with open(run.events, "a") as log:
        log.write(json.dumps(start(time.time(), resumed_step=200)) + "\n")
        log.write(json.dumps(stop(time.time(), 200, reason="signal")) + "\n")
    until(lambda: value(metrics(own_server), "trainer_finished") == 0)
