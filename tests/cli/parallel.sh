#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# appliance.parallel: the same results in the same order as one after another, Ctrl-C, and the limit of
# blocks.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

image=$SCRATCH/ssd.img

# conf PARALLEL [DEVICE_OPTIONS [GPU [TILE]]]: `three` reads the sink of `one`; the others are independent
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
appliance = { checkpoint = "20ms"; parallel = $1; };
ssds = ( { name = "a"; device = "soft:$image${2-}"; timeout_ms = 20000; } );
gpus = ( { name = "g"; device = "host:2"; ${3-} } );
pipelines = (
  { name = "one"; source = { object = "in"; }; operator = "copy"; sink = { object = "x"; };
    tile = "${4-64K}"; slots = 2; },
  { name = "two"; source = { object = "in"; }; operator = "crc32c"; tile = "${4-64K}"; slots = 2; },
  { name = "three"; source = { object = "x"; }; operator = "cast_f32_bf16"; sink = { object = "y"; };
    tile = "${4-64K}"; slots = 2; },
  { name = "four"; source = { object = "in"; }; operator = "copy"; sink = { object = "z"; };
    tile = "${4-64K}"; slots = 2; } );
CONF
}

make_image() {
    rm -f "$image"
    exits 0 store format "soft:$image,size=128M" && exits 0 store put "soft:$image" in "$SCRATCH/in"
}

# kept_as NAME: results of the last run without times, and the sinks
kept_as() {
    python3 - "$SCRATCH/out" >"$SCRATCH/$1.results" <<'PY' || return 1
import json, sys
for p in json.load(open(sys.argv[1]))["pipelines"]:
    print(p["name"], p["outcome"], p["tiles"], p["read_bytes"], p["result"],
          [(s["object"], s["check"]) for s in p["sources"]], p.get("sink"))
PY
    for sink in x y z; do
        exits 0 store get --force "soft:$image" "$sink" "$SCRATCH/$1.$sink" || return 1
    done
}

results_are_those_of_one_after_another() {
    local n
    make_image && conf 1 && exits 0 run "$SCRATCH/x.conf" --json && kept_as serial || return 1
    for n in 2 4 16; do
        make_image && conf "$n" && exits 0 run "$SCRATCH/x.conf" --json && silent &&
            kept_as parallel || return 1
        diff "$SCRATCH/serial.results" "$SCRATCH/parallel.results" || return 1
        for sink in x y z; do
            cmp "$SCRATCH/serial.$sink" "$SCRATCH/parallel.$sink" || return 1
        done
    done
}

text_is_in_the_order_of_the_file() {
    make_image && conf 4 && exits 0 run "$SCRATCH/x.conf" &&
        [ "$(sed -nE 's/^(one|two|three|four) .*/\1/p' "$SCRATCH/out" | tr '\n' ' ')" = "one two three four " ]
}

check_says_who_waits() {
    conf 3 && exits 0 check "$SCRATCH/x.conf" && says "pipelines, up to 3 at the same time" &&
        says "waits for: one" && exits 0 check "$SCRATCH/x.conf" --json &&
        json 'r["parallel"] == 3' &&
        json '[p["waits_for"] for p in r["pipelines"]] == [[], [], ["one"], []]' &&
        conf 1 && exits 0 check "$SCRATCH/x.conf" && ! grep -q "waits for" "$SCRATCH/out"
}

blocks_are_limited() {
    conf 3 "" "blocks = 7;" && exits 2 run "$SCRATCH/x.conf" &&
        warns "x.conf:3: gpu 'g': pipelines that may run at the same time need 8 blocks, but gpus[0].blocks allows 7" &&
        conf 3 "" "blocks = 8;" && make_image && exits 0 run "$SCRATCH/x.conf" &&
        conf 0 && exits 2 check "$SCRATCH/x.conf" && warns "x.conf:1: appliance.parallel: is 0" &&
        conf 17 && exits 2 check "$SCRATCH/x.conf" && warns "expected an integer from 1 to 16"
}

# Each pipeline reads 512 tiles of 8 KiB, two at a time, 100 ms each: the pipelines run longer than
# any check of their state.
all_run() {
    timeout 200 "$HEADRACE" status --json >"$SCRATCH/live" 2>/dev/null && python3 - "$SCRATCH/live" <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))
r = r[0] if isinstance(r, list) else r
live = {p["name"]: p["tiles_done"] for p in r["pipelines"]}
sys.exit(not all(live[name] >= 2 for name in ("one", "two", "four")) or live["three"] > 0)
PY
}

interrupt_stops_all() {
    local pid code=0
    make_image && echo "on read count 1000000: delay 500ms" >"$SCRATCH/faults" || return 1
    conf 4 ",faults=$SCRATCH/faults" "" 8K
    "$HEADRACE" run "$SCRATCH/x.conf" --json >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &
    pid=$!
    until_true 60 all_run || return 1
    kill -INT "$pid"
    wait "$pid" || code=$?
    [ "$code" = 1 ] || { echo "exit code $code"; return 1; }
    json '[p["outcome"] for p in r["pipelines"]] == ["interrupted", "interrupted", "not run", "interrupted"]' &&
        json 'all(p["sink"]["durable_tiles"] >= 1 for p in r["pipelines"] if p["name"] in ("one", "four"))' &&
        conf 4 "" "" 8K && exits 0 run "$SCRATCH/x.conf" && warns "'one' resumes" && warns "'four' resumes" || return 1
    exits 0 store get "soft:$image" z "$SCRATCH/z" && cmp "$SCRATCH/in" "$SCRATCH/z"
}

head -c $((4 << 20)) /dev/urandom >"$SCRATCH/in"
check "parallel pipelines give the results of sequential pipelines" results_are_those_of_one_after_another
check "results are printed in the order of the file" text_is_in_the_order_of_the_file
check "check reports which pipelines wait" check_says_who_waits
check "the blocks of parallel pipelines are limited by gpus[].blocks" blocks_are_limited
check "Ctrl-C stops all pipelines, and the next run resumes" interrupt_stops_all
done_testing
