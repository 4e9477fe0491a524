"""A trainer with all the options that `train_host` leaves alone: how it is set, what it holds, and who asks it."""

import json
import ssl
import subprocess
import urllib.error
import urllib.request

import host as hosts
from host import Host
from tiny_data import write_records
from train_host import PRICE, SETTINGS, VOLUME, be_nice

ROLES = ["data_volume", "node_exporter", "trainer", "prometheus"]
RUN = "/var/lib/trainer/run/pair"
MIRROR = "/srv/mirror"
TOKEN = "canary-token-4be1"
CREDENTIALS = "canary-credentials-77d2"
ALERT = "groups: [{name: now, rules: [{alert: Now, expr: 'vector(1)', annotations: {summary: it is now}}]}]\n"
GRAFANA = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
# An Alertmanager that writes down what it is told.
ALERTMANAGER = """
import http.server
class Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        open("/root/alerts.json", "ab").write(self.rfile.read(int(self.headers["Content-Length"])) + b"\\n")
        self.send_response(200); self.end_headers()
http.server.ThreadingHTTPServer(("127.0.0.1", 9093), Answer).serve_forever()
"""


def settings(host: Host, folder) -> dict:
    (folder / "now.yml").write_text(ALERT)
    return SETTINGS | {
        "data_volume_device": "/dev/sdf", "data_volume_mount_point": "/srv/set", "data_volume_owner": "trainer",
        "node_exporter_address": host.address, "node_exporter_port": 9101,
        "trainer_data_train": "/srv/set/train.rec", "trainer_data_val": "/srv/set/val.rec",
        "trainer_required_paths": ["/srv/set/.data-volume.json"], "trainer_data_directory": "/var/lib/trainer/data",
        "trainer_runs_directory": "/var/lib/trainer/run", "trainer_run_name": "pair",
        "trainer_devices": ["cpu(0)", "cpu(1)"], "trainer_kvstore": "local", "trainer_optimizer": "sgd",
        "trainer_augmentation": "pad", "trainer_checkpoint_mirror": f"file://{MIRROR}", "trainer_power_off": True,
        "trainer_price": PRICE,
        "trainer_monitor_address": host.address, "trainer_monitor_port": 8443,
        "trainer_monitor_token_file": "/etc/page/token", "trainer_monitor_tls_certificate": "/etc/page/certificate.pem",
        "trainer_monitor_tls_key": "/etc/page/key.pem",
        "prometheus_address": host.address, "prometheus_port": 9091, "prometheus_retention_days": 7,
        "prometheus_scrape_interval_seconds": 1, "prometheus_alertmanagers": ["127.0.0.1:9093"],
        "prometheus_rule_files": [str(folder / "now.yml")], "prometheus_grafana_directory": "/etc/grafana",
        "prometheus_grafana_url": "http://10.0.0.9:3000",
        "prometheus_jobs": [
            {"job": "node", "targets": [f"{host.address}:9101"]},
            {"job": "trainer", "targets": [f"{host.address}:8443"], "token_file": "/etc/prometheus/token",
             "ca_file": "/etc/page/certificate.pem"},
        ],
    }  # fmt: skip


def boot(layers, folder) -> Host:
    """What the operator gives such a host: an xfs volume on Xen, users, secrets, a second place, a Grafana."""
    booted = hosts.up(layers)
    give_volume(booted, folder / "data.img")
    give_secrets(booted)
    (booted.root / "etc/systemd/system/grafana-server.service").write_text(GRAFANA)
    (booted.root / "root/alertmanager.py").write_text(ALERTMANAGER)
    booted.run(f"mkdir /etc/grafana; install -d -o trainer {MIRROR}; systemctl daemon-reload")
    booted.run("systemctl start grafana-server; systemd-run --quiet --collect python3 /root/alertmanager.py")
    be_nice(booted)
    return booted


def give_volume(host: Host, image) -> None:
    with open(image, "wb") as file:
        file.truncate(320 << 20)
    disk = host.attach(VOLUME, image, xen_letter="f")
    (host.root / "root/set").mkdir()
    write_records(host.root / "root/set/train.rec", 2_000)
    write_records(host.root / "root/set/val.rec", 40, seed=1)
    host.run(f"mkfs.xfs -q {disk} && mount {disk} /mnt && mv /root/set/* /mnt && umount /mnt")


def give_secrets(host: Host) -> None:
    """Users first: the files are theirs alone."""
    host.run("useradd --system trainer; useradd --system --home-dir /var/lib/prometheus prometheus")
    host.run("mkdir /etc/trainer /etc/prometheus /etc/page")
    give_token(host, TOKEN)
    certificate, key = host.root / "etc/page/certificate.pem", host.root / "etc/page/key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=trainer",
         "-addext", f"subjectAltName=IP:{host.address}", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    host.run(f"umask 077; echo AWS_SECRET_ACCESS_KEY={CREDENTIALS} >/etc/trainer/secrets; cd /etc/page;"
             " chmod 644 certificate.pem; chmod 600 key.pem; chown trainer key.pem")


def give_token(host: Host, token: str) -> None:
    for path, user in (("/etc/page/token", "trainer"), ("/etc/prometheus/token", "prometheus")):
        host.run(f"umask 077; printf %s {token} >{path}; chown {user} {path}")


def key_line(host: Host) -> str:
    """A line of the page's key that no other file has."""
    return (host.root / "etc/page/key.pem").read_text().splitlines()[2]


def ask(host: Host, url: str, token: str = "") -> tuple[int, str]:
    """Status and body, from this machine; 0 when nobody answers."""
    trusting = ssl.create_default_context(cafile=host.root / "etc/page/certificate.pem")
    handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusting)
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def value(host: Host, query: str) -> float:
    """What Prometheus answers to a query with one result; 0 without one."""
    status, body = ask(host, f"http://{host.address}:9091/api/v1/query?query={query}")
    results = json.loads(body)["data"]["result"] if status == 200 else []
    return float(results[0]["value"][1]) if results else 0.0
