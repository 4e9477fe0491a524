"""Role machine_image on a real host: what is left on the disk is what an image may hold."""

from pathlib import Path

import host as hosts
import pytest
from network import call
from plays import play

VOLUME = "vol-0123456789abcdef0"
OWN = {
    "var/lib/trainer/run/r1/config.toml": "run_directory = 'x'", "etc/trainer/trainer.toml": "seed = 1",
    "home/admin/.ssh/authorized_keys": "ssh-ed25519 AAAA operator", "root/.bash_history": "aws configure",
    "var/log/auth.log": "Accepted publickey", "var/log/journal/0123/system.journal": "who logged in",
    "var/lib/cloud/instances/i-1/user-data.txt": "ssh_keys: the operator's",
    "var/tmp/upload": "x", "var/lib/systemd/random-seed": "x",
}  # fmt: skip
KEPT = {"opt/mxnet/.complete": "x", "opt/trainer/digest": "x", "etc/hostname": None}
UNIT = "[Service]\nExecStart=/bin/sleep 1000\n[Install]\nWantedBy=multi-user.target\n"


@pytest.fixture(scope="module")
def host(base_image, tmp_path_factory):
    """A host as a training leaves it: a data volume, a run, keys and logs."""
    image = tmp_path_factory.mktemp("disk") / "data.img"
    with open(image, "wb") as file:
        file.truncate(64 << 20)
    call("mkfs.ext4", "-q", str(image))
    booted = hosts.up([base_image])
    booted.attach(VOLUME, image)
    assert play(booted, ["data_volume"], {"data_volume_id": VOLUME, "data_volume_wait_seconds": 20}).code == 0
    for path, text in (OWN | KEPT).items():
        if text is not None:
            (booted.root / path).parent.mkdir(parents=True, exist_ok=True)
            (booted.root / path).write_text(text)
    (booted.root / "etc/systemd/system/trainer.service").write_text(UNIT)
    booted.run("systemctl daemon-reload; systemctl enable trainer; touch /data/picture")
    yield booted
    hosts.down(booted)


def seal(host, tmp_path, **settings):
    marker = tmp_path / "sealed"
    settings = {"machine_image_instance_id": "i-1", "machine_image_marker": str(marker)} | settings
    return play(host, ["machine_image"], settings), marker


def is_inside(host, path):
    """Of the host that runs, when nobody can log in to it any more."""
    processes = call("ip", "netns", "pids", host.name).split()
    return any(Path(f"/proc/{number}/root{path}").exists() for number in processes)


def test_a_host_that_trains_is_left_alone(host, tmp_path):
    host.run("systemctl start trainer")
    done, marker = seal(host, tmp_path)
    host.run("systemctl stop trainer")
    assert done.code != 0
    assert "is training" in done.output
    assert "playbooks/stop.yml" in done.output
    assert (host.root / "etc/trainer/trainer.toml").exists()
    assert not marker.exists()


def test_the_machine_that_runs_the_play_is_left_alone(host, tmp_path):
    own = (host.root / "etc/machine-id").read_text().strip()
    done, marker = seal(host, tmp_path, __machine_image_controller_id=own)
    assert done.code != 0
    assert "is the machine that ansible-playbook runs on" in " ".join(done.output.split())
    assert not marker.exists()


def test_what_is_the_host_s_own_is_gone_and_the_rest_is_there(host, tmp_path):
    secret = (host.root / "etc/ssh/ssh_host_ed25519_key").read_text()
    with open(host.root / "var/lib/cloud/instances/i-1/user-data.txt", "rb") as given:
        done, marker = seal(host, tmp_path)
        assert b"ssh_keys" not in given.read()  # overwritten, not only deleted
    assert done.code == 0, done.output
    assert marker.read_text() == "i-1\n"
    left = [path for path in OWN if (host.root / path).exists()]
    assert left == []
    assert all((host.root / path).exists() for path in KEPT)
    assert list((host.root / "etc/ssh").glob("ssh_host_*")) == []
    assert list((host.root / "root/.ssh").glob("*")) == []
    assert (host.root / "etc/machine-id").read_text() == ""
    assert "/data" not in (host.root / "etc/fstab").read_text()
    assert list((host.root / "data").iterdir()) == []
    assert list((host.root / "etc/systemd/system").rglob("*.wants/trainer.service")) == []
    assert secret not in done.output
    assert is_inside(host, "/run/systemd/transient/sealed-power-off.timer"), "it ends by itself"


def test_nothing_of_the_operator_is_left_anywhere_on_the_disk(host):
    found = [
        path for path in (host.directory / "upper").rglob("*")
        if path.is_file() and not path.is_symlink() and b"operator" in path.read_bytes()
    ]
    assert found == []
