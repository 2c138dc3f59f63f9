#!/bin/sh
# Tells by its exit code whether boot.sh can work here, in the namespaces of which it runs.
#
#   probe.sh FOLDER
set -eu
cd "$1"
mkdir changes work root
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/changes,workdir=$1/work" root
mount -t proc proc root/proc
mount -t sysfs -o ro sysfs root/sys
mount -t cgroup2 cgroup2 root/sys/fs/cgroup
mkdir root/sys/fs/cgroup/probe
rmdir root/sys/fs/cgroup/probe
test -x root/lib/systemd/systemd
