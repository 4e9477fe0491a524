#!/bin/sh
# seal.sh MOUNT_POINT PATH...: takes from a host what is its own: the run, the data's mount, its identity, who may log in.
# What is left is what an image may hold. Nobody logs in after it: the instance is of no more use.
set -eu
mount_point=$1
shift

# Nobody logs in any more, and the units that power it off go: this one is in /run, which is no part of the image. The
# image takes two hours at most (machine_image_timeout_seconds).
if ! systemctl is-active --quiet sealed-power-off.timer; then
    systemd-run --quiet --on-active=3h --unit=sealed-power-off systemctl poweroff
fi
for unit in trainer.service trainer-monitor.service trainer-mirror.service trainer-power-off.timer \
    unconfigured-power-off.timer data-volume-warm-up.service; do
    if [ -e "/etc/systemd/system/$unit" ]; then systemctl disable --now "$unit"; fi
done
if mountpoint -q "$mount_point"; then umount "$mount_point"; fi
sed -i "\\|[[:space:]]$mount_point[[:space:]]|d" /etc/fstab
rm -rf -- "$@"

# Its identity: an empty machine id gets a new number at the next boot, cloud-init begins anew, sshd gets new keys.
# What cloud-init was given holds the host's private key: overwritten, or it stays on the disk, and so in the image.
if [ -d /var/lib/cloud ]; then find /var/lib/cloud -type f -exec shred -u {} +; fi
if command -v cloud-init >/dev/null; then cloud-init clean --logs --seed; fi
: >/etc/machine-id
# What journald hears from here on stays in /run: this login's end, for one, would be a new file.
journalctl --relinquish-var
rm -rf /var/lib/systemd/random-seed /var/lib/dbus/machine-id /var/lib/dhcp/* /var/log/journal/*
find /var/log -type f -delete
# Ansible's own module lies there while this runs, and goes with it.
find /tmp /var/tmp -mindepth 1 -maxdepth 1 ! -name 'ansible_*' -exec rm -rf {} +
rm -rf /root/.ansible /home/*/.ansible /root/.bash_history /home/*/.bash_history

# The other secrets. The way in goes last.
find /etc/ssh -name 'ssh_host_*key*' -exec shred -u {} +
for folder in /root/.ssh /home/*/.ssh; do
    if [ -d "$folder" ]; then find "$folder" -type f -exec shred -u {} +; fi
done
sync
