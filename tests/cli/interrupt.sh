#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ctrl-C during a run, the data that are durable then, and the run that continues from there; the
# progress line on a terminal.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

image=$SCRATCH/ssd.img
mib=16

# conf REPLACE TILE [DEVICE_OPTIONS]; a flush may be slow on the disk of this machine
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
appliance = { checkpoint = "20ms"; };
ssds = ( { name = "a"; device = "soft:$image${3-}"; timeout_ms = 20000; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "p"; source = { object = "in"; }; operator = "copy";
  sink = { object = "out"; replace = $1; }; tile = "$2"; slots = 2; } );
CONF
}

make_image() {
    rm -f "$image"
    head -c $((mib << 20)) /dev/urandom >"$SCRATCH/in"
    exits 0 store format "soft:$image,size=256M" && exits 0 store put "soft:$image" in "$SCRATCH/in"
}

is_in() { grep -q "$1" "$2"; }

# Without appliance.name in x.conf, the status shows x, and `status x` finds it.
is_named_after_file() {
    local answer
    for answer in by-default by-name; do
        grep -q '^x: ' "$SCRATCH/$answer" || { cat "$SCRATCH/$answer"; return 1; }
    done
}

# Two tiles at a time, each with a read of 50 ms, 4096 tiles in total: the run takes longer than any
# of its checks. The next run has full speed.
interrupted() {
    local pid code=0
    echo "on read count 1000000: delay 50ms" >"$SCRATCH/faults"
    conf false 4K ",faults=$SCRATCH/faults"
    "$HEADRACE" run "$SCRATCH/x.conf" --json >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &
    pid=$!
    until_true 60 under_way 'p["tiles_done"] >= 4'
    "$HEADRACE" status >"$SCRATCH/by-default" 2>&1
    "$HEADRACE" status x >"$SCRATCH/by-name" 2>&1
    kill -"$1" "$pid"
    wait "$pid" || code=$?
    [ "$code" = 1 ] || { echo "exit code $code"; return 1; }
    is_named_after_file || return 1
    [ "$(grep -c 'a second Ctrl-C ends at once' "$SCRATCH/err")" = "$2" ] || { echo "announced"; return 1; }
    conf false 4K
    warns "tiles of object 'out' are durable" &&
        json 'r["exit_code"] == 1 and r["pipelines"][0]["outcome"] == "interrupted"' &&
        json '4 <= r["pipelines"][0]["sink"]["durable_tiles"] < r["pipelines"][0]["tiles"]' &&
        json 'r["pipelines"][0]["read_bytes"] >= 4096 * r["pipelines"][0]["sink"]["durable_tiles"]' &&
        json 'r["pipelines"][0]["read_bytes_per_s"] > 0' &&
        json 'r["pipelines"][0]["cost"]["writeback"]["commands"] >= 4'
}

resumes() {
    local durable
    durable=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["pipelines"][0]["sink"]["durable_tiles"])' "$SCRATCH/out")
    exits 0 check "$SCRATCH/x.conf" && says "resumes an interrupted run" || return 1
    exits 0 run "$SCRATCH/x.conf" --json &&
        json "r['pipelines'][0]['first_tile'] == $durable" &&
        json 'r["pipelines"][0]["outcome"] == "done"' || return 1
    [ "$durable" = 0 ] || warns "resumes at tile $durable"
}

same_data() {
    exits 0 store get --force "soft:$image" out "$SCRATCH/copy" && cmp "$SCRATCH/in" "$SCRATCH/copy"
}

complete() {
    exits 0 check "$SCRATCH/x.conf" && says "already complete: nothing to do" || return 1
    exits 0 run "$SCRATCH/x.conf" --json && json 'r["pipelines"][0]["outcome"] == "already complete"'
}

other_run() {
    conf false 64K
    exits 1 check "$SCRATCH/x.conf" && warns "x.conf:5: object 'out' exists on ssd 'a'" || return 1
    exits 1 run "$SCRATCH/x.conf" && warns "x.conf:5: object 'out' exists on ssd 'a'"
}

replaces() {
    conf true 64K
    exits 0 check "$SCRATCH/x.conf" && says "replaces the existing object" || return 1
    exits 0 run "$SCRATCH/x.conf" --json && json 'r["pipelines"][0]["outcome"] == "done"'
}

# The reads that are slow take longer than the first progress line needs.
on_terminal() {
    echo "on read count 60: delay 50ms" >"$SCRATCH/faults"
    conf true 4K ",faults=$SCRATCH/faults"
    script -qec "$HEADRACE run $SCRATCH/x.conf" /dev/null >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
    grep -q $'p \\[#*-*\\].*%.*ETA' "$SCRATCH/out" || { echo "no progress line"; return 1; }
}

# The width of the terminal changes while the run prints its line: later lines have the new width.
resized() {
    echo "on read count 1000000: delay 50ms" >"$SCRATCH/faults"
    conf true 4K ",faults=$SCRATCH/faults"
    python3 -B "$(dirname "$0")/lib/resize.py" "$HEADRACE" run "$SCRATCH/x.conf"
}

quiet_terminal() {
    conf true 4K
    script -qec "$HEADRACE run --quiet $SCRATCH/x.conf" /dev/null >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
    ! grep -q ETA "$SCRATCH/out" && says "copy"
}

# Ctrl-C during a bench: exit code 1, and its object is removed.
bench_interrupted() {
    local pid code=0
    "$HEADRACE" bench "$SCRATCH/x.conf" --seconds 5 >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &
    pid=$!
    until_true 120 is_in "sequential" "$SCRATCH/out"
    kill -INT "$pid"
    wait "$pid" || code=$?
    [ "$code" = 1 ] || { echo "exit code $code"; return 1; }
    exits 0 store ls "soft:$image" && says in && ! grep -q headrace.bench "$SCRATCH/out"
}

# The same while operators run over objects of their own, after the first figure of an operator. The
# other operators would run for many seconds, because each read takes 30 ms.
operators_interrupted() {
    local pid code=0
    echo "on read count 1000000: delay 30ms" >"$SCRATCH/faults"
    conf true 4K ",faults=$SCRATCH/faults"
    "$HEADRACE" bench "$SCRATCH/x.conf" --seconds 0.01 --repeat 1 >"$SCRATCH/out" \
        2>"$SCRATCH/err" </dev/null &
    pid=$!
    until_true 120 is_in "copy " "$SCRATCH/out"
    kill -INT "$pid"
    wait "$pid" || code=$?
    [ "$code" = 1 ] || { echo "exit code $code"; return 1; }
    exits 0 store ls "soft:$image" && says in && ! grep -q headrace.bench "$SCRATCH/out"
}

in_use() {
    local pid code
    python3 -c 'import fcntl, signal, sys
image = open(sys.argv[1])
fcntl.flock(image, fcntl.LOCK_EX)
open(sys.argv[2], "w").close()
signal.pause()' "$image" "$SCRATCH/locked" &
    pid=$!
    until_true 60 test -e "$SCRATCH/locked"
    exits 3 run "$SCRATCH/x.conf" && warns "$image"
    code=$?
    kill "$pid"
    wait "$pid" 2>/dev/null
    return $code
}

check "prepare an image" make_image
check "Ctrl-C ends a run cleanly and reports the durable part" interrupted INT 1
check "the next run resumes after the durable part" resumes
check "the copy of a resumed run is exact" same_data
check "a third run finds the object complete" complete
check "another run over the same object is refused" other_run
check "another run over the same object works with replace = true" replaces
check "the copy of the replacing run is exact" same_data
check "SIGTERM ends a run cleanly and reports the durable part" eval "make_image && interrupted TERM 0"
check "progress is printed on a terminal" on_terminal
check "the progress line follows the width of the terminal" resized
check "--quiet prints no progress" quiet_terminal
check "Ctrl-C ends a bench and removes its object" bench_interrupted
check "Ctrl-C ends a bench of operators and removes its objects" operators_interrupted
check "an image that another process uses is refused" in_use
done_testing
