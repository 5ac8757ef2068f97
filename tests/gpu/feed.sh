#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Feeds on the GPU of this machine: processes that fill tiles in its memory, are killed while they do, and
# share it with the pipeline, with and without MPS.
# Usage: tests/gpu/feed.sh FOLDER     (headrace, libheadrace-tap.so.0, feed_cuda, histogram.op)
# RIG_DEVICE is the device (cuda:0). RIG_ONLY=REGEX: only parts whose names match. The last line counts
# parts: "N passed, M failed[, K not run]".
set -uo pipefail
# shellcheck source=tests/gpu/parts.sh
. "$(dirname "$0")/parts.sh"
folder=$(realpath -- "${1:?usage: feed.sh FOLDER}")
tests=$(realpath -- "$(dirname "$0")")
clients=${RIG_CLIENTS:-$tests/../../gpu/tap/client}
device=${RIG_DEVICE:-cuda:0}
engine=''
scratch=$(mktemp -d)
trap '[ -z "$engine" ] || kill -KILL "$engine" 2>/dev/null; rm -rf "$scratch"' EXIT
export RUNTIME_DIRECTORY=$scratch/run HEADRACE_TAP_LIBRARY=$folder/libheadrace-tap.so.0
export PYTHONPATH=$clients PYTHONDONTWRITEBYTECODE=1 LD_LIBRARY_PATH=$folder
cd "$scratch" || exit 2

shown_on_failure=(err producer.err)

after_part() {
    [ -z "$engine" ] || kill -KILL "$engine" 2>/dev/null
    engine=''
}

# conf BYTES TILE SLOTS SINK [OPERATOR]
conf() {
    cat >x.conf <<CONF
appliance = { name = "feed-test"; checkpoint = "20ms"; };
ssds = ( { name = "a"; device = "soft:ssd.img"; timeout_ms = 20000; } );
gpus = ( { name = "g"; device = "$device"; } );
operators = ( { name = "histogram"; file = "$folder/histogram.op"; } );
pipelines = ( { name = "p"; source = { feed = "f"; bytes = "$1"; }; tile = "$2"; slots = $3; $4
    ${5-operator = \"copy\";} } );
CONF
    sed -i 's/\\"/"/g' x.conf
}

disk() {
    rm -f ssd.img
    "$folder/headrace" store format "soft:ssd.img,size=${1:-64M}" >/dev/null
}

begin() {
    timeout -k 5 60 "$folder/headrace" run x.conf --json >out 2>err </dev/null &
    engine=$!
}

# ended CODE
ended() {
    local got=0
    wait "$engine" || got=$?
    engine=''
    [ "$got" = "$1" ] || { echo "run: exit code $got, expected $1"; return 1; }
}

producer() {
    timeout -k 5 60 python3 "$tests/feed_producer.py" f "$@" 2>producer.err </dev/null
}

# holds BYTES: the object has so many bytes of the counting pattern
holds() {
    "$folder/headrace" store get soft:ssd.img out - >object 2>err && python3 - object "$1" <<'PY'
import struct, sys
got, count = open(sys.argv[1], "rb").read(), int(sys.argv[2])
words = (count + 7) // 8
sys.exit(got != struct.pack(f"<{words}Q", *range(words))[:count] and
         f"the object has {len(got)} bytes, or wrong ones, expected {count}")
PY
}

whole() {
    disk && conf 16M 256K 8 'sink = { object = "out"; };' && begin
    producer all && ended 0 && holds $((16 << 20)) && grep -o '"tiles_committed": [0-9]*' out
}

short() {
    disk && conf 16M 256K 8 'sink = { object = "out"; };' && begin
    producer until=21,1000 && ended 0 && holds $((20 * 262144 + 1000)) || return 1
    disk && conf 16M 256K 8 'sink = { object = "out"; };' && begin
    producer until=3 && ended 0 && holds $((3 * 262144))
}

example() {
    rm -f back; head -c 40000001 /dev/urandom >data
    disk 128M && conf 64M 1M 8 'sink = { object = "out"; };' && begin
    timeout 60 "$folder/feed_cuda" f data && ended 0 &&
        "$folder/headrace" store get --quiet soft:ssd.img out back && cmp data back && echo "40000001 bytes"
}

# killed STATE: the next producer gets its tiles, and the object is right
killed() {
    disk && conf 4M 256K 8 'sink = { object = "out"; };' && begin
    producer "kill-$1" && return 1
    producer all && ended 0 && holds $((4 << 20)) && grep -o '"tiles_discarded": [0-9]*' out
}

many_killed() {
    disk && conf 32M 256K 8 'sink = { object = "out"; };' && begin
    producer "die=$1" && producer all && ended 0 && holds $((32 << 20)) && grep -o '"producers_attached": [0-9]*' out
}

# The process of the first producer lives: another one is refused until it has ended.
detached_process() {
    disk && conf 4M 256K 8 'sink = { object = "out"; };' && begin
    rm -f hold && mkfifo hold
    timeout 60 python3 "$tests/feed_producer.py" f linger=3 >first 2>producer.err <hold &
    exec 9>hold
    until grep -q detached first; do sleep 0.05; done
    producer refused >second
    grep -q "has the tiles on the GPU mapped until it ends" second || { cat second; return 1; }
    exec 9>&-
    producer all && ended 0 && holds $((4 << 20)) && cat second
}

# The next engine goes on where the object was durable.
engine_killed() {
    local first
    disk && conf 32M 256K 8 'sink = { object = "out"; };' && begin
    rm -f lost
    producer lost=100 >lost & first=$!
    until grep -q filled lost; do
        [ -d "/proc/$first" ] || return 1
        sleep 0.05
    done
    kill -KILL "$(pgrep -P "$engine")"
    wait "$engine"
    wait "$first" || { cat lost producer.err; return 1; }
    begin && producer all >second && ended 0 && holds $((32 << 20)) && cat lost second
}

# The same result as over an object with these bytes.
user_operator() {
    local histogram='operator = "histogram"; args = { from = -4; to = 4.0; bins = 16; };'
    disk && conf 16M 64K 8 'sink = { object = "out"; };' && begin
    producer all && ended 0 || return 1
    conf 16M 64K 8 '' "$histogram" && begin
    producer all && ended 0 && cp out fed || return 1
    sed -i 's/{ feed = "f"[^}]*}/{ object = "out"; }/' x.conf && begin
    ended 0 && python3 - fed out <<'PY'
import json, sys
a, b = (json.load(open(path))["pipelines"][0]["result"] for path in sys.argv[1:])
sys.exit(a != b and f"{a}, expected {b}")
PY
}

# rate BYTES TILE SLOTS
rate() {
    disk && conf "$1" "$2" "$3" '' 'operator = "crc32c";' && begin
    producer rate && ended 0
}

all() {
    part "$1 all tiles" whole
    part "$1 a short tile, and an end between tiles" short
    part "$1 the example in C" example
    for state in attached holding half committed; do
        part "$1 a producer is killed: $state" killed "$state"
    done
    part "$1 producers are killed" many_killed "$2"
    part "$1 a process that has detached keeps others away" detached_process
    # a client of MPS that is killed while its workers run makes later clients fail
    [ "$1" = "mps:" ] || part "$1 a killed engine" engine_killed
    part "$1 a user operator" user_operator
    part "$1 rate, 16 tiles of 1 MiB" rate "$3" 1M 16
    part "$1 rate, 32 tiles of 4 MiB" rate "$3" 4M 32
}

if [ "${RIG_MPS:-}" != only ]; then
    all "in turns:" 8 2G
fi
if command -v nvidia-cuda-mps-control >/dev/null; then
    export CUDA_MPS_PIPE_DIRECTORY=$scratch/mps CUDA_MPS_LOG_DIRECTORY=$scratch/mps-log
    mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
    nvidia-cuda-mps-control -d
    all "mps:" 4 32G
    echo quit | nvidia-cuda-mps-control
else
    not_run "MPS" "no nvidia-cuda-mps-control"
fi

finish
