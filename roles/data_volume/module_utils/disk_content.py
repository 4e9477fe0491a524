"""What a disk holds, from its bytes and from what blkid says: pure functions."""

import struct

# A grown volume is larger by whole GiB; a file system may leave a few MiB at the end unused by itself.
GROWABLE_BYTES = 16 << 20


def names(volume_id, device, serials):
    """Paths under which the volume's disk can appear, the surest first.

    `serials` maps NVMe disks to their serial numbers. A Xen disk is named after its attachment: /dev/sdf is /dev/xvdf.
    """
    plain = volume_id.replace("-", "")
    found = [f"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{plain}"]
    found += [path for path, serial in sorted(serials.items()) if serial.replace("-", "") == plain]
    if device:
        letters = device.rpartition("/")[2].removeprefix("xvd").removeprefix("sd").removeprefix("hd")
        found.append(f"/dev/xvd{letters}")
    return found


def parse_export(text):
    """The pairs of `blkid -o export`."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def obstacle(probed):
    """Why a disk with this content is not mounted, in words; empty for a file system and for nothing at all."""
    if "PTTYPE" in probed:
        return f"it holds a partition table ({probed['PTTYPE']}), not a file system on the whole disk"
    kind, usage = probed.get("TYPE", ""), probed.get("USAGE", "")
    if not kind or (usage == "filesystem" and kind in _SIZES):
        return ""
    return f"it holds {kind} ({usage or 'unknown'}), not ext4 or xfs"


def filesystem_bytes(kind, head):
    """Size of the file system in bytes, from the first 4 KiB of the disk (its superblock)."""
    return _SIZES[kind](head)


def _ext4_bytes(head):
    superblock = head[1024:2048]
    low, log_block_size = struct.unpack_from("<4xI16xI", superblock)
    (features,) = struct.unpack_from("<I", superblock, 96)
    (high,) = struct.unpack_from("<I", superblock, 336) if features & 0x80 else (0,)  # 0x80: 64-bit block numbers
    return ((high << 32) + low) * (1024 << log_block_size)


def _xfs_bytes(head):
    block_size, blocks = struct.unpack_from(">4xIQ", head)
    return block_size * blocks


_SIZES = {"ext4": _ext4_bytes, "xfs": _xfs_bytes}


def sample_offsets(size, length, count=64):
    """Where to read a disk that must be blank: both ends and places in between, all of `length` bytes."""
    last = max(size - length, 0)
    return sorted({last * number // count for number in range(count + 1)})


def warm_up_words(progress, volume_id):
    """What the warm-up's progress file says of this volume; the snapshot's own volume may have left another's."""
    if progress.get("volume_id") != volume_id:
        return "started"
    if progress["finished"]:
        return "warm"
    left = "" if progress["seconds_left"] is None else f", {progress['seconds_left']} s left"
    return (
        f"{progress['bytes_read'] / 1e9:.1f} of {progress['bytes_total'] / 1e9:.1f} GB read, "
        f"{progress['bytes_per_second'] / 1e6:.0f} MB/s{left}"
    )
