#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How the pipeline of a tap and its consumers share a gpu: on the host backend workers can leave as on a
# GPU, and the results are the same.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/tap_run.sh
. "$(dirname "$0")/lib/tap_run.sh"

# conf SINK [OPERATOR]: 64 tiles of 64 KiB of the counting pattern
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
ssds = ( { name = "a"; device = "soft:memory,size=32M"; timeout_ms = 60000;
           objects = ( { name = "in"; bytes = "4M"; } ); } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "lend"; source = { object = "in"; }; operator = "copy"; tile = "64K"; slots = 8;
                blocks = { compute = 2; prefetch = 2; }; sink = { tap = "t"; $1 }; } );
CONF
}

all_tiles() {
    [ "$(sort -n "$@" | tr '\n' ' ')" = "$(seq 0 63 | tr '\n' ' ')" ]
}

# Before the consumer comes the slots are full, so the workers leave; 56 tiles are read afterwards.
workers_leave_and_go_on() {
    conf 'share = "park"; credits = 3; dtype = "u64";' && begin
    consumer a && ended 0 && silent && all_tiles "$SCRATCH/a" || return 1
    tap 't["share"] == "park" and t["launches"] > 1 and t["tiles_returned"] == 64'
}

workers_stay_otherwise() {
    conf '' && begin
    consumer a && ended 0 && silent && all_tiles "$SCRATCH/a" &&
        tap 't["share"] == "slice" and t["launches"] == 1'
}

several_consumers_wake_the_workers() {
    local other
    conf 'share = "park"; consumers = 2; deliver = "each"; credits = 1;' && begin
    consumer b & other=$!
    consumer a && wait "$other" && ended 0 && silent && all_tiles "$SCRATCH/a" &&
        all_tiles "$SCRATCH/b" && tap 't["launches"] > 1'
}

tiles_of_the_dead_go_on_after_a_park() {
    conf 'share = "park";' && begin
    consumer a kill-holding=3 >/dev/null
    consumer b && ended 0 && silent && all_tiles "$SCRATCH/b" &&
        tap 't["tiles_returned"] == 64 and t["tiles_redelivered"] >= 3 and t["launches"] > 1'
}

interrupt_ends_a_run_that_is_parked() {
    local held
    conf 'share = "park";' && begin
    consumer a wait-for-end & held=$!
    until_true 60 grep -q holding "$SCRATCH/a" && kill -TERM "$engine" && ended 1 || return 1
    wait "$held" && grep -q "the run was interrupted\|appliance is gone" "$SCRATCH/a"
}


mps_needs_a_server() {
    conf 'share = "mps";' && exits 3 run "$SCRATCH/x.conf" &&
        warns 'share is "mps", but its worker blocks are CPU threads' &&
        warns 'expected "auto", "park" or "slice"' && [ "$(wc -l <"$SCRATCH/err")" -eq 1 ]
}

a_feed_does_not_park() {
    conf 'share = "park";' && sed -i 's/{ object = "in"; }; operator/{ feed = "f"; bytes = "4M"; }; operator/; s/ prefetch = 2;//' \
        "$SCRATCH/x.conf" && exits 2 run "$SCRATCH/x.conf" &&
        warns 'share is "park", but the worker of a feed does not leave the gpu'
}

other_words_are_refused() {
    conf 'share = "turns";' && exits 2 check "$SCRATCH/x.conf" && warns 'share'
}

mode_and_reason_are_shown() {
    conf 'share = "park";' && exits 0 check "$SCRATCH/x.conf" &&
        says "shares the gpu: park (worker blocks are CPU threads" &&
        exits 0 check "$SCRATCH/x.conf" --json &&
        tap 't["share"] == "park" and "CPU threads" in t["share_reason"]'
}

check "workers leave while nothing can be lent, and go on" workers_leave_and_go_on
check "workers stay unless they are told to leave" workers_stay_otherwise
check "several consumers wake the workers" several_consumers_wake_the_workers
check "tiles of a killed consumer are handed out after a park" tiles_of_the_dead_go_on_after_a_park
check "Ctrl-C ends a run whose workers have left" interrupt_ends_a_run_that_is_parked
check "mps without a server is refused" mps_needs_a_server
check "a feed does not park" a_feed_does_not_park
check "other words are refused" other_words_are_refused
check "check shows mode and reason" mode_and_reason_are_shown
done_testing
