#!/bin/sh
# Starts a program of this repository: infra/launch.sh [flags of Node] <program> [its arguments].
#
# All programs of package.json and the processes of a cluster start through this file. An image or
# a unit does the same. The program takes the place of this process: it has its process id and gets
# its signals. `node infra/ready.mjs` installs the packages before a first start.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)

# The packages bring Node 24. Where their install script may not run, the machine has it.
node=$root/node_modules/.bin/node
[ -x "$node" ] || node=node

# Node keeps the modules that it has read without their types. A start takes half the time
# (bench/NOTES-small-uploads.md). What cannot be written there is read as TypeScript again. systemd
# names a directory for it when the code is read-only.
export NODE_COMPILE_CACHE="${CACHE_DIRECTORY:-$root/node_modules/.cache/holdfast}"

# glibc keeps 127 freed pieces of a size for each thread and has no fast bins: 0.95 of the CPU of
# small uploads (bench/NOTES-small-uploads.md). Buffers below 4 MiB come from its heap, whose end
# stays up to 16 MiB: an answer of half a megabyte would get its pages from the kernel each time
# (bench/NOTES-listings.md). Other C libraries ignore it.
malloc=glibc.malloc.tcache_count=127:glibc.malloc.mxfast=0
export GLIBC_TUNABLES=$malloc:glibc.malloc.mmap_threshold=4194304:glibc.malloc.trim_threshold=16777216

# Two halves of 16 MiB hold young objects. Node would let each grow to 64 MiB, which is no faster
# and stays in the process.
exec "$node" --max-semi-space-size=16 "$@"
