#!/bin/sh
# Boots systemd in a copy of this machine's files, in namespaces of its own, with a script as the only
# service; ends when the script has ended.
#
#   boot.sh FOLDER
#
# FOLDER is empty but for check.sh and what it needs, which is /check there. Changes of the copy stay in
# FOLDER/changes. Needs to be run by unshare(1) with new namespaces of all kinds, as root.
set -eu
folder=$1
root=$folder/root
mkdir -p "$folder/changes" "$folder/work" "$root"
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/changes,workdir=$folder/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/dev"
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
while read -r name number; do
	mknod -m 666 "$root/dev/$name" c 1 "$number"
done <<DEVICES
null 3
zero 5
full 7
random 8
urandom 9
DEVICES
mknod -m 666 "$root/dev/tty" c 5 0
ln -s /proc/self/fd "$root/dev/fd"
mkdir -p "$root/check" "$root/old"
mount --bind "$folder/check" "$root/check"
cat >"$root/etc/systemd/system/check.service" <<'UNIT'
[Service]
Type=oneshot
ExecStart=/bin/sh -c '/check/check.sh >/check/output 2>&1; echo $? >/check/code'
ExecStopPost=/usr/bin/systemctl --force --force poweroff
TimeoutStartSec=100
UNIT
pivot_root "$root" "$root/old"
cd /
umount -l /old
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
	/lib/systemd/systemd --unit=check.service --show-status=0
