#!/bin/bash
# shellcheck disable=SC2119  # the arguments of sends and takes are optional
# Remote sinks and sources that cannot work, and strangers at the port of a receiver: one clear line, the right
# exit code, and nothing is written.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/remote.sh
. "$(dirname "$0")/lib/remote.sh"

# refused TEXT WARNING: the sender says TEXT and ends with code 2; the receiver warns, and waits on
refused() {
    disks 300000 && both && ended send 2 && tells send "$1" &&
        until_true 60 grep -qF -- "$2" "$SCRATCH/take.err" && kill -0 "$receiver" &&
        kill -INT "$receiver" && ended take 1
}

strangers_are_refused() {
    stop_all
    key other && takes && sends && sed -i 's/key = "key"/key = "other"/' "$SCRATCH/send.conf" &&
        refused "it has another key" "refused: another key" || return 1
    sends && sed -i 's/name = "s"/name = "t"/' "$SCRATCH/send.conf" &&
        refused "its stream has another name" "refused: another name of the stream" || return 1
    sends "" "" "" && sed -i 's/tile = "64K"/tile = "32K"/' "$SCRATCH/send.conf" &&
        refused "its tiles have another size" "refused: another size of tiles" || return 1
    sends && takes && sed -i 's/bytes = "32M"/bytes = "256K"/' "$SCRATCH/take.conf" &&
        refused "it takes fewer tiles" "refused: more tiles than this pipeline takes"
}

# The object of the receiver is made when its run ends, so nothing of a refused sender can be in it.
other_addresses_are_refused() {
    stop_all
    takes "" "" "" 'peers = [ "10.9.8.7" ];' && sends "" "" "" 'call = "2s";' && disks 300000 && both &&
        ended send 3 && tells send "no connection for 2" &&
        tells take "127.0.0.1:" && tells take "its address is not one of those that may connect" &&
        kill -INT "$receiver" && ended take 1 &&
        takes "" "" "" 'peers = [ "10.9.8.7", "127.0.0.1" ];' && copies 300000
}

# A connection that is not one of a link, and half a message, disturb no other connection.
noise_is_refused() {
    stop_all
    sends && takes && disks $((4 << 20)) && begin take || return 1
    python3 - "$port" <<'PY' || return 1
import os
import socket
import sys
import time
for attempt in range(600):
    try:
        s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        break
    except OSError:
        time.sleep(0.05)
s.sendall(os.urandom(4096))
h = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for i in range(20)]
h[0].sendall(b"GET / HTTP/1.1\r\n")
PY
    until_true 60 grep -q refused "$SCRATCH/take.err" && begin send && ended take 0 && ended send 0 && arrived &&
        remote take 'r["connections_refused"] > 0'
}

a_missing_receiver_is_said() {
    stop_all
    sends "" "" "" 'call = "500ms";' && disks 300000 && begin send && ended send 3 &&
        tells send "pipeline 'send': remote 's' (127.0.0.1:$port)" && tells send "no connection for"
}

key_files_are_checked() {
    stop_all
    sends && takes && disks 300000 || return 1
    rm -f "$SCRATCH/key"
    exits 2 run "$SCRATCH/send.conf" && warns "send.conf:5: pipeline 'send': remote 's' (127.0.0.1:$port): key file $SCRATCH/key: No such file" || return 1
    key key && chmod 640 "$SCRATCH/key" && unchanged "$SCRATCH/b.img" exits 2 run "$SCRATCH/take.conf" &&
        warns "key file $SCRATCH/key: other users may access it" || return 1
    key key && truncate -s 31 "$SCRATCH/key" && exits 2 run "$SCRATCH/take.conf" && warns "exactly 32 bytes" || return 1
    key key && echo >>"$SCRATCH/key" && exits 2 run "$SCRATCH/take.conf" && warns "exactly 32 bytes" || return 1
    rm -f "$SCRATCH/key" && mkdir "$SCRATCH/key" && exits 2 run "$SCRATCH/take.conf" && warns "is no regular file" &&
        rmdir "$SCRATCH/key" && key key
}

no_library_and_no_device_are_said() {
    stop_all
    sends && takes && disks 300000 || return 1
    mkdir -p "$SCRATCH/broken" && echo "no library" >"$SCRATCH/broken/libibverbs.so.1"
    LD_LIBRARY_PATH=$SCRATCH/broken unchanged "$SCRATCH/b.img" exits 3 run "$SCRATCH/take.conf" && warns "libibverbs" || return 1
    FAKE_IBVERBS_DEVICES='' unchanged "$SCRATCH/b.img" exits 3 run "$SCRATCH/take.conf" || return 1
    FAKE_IBVERBS_DEVICES='fake0=10.9.8.7' unchanged "$SCRATCH/b.img" exits 3 run "$SCRATCH/take.conf"
}

check "strangers are refused" strangers_are_refused
check "only peers may connect" other_addresses_are_refused
check "noise at the port is refused" noise_is_refused
check "a missing receiver is said" a_missing_receiver_is_said
check "key files are checked" key_files_are_checked
check "a missing library or device is said, and nothing is written" no_library_and_no_device_are_said
stop_all
done_testing
