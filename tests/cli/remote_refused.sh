#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
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

# other_version send|take: the other side speaks the next version of the protocol. `send` connects to a receiver here; `take`
# waits for a sender here, and answers its HELLO, or refuses it as that version does (`refuse`)
other_version() {
    timeout 200 python3 - "$port" "$1" <<'PY'
import socket
import struct
import sys
import time
HEAD, HELLO, REFUSE = "<IHHQ", "<IIQQII32s64s", "<II"
MAGIC, OURS = 0x4B4E4C48, 2
VERSION = OURS + 1
port, what = int(sys.argv[1]), sys.argv[2]


def message(kind, body):
    return struct.pack(HEAD, MAGIC, kind, 16 + len(body), 0) + body


def hello(side):
    return message(1, struct.pack(HELLO, VERSION, side, 7, 4, 65536, 0, bytes(32), b"s"))


if what == "send":
    for attempt in range(1200):
        try:
            s = socket.create_connection(("127.0.0.1", port))
            break
        except OSError:
            time.sleep(0.05)
    s.sendall(hello(0))
    answer = b""
    while more := s.recv(4096):
        answer += more
    assert answer == message(3, struct.pack(REFUSE, 1, OURS)), answer
else:
    listener = socket.create_server(("127.0.0.1", port))
    print("listens", flush=True)
    s = listener.accept()[0]
    got = s.recv(144, socket.MSG_WAITALL)
    assert struct.unpack_from(HEAD, got) == (MAGIC, 1, 144, 0), got
    assert struct.unpack_from("<II", got, 16) == (OURS, 0), got
    s.sendall(hello(1) if what == "take" else message(3, struct.pack(REFUSE, 1, VERSION)))
    while s.recv(4096):
        pass
PY
}

# refuses_version take|refuse TEXT: a sender here meets such a receiver
refuses_version() {
    local other
    other_version "$1" >"$SCRATCH/other" 2>&1 & other=$!
    until_true 60 grep -q listens "$SCRATCH/other" && unchanged "$SCRATCH/a.img" exits 2 run "$SCRATCH/send.conf" &&
        warns "$2" && [ "$(grep -c "version of the protocol" "$SCRATCH/err")" = 1 ] && wait "$other" && return 0
    cat "$SCRATCH/other"
    return 1
}

another_version_is_refused() {
    stop_all
    key key && sends && takes && disks 300000 && begin take && other_version send &&
        until_true 60 grep -q "refused: another version of the protocol" "$SCRATCH/take.err" &&
        [ "$(grep -c "another version" "$SCRATCH/take.err")" = 1 ] && begin send && ended send 0 && ended take 0 && arrived &&
        remote take 'r["connections_refused"] == 1 and r["tiles"] == 5' || return 1
    refuses_version take "the receiver is refused: it has another version of the protocol" &&
        refuses_version refuse "the receiver refuses: it has another version of the protocol"
}

# What a sender has said once, said again to the next run of the receiver.
a_replayed_hello_is_refused() {
    local relay
    stop_all
    relay=$(free_port)
    sends && takes && disks 300000 && sed -i "s/127.0.0.1:$port/127.0.0.1:$relay/" "$SCRATCH/send.conf" || return 1
    timeout 200 python3 - "$relay" "$port" "$SCRATCH/said" <<'PY' &
import socket
import sys
import threading
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
sender = listener.accept()[0]
receiver = socket.create_connection(("127.0.0.1", int(sys.argv[2])))


def answers():
    while more := receiver.recv(65536):
        sender.sendall(more)


threading.Thread(target=answers, daemon=True).start()
with open(sys.argv[3], "wb", 0) as said:
    while more := sender.recv(65536):
        said.write(more)
        receiver.sendall(more)
PY
    begin take && until_true 60 listens && begin send && ended send 0 && ended take 0 && arrived && disks 300000 &&
        begin take && until_true 60 listens || return 1
    timeout 200 python3 - "$port" "$SCRATCH/said" <<'PY' || return 1
import socket
import sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
with open(sys.argv[2], "rb") as said:
    s.sendall(said.read())
try:
    while s.recv(4096):
        pass
except ConnectionResetError:
    pass
PY
    until_true 60 grep -q "refused: another key" "$SCRATCH/take.err" && kill -0 "$receiver" && sends && begin send &&
        ended send 0 && ended take 0 && arrived && remote take 'r["connections"] == 1'
}

# A process listens at the port; no connection is made, which would be refused.
listens() {
    grep -qi "^ *[0-9]*: 0100007F:$(printf %04X "$port") 00000000:0000 0A " /proc/net/tcp
}

# The other side goes in the middle, and does not come back.
a_side_that_is_gone_is_said() {
    local victim
    echo "on read nth 150 count 1000000: delay 2s" >"$SCRATCH/faults"
    for victim in send take; do
        stop_all
        sends "" "" ",faults=$SCRATCH/faults" 'call = "2s";' && takes "" "" "" 'call = "2s";' && disks $((16 << 20)) &&
            sed -i '1i appliance = { name = "send"; };' "$SCRATCH/send.conf" && both &&
            until_true 60 sends_tiles || return 1
        if [ $victim = send ]; then
            kill -KILL "$sender" && ended send 137 && ended take 4 &&
                tells take "pipeline 'take': remote 's' (127.0.0.1:$port)" && tells take "no connection for 2" || return 1
        else
            kill -KILL "$receiver" && ended take 137 && ended send 4 &&
                tells send "pipeline 'send': remote 's' (127.0.0.1:$port)" && tells send "no connection for 2" || return 1
        fi
    done
}
sends_tiles() {
    "$HEADRACE" status send --json >"$SCRATCH/.status" &&
        json_holds "$SCRATCH/.status" r 'r["pipelines"][0]["remote"]["tiles"] > 20'
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
    exits 2 run "$SCRATCH/send.conf" && warns "send.conf:5: pipeline 'send': remote 's' (127.0.0.1:$port): key file $SCRATCH/key: cannot be opened: No such file" || return 1
    key key && chmod 640 "$SCRATCH/key" && unchanged "$SCRATCH/b.img" exits 2 run "$SCRATCH/take.conf" &&
        warns "key file $SCRATCH/key: may be accessed by other users (mode 0640)" || return 1
    key key && truncate -s 31 "$SCRATCH/key" && exits 2 run "$SCRATCH/take.conf" && warns "exactly 32 bytes" || return 1
    key key && echo >>"$SCRATCH/key" && exits 2 run "$SCRATCH/take.conf" && warns "exactly 32 bytes" || return 1
    rm -f "$SCRATCH/key" && mkdir "$SCRATCH/key" && exits 2 run "$SCRATCH/take.conf" && warns "is a folder, expected a file" &&
        rmdir "$SCRATCH/key" && key key
}

no_library_and_no_device_are_said() {
    local each image conf
    stop_all
    sends && takes && disks 300000 || return 1
    mkdir -p "$SCRATCH/broken" && echo "no library" >"$SCRATCH/broken/libibverbs.so.1"
    for each in a:send b:take; do
        image=$SCRATCH/${each%:*}.img conf=$SCRATCH/${each#*:}.conf
        LD_LIBRARY_PATH=$SCRATCH/broken unchanged "$image" exits 3 run "$conf" && one_line "libibverbs.so.1" &&
            FAKE_IBVERBS_DEVICES='' unchanged "$image" exits 3 run "$conf" && one_line "no RDMA device" &&
            FAKE_IBVERBS_DEVICES='fake0=10.9.8.7' unchanged "$image" exits 3 run "$conf" &&
            one_line "no RDMA device has the address 127.0.0.1" || return 1
    done
}

# one_line TEXT: the only line on stderr has it
one_line() {
    warns "$1" && [ "$(wc -l <"$SCRATCH/err")" = 1 ] && return 0
    cat "$SCRATCH/err"
    return 1
}

check "strangers are refused" strangers_are_refused
check "another version is refused by both sides" another_version_is_refused
check "a replayed hello is refused" a_replayed_hello_is_refused
check "a side that is gone is said" a_side_that_is_gone_is_said
check "only peers may connect" other_addresses_are_refused
check "noise at the port is refused" noise_is_refused
check "a missing receiver is said" a_missing_receiver_is_said
check "key files are checked" key_files_are_checked
check "a missing library or device is said, and nothing is written" no_library_and_no_device_are_said
stop_all
done_testing
