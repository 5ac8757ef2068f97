#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Run a command with an empty folder of its own: scratch.sh FOLDER COMMAND...
# SCRATCH names the folder. It lies in memory where there is room, because a disk that other programs use can need more
# than the 5 s that a flush of an image has; else it is FOLDER. After a failure FOLDER has what the command left.
set -u
umask 022 # headrace refuses operators and keys in folders that a group may write to

folder=$1
shift
need_kib=$((4 << 20))

# in_memory: true when /dev/shm is in memory, its programs can be executed, and it and the memory have 4 GiB free
in_memory() {
    local free options
    [ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ] || return 1
    options=$(awk '$5 == "/dev/shm" { print $6 }' /proc/self/mountinfo | tail -n 1)
    [[ ,$options, == *,noexec,* ]] && return 1
    free=$(df --output=avail -k /dev/shm | tail -n 1)
    [ "$free" -ge $need_kib ] && [ "$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)" -ge $need_kib ]
}

# python3 may be a script that looks for the interpreter at each start, which takes ten times as long as the start.
python=$(command -v python3) && IFS= read -rN 2 start <"$python" && [ "$start" = '#!' ] &&
    python=$(python3 -c 'import sys; print(sys.executable)') && [ -x "$python" ] && PATH=${python%/*}:$PATH

# The name depends on FOLDER only, so that the next run removes what a killed one left.
memory=/dev/shm/headrace-$(id -u)-$(cksum <<<"$folder" | tr ' ' -)
rm -rf "$folder" "$memory"
mkdir -p "$(dirname "$folder")"
if ! in_memory || ! mkdir "$memory"; then
    mkdir "$folder" && SCRATCH=$folder exec "$@"
    exit 1
fi
trap 'rm -rf "$memory"' EXIT
trap 'exit 143' TERM INT
SCRATCH=$memory "$@" &
wait $!
status=$?
[ $status -eq 0 ] || cp -a --sparse=always "$memory" "$folder"
exit $status
