#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The examples of a feed: a process (gpu/tap/examples/feed_c.c; feed_cuda.c for a pipeline on a GPU) fills the
# tiles of a pipeline with a file, and the object that the pipeline writes is compared with that file.
# Usage: tests/demo/feed_example.sh EXAMPLE BUILD_FOLDER     EXAMPLE: feed feed-cuda
#
# Variables, with their defaults:
#   BYTES=40000001   of the file, at most 64 MiB
#   DIR              folder for data and image; default: build/example/EXAMPLE
set -euo pipefail
cd "$(dirname "$0")/../.."

example=${1:-} build=${2:-build} BYTES=${BYTES:-40000001}
case $example in
feed) producer=feed_c ;;
feed-cuda)
    producer=feed_cuda
    [ -e /dev/nvidiactl ] || { echo "example: feed-cuda needs an NVIDIA GPU with its driver" >&2; exit 3; }
    ;;
*)
    echo "example: there is no example '$example'; expected feed or feed-cuda" >&2
    exit 2
    ;;
esac
if ! [[ $BYTES =~ ^[0-9]{1,8}$ ]] || [ "$BYTES" -gt $((64 << 20)) ]; then
    echo "example: BYTES is '$BYTES', expected 0 to $((64 << 20))" >&2
    exit 2
fi
dir=${DIR:-build/example/$example}
ssd=soft:$(realpath -m "$dir")/ssd.img
headrace=${HEADRACE:-$build/headrace}

# The socket gets a folder of its own, so the name of the feed is free.
engine='' client=''
sockets=$(mktemp -d)
export RUNTIME_DIRECTORY=$sockets
clean_up() {
    [ -z "$engine" ] || kill "$engine" "$client" 2>/dev/null || true
    wait
    rm -rf "$sockets"
}
trap clean_up EXIT

rm -rf "$dir"
mkdir -p "$dir"
head -c "$BYTES" /dev/urandom >"$dir/data"
"$headrace" store format --force "$ssd,size=128M" >/dev/null
sed -E "s|device = \"soft:[^\"]*\"|device = \"$ssd\"|" "config/examples/$example.conf" >"$dir/$example.conf"

# The producer waits until the pipeline has opened its feed, and the pipeline until a producer attaches. When
# one of them fails, the other has nothing to wait for.
"$headrace" run "$dir/$example.conf" >"$dir/run.out" &
engine=$!
"$build/gpu/tap/examples/$producer" "$example" "$dir/data" >"$dir/producer.out" &
client=$!
code=0
{ wait -n && wait -n; } || code=$?
[ "$code" -eq 0 ] || { echo "example: $example failed" >&2; exit "$code"; }
engine=''
cat "$dir/run.out" "$dir/producer.out"
"$headrace" store get --quiet "$ssd" stored "$dir/stored"
cmp "$dir/stored" "$dir/data" || { echo "example: the object differs from the file" >&2; exit 1; }
echo "the object equals the file: the result is right"
