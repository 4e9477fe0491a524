"""What is found out about a disk, without a disk."""

import struct
import subprocess
import sys

import pytest
from playing import ROLES

sys.path.insert(0, str(ROLES / "data_volume" / "module_utils"))
from disk_content import filesystem_bytes, names, obstacle, parse_export, sample_offsets, warm_up_words  # noqa: E402

VOLUME = "vol-0123456789abcdef0"
BY_ID = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0"


@pytest.mark.parametrize("device, serials, found", [
    ("", {}, [BY_ID]), ("/dev/sdf", {}, [BY_ID, "/dev/xvdf"]), ("/dev/xvdba", {}, [BY_ID, "/dev/xvdba"]),
    ("", {"/dev/nvme1n1": "vol0123456789abcdef0", "/dev/nvme2n1": "vol0fff"}, [BY_ID, "/dev/nvme1n1"]),
])
def test_a_disk_is_looked_for_by_its_volumes_id_first(device, serials, found):
    assert names(VOLUME, device, serials) == found


@pytest.mark.parametrize("export, words", [
    ("", ""), ("TYPE=ext4\nUSAGE=filesystem", ""), ("TYPE=xfs\nUSAGE=filesystem", ""),
    ("TYPE=crypto_LUKS\nUSAGE=crypto", "it holds crypto_LUKS (crypto)"), ("PTTYPE=gpt", "a partition table (gpt)"),
    ("TYPE=LVM2_member\nUSAGE=raid", "it holds LVM2_member (raid)"), ("TYPE=swap\nUSAGE=other", "it holds swap"),
    ("TYPE=vfat\nUSAGE=filesystem\nPTTYPE=dos", "a partition table (dos)"), ("TYPE=btrfs\nUSAGE=filesystem", "btrfs"),
])
def test_only_a_file_system_that_is_known_is_no_obstacle(export, words):
    found = obstacle(parse_export(export))
    assert words in found if words else found == ""


@pytest.mark.parametrize("options", [[], ["-O", "^64bit"], ["-b", "1024"], ["-b", "4096"]])
def test_the_size_of_a_file_system_is_read_from_its_superblock(tmp_path, options):
    image = tmp_path / "image"
    subprocess.run(["mkfs.ext4", "-q", *options, str(image), "48M"], check=True, capture_output=True)
    assert filesystem_bytes("ext4", image.read_bytes()[:4096]) == 48 << 20


@pytest.mark.parametrize("features, high", [(0x80, 1), (0x40, 0)])
def test_a_file_system_of_more_than_16_tib_has_its_size_in_two_places(features, high):
    head = bytearray(4096)
    struct.pack_into("<I", head, 1024 + 4, 5)
    struct.pack_into("<I", head, 1024 + 24, 2)  # blocks of 4 KiB
    struct.pack_into("<I", head, 1024 + 96, features)
    struct.pack_into("<I", head, 1024 + 336, 1)  # without the feature these bytes mean something else
    assert filesystem_bytes("ext4", bytes(head)) == ((high << 32) + 5) * 4096


def test_both_ends_of_a_blank_disk_are_looked_at():
    offsets = sample_offsets(1000 << 20, 1 << 20)
    assert (offsets[0], offsets[-1], len(offsets)) == (0, 999 << 20, 65)
    assert sample_offsets(1 << 20, 1 << 20) == [0]


@pytest.mark.parametrize("change, words", [
    ({}, "1.0 of 4.0 GB read, 250 MB/s, 12 s left"), ({"finished": True}, "warm"), ({"volume_id": "vol-0f"}, "started"),
])
def test_how_far_it_is_in_words(change, words):
    progress = {
        "volume_id": VOLUME, "bytes_read": 10**9, "bytes_total": 4 * 10**9, "bytes_per_second": 250_000_000,
        "seconds_left": 12, "finished": False,
    }
    assert warm_up_words(progress | change, VOLUME) == words
