"""Role data_volume on a real host: disks found by volume id, mounted by UUID, never formatted by mistake."""

import hashlib
import json
import shlex
import struct
import threading
import zlib
from pathlib import Path

import pytest
from host import wait
from plays import play

VOLUME = "vol-0123456789abcdef0"
SETTINGS = {"data_volume_id": VOLUME, "data_volume_wait_seconds": 2, "data_volume_device_timeout_seconds": 3}
# What the task that creates a blank volume registers, and what people set when they want a disk formatted.
CREATED = {"changed": True, "volume_id": VOLUME, "volume": {"snapshot_id": ""}}
FLAGS = {"data_volume_force": True, "data_volume_format": True, "data_volume_filesystem": "xfs"}


def configure(host, *options, **settings):
    return play(host, ["data_volume"], SETTINGS | settings, *options)


def digest(path):
    """All bytes of a disk: what a format or a partition table would change."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def created_in_this_run(**differences):
    task = {"name": "Create the volume", "ansible.builtin.set_fact": {"__data_volume_created": CREATED | differences}}
    return json.dumps([task])


@pytest.fixture
def attached(host, disk_image):
    """`attached(image)` attaches it for the length of a test, which leaves nothing of it mounted."""
    volumes = []

    def attach(image, volume=VOLUME, **how):
        host.attach(volume, image, **how)
        volumes.append(volume)
        return image

    yield attach
    host.run("systemctl disable --now data-volume-warm-up", check=False)
    host.run("umount /data; sed -i '/ .data /d' /etc/fstab; systemctl daemon-reload; rmdir /data", check=False)
    for volume in volumes:
        host.detach(volume)


def ext4(disk_image, name="data", mebibytes=64):
    return disk_image(name, mebibytes, "mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0")


def put_marker(host, disk):
    host.run(f"mount {disk} /mnt && echo precious > /mnt/train.rec && umount /mnt")


# -- What the article's reader does: a snapshot's volume, mounted, after reboots, grown


def test_a_volume_from_its_attachment_to_after_a_reboot(host, disk_image, attached):
    image = attached(ext4(disk_image))
    put_marker(host, host.loop(0))

    before = digest(image)
    predicted = configure(host, "--check")
    assert predicted.code == 0, predicted.output
    assert predicted.counts["changed"] >= 2
    assert digest(image) == before
    assert host.run("test -e /data", check=False).returncode != 0

    done = configure(host)
    assert done.code == 0, done.output
    assert host.read("cat /data/train.rec") == "precious"
    assert json.loads(host.read("cat /data/.data-volume.json")) == {"volume_id": VOLUME}
    line = host.read("grep ' /data ' /etc/fstab").split()
    assert line[0] == "UUID=" + host.read(f"blkid -s UUID -o value {host.loop(0)}")
    assert {"nofail", "x-systemd.device-timeout=3s"} <= set(line[3].split(","))

    again = configure(host, "--check")
    assert (again.code, again.counts["changed"]) == (0, 0), again.output

    wait(lambda: warm_up(host).get("finished"), 20, "the warm-up")
    assert warm_up(host)["bytes_read"] == 64 << 20

    host.reboot()
    assert host.read("cat /data/train.rec") == "precious"
    assert host.read("systemctl is-system-running --wait") == "running"
    after = configure(host)
    assert (after.code, after.counts["changed"]) == (0, 0), after.output
    assert "is warm" in host.read("journalctl -b -u data-volume-warm-up -o cat")


def warm_up(host):
    return json.loads(host.read("cat /data/.data-volume-warm-up.json || echo {}"))


def may_grow_mounted_ext4():
    capabilities = next(line for line in Path("/proc/self/status").read_text().splitlines() if "CapEff" in line)
    return int(capabilities.split()[1], 16) & 1 << 24


@pytest.mark.skipif(not may_grow_mounted_ext4(), reason="this machine lacks CAP_SYS_RESOURCE, which growing ext4 needs")
def test_ext4_grows_with_its_volume(host, disk_image, attached):
    attached(ext4(disk_image))
    assert configure(host).code == 0
    host.enlarge(VOLUME, 160)
    assert configure(host).changed == ["data_volume : Grow the file system to the volume's size"]
    assert int(host.read("df --output=size -m /data | tail -1")) > 120


# -- Content that must survive


def partition_table(file):
    file.seek(446)
    file.write(struct.pack("<8B2I", 0, 0, 2, 0, 0x83, 0, 0, 0, 2048, 60000))
    file.seek(510)
    file.write(b"\x55\xaa")


def luks(file):
    file.write(b"LUKS\xba\xbe" + struct.pack(">H", 1) + b"aes".ljust(32, b"\0") + b"xts-plain64".ljust(32, b"\0"))


def lvm(file):
    sector = bytearray(b"LABELONE" + struct.pack("<QII", 1, 0, 32) + b"LVM2 001" + b"a" * 32).ljust(512, b"\0")
    struct.pack_into("<I", sector, 16, zlib.crc32(sector[20:], 0xF597A6CF ^ 0xFFFFFFFF) ^ 0xFFFFFFFF)
    file.seek(512)
    file.write(sector)


def raid(file):
    file.seek(4096)
    superblock = bytearray(struct.pack("<III", 0xA92B4EFC, 1, 0)).ljust(256, b"\0")
    struct.pack_into("<Q", superblock, 144, 8)
    file.write(superblock)


def unknown_data(file):
    file.seek(32 << 20)
    file.write(b"a database of one's own format")


CONTENTS = {
    "partition table": (partition_table, "partition table (dos)"), "LUKS": (luks, "crypto_LUKS"),
    "LVM": (lvm, "LVM2_member"), "RAID": (raid, "linux_raid_member"),
    "unknown data": (unknown_data, "got data at byte"),
}


@pytest.mark.parametrize("write, words", CONTENTS.values(), ids=CONTENTS)
def test_what_is_no_file_system_is_named_and_left_alone(host, disk_image, attached, write, words):
    """Even where every sign says that the volume was created blank in this run."""
    image = disk_image("data", 64)
    with open(image, "r+b") as file:
        write(file)
    before = digest(attached(image))
    done = play(host, ["data_volume"], SETTINGS | FLAGS, tasks=created_in_this_run())
    assert done.code != 0
    assert words in done.output
    assert digest(image) == before


@pytest.mark.parametrize("created", [
    {"changed": False}, {"volume_id": "vol-0fffffffffffffff0"}, {"volume": {"snapshot_id": "snap-1"}},
    {"changed": False, "volume": {"snapshot_id": "", "created_blank": False}},
    {"changed": False, "volume": {"snapshot_id": "snap-1", "created_blank": True}},
    {"changed": False, "volume_id": "vol-0fffffffffffffff0", "volume": {"snapshot_id": "", "created_blank": True}},
], ids=[
    "found", "another volume", "from a snapshot", "found without the tag", "found with the tag and a snapshot",
    "another volume with the tag",
])  # fmt: skip
def test_a_blank_disk_is_formatted_only_when_this_run_created_it_blank(host, disk_image, attached, created):
    image = attached(disk_image("data", 64))
    before = digest(image)
    done = play(host, ["data_volume"], SETTINGS | FLAGS, tasks=created_in_this_run(**created))
    assert done.code != 0
    assert "only a volume that was created blank for this run" in done.output
    assert "playbooks/retire.yml does" in done.output
    assert digest(image) == before


@pytest.mark.parametrize("how", [
    {}, {"changed": False, "volume": {"snapshot_id": "", "created_blank": True}},
], ids=["by this play", "before it was killed"])  # fmt: skip
def test_a_volume_created_blank_in_this_run_gets_a_file_system_once(host, disk_image, attached, how):
    image = attached(disk_image("data", 64))
    before = digest(image)
    predicted = play(host, ["data_volume"], SETTINGS, "--check", tasks=created_in_this_run(**how))
    assert predicted.code == 0, predicted.output
    assert digest(image) == before
    done = play(host, ["data_volume"], SETTINGS, tasks=created_in_this_run(**how))
    assert done.code == 0, done.output
    host.run("echo precious > /data/train.rec")
    again = play(host, ["data_volume"], SETTINGS, tasks=created_in_this_run(**how))
    assert (again.code, again.counts["changed"]) == (0, 0), again.output
    assert host.read("cat /data/train.rec") == "precious"


# -- Disks that are late, missing, double, broken


def test_waits_for_a_disk_that_is_late(host, disk_image, attached):
    image = ext4(disk_image)
    late = threading.Timer(4, lambda: attached(image))
    late.start()
    done = configure(host, data_volume_wait_seconds=60, data_volume_warm_up=False)
    late.join()
    assert done.code == 0, done.output
    assert host.read("systemctl is-active data-volume-warm-up || true") == "inactive"


def test_says_what_it_waited_for(host):
    done = configure(host, data_volume_wait_seconds=1, data_volume_device="/dev/sdf")
    assert done.code != 0
    by_id = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0"
    assert f"waited 1 s for {by_id} or /dev/xvdf" in done.output


def test_two_disks_with_one_uuid_stop_it(host, disk_image, attached, tmp_path):
    image = ext4(disk_image)
    twin = tmp_path / "twin.img"
    twin.write_bytes(image.read_bytes())
    attached(image)
    attached(twin, volume="vol-0fffffffffffffff0")
    done = configure(host)
    assert done.code != 0
    assert f"{host.loop(1)} has the same file system UUID" in done.output
    assert host.run("grep ' /data ' /etc/fstab", check=False).stdout == ""


def test_no_line_in_fstab_for_a_file_system_that_does_not_mount(host, disk_image, attached):
    image = ext4(disk_image)
    with open(image, "r+b") as file:  # a feature that no kernel has; blkid still takes it for ext4
        file.seek(1024 + 104)
        file.write(b"\xff\xff\xff\xff")
        file.seek(1024 + 96)
        features = struct.unpack("<I", file.read(4))[0]
        file.seek(1024 + 96)
        file.write(struct.pack("<I", features | 0x08000000))
    before = digest(attached(image))
    done = configure(host)
    assert done.code != 0
    assert host.run("grep ' /data ' /etc/fstab", check=False).stdout == ""
    assert digest(image) == before


def test_a_host_without_its_volume_boots_and_what_needs_the_volume_stays_down(host, disk_image):
    host.attach(VOLUME, ext4(disk_image))
    assert configure(host).code == 0
    unit = ["[Unit]", "RequiresMountsFor=/data", "[Service]", "ExecStart=/usr/bin/touch /data/x",
            "[Install]", "WantedBy=multi-user.target"]
    host.run(f"printf '%s\\n' {shlex.join(unit)} > /etc/systemd/system/writer.service; systemctl enable -q writer")
    host.run("sync; umount /data")
    host.detach(VOLUME)
    host.reboot()
    wait(lambda: "start" not in host.read("systemctl list-jobs --no-legend"), 30, "the boot to settle")
    assert host.run("mountpoint -q /data", check=False).returncode != 0
    assert host.run("systemctl is-active writer", check=False).stdout.strip() == "inactive"
    assert host.read("ls /data") == ""
    assert host.read("stat -c %a:%U /data") == "555:root"
    host.run("systemctl disable writer; sed -i '/ .data /d' /etc/fstab; systemctl daemon-reload; rmdir /data")


def test_the_controller_itself_is_refused_before_its_disks_are_looked_at(host):
    done = configure(host, ansible_connection="local")
    assert done.code != 0
    assert "is the machine that ansible-playbook runs on" in done.output


def test_files_that_the_mount_would_hide_are_named(host, disk_image, attached):
    attached(ext4(disk_image))
    host.run("mkdir /data && touch /data/stray")
    done = configure(host)
    host.run("rm /data/stray")
    assert done.code != 0
    assert "must be empty, got stray" in done.output
