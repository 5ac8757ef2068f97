#!/bin/bash
# Ctrl-C in the middle of a run, what is durable then, and the run that goes on from there; the
# progress line on a terminal.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

image=$SCRATCH/ssd.img
mib=64

# conf REPLACE TILE; a disk of this machine may take its time over a flush
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
appliance = { checkpoint = "20ms"; };
ssds = ( { name = "a"; device = "soft:$image"; timeout_ms = 20000; } );
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

# Start a run and send SIGNAL once the object map shows progress; its exit code must be 1.
interrupt() {
    local signal=$1 pid code=0
    "$HEADRACE" run "$SCRATCH/x.conf" --json >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &
    pid=$!
    sleep "${2:-0.1}"
    kill -"$signal" "$pid" 2>/dev/null
    wait "$pid" || code=$?
    echo "$code" >"$SCRATCH/code"
}

# A tile of one block makes a long run out of a small object.
interrupted() {
    conf false 4K
    for wait in 0.3 0.2 0.1 0.05 0.5; do
        interrupt "$1" "$wait"
        if [ "$(cat "$SCRATCH/code")" = 1 ] && grep -q interrupted "$SCRATCH/err"; then
            warns "tiles of object 'out' are durable" &&
                json 'r["exit_code"] == 1 and r["pipelines"][0]["outcome"] == "interrupted"' &&
                json '0 <= r["pipelines"][0]["sink"]["durable_tiles"] < r["pipelines"][0]["tiles"]'
            return
        fi
        # Too early, or too late: begin again.
        make_image || return 1
    done
    echo "never in the middle of the run; the last exit code was $(cat "$SCRATCH/code")"
    return 1
}

resumes() {
    local durable
    durable=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["pipelines"][0]["sink"]["durable_tiles"])' "$SCRATCH/out")
    exits 0 check "$SCRATCH/x.conf" && says "goes on where an earlier run was cut short" || return 1
    exits 0 run "$SCRATCH/x.conf" --json &&
        json "r['pipelines'][0]['first_tile'] == $durable" &&
        json 'r["pipelines"][0]["outcome"] == "done"' || return 1
    [ "$durable" = 0 ] || warns "resumes at tile $durable"
}

same_data() {
    exits 0 store get --force "soft:$image" out "$SCRATCH/copy" && cmp "$SCRATCH/in" "$SCRATCH/copy"
}

complete() {
    exits 0 check "$SCRATCH/x.conf" && says "is there already, whole: nothing to do" || return 1
    exits 0 run "$SCRATCH/x.conf" --json && json 'r["pipelines"][0]["outcome"] == "already complete"'
}

other_run() {
    conf false 64K
    exits 1 check "$SCRATCH/x.conf" && warns "x.conf:5: object 'out' exists on ssd 'a'" || return 1
    exits 1 run "$SCRATCH/x.conf" && warns "x.conf:5: object 'out' exists on ssd 'a'"
}

replaces() {
    conf true 64K
    exits 0 check "$SCRATCH/x.conf" && says "takes the place of the one that is there" || return 1
    exits 0 run "$SCRATCH/x.conf" --json && json 'r["pipelines"][0]["outcome"] == "done"'
}

on_terminal() {
    conf true 4K
    script -qec "$HEADRACE run $SCRATCH/x.conf" /dev/null >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
    grep -q $'p \\[#*-*\\].*%.*ETA' "$SCRATCH/out" || { echo "no progress line"; return 1; }
}

quiet_terminal() {
    script -qec "$HEADRACE run --quiet $SCRATCH/x.conf" /dev/null >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
    ! grep -q ETA "$SCRATCH/out" && says "copy"
}

# Ctrl-C in the middle of a bench: exit code 1, and its object is gone.
bench_interrupted() {
    local pid code=0
    "$HEADRACE" bench "$SCRATCH/x.conf" --seconds 5 >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &
    pid=$!
    sleep 1.5
    kill -INT "$pid"
    wait "$pid" || code=$?
    [ "$code" = 1 ] || { echo "exit code $code"; return 1; }
    exits 0 store ls "soft:$image" && says in && ! grep -q headrace.bench "$SCRATCH/out"
}

# The same while operators run, over objects of their own: when the first figure of one is there.
operators_interrupted() {
    local pid code=0 i
    "$HEADRACE" bench "$SCRATCH/x.conf" --seconds 0.01 --repeat 15 >"$SCRATCH/out" \
        2>"$SCRATCH/err" </dev/null &
    pid=$!
    for ((i = 0; i < 1200; i++)); do
        ! grep -q "copy " "$SCRATCH/out" || break
        sleep 0.05
    done
    kill -INT "$pid"
    wait "$pid" || code=$?
    [ "$code" = 1 ] || { echo "exit code $code"; return 1; }
    exits 0 store ls "soft:$image" && says in && ! grep -q headrace.bench "$SCRATCH/out"
}

in_use() {
    local pid code
    flock "$image" sleep 5 &
    pid=$!
    sleep 0.2
    exits 3 run "$SCRATCH/x.conf" && warns "$image"
    code=$?
    kill "$pid"
    return $code
}

check "an image is made" make_image
check "Ctrl-C ends a run cleanly and says what is durable" interrupted INT
check "the next run goes on from there" resumes
check "the copy is exact" same_data
check "once more: already complete" complete
check "another run over the same object is refused" other_run
check "replace = true runs it" replaces
check "the copy is exact again" same_data
check "SIGTERM does the same" eval "make_image && interrupted TERM"
check "a terminal shows progress" on_terminal
check "--quiet does not" quiet_terminal
check "Ctrl-C ends a bench and removes its object" bench_interrupted
check "... and those of operators" operators_interrupted
check "an image that another process uses is refused" in_use
done_testing
