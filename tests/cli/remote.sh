#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119  # the arguments of sends and takes are optional
# A pipeline on one appliance sends its tiles to a pipeline on another one, by RDMA; here both are on one
# machine, over a libibverbs without a network device.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/remote.sh
. "$(dirname "$0")/lib/remote.sh"

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

# The sender learns where its stream ends when the producer says so.
a_feed_is_sent() {
    local bytes
    for bytes in 1000000 131072 8; do
        stop_all
        if ! { sends && takes && sed -i 's/object = "in"/feed = "f"; bytes = "4M"/' "$SCRATCH/send.conf" && disks "$bytes" &&
            both && timeout 200 "${HEADRACE%/*}/gpu/tap/examples/feed_c" f "$SCRATCH/data" >"$SCRATCH/said" 2>&1 </dev/null &&
            ended send 0 && ended take 0 && arrived; }; then
            cat "$SCRATCH/said"
            return 1
        fi
    done
}

a_sender_waits_for_its_receiver() {
    stop_all
    sends && takes && disks 500000 && begin send && until_true 60 grep -q "no receiver" "$SCRATCH/send.err" &&
        begin take && ended send 0 && ended take 0 && arrived
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
        exits 2 check "$SCRATCH/send.conf" && warns "may be accessed by other users" && key key
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

check "an object is copied from one appliance to another" an_object_is_copied
check "odd lengths and short last tiles are exact" odd_lengths_are_exact
check "slots and depth may differ" slots_differ
check "either side computes" either_side_computes
check "a feed is sent" a_feed_is_sent
check "a sender waits for its receiver" a_sender_waits_for_its_receiver
check "check shows device, port, GID, MTU, address and slots" check_shows_the_path
check "post tests the network device" post_tests_the_device
check "status shows the stream" status_shows_the_stream
check "the example sends an object" the_example_is_right
stop_all
done_testing
