"""The test hosts themselves: what the tests of the roles take for granted."""

import pytest

VOLUME = "vol-0aaaaaaaaaaaaaaa1"
BY_ID = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0aaaaaaaaaaaaaaa1"


def test_boots_whole_with_systemd_as_pid_1(host):
    assert host.read("cat /proc/1/comm") == "systemd"
    assert host.read("systemctl is-system-running --wait") == "running"


def test_reaches_the_package_mirrors_and_nothing_else(host):
    assert host.run("apt-get update").returncode == 0
    assert "default" not in host.read("ip route")
    refused = host.read(
        "python3 -c 'import urllib.request as r; r.urlopen(\"http://mirror.example/\")' 2>&1 | tail -1"
    )
    assert "403" in refused


def test_a_disk_has_its_volumes_name_and_mounts_by_uuid_after_a_reboot(host, disk_image):
    disk = disk_image("data", 64, "mkfs.ext4", "-q")
    assert host.attach(VOLUME, disk) == BY_ID
    uuid = host.read(f"blkid -s UUID -o value {BY_ID}")
    host.run(f"mkdir -p /mnt/d && echo UUID={uuid} /mnt/d ext4 nofail,x-systemd.device-timeout=5 0 2 >> /etc/fstab")
    host.reboot()
    assert host.read("findmnt -n -o FSTYPE /mnt/d") == "ext4"
    assert host.read("systemctl is-system-running --wait") == "running"
    host.run("umount /mnt/d && sed -i /UUID/d /etc/fstab && systemctl daemon-reload")
    host.detach(VOLUME)
    assert host.run(f"test -e {BY_ID}", check=False).returncode != 0


@pytest.mark.parametrize("letter", "fg")
def test_a_disk_can_be_named_as_xen_names_it(host, disk_image, letter):
    assert host.attach(VOLUME, disk_image("data", 1), xen_letter=letter) == f"/dev/xvd{letter}"
    assert host.run(f"test -b /dev/xvd{letter}").returncode == 0
    host.detach(VOLUME)
