#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Streams into and out of the memory of the GPU of this machine: two appliances on it, over a libibverbs
# without a network device (tests/fakes/ibverbs), which accesses GPU memory by copies of the CUDA
# driver. All but the network card is real: dma-bufs are exported, the loopback runs, workers lend and
# take tiles on the GPU.
# Usage: tests/gpu/remote.sh FOLDER     (headrace, libibverbs.so.1)
# RIG_DEVICE is the device (cuda:0; host:N runs the parts that need no GPU). RIG_ONLY=REGEX: only parts whose names match. The last line counts
# parts: "N passed, M failed[, K not run]".
set -uo pipefail
# shellcheck source=tests/gpu/parts.sh
. "$(dirname "$0")/parts.sh"
folder=$(realpath -- "${1:?usage: remote.sh FOLDER}")
device=${RIG_DEVICE:-cuda:0}
sender='' receiver=''
scratch=$(mktemp -d)
trap 'stop_all; rm -rf "$scratch"' EXIT
mkdir "$scratch/verbs"
export LD_LIBRARY_PATH=$folder FAKE_IBVERBS_DIR=$scratch/verbs RUNTIME_DIRECTORY=$scratch/run
cd "$scratch" || exit 2
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
head -c 32 /dev/urandom >key && chmod 400 key

stop_all() {
    local each
    for each in $sender $receiver; do
        kill -KILL "$each" 2>/dev/null
        wait "$each" 2>/dev/null
    done
    sender='' receiver=''
}

shown_on_failure=(send.err take.err)

after_part() {
    stop_all
}

# sends DEVICE [OPERATOR [TILE [SLOTS]]]
sends() {
    cat >send.conf <<CONF
ssds = ( { name = "a"; device = "soft:a.img"; timeout_ms = 60000; } );
gpus = ( { name = "g"; device = "$1"; } );
remote = { key = "key"; };
pipelines = ( { name = "send"; source = { object = "in"; }; operator = "${2-copy}"; tile = "${3-256K}"; slots = ${4-8};
                sink = { remote = "127.0.0.1:$port"; name = "s"; }; } );
CONF
}

# takes DEVICE [OPERATOR [SINK [TILE [SLOTS]]]]
takes() {
    cat >take.conf <<CONF
appliance = { checkpoint = "20ms"; };
ssds = ( { name = "b"; device = "soft:b.img"; timeout_ms = 60000; } );
gpus = ( { name = "g"; device = "$1"; } );
remote = { key = "key"; };
pipelines = ( { name = "take"; source = { remote = "127.0.0.1:$port"; name = "s"; bytes = "1G"; };
                operator = "${2-copy}"; tile = "${4-256K}"; slots = ${5-6}; ${3-sink = { object = \"out\"; \};} } );
CONF
    sed -i 's/\\\([\"}]\)/\1/g' take.conf
}

# disks BYTES: the sender's has an object of so many bytes, the receiver's is empty
disks() {
    rm -f a.img b.img
    head -c "$1" /dev/urandom >data
    "$folder/headrace" store format soft:a.img,size=2G >/dev/null &&
        "$folder/headrace" store format soft:b.img,size=2G >/dev/null &&
        "$folder/headrace" store put --quiet soft:a.img in data >/dev/null
}

begin() {
    timeout -k 5 100 "$folder/headrace" run "$1.conf" --json >"$1.out" 2>"$1.err" </dev/null &
    [ "$1" = send ] && sender=$! || receiver=$!
}

# ended send|take CODE
ended() {
    local got=0 process=$receiver
    [ "$1" = take ] || process=$sender
    wait "$process" || got=$?
    [ "$1" = send ] && sender='' || receiver=''
    [ "$got" = "$2" ] || { echo "$1: exit code $got, expected $2"; return 1; }
}

arrived() {
    rm -f got
    "$folder/headrace" store get --quiet soft:b.img out got 2>/dev/null && cmp got data &&
        "$folder/headrace" store verify soft:b.img >/dev/null
}

# figures: of the receiver's stream
figures() {
    python3 - take.out <<'PY'
import json, sys
run = json.load(open(sys.argv[1]))["pipelines"][0]
r = run["remote"]
print(f"{r['tiles']} tiles, {r['bytes']} bytes, {r['tiles_copied']} copied, broken {r['broken']} times, {r['path']}")
sys.exit(r["tiles_copied"] != 0 or r["not_ready"] != 0)
PY
}

# copies BYTES
copies() {
    disks "$1" && begin take && begin send && ended take 0 && ended send 0 && arrived && figures
}

# object FROM TO BYTES
object() {
    sends "$1" && takes "$2" && copies "$3"
}

# refused FAULT TEXT: check, post and run see it
refused() {
    local command
    sends "$device" && takes "$device" && disks 4096 || return 1
    for command in check post run; do
        FAKE_IBVERBS_FAULTS=$1 timeout 60 "$folder/headrace" "$command" take.conf >out 2>&1 </dev/null
        if [ $? != 4 ] || ! grep -qF "$2" out; then
            echo "$command:"
            cat out
            return 1
        fi
    done
    grep -F "$2" out
}

# shown COMMAND: it proves the path
shown() {
    local side
    sends "$device" && takes "$device" && disks 4096 || return 1
    for side in send take; do
        timeout 60 "$folder/headrace" "$1" "$side.conf" >out 2>&1 </dev/null || { cat out; return 1; }
        grep "fake0 port 1" out || return 1
    done
}

computes() {
    local sum
    sends "$device" && takes "$device" crc32c '' && disks 30000001 && begin take && begin send && ended take 0 &&
        ended send 0 || return 1
    sum=$("$folder/headrace" store ls soft:a.img --json |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["objects"][0]["crc32c"])')
    [ "$sum" = "$(python3 -c 'import json; print(json.load(open("take.out"))["pipelines"][0]["result"]["crc32c"])')" ] &&
        echo "crc32c $sum"
}

# broken SIDE: its connection is cut after some packets (a receiver has few), and the next ones, too
broken() {
    sends "$device" && takes "$device" && disks 20000000 || return 1
    if [ "$1" = take ]; then
        FAKE_IBVERBS_FAULTS=cut=10 begin take
        begin send
    else
        begin take
        FAKE_IBVERBS_FAULTS=cut=60 begin send
    fi
    ended take 0 && ended send 0 && arrived && figures && ! figures | grep "broken 0 times" >/dev/null
}

# killed SIDE: it is killed in the middle, and begins again
killed() {
    sends "$device" && takes "$device" && disks 400000000 && begin take && begin send || return 1
    python3 - "$1" "$([ "$1" = send ] && echo "$sender" || echo "$receiver")" <<'PY' || return 1
import os, signal, subprocess, sys, time
end = time.monotonic() + 60
engine = subprocess.run(["pgrep", "-P", sys.argv[2]], capture_output=True, text=True).stdout.split()[0]
while os.path.getsize("b.img") and time.monotonic() < end:
    if os.stat("b.img").st_blocks * 512 > 40 << 20:
        break
    time.sleep(0.005)
os.kill(int(engine), signal.SIGKILL)
PY
    if [ "$1" = send ]; then
        wait "$sender"
        begin send
        ended take 0 && ended send 0 && arrived && figures
    else
        wait "$receiver"
        begin take
        # a tile that was given back is missing: the sender's run ends, and the next one sends it
        wait "$sender" || begin send
        ended take 0 && ended send 0 && arrived && figures
    fi
}

# rate FROM TO
rate() {
    sends "$1" copy 1M 16 && takes "$2" crc32c '' 1M 16 && disks 1000000000 && begin take && begin send &&
        ended take 0 && ended send 0 && python3 - <<'PY'
import json
r = json.load(open("take.out"))["pipelines"][0]["remote"]
seconds = r["up_ms"] / 1e3 if "up_ms" in r else 0
print(f"{r['bytes']} bytes" + (f", {r['bytes'] / seconds / 1e6:.0f} MB/s while connected" if seconds else ""))
PY
}

part "check proves that the device reaches GPU memory" shown check
part "post proves it" shown post
part "a device that does not reach GPU memory" refused deaf=1 "the device does not reach the memory of the tiles"
if [ "${device%:*}" = host ]; then
    not_run "a device that reads other memory" "$device is no GPU"
else
    part "a device that reads other memory" refused blind=1 "the device reads other memory than that of the tiles"
fi
part "host to GPU" object host:2 "$device" 30000001
part "GPU to host" object "$device" host:2 30000001
part "GPU to GPU" object "$device" "$device" 30000001
for bytes in 8 4096 262144 262152; do
    part "GPU to GPU, $bytes bytes" object "$device" "$device" $bytes
done
part "the receiver computes" computes
part "the sender's connection breaks" broken send
part "the receiver's connection breaks" broken take
part "the sender is killed" killed send
part "the receiver is killed" killed take
part "rate, host to GPU" rate host:2 "$device"
part "rate, GPU to host" rate "$device" host:2

finish
