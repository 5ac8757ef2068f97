#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119  # the arguments of sends and takes are optional
# Two appliances with a stream of tiles, of which one is killed, fails or is interrupted, or whose connection
# breaks: the object is exact in the end, and the other one tells why it ends.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/remote.sh
. "$(dirname "$0")/lib/remote.sh"

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
    # the receiver has a message for each four tiles at least
    breaks cut=60 send && breaks cut=20 take
}

# written: the receiver has written a tile: its image has the second word of the data
written() {
    LC_ALL=C grep -qaF $'\x15\x7c\x4a\x7f\xb9\x79\x37\x9e' "$SCRATCH/b.img"
}

interrupted_senders_are_named() {
    local durable
    stop_all
    # its reads alone take more than 10 s
    echo "on read count 1000000: delay 120ms" >"$SCRATCH/slow"
    sends "" "" ",faults=$SCRATCH/slow" && takes && disks $((24 << 20)) && both &&
        until_true 200 written && kill -INT "$sender" && ended send 1 &&
        ended take 1 && tells take "pipeline 'take': remote 's' (127.0.0.1:$port): the run of the sender has ended:" ||
        return 1
    durable=$(grep -o "after [0-9]* of" "$SCRATCH/take.err")
    echo "$durable" && sends && both && ended take 0 && ended send 0 && arrived
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

check "senders that are killed go on" killed_runs_go_on sender
check "receivers that are killed go on" killed_runs_go_on receiver
check "a run goes on when its connection breaks" broken_connections_come_back
check "the end of an interrupted sender is named, and progress is kept" interrupted_senders_are_named
check "a fault of the receiver's ssd ends both, and names the object" a_fault_ends_both_with_its_object
stop_all
done_testing
