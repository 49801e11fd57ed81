#!/bin/sh
# The first process of a host, in namespaces of its own: lays the host's disk over the root of this
# machine, makes it the root, and becomes systemd.
#
#   boot.sh <folder of the host> <its name> <code> <jars of Cassandra>
set -eu
folder=$1 name=$2 code=$3 jars=$4
root=$folder/root

mount --make-rprivate /
# What the host writes stays in its folder.
mount -t overlay "holdfast-$name" -o "lowerdir=/,upperdir=$folder/disk,workdir=$folder/work" "$root"
mkdir -p "$root/opt/holdfast" "$root/usr/share/cassandra/lib"
mount --bind -o ro "$code" "$root/opt/holdfast"
mount --bind -o ro "$jars" "$root/usr/share/cassandra/lib"
cd "$root"
mount -t proc proc proc
# Settings of the kernel are the machine's.
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
  touch "dev/$device"
  mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/shm dev/pts
mount -t tmpfs tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mkdir -p mnt
pivot_root . mnt
umount -l /mnt
exec env -i container=holdfast PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  setpriv --bounding-set=-sys_module,-sys_time,-sys_boot /usr/lib/systemd/systemd --unit=basic.target </dev/null
