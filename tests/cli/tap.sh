#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A tap: consumers in other processes get the tiles of a pipeline, also when one of them is killed,
# stopped, or breaks the protocol.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/tap_run.sh
. "$(dirname "$0")/lib/tap_run.sh"

# conf SINK [DEVICE [OPERATOR]]: 64 tiles of 64 KiB of the counting pattern
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
ssds = ( { name = "a"; device = "soft:memory,size=32M"; timeout_ms = 60000;
           objects = ( { name = "in"; bytes = "4M"; } ); } );
gpus = ( { name = "g"; device = "${2-host:2}"; } );
pipelines = ( { name = "lend"; source = { object = "in"; }; operator = "${3-copy}"; tile = "64K";
                sink = { tap = "t"; $1 }; } );
CONF
}

lost_everything() {
    [ ! -e "$SCRATCH/run/t.tap" ] || { echo "the socket is left"; return 1; }
}

two_consumers_share_the_tiles() {
    local other
    conf 'consumers = 2; dtype = "u64"; columns = 8;' && begin
    consumer b & other=$!
    consumer a && wait "$other" && ended 0 && silent && lost_everything || return 1
    tap 't["tiles_returned"] == 64 and t["consumers_attached"] == 2' || return 1
    [ "$(cat "$SCRATCH/a" "$SCRATCH/b" | sort -n | tr '\n' ' ')" = "$(seq 0 63 | tr '\n' ' ')" ]
}

each_consumer_gets_all_tiles() {
    local other
    conf 'consumers = 2; deliver = "each"; credits = 1;' && begin
    consumer b & other=$!
    consumer a && wait "$other" && ended 0 && silent || return 1
    for name in a b; do
        [ "$(sort -n "$SCRATCH/$name" | tr '\n' ' ')" = "$(seq 0 63 | tr '\n' ' ')" ] || return 1
    done
}

tiles_of_a_killed_consumer_go_to_another() {
    conf '' && begin
    consumer a kill-holding=3 >/dev/null
    consumer b && ended 0 && silent || return 1
    tap 't["tiles_returned"] == 64 and t["tiles_redelivered"] >= 3' || return 1
    [ "$(sort -n "$SCRATCH/b" | tr '\n' ' ')" = "$(seq 0 63 | tr '\n' ' ')" ]
}

# One that holds all its tiles, and waits for more, is not kept waiting by its share.
a_consumer_collects_tiles_beside_another() {
    local other
    conf 'consumers = 2; credits = 5;'
    sed -i "s|size=32M|&,faults=$SCRATCH/slow|" "$SCRATCH/x.conf"
    printf 'on read lba 256-16383 count 1000000: delay 20ms\n' >"$SCRATCH/slow"
    begin
    consumer b & other=$!
    consumer a collect=5 && wait "$other" && ended 0 && silent && grep -q collected "$SCRATCH/a" &&
        [ "$(cat "$SCRATCH/a" "$SCRATCH/b" | grep -x "[0-9]*" | sort -n | tr '\n' ' ')" = \
            "$(seq 0 63 | tr '\n' ' ')" ]
}

a_failed_tile_goes_to_another_consumer() {
    local other
    conf 'consumers = 2; credits = 1;' && begin
    consumer b & other=$!
    consumer a fail=0 && wait "$other" && ended 0 && silent || return 1
    tap 't["tiles_returned"] == 64 and t["tiles_failed"] == 0' || return 1
    [ "$(cat "$SCRATCH/a" "$SCRATCH/b" | grep -x "[0-9]*" | sort -n | tr '\n' ' ')" = \
        "$(seq 0 63 | tr '\n' ' ')" ]
}

a_tile_that_fails_again_and_again_is_dropped() {
    conf 'tries = 4;' && begin
    consumer a fail=7 && ended 0 && tap 't["tiles_returned"] == 63 and t["tiles_failed"] == 1 and
        t["tiles_redelivered"] == 3' && [ "$(grep -c failed "$SCRATCH/a")" = 4 ] &&
        warns "tap 't': tile 7 is dropped: consumers have given it back as failed 4 times"
}

a_consumer_that_polls_gets_all_tiles() {
    conf '' && begin
    consumer a poll && ended 0 && silent || return 1
    [ "$(grep -x "[0-9]*" "$SCRATCH/a" | sort -n | tr '\n' ' ')" = "$(seq 0 63 | tr '\n' ' ')" ]
}

# descriptors: those of the engine; then the lines of its map with memory of consumers
descriptors() {
    find "/proc/$engine/fd" -mindepth 1 | wc -l
    grep -c "headrace tap" "/proc/$engine/maps"
}

nothing_is_left_but() {
    [ "$(descriptors)" = "$1" ] || { echo "not '$1': $(descriptors)"; return 1; }
}

nothing_is_left_of_consumers_that_die() {
    local before
    conf '' && begin
    until_true 60 test -S "$SCRATCH/run/t.tap" || return 1
    before=$(descriptors)
    consumer a die=40 && until_true 60 nothing_is_left_but "$before" && consumer b && ended 0 &&
        silent && tap 't["consumers_attached"] == 41 and t["tiles_redelivered"] >= 40'
}

tiles_of_a_consumer_that_detaches_go_to_another() {
    conf '' && begin
    consumer a detach-holding=2
    consumer b && ended 0 && silent && tap 't["tiles_redelivered"] >= 2'
}

a_stopped_consumer_holds_no_more_than_its_credits() {
    local stopped
    conf 'credits = 2; lease = "1ms";' && begin
    python3 "$helper" t stop-holding=2 >"$SCRATCH/a" 2>&1 </dev/null & stopped=$!
    until_true 60 grep -q stopped "$SCRATCH/a" || return 1
    until_true 60 grep -q "tiles in all" "$SCRATCH/err" || return 1
    consumer b finish-after=62 || return 1
    kill -KILL "$stopped"
    wait "$stopped"
    consumer b && ended 0 && tap 't["tiles_returned"] == 64 and t["tiles_redelivered"] == 2'
}

drop_does_not_wait() {
    conf 'lag = "drop"; credits = 1;' && begin
    consumer a hold-to-end && ended 0 && silent && tap 't["tiles_dropped"] > 0 and
        t["tiles_dropped"] + t["tiles_returned"] == 64'
}

interrupt_ends_a_run_whose_tiles_are_held() {
    local held
    conf '' && begin
    consumer a wait-for-end & held=$!
    until_true 60 grep -q holding "$SCRATCH/a" && kill -TERM "$engine" && ended 1 || return 1
    wait "$held" && grep -q "the run was interrupted\|appliance is gone" "$SCRATCH/a"
}

# all tiles have been read, and the consumer of the last two is stopped
interrupt_ends_a_run_whose_last_tiles_are_held() {
    local stopped
    conf 'credits = 2; lease = "1ms";' && begin
    python3 "$helper" t stop-holding=2 >"$SCRATCH/a" 2>&1 </dev/null & stopped=$!
    until_true 60 grep -q "tiles in all" "$SCRATCH/err" && consumer b finish-after=62 &&
        kill -TERM "$engine" && ended 1 || return 1
    kill -KILL "$stopped"
    ! wait "$stopped"
}

tiles_stay_readable_when_the_engine_is_killed() {
    local held
    conf '' && begin
    consumer a wait-for-end & held=$!
    until_true 60 grep -q holding "$SCRATCH/a" || return 1
    kill -KILL "$engine"
    wait "$engine"
    wait "$held" && grep -q "appliance is gone" "$SCRATCH/a" && grep -q "still readable" "$SCRATCH/a"
}

hostile_clients_disturb_nobody() {
    conf '' && begin
    consumer h hostile && consumer b && ended 0 || return 1
    tap 't["tiles_returned"] == 64 and t["consumers_dropped"] == 1 and t["clients_refused"] >= 3' &&
        [ "$(wc -l <"$SCRATCH/err")" -eq 1 ] && warns "dropped: it sent a message"
}

memory_of_tiles_is_read_only() {
    conf '' && begin
    consumer a write && consumer b && ended 0 && silent && cat "$SCRATCH/a" &&
        [ "$(sort -u "$SCRATCH/a")" = refused ]
}

dlpack_and_numpy_see_the_tile() {
    conf 'dtype = "u64"; columns = 8;' && begin
    consumer a dlpack && consumer b && ended 0 && silent
}

check_shows_the_tap() {
    conf 'deliver = "each"; lag = "drop";' && exits 0 check "$SCRATCH/x.conf" &&
        says "lends  tap t, 4194304 bytes, 65536 a tile; each tile to each consumer, dropped" &&
        says "tap, pages of consumers" && exits 0 check "$SCRATCH/x.conf" --json &&
        tap 't["name"] == "t" and t["credits"] == 6 and t["deliver"] == "each"'
}

what_is_not_supported_is_said() {
    conf 'dtype = "f33";' && exits 2 check "$SCRATCH/x.conf" && warns "sink.dtype: is \"f33\"" || return 1
    conf 'columns = 3;' && exits 2 check "$SCRATCH/x.conf" && warns "columns: needs dtype" || return 1
    conf 'dtype = "f32"; columns = 3;' && exits 2 check "$SCRATCH/x.conf" &&
        warns "rows of 12 bytes" || return 1
    conf 'object = "x";' && exits 2 check "$SCRATCH/x.conf" && warns "object" || return 1
    conf 'credits = 0;' && exits 2 check "$SCRATCH/x.conf" && warns "credits" || return 1
    conf '' host:2 crc32c && exits 2 check "$SCRATCH/x.conf" && warns "produces no data"
}

a_tap_name_is_open_once() {
    conf 'consumers = 2;' && begin
    until_true 60 test -S "$SCRATCH/run/t.tap" || return 1
    cp "$SCRATCH/x.conf" "$SCRATCH/y.conf"
    timeout 200 "$HEADRACE" run "$SCRATCH/y.conf" >/dev/null 2>"$SCRATCH/y.err"
    [ $? -eq 3 ] && grep -q "a tap of this name is open already" "$SCRATCH/y.err" || return 1
    kill -TERM "$engine"
    ended 1
}

check "two consumers share the tiles" two_consumers_share_the_tiles
check "each consumer gets all tiles" each_consumer_gets_all_tiles
check "tiles of a killed consumer go to another" tiles_of_a_killed_consumer_go_to_another
check "a consumer collects tiles beside another one" a_consumer_collects_tiles_beside_another
check "a failed tile goes to another consumer" a_failed_tile_goes_to_another_consumer
check "a tile that fails again and again is dropped" a_tile_that_fails_again_and_again_is_dropped
check "a consumer that polls gets all tiles" a_consumer_that_polls_gets_all_tiles
check "nothing is left of consumers that die" nothing_is_left_of_consumers_that_die
check "tiles of a consumer that detaches go to another" tiles_of_a_consumer_that_detaches_go_to_another
check "a stopped consumer holds no more than its credits" a_stopped_consumer_holds_no_more_than_its_credits
check "drop does not wait for a consumer" drop_does_not_wait
check "Ctrl-C ends a run whose tiles are held" interrupt_ends_a_run_whose_tiles_are_held
check "Ctrl-C ends a run whose last tiles are held" interrupt_ends_a_run_whose_last_tiles_are_held
check "tiles stay readable when the engine is killed" tiles_stay_readable_when_the_engine_is_killed
check "hostile clients disturb no other consumer" hostile_clients_disturb_nobody
check "the memory of tiles cannot be written" memory_of_tiles_is_read_only
check "DLPack and NumPy see the tile" dlpack_and_numpy_see_the_tile
check "check shows the tap" check_shows_the_tap
check "what is not supported, or wrong, is said" what_is_not_supported_is_said
check "the name of a tap is open once" a_tap_name_is_open_once
done_testing
