#!/bin/bash
# shellcheck disable=SC2119  # the arguments of sends and takes are optional
# A pipeline on one appliance sends its tiles to a pipeline on another one, by RDMA; here both are on one
# machine, over a libibverbs without a network device.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/remote.sh
. "$(dirname "$0")/lib/remote.sh"

copies() {
    stop_all
    disks "$1" && both && ended take 0 && ended send 0 && quiet take && quiet send && arrived
}

an_object_is_copied() {
    sends && takes && copies $((4 << 20)) &&
        remote send 'r["tiles"] == 64 and r["bytes"] == 4 << 20 and r["tiles_copied"] == 0 and r["broken"] == 0' &&
        remote take 'r["tiles"] == 64 and r["tiles_copied"] == 0 and r["not_ready"] == 0 and r["side"] == "receiver"'
}

odd_lengths_are_exact() {
    local bytes
    for bytes in 8 4096 65528 65536 65544 131072 1000000; do
        copies $bytes || { echo "$bytes bytes"; return 1; }
    done
}

# slots SENDER RECEIVER DEPTH
slots() {
    echo "slots $1 and $2, depth $3"
    sends "depth = $3;" && takes && sed -i "s/slots = 4/slots = $1/" "$SCRATCH/send.conf" &&
        sed -i "s/slots = 6/slots = $2/" "$SCRATCH/take.conf" && copies 2000000
}

slots_differ() {
    slots 1 1 1 && slots 1 7 3 && slots 7 1 8 && slots 2 3 1 && slots 16 2 16 && slots 3 16 2
}

# The receiver computes; and the sender computes, which makes the tiles of the stream half as long.
either_side_computes() {
    stop_all
    sends && takes && sed -i '/operator/s/operator.*/operator = "crc32c"; tile = "64K"; slots = 6; } );/' \
        "$SCRATCH/take.conf" && disks 3000000 && both && ended take 0 && ended send 0 &&
        exits 0 store ls "soft:$SCRATCH/a.img" --json &&
        [ "$(json_value "$SCRATCH/take.out" r 'r["pipelines"][0]["result"]["crc32c"]')" = \
            "$(json_value "$SCRATCH/out" r 'r["objects"][0]["crc32c"]')" ] || return 1
    takes && sed -i 's/"copy"; tile = "64K"/"cast_f32_bf16"; tile = "128K"/' "$SCRATCH/send.conf" &&
        disks $((2 << 20)) && both && ended take 0 && ended send 0 && quiet send || return 1
    "$HEADRACE" store get "soft:$SCRATCH/b.img" out - >"$SCRATCH/got" &&
        [ "$(stat -c %s "$SCRATCH/got")" = $((1 << 20)) ]
}

a_sender_waits_for_its_receiver() {
    stop_all
    sends && takes && disks 500000 && begin send && until_true 60 grep -q "no receiver" "$SCRATCH/send.err" &&
        begin take && ended send 0 && ended take 0 && arrived
}

# Each of the two is killed at any time, and started again when it has ended, until both are done.
killed_runs_go_on() {
    local victim=$1 i left=0
    stop_all
    sends "" "" "" 'call = "60s";' && takes && disks $((24 << 20)) || return 1
    for ((i = 0; i < 12; i++)); do
        [ "$receiver" ] || begin take
        [ "$sender" ] || begin send
        sleep "0.$(printf %03d $((50 + RANDOM % 250)))"
        left=0
        if kill -KILL "${!victim}" 2>/dev/null; then
            wait "${!victim}" 2>/dev/null
            eval "$victim="
            left=1
        fi
        [ -z "$sender" ] || kill -0 "$sender" 2>/dev/null || { wait "$sender" && break; sender=''; }
        [ -z "$receiver" ] || kill -0 "$receiver" 2>/dev/null || { wait "$receiver" && [ $left = 0 ] && break; receiver=''; }
    done
    # without an end by force, both come to theirs
    for ((i = 0; i < 20; i++)); do
        [ "$receiver" ] || begin take
        [ "$sender" ] || begin send
        wait "$sender" && { sender='' && break; }
        tells send "" && sender=''
        kill -0 "$receiver" 2>/dev/null || receiver=''
    done
    [ "$i" -lt 20 ] && { [ -z "$receiver" ] || wait "$receiver"; } && arrived
}

# breaks FAULT SIDE: the connection breaks in the middle of the run, and the run goes on without loss
breaks() {
    stop_all
    sends && takes && disks $((8 << 20)) || return 1
    if [ "$2" = send ]; then
        begin take && FAKE_IBVERBS_FAULTS=$1 begin send
    else
        FAKE_IBVERBS_FAULTS=$1 begin take && begin send
    fi
    ended take 0 && ended send 0 && arrived && tells send "the connection is down:" &&
        tells take "the connection is down:" && remote send 'r["broken"] >= 1 and r["connections"] == r["broken"] + 1' &&
        remote take 'r["last_recovery_ms"] > 0 and r["not_ready"] == 0'
}

broken_connections_come_back() {
    breaks cut=60 send && breaks cut=100 take
}

interrupted_senders_are_named() {
    local durable
    stop_all
    sends && takes && disks $((24 << 20)) && both &&
        until_true 60 grep -q . "$SCRATCH/b.img" && sleep 0.2 && kill -INT "$sender" && ended send 1 &&
        ended take 1 && tells take "pipeline 'take': remote 's' (127.0.0.1:$port): the run of the sender has ended:" ||
        return 1
    durable=$(grep -o "after [0-9]* of" "$SCRATCH/take.err")
    echo "$durable" && both && ended take 0 && ended send 0 && arrived
}

a_fault_ends_both_with_its_object() {
    stop_all
    disks $((4 << 20)) && exits 0 check "$SCRATCH/take.conf" || return 1
    echo "on write lba 1000-1100 count 60: status 0x280 dnr" >"$SCRATCH/faults"
    sends && takes "" "" ",faults=$SCRATCH/faults" && both && ended take 4 && ended send 4 &&
        tells take "object 'out'" &&
        tells send "remote 's' (127.0.0.1:$port): the run of the receiver has ended: pipeline 'take'" &&
        tells send "object 'out'"
}

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

# A connection that is not one of a link, and half a message, disturb nobody.
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

check_shows_the_path() {
    stop_all
    sends && takes && disks 300000 && unchanged "$SCRATCH/b.img" exits 0 check "$SCRATCH/take.conf" && silent &&
        says "takes  remote s at 127.0.0.1:$port, 33554432 bytes at most, 65536 a tile" &&
        says "6 slots of 65536 bytes" &&
        says "fake0 port 1, GID 3 ::ffff:127.0.0.1, MTU 1024, address 127.0.0.1" || return 1
    exits 0 check "$SCRATCH/send.conf" --json &&
        json '(lambda r: r["side"] == "sender" and r["slots"] == 4 and r["slot_bytes"] == 65536 and
            r["size_bytes"] == 300000 and "MTU 1024" in r["path"])(r["pipelines"][0]["remote"])' || return 1
    FAKE_IBVERBS_DEVICES='fake0=10.9.8.7' exits 3 check "$SCRATCH/send.conf" &&
        warns "send.conf:5: pipeline 'send': remote 's' (127.0.0.1:$port): no RDMA device has the address 127.0.0.1" &&
        warns "there are: fake0" || return 1
    sends "" "" "" 'device = "fake7";' && exits 3 check "$SCRATCH/send.conf" &&
        warns "no RDMA device fake7 has the address 127.0.0.1" && chmod 604 "$SCRATCH/key" &&
        exits 2 check "$SCRATCH/send.conf" && warns "other users may access it" && key key
}

post_tests_the_device() {
    stop_all
    sends && disks 300000 && exits 0 post "$SCRATCH/send.conf" && grep -q "^OK   remote     send .*fake0 port 1" "$SCRATCH/out" &&
        FAKE_IBVERBS_FAULTS='deaf=1' exits 4 post "$SCRATCH/send.conf" &&
        grep -q "^FAIL remote     send .*loopback" "$SCRATCH/out" &&
        FAKE_IBVERBS_FAULTS='deaf=1' exits 4 run "$SCRATCH/send.conf" && warns "does not reach the memory of the tiles"
}

is_waiting() {
    "$HEADRACE" status send >"$SCRATCH/.said" && grep -qF -- "$1" "$SCRATCH/.said"
}

status_shows_the_stream() {
    stop_all
    sends && takes && sed -i 's/pipelines = (/appliance = { name = "send"; };\n&/' "$SCRATCH/send.conf" &&
        disks $((4 << 20)) && begin send &&
        until_true 60 is_waiting "remote s, sender, 127.0.0.1:$port, not connected: 0 tiles" && begin take &&
        ended send 0 && ended take 0 && arrived && exits 0 status --counters && says "not_ready" && says "last_recovery_ms"
}

the_example_is_right() {
    env DIR="$SCRATCH/example" BYTES=5000001 ADDRESS=127.0.0.1 PORT="$port" timeout 200 \
        tests/demo/remote_example.sh remote "$(dirname "$HEADRACE")" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &&
        silent && says "remote example: to 127.0.0.1:$port: 5 tiles sent, 5000001 bytes, 0 copied by a CPU" &&
        says "the object equals the one that was sent: the result is right"
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

check "an object is copied from one appliance to another" an_object_is_copied
check "odd lengths and short last tiles are exact" odd_lengths_are_exact
check "slots and depth may differ" slots_differ
check "either side computes" either_side_computes
check "a sender waits for its receiver" a_sender_waits_for_its_receiver
check "senders that are killed go on" killed_runs_go_on sender
check "receivers that are killed go on" killed_runs_go_on receiver
check "a run goes on when its connection breaks" broken_connections_come_back
check "the end of an interrupted sender is named, and progress is kept" interrupted_senders_are_named
check "a fault of the receiver's ssd ends both, and names the object" a_fault_ends_both_with_its_object
check "strangers are refused" strangers_are_refused
check "only peers may connect" other_addresses_are_refused
check "noise at the port is refused" noise_is_refused
check "a missing receiver is said" a_missing_receiver_is_said
check "check shows device, port, GID, MTU, address and slots" check_shows_the_path
check "post tests the network device" post_tests_the_device
check "status shows the stream" status_shows_the_stream
check "the example sends an object" the_example_is_right
check "key files are checked" key_files_are_checked
check "a missing library or device is said, and nothing is written" no_library_and_no_device_are_said
stop_all
done_testing
