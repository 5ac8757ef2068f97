#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The example of remote sinks and sources: one headrace sends an object by RDMA to another one on this machine,
# and what arrives is compared with it. Needs an RDMA device with an IPv4 address.
# Usage: tests/demo/remote_example.sh EXAMPLE BUILD_FOLDER     EXAMPLE: remote
#
# Variables, with their defaults:
#   BYTES=40000001   of the object, at most 64 MiB
#   ADDRESS          of the RDMA device; default: the first IPv4 address of one
#   PORT=47911       at which the receiver listens
#   DIR              folder for data and images; default: build/example/EXAMPLE
set -euo pipefail
cd "$(dirname "$0")/../.."

example=${1:-} build=${2:-build} BYTES=${BYTES:-40000001} PORT=${PORT:-47911}
[ "$example" = remote ] || { echo "example: there is no example '$example'; expected remote" >&2; exit 2; }
if ! [[ $BYTES =~ ^[1-9][0-9]{0,7}$ ]] || [ "$BYTES" -gt $((64 << 20)) ]; then
    echo "example: BYTES is '$BYTES', expected 1 to $((64 << 20))" >&2
    exit 2
fi
dir=$(realpath -m "${DIR:-build/example/$example}")
headrace=${HEADRACE:-$build/headrace}

# find_address: the first IPv4 address of a network interface that an RDMA device belongs to
find_address() {
    local gid
    # an IPv4 address stands in the table of GIDs as ::ffff:a.b.c.d
    gid=$(cat /sys/class/infiniband/*/ports/*/gids/* 2>/dev/null |
        sed -n 's/^0000:0000:0000:0000:0000:ffff:\(..\)\(..\):\(..\)\(..\)$/0x\1 0x\2 0x\3 0x\4/p' | head -n 1)
    # shellcheck disable=SC2086  # four numbers
    [ -z "$gid" ] || printf '%d.%d.%d.%d\n' $gid
}
address=${ADDRESS:-$(find_address)}
if [ -z "$address" ]; then
    echo "example: remote needs an RDMA device with an IPv4 address, and this machine has none; 'modprobe rdma_rxe'" \
        "and 'rdma link add rxe0 type rxe netdev eth0' make one over Ethernet" >&2
    exit 3
fi

taker='' sender=''
sockets=$(mktemp -d)
export RUNTIME_DIRECTORY=$sockets
clean_up() {
    [ -z "$taker" ] || kill "$taker" "$sender" 2>/dev/null || true
    wait
    rm -rf "$sockets"
}
trap clean_up EXIT

rm -rf "$dir"
mkdir -p "$dir"
head -c 32 /dev/urandom >"$dir/key"
chmod 400 "$dir/key"
head -c "$BYTES" /dev/urandom >"$dir/data"
for side in send take; do
    "$headrace" store format --force "soft:$dir/$side.img,size=128M" >/dev/null
    sed -E "s|\"soft:[^\"]*/([a-z]*.img)|\"soft:$dir/\1|; s|key = \"[^\"]*\"|key = \"$dir/key\"|
            s|127.0.0.1:47911|$address:$PORT|" "config/examples/remote-$side.conf" >"$dir/$side.conf"
done
"$headrace" store put --quiet "soft:$dir/send.img" stored "$dir/data" >/dev/null

# Each waits for the other; when one of them fails, the other has nothing to wait for.
"$headrace" run "$dir/take.conf" >"$dir/take.out" &
taker=$!
"$headrace" run "$dir/send.conf" >"$dir/send.out" &
sender=$!
code=0
{ wait -n && wait -n; } || code=$?
[ "$code" -eq 0 ] || { echo "example: $example failed" >&2; exit "$code"; }
taker=''
cat "$dir/send.out" "$dir/take.out"
"$headrace" store get --quiet "soft:$dir/take.img" taken "$dir/taken"
cmp "$dir/taken" "$dir/data" || { echo "example: the object differs from the one that was sent" >&2; exit 1; }
echo "the object equals the one that was sent: the result is right"
