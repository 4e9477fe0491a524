#!/bin/bash
# boot.sh NAME DIRECTORY NSPAWN_OPTIONS...: boots a test host and boots it again whenever it asks for a reboot.
# Run it in a mount namespace of its own.
set -eu
name=$1 directory=$2
shift 2
# Pure cgroup v2, as a Debian 12 has it; this machine's may be a mix of v1 and v2.
umount -R /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
group=/sys/fs/cgroup/$name
mkdir -p "$group"
# API_VFS_WRITABLE: udevd runs inside, so disks have names and UUIDs.
export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 SYSTEMD_NSPAWN_API_VFS_WRITABLE=yes
status=133
# With --keep-unit nspawn does not reboot by itself: it exits with 133.
while [ "$status" = 133 ]; do
    status=0
    (
        echo "$BASHPID" >"$group/cgroup.procs"
        exec systemd-nspawn -q --register=no --keep-unit --boot -M "$name" -D "$directory" \
            --network-namespace-path="/run/netns/$name" --capability=CAP_NET_ADMIN --resolv-conf=off --timezone=off \
            --console=pipe "$@"
    ) || status=$?
done
find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
exit "$status"
