#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One bit of an object changes on the disk: the messages, exit codes and remaining objects; and
# sinks, whose checksum covers the whole object after any sequence of interrupted runs.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/rot.sh
. "$(dirname "$0")/lib/rot.sh"

image=$SCRATCH/ssd.img
bytes=$(((4 << 20) + 12344))

# conf [PIPELINE_KEYS [SINK_KEYS [CHECKPOINT [SSD_OPTIONS]]]]: copy `in` to `out`, then `out` to its half, `half`
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
appliance = { checkpoint = ${3-\"5ms\"}; };
ssds = ( { name = "a"; device = "soft:$image${4-}"; timeout_ms = 20000; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = (
  { name = "p"; source = { object = "in"; }; operator = "copy";
    sink = { object = "out"; ${2-} }; tile = "4K"; slots = 8; blocks = { compute = 3; }; ${1-} },
  { name = "q"; source = { object = "out"; }; operator = "cast_f32_bf16";
    sink = { object = "half"; }; tile = "64K"; },
  { name = "sum"; source = { object = "in"; }; operator = "topk_dot"; tile = "64K";
    args = { k = 1; query = [ 1.0, 2.0 ]; }; }
);
CONF
}

# make_image [BYTES]
make_image() {
    rm -f "$image"
    head -c "${1-$bytes}" /dev/urandom >"$SCRATCH/in"
    exits 0 store format "soft:$image,size=128M" && exits 0 store put "soft:$image" in "$SCRATCH/in"
}

no_faults() {
    exits 0 store verify "soft:$image" && says "0 faults" && says "$1: "
}

has_checksums() {
    conf
    exits 0 run "$SCRATCH/x.conf" && silent && says "a:in, verified, CRC-32C " && says "a:out, verified, CRC-32C" || return 1
    [ "$(crc in)" = "$(crc out)" ] && [ "$(crc half)" != none ] && no_faults half || return 1
    exits 0 store get --force "soft:$image" out "$SCRATCH/copy" && says "CRC-32C $(crc in)" && cmp "$SCRATCH/in" "$SCRATCH/copy"
}

once_more() {
    exits 0 run "$SCRATCH/x.conf" --json && json 'r["pipelines"][0]["outcome"] == "already complete"' &&
        json 'r["pipelines"][0]["sources"][0]["verified"] is False' &&
        json 'r["pipelines"][0]["sources"][0]["reason"] == "nothing was read"' &&
        json 'len(r["pipelines"][0]["sink"]["crc32c"]) == 8' &&
        json 'r["pipelines"][2]["sources"][0]["verified"] is True'
}

rotten_source() {
    local want
    make_image && want=$(crc in) && flip in "$1" && conf || return 1
    exits 4 run "$SCRATCH/x.conf" && warns "pipeline 'p': object 'in' on ssd 'a'" && warns ", expected $want" &&
        warns "object 'out' on ssd 'a' was made from damaged data; it is removed" &&
        says "a:in, WRONG: CRC-32C " && exits 0 store ls "soft:$image" && ! grep -q out "$SCRATCH/out" || return 1
    exits 4 run "$SCRATCH/x.conf" --json && json 'r["exit_code"] == 4' &&
        json 'r["pipelines"][0]["outcome"] == "failed"' &&
        json "r['pipelines'][0]['failure']['crc32c_expected'] == '$want'" &&
        json 'r["pipelines"][0]["failure"]["crc32c"] != r["pipelines"][0]["failure"]["crc32c_expected"]' &&
        json 'r["pipelines"][0]["failure"]["object"] == "in" and r["pipelines"][0]["failure"]["ssd"] == "a"' &&
        json 'r["pipelines"][0]["sources"][0]["check"] == "wrong"' || return 1
    exits 4 store get --force "soft:$image" in "$SCRATCH/copy" && warns "expected $want" &&
        exits 1 store verify "soft:$image" && says "FAULT" && says "should be $want"
}

no_result() {
    exits 4 run "$SCRATCH/x.conf" --pipeline sum --json && json '"result" not in r["pipelines"][0]' &&
        exits 4 run "$SCRATCH/x.conf" --pipeline sum && ! grep -q "row" "$SCRATCH/out" &&
        flip in "$1" && exits 0 run "$SCRATCH/x.conf" --pipeline sum && says "row"
}

rotten_sink() {
    make_image && conf && exits 0 run "$SCRATCH/x.conf" --pipeline p && flip out $((bytes - 1)) || return 1
    exits 4 run "$SCRATCH/x.conf" --pipeline q && warns "pipeline 'q': object 'out' on ssd 'a'" &&
        warns "expected $(crc in)" && exits 0 store ls "soft:$image" && ! grep -q half "$SCRATCH/out" &&
        exits 4 store get --force "soft:$image" out "$SCRATCH/copy" && warns "expected $(crc in)" &&
        exits 1 store verify "soft:$image" && says "FAULT  out: "
}

# The copy has the same data, and the sink's checksum is that of the source.
off() {
    make_image && flip in 5 && conf 'verify = "off";' || return 1
    exits 0 run "$SCRATCH/x.conf" --pipeline p && silent && says "a:in, not verified: verify is off" &&
        exits 0 store get --force "soft:$image" out "$SCRATCH/copy" && ! cmp -s "$SCRATCH/in" "$SCRATCH/copy" &&
        [ "$(crc in)" != "$(crc out)" ]
}

without() {
    make_image && conf "" "checksum = false;" && exits 0 run "$SCRATCH/x.conf" --pipeline p &&
        [ "$(crc out)" = none ] && exits 0 run "$SCRATCH/x.conf" --pipeline q &&
        says "a:out, not verified: it has no checksum" || return 1
    sed -i 's/tile = "64K"; },/tile = "64K"; verify = "on"; },/' "$SCRATCH/x.conf"
    exits 2 run "$SCRATCH/x.conf" --pipeline q && warns "x.conf:7: object 'out' on ssd 'a' has no checksum" &&
        exits 2 check "$SCRATCH/x.conf" && warns "x.conf:7: object 'out'"
}

says_what_it_will_do() {
    make_image && conf && exits 0 check "$SCRATCH/x.conf" && says "4096 a tile; compared with its checksum" || return 1
    exits 0 check "$SCRATCH/x.conf" --json &&
        json '[p["sources"][0]["checksum"] for p in r["pipelines"]] == [True, True, True]' &&
        json 'r["pipelines"][0]["sink"]["checksum"] is True'
}

# Writes are slow: so many tiles, eight at once, take longer than any check of the run.
slow=,faults=$SCRATCH/slow
echo "on write count 1000000: delay 200ms" >"$SCRATCH/slow"

# Killed a few tiles after its start, several times, with and without checkpoints; then a complete
# run.
killed() {
    local pid
    make_image $((16 << 20)) && conf "" "" "$1" "$slow" || return 1
    for _ in 1 2 3; do
        "$HEADRACE" run "$SCRATCH/x.conf" --pipeline p >/dev/null 2>&1 </dev/null &
        pid=$!
        until_true 60 under_way "p['tiles_done'] >= 20 and ($1 == 0 or p['durable_tiles'] > p['first_tile'])" || return 1
        kill -KILL "$pid"
        wait "$pid" 2>/dev/null
    done
    conf "" "" "$1"
    exits 0 run "$SCRATCH/x.conf" --pipeline p --json && [ "$(crc out)" = "$(crc in)" ] && no_faults out
}

# After a signal the next run reports that it cannot verify the first part, or starts over with
# verify = "on".
goes_on() {
    local pid code=0
    make_image $((16 << 20)) && conf "$1" "" '"5ms"' "$slow" || return 1
    "$HEADRACE" run "$SCRATCH/x.conf" --pipeline p >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &
    pid=$!
    until_true 60 under_way 'p["durable_tiles"] > 0' || return 1
    kill -INT "$pid"
    wait "$pid" || code=$?
    [ "$code" = 1 ] || { echo "exit code $code"; return 1; }
    warns interrupted && says "a:in, not verified: the run has not read all of it" && conf "$1" &&
        exits 0 run "$SCRATCH/x.conf" --pipeline p && says "a:in, $2" &&
        [ "$(crc out)" = "$(crc in)" ] && no_faults out
}

sizes() {
    local size
    for size in 0 1 4095 4096 4097 65536 1000001; do
        make_image "$size" && conf "" "replace = true;" && exits 0 run "$SCRATCH/x.conf" --pipeline p &&
            says "a:in, verified" && [ "$(crc out)" = "$(crc in)" ] && exits 0 run "$SCRATCH/x.conf" --pipeline p &&
            [ "$(crc out)" = "$(crc in)" ] && no_faults out || return 1
    done
}

check "prepare an image" make_image
check "sources are verified, and sinks have checksums" has_checksums
check "a second run does not report unread data as verified" once_more
check "one bit of a source, first byte: exit 4 and no sink" rotten_source 0
check "one bit of a source, first byte: no result of an operator without a sink" no_result 0
check "one bit of a source, last byte: exit 4 and no sink" rotten_source $((bytes - 1))
check "one bit of a source, last byte: no result of an operator without a sink" no_result $((bytes - 1))
check "one bit of a sink: the next pipeline, get and verify report the fault" rotten_sink
check "verify = \"off\" compares no checksum" off
check "a sink without checksum is refused as a source with verify = \"on\"" without
check "check reports which sources a run verifies" says_what_it_will_do
check "kill -9: the next run ends with the checksum of the whole" killed '"5ms"'
check "kill -9 without checkpoints: the next run ends with the checksum of the whole" killed 0
check "Ctrl-C: the next run reports that the first part is not verified" goes_on "" "not verified: the run resumed an interrupted run"
check "Ctrl-C: the next run starts over with verify = \"on\"" goes_on 'verify = "on";' "verified, CRC-32C"
check "sinks of 0 bytes, 1 byte and sizes around blocks and tiles have checksums" sizes
done_testing
