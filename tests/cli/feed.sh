#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A feed: another process fills the tiles of a pipeline, whose output is exact, also when producers or the
# engine are killed, stopped, or break the protocol.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

# shellcheck source=tests/cli/lib/feed.sh
. "$(dirname "$0")/lib/feed.sh"

a_whole_feed_becomes_an_object() {
    disk && conf && begin
    producer a && ended 0 && silent && no_socket && grep -qx "durable 64" "$SCRATCH/a" &&
        feed 'f["tiles_committed"] == 64 and f["ended"] and f["size_bytes"] == 4 << 20' &&
        holds $((4 << 20))
}

a_short_tile_ends_the_feed() {
    disk && conf && begin
    producer a until=5,1000 && ended 0 && silent && grep -qx "durable 5" "$SCRATCH/a" &&
        feed 'f["size_bytes"] == 4 * 65536 + 1000' && holds $((4 * 65536 + 1000)) || return 1
    exits 0 store ls "soft:$SCRATCH/d.img" --json &&
        json '[o["capacity_bytes"] for o in r["objects"]] == [4 * 65536 + 4096]' &&
        exits 0 store verify "soft:$SCRATCH/d.img"
}

a_producer_ends_the_feed_between_tiles() {
    disk && conf && begin
    producer a until=3 && ended 0 && silent && holds $((3 * 65536)) || return 1
    disk && conf && begin
    producer a until=0 && ended 0 && silent && holds 0
}

producers_take_turns() {
    disk && conf && begin
    producer a part=10 && producer b part=10 && producer a until=20,8 && ended 0 && silent &&
        grep -qx 10 "$SCRATCH/a" && [ ! -s "$SCRATCH/b" ] && holds $((19 * 65536 + 8)) &&
        feed 'f["producers_attached"] == 3' 2>/dev/null
}

a_second_producer_is_refused() {
    local first
    disk && conf && begin
    python3 "$helper" f wait-for-end >"$SCRATCH/a" 2>&1 </dev/null & first=$!
    until_true 60 grep -q holding "$SCRATCH/a" || return 1
    producer b refused && grep -q "feed 'f': process $first of user .* is attached" "$SCRATCH/b" &&
        kill -KILL "$first"
    wait "$first"
}

numpy_fills_tiles() {
    local python=$with_numpy
    disk && conf 'dtype = "u64"; columns = 8;' && begin
    producer a arrays && ended 0 && silent && holds $((4 << 20))
}

write_fills_tiles() {
    disk && conf && begin
    producer a write && ended 0 && silent && holds $((5 * 65536 + 1000))
}

# An operator without output, and an operator of a file with its state.
results_need_no_sink() {
    disk && conf && sed -i '/sink =/d; s/operator = "copy"; tile = "64K";/operator = "crc32c"; tile = "64K"; } );/' \
        "$SCRATCH/x.conf" && begin
    producer a until=7,800 && ended 0 && silent && python3 - "$SCRATCH/pattern" <<'PY' &&
import struct
import sys
count = (6 * 65536 + 800) // 8
with open(sys.argv[1], "wb") as f:
    f.write(struct.pack(f"<{count}Q", *range(count)))
PY
    cp "$SCRATCH/out" "$SCRATCH/result" && exits 0 store put "soft:$SCRATCH/d.img" same "$SCRATCH/pattern" &&
        exits 0 store ls "soft:$SCRATCH/d.img" --json &&
        [ "$(json_value "$SCRATCH/result" r 'r["pipelines"][0]["result"]["crc32c"]')" = \
            "$(json_value "$SCRATCH/out" r 'r["objects"][0]["crc32c"]')" ]
}

a_feed_becomes_a_tap() {
    local consumer
    disk && conf && sed -i 's/sink = .*/sink = { tap = "t"; }; } );/' "$SCRATCH/x.conf" && begin
    timeout 200 python3 "${helper%/*}/consumer.py" t >"$SCRATCH/b" 2>&1 </dev/null & consumer=$!
    producer a until=30 && wait "$consumer" && ended 0 && silent &&
        [ "$(sort -n "$SCRATCH/b" | tr '\n' ' ')" = "$(seq 0 29 | tr '\n' ' ')" ]
}

a_complete_sink_is_not_made_again() {
    disk && conf && begin
    producer a until=4,16 && ended 0 || return 1
    exits 0 run "$SCRATCH/x.conf" --json && silent &&
        json 'r["pipelines"][0]["outcome"] == "already complete" and r["pipelines"][0]["tiles"] == 4' &&
        conf '' 'replace = true;' && begin
    producer a until=2,8 && ended 0 && holds $((65536 + 8))
}

a_stopped_producer_is_named_and_ctrl_c_ends_the_run() {
    local stopped
    disk && conf 'credits = 2; lease = "1ms";' && begin
    producer a part=3 || return 1
    python3 "$helper" f stop-holding=2 >"$SCRATCH/a" 2>&1 </dev/null & stopped=$!
    until_true 60 grep -q stopped "$SCRATCH/a" &&
        until_true 60 grep -q "holds 2 tiles and has committed none for" "$SCRATCH/err" || return 1
    kill -INT "$engine"
    ended 1 && warns "3 of 64 tiles of object 'out' are durable" || return 1
    kill -KILL "$stopped"
    wait "$stopped"
    begin
    producer a first && [ "$(<"$SCRATCH/a")" = "3 3" ] && producer b && ended 0 && holds $((4 << 20))
}

a_producer_learns_that_the_run_is_interrupted() {
    local held
    disk && conf && begin
    timeout 200 python3 "$helper" f until=70 >/dev/null 2>&1 </dev/null
    ended 0 || return 1
    disk && conf 'credits = 1;' && begin
    producer a part=1 || return 1
    kill -TERM "$engine"
    ended 1 && no_socket || return 1
    begin
    python3 "$helper" f stop-holding=1 >"$SCRATCH/a" 2>&1 </dev/null & held=$!
    until_true 60 grep -q stopped "$SCRATCH/a" || return 1
    kill -TERM "$engine"
    ended 1
    kill -KILL "$held"
    wait "$held"
    return 0
}

wrong_lengths_are_refused() {
    disk && conf && sed -i 's/"copy"/"cast_f32_bf16"/' "$SCRATCH/x.conf" && begin
    producer a length=1001 && grep -q "dropped by the feed: it committed tile 0 with a length" "$SCRATCH/a" &&
        warns "is dropped: it committed tile 0" || return 1
    producer b until=2,1000 && ended 0 && feed 'f["producers_dropped"] == 1 and f["size_bytes"] == 66536' &&
        exits 0 store ls "soft:$SCRATCH/d.img" --json && json 'r["objects"][0]["bytes"] == 33268'
}

# What the run stores is what its checksum covers, whatever the tile was when it was computed.
a_producer_that_writes_after_its_commit_harms_its_own_data_only() {
    disk && conf && begin
    producer a overwrite && ended 0 && silent && exits 0 store verify "soft:$SCRATCH/d.img" &&
        exits 0 store ls "soft:$SCRATCH/d.img" --json && json 'r["objects"][0]["bytes"] == 4 << 20'
}

check_shows_the_feed() {
    disk && conf 'credits = 3;' && exits 0 check "$SCRATCH/x.conf" && silent &&
        says "takes  feed f, 4194304 bytes at most, 65536 a tile; up to 3 credits" &&
        says "feed, page of the producer" && conf '' '' 'bounce = "copy";' &&
        exits 0 check "$SCRATCH/x.conf" && says "; copied before use" &&
        exits 0 check "$SCRATCH/x.conf" --json &&
        feed 'f["name"] == "f" and f["copied"] and f["credits"] == 8 and f["size_bytes"] == 4 << 20'
}

copied_tiles_are_exact() {
    disk && conf '' '' 'bounce = "copy";' && begin
    producer a until=9,24 && ended 0 && silent && holds $((8 * 65536 + 24))
}

# refused TEXT: check and run refuse the configuration with exit code 2
refused() {
    exits 2 check "$SCRATCH/x.conf" && warns "$1" && exits 2 run "$SCRATCH/x.conf" && warns "$1"
}

what_is_not_supported_is_said() {
    disk && conf 'dtype = "f33";' && refused "source.dtype: is \"f33\"" || return 1
    conf 'columns = 3;' && refused "columns: needs dtype" || return 1
    conf 'dtype = "f32"; columns = 3;' && refused "rows of 12 bytes" || return 1
    conf 'object = "x";' && refused "object" || return 1
    conf 'credits = 9;' '' 'slots = 8;' && refused "credits: is 9, expected at most the 8 slots" || return 1
    conf '' '' 'verify = "on";' && refused "a feed has no checksum" || return 1
    conf '' '' 'blocks = { prefetch = 1; };' && refused "prefetch: is 1, expected no such key" || return 1
    conf && sed -i 's/"4M"/"4194303"/; s/"copy"/"cast_f32_bf16"/' "$SCRATCH/x.conf" &&
        refused "bytes: is 4194303, expected whole rows of 4 bytes" || return 1
    conf && sed -i 's/ bytes = "4M";//' "$SCRATCH/x.conf" && refused "key 'bytes' is missing" || return 1
    conf && sed -i 's/source = {\(.*\)}; operator/source = ({\1}, { object = "x"; }); operator/' "$SCRATCH/x.conf" &&
        refused "expected the feed alone"
}

a_feed_name_is_open_once() {
    disk && conf && begin
    until_true 60 test -S "$SCRATCH/run/f.feed" || return 1
    sed 's/d.img/e.img/' "$SCRATCH/x.conf" >"$SCRATCH/y.conf"
    rm -f "$SCRATCH/e.img"
    "$HEADRACE" store format "soft:$SCRATCH/e.img,size=32M" >/dev/null
    timeout 200 "$HEADRACE" run "$SCRATCH/y.conf" >/dev/null 2>"$SCRATCH/y.err"
    [ $? -eq 3 ] && grep -q "a feed of this name is open already" "$SCRATCH/y.err" || return 1
    kill -TERM "$engine"
    ended 1
}

example_is_right() {
    local build
    build=$(dirname "$HEADRACE")
    env DIR="$SCRATCH/example" BYTES=5000001 timeout 200 tests/demo/feed_example.sh feed "$build" \
        >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null && silent && says "5000001 bytes from tile 0 on, 5 tiles" &&
        says "the object equals the file: the result is right"
}

with_numpy=
for each in python3 /usr/bin/python3; do
    ! "$each" -c 'import numpy' 2>/dev/null || { with_numpy=$each && break; }
done

check "a whole feed becomes an object" a_whole_feed_becomes_an_object
check "a short tile ends the feed" a_short_tile_ends_the_feed
check "a producer ends the feed between tiles, also before the first" a_producer_ends_the_feed_between_tiles
check "producers take turns" producers_take_turns
check "a second producer is refused" a_second_producer_is_refused
if [ "$with_numpy" ]; then
    check "NumPy fills tiles in place" numpy_fills_tiles
else
    skip "there is no NumPy (python3-numpy)" "NumPy fills tiles in place"
fi
check "pieces of any length fill tiles" write_fills_tiles
check "results need no sink" results_need_no_sink
check "a feed becomes a tap" a_feed_becomes_a_tap
check "a complete sink is not made again, unless replaced" a_complete_sink_is_not_made_again
check "a stopped producer is named, and Ctrl-C ends the run" a_stopped_producer_is_named_and_ctrl_c_ends_the_run
check "an interrupted run does not wait for a producer" a_producer_learns_that_the_run_is_interrupted
check "a tile of a wrong length ends its producer" wrong_lengths_are_refused
check "writing after a commit harms only the data" a_producer_that_writes_after_its_commit_harms_its_own_data_only
check "check shows the feed" check_shows_the_feed
check "copied tiles are exact" copied_tiles_are_exact
check "what is not supported, or wrong, is said" what_is_not_supported_is_said
check "the name of a feed is open once" a_feed_name_is_open_once
check "the example stores a file" example_is_right
done_testing
