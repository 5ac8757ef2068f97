#!/bin/bash
# The program itself on the GPU of this machine: a run that is killed and the one after it, a user
# operator that the driver links, and user operators whose GPU code fails.
# Usage: tests/gpu/headrace.sh [FOLDER]   (build/tests/gpu: headrace, histogram.op and liar.op)
# RIG_DEVICE is the device (cuda:0); with host:N all runs that means something there. HR_TEST_SEED
# repeats the data of an earlier run. The last line is "N passed, M failed[, K not run]", in parts.
set -uo pipefail
folder=$(realpath -- "${1:-build/tests/gpu}")
device=${RIG_DEVICE:-cuda:0}
seed=${HR_TEST_SEED:-$(($(od -An -N4 -tu4 /dev/urandom)))}
passed=0 failed=0 skipped=0

for file in headrace histogram.op liar.op; do
    [ -f "$folder/$file" ] || { echo "headrace.sh: no $folder/$file: make gpu-tests" >&2; exit 2; }
done
scratch=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null; rm -rf "$scratch"' EXIT
export RUNTIME_DIRECTORY=$scratch/run
cd "$scratch" || exit 2

# part NAME COMMAND...: the command's last line is what there is to say
part() {
    local name=$1
    shift
    if "$@" >said 2>&1; then
        passed=$((passed + 1))
        echo "ok   $name: $(tail -n 1 said)"
    else
        failed=$((failed + 1))
        echo "FAIL $name"
        tail -n 20 said
        tail -n 20 err
    fi
}

# exits CODE ARGUMENTS...: run headrace; its output is in out and err
exits() {
    local want=$1 got=0
    shift
    timeout -k 5 60 "$folder/headrace" "$@" >out 2>err </dev/null || got=$?
    [ "$got" -eq "$want" ] || { echo "headrace $*: exit code $got, expected $want"; return 1; }
}

# warns TEXT: the last run printed it to stderr
warns() {
    grep -qF -- "$1" err || { echo "not on stderr: $1"; return 1; }
}

# now: milliseconds
now() {
    echo $(($(date +%s%N) / 1000000))
}

# conf DEVICE PIPELINE [SSD_OPTIONS]
conf() {
    cat >"$2.conf" <<CONF
appliance = { name = "gpu-test"; checkpoint = "50ms"; };
ssds = ( { name = "a"; device = "soft:ssd.img${3:-}"; timeout_ms = 20000; } );
gpus = ( { name = "g"; device = "$1"; } );
$(cat)
CONF
}

# 2048 tiles of random bytes, and numbers of every kind; writes take their time, so that a run of
# all tiles, eight at once, lasts for more than a second.
prepare() {
    python3 - "$seed" in numbers <<'PY' || return 1
import random, struct, sys
r = random.Random(int(sys.argv[1]))
open(sys.argv[2], "wb").write(r.randbytes(64 << 20))
near = [r.gauss(0, 2) for _ in range(300001)]
open(sys.argv[3], "wb").write(struct.pack("<%df" % len(near), *near) + r.randbytes(400000))
PY
    echo "on write count 1000000: delay 5ms" >slow
    conf "$device" copy ",faults=slow" <<'CONF'
pipelines = ( { name = "p"; source = { object = "in"; }; operator = "copy";
    sink = { object = "out"; }; tile = "32K"; slots = 8;
    blocks = { prefetch = 1; compute = 2; writeback = 1; }; } );
CONF
    for on in "$device" host:1; do
        conf "$on" "histogram-${on%:*}" <<CONF
operators = ( { name = "histogram"; file = "$folder/histogram.op"; } );
pipelines = ( { name = "p"; source = { object = "numbers"; }; operator = "histogram";
    args = { from = -4; to = 4.0; bins = 16; }; tile = "64K"; } );
CONF
        conf "$on" "crc32c-${on%:*}" <<'CONF'
pipelines = ( { name = "p"; source = { object = "in"; }; operator = "crc32c"; tile = "1M"; } );
CONF
    done
    exits 0 store format soft:ssd.img,size=512M && exits 0 store put soft:ssd.img in in &&
        exits 0 store put soft:ssd.img numbers numbers && echo "HR_TEST_SEED=$seed"
}

ask() {
    timeout 5 "$folder/headrace" status --json >state 2>/dev/null
}

# field NAME: its number in what the status said
field() {
    grep -o "\"$1\": [0-9]*" state | head -n 1 | grep -o '[0-9]*$'
}

# Start the copy and kill it once the status says that $1 of its tiles are more than $2. What it
# said then stays in the file state.
start_and_kill() {
    local end code=0
    end=$(($(now) + 30000))
    "$folder/headrace" run copy.conf >out 2>err </dev/null &
    pid=$!
    until ask && [ "$(field "$1")" -gt "$2" ]; do
        [ -d "/proc/$pid" ] || { echo "the run ended before it could be killed"; return 1; }
        [ "$(now)" -lt "$end" ] || { echo "no progress in 30 s"; return 1; }
        sleep 0.01
    done 2>/dev/null
    kill -KILL "$pid"
    end=$(now)
    until grep -q '^State:.*[ZX]' "/proc/$pid/status" 2>/dev/null || [ ! -d "/proc/$pid" ]; do
        [ $(($(now) - end)) -lt 20000 ] || { echo "killed, and still there after 20 s"; return 1; }
        sleep 0.01
    done
    gone_ms=$(($(now) - end))
    wait "$pid" 2>/dev/null || code=$?
    pid=
    [ "$code" -eq 137 ] || { echo "exit code $code, expected that of SIGKILL"; return 1; }
}

# The same run to the end: where it went on, and that the copy is exact and whole.
finish_copy() {
    local first
    exits 0 run copy.conf --json || return 1
    first=$(grep -o '"first_tile": [0-9]*' out | grep -o '[0-9]*$')
    [ "$first" -ge "$1" ] || { echo "goes on at tile $first, but $1 were durable"; return 1; }
    exits 0 store get --force soft:ssd.img out copy || return 1
    [ "$(sha256sum <in)" = "$(sha256sum <copy)" ] || { echo "the copy is not the source"; return 1; }
    exits 0 store verify soft:ssd.img || return 1
    exits 0 run copy.conf --json && grep -q '"already complete"' out || return 1
    exits 0 store rm soft:ssd.img out || return 1
    echo "at tile $(field tiles_done) of $(field tiles), gone in $gone_ms ms; then on from tile $first"
}

killed_and_finished() {
    local durable
    start_and_kill "$1" "$2" || return 1
    durable=$(field durable_tiles)
    [ "$(field tiles_done)" -lt "$(field tiles)" ] || { echo "killed too late"; return 1; }
    finish_copy "$durable"
}

same_histogram() {
    exits 0 run "histogram-${device%:*}.conf" --json || return 1
    mv out one
    exits 0 run histogram-host.conf --json && python3 - one out "$(stat -c %s numbers)" <<'PY'
import json, sys
one, other = (json.load(open(f))["pipelines"][0] for f in sys.argv[1:3])
r = one["result"]
if r != other["result"]:
    sys.exit("result is %s, on the host %s" % (r, other["result"]))
counted = sum(r["bins"]) + r["below"] + r["above"] + r["nan"]
if counted != int(sys.argv[3]) // 4 or min(r["bins"]) == 0 or r["nan"] == 0:
    sys.exit("%d counted: %s" % (counted, r))
print("%d numbers in %d tiles" % (counted, one["tiles"]))
PY
}

# checksum DEVICE: of object in
checksum() {
    exits 0 run "crc32c-${1%:*}.conf" && grep "crc32c [0-9a-f]* of" out
}

# flip OBJECT BYTE: one bit of it on the disk
flip() {
    exits 0 store ls soft:ssd.img --json && python3 - out ssd.img "$1" "$2" <<'PY'
import json, sys
at = [o["offset_bytes"] for o in json.load(open(sys.argv[1]))["objects"] if o["name"] == sys.argv[3]][0]
with open(sys.argv[2], "r+b") as image:
    image.seek(at + int(sys.argv[4]))
    byte = image.read(1)[0]
    image.seek(-1, 1)
    image.write(bytes([byte ^ 64]))
PY
}

# One bit of a source is noticed whatever reads it, and wherever it lies; without it, sinks are exact
# and so are their checksums. Tiles are read in place unless a checksum is wanted, and as told.
verified() {
    local p at bounce
    for bounce in auto copy in-place; do
        conf "$device" rot <<CONF
operators = ( { name = "histogram"; file = "$folder/histogram.op"; } );
pipelines = (
  { name = "copy"; source = { object = "in"; }; operator = "copy"; tile = "256K"; bounce = "$bounce";
    sink = { object = "rot.copy"; replace = true; }; },
  { name = "cast"; source = { object = "in"; }; operator = "cast_f32_bf16"; bounce = "$bounce";
    sink = { object = "rot.cast"; replace = true; }; tile = "1M"; },
  { name = "sum"; source = { object = "in"; }; operator = "crc32c"; tile = "1M"; bounce = "$bounce"; },
  { name = "user"; source = { object = "in"; }; operator = "histogram"; bounce = "$bounce";
    args = { from = -4; to = 4.0; bins = 16; }; tile = "1M"; } );
CONF
        for at in 0 $(((64 << 20) - 1)) $((RANDOM * 2000)); do
            flip in "$at" || return 1
            for p in copy cast sum user; do
                exits 4 run rot.conf --pipeline "$p" && warns "object 'in' on ssd 'a' is not what was stored" || return 1
            done
            flip in "$at" || return 1
        done
        exits 0 run rot.conf --json && [ "$(grep -c '"verified": true' out)" -eq 4 ] || return 1
        exits 0 store verify soft:ssd.img || return 1
    done
    exits 0 store rm soft:ssd.img rot.copy && exits 0 store rm soft:ssd.img rot.cast &&
        echo "4 operators, 3 places, 3 ways to read"
}

# A GPU error of an operator's code ends the run in time, is told, and is gone with the process.
strays() {
    local began sink=$1 ms here host
    conf "$device" liar <<CONF
operators = ( { name = "liar"; file = "$folder/liar.op"; } );
pipelines = ( { name = "p"; source = { object = "in"; }; operator = "liar"; args = { lie = "$1"; };
    sink = { object = "$sink"; }; tile = "64K"; } );
CONF
    began=$(now)
    exits 4 run liar.conf || return 1
    ms=$(($(now) - began))
    warns "$2: " && warns "user operator, liar: " || return 1
    here=$(checksum "$device") || { echo "the next run: $here"; return 1; }
    host=$(checksum host:1) || { echo "$host"; return 1; }
    [ "$here" = "$host" ] || { echo "the next run: $here, on the host: $host"; return 1; }
    echo "$2 after $ms ms"
}

# An engine whose GPU has failed is a process that ends: the next one runs what is left on that GPU.
boots() {
    local host
    conf "$device" boot <<CONF
operators = ( { name = "liar"; file = "$folder/liar.op"; } );
boot = { post = "off"; restarts = 1; backoff = "10ms"; };
pipelines = ( { name = "bad"; source = { object = "in"; }; operator = "liar"; args = { lie = "$1"; };
      sink = { object = "$sink"; }; tile = "64K"; },
    { name = "good"; source = { object = "in"; }; operator = "crc32c"; tile = "1M"; } );
CONF
    exits 4 boot boot.conf || return 1
    cat out err >booted
    warns "$2: " || return 1
    host=$(checksum host:1) || { echo "$host"; return 1; }
    grep -qF "$host" booted || { echo "no $host of pipeline good:"; cat booted; return 1; }
    echo "the other pipeline ran on the GPU after it: $host"
}

part "data for the program" prepare
part "a run killed early, and the same again" killed_and_finished tiles_done 0
part "a run killed with tiles durable, and the same again" killed_and_finished durable_tiles 200
part "a user operator gives what it gives on host:1" same_histogram
part "a bit that has changed is noticed, and sinks have checksums" verified
if [ "${device%:*}" = host ]; then
    skipped=$((skipped + 1))
    echo "not run here: operators that fail on a GPU ($device is none)"
else
    part "an operator that writes to no memory" strays address CUDA_ERROR_ILLEGAL_ADDRESS
    part "an operator that stops its block" strays trap CUDA_ERROR_LAUNCH_FAILED
    sink=boot part "an engine whose GPU fails, and the next" boots trap CUDA_ERROR_LAUNCH_FAILED
fi

[ $skipped -eq 0 ] && echo "$passed passed, $failed failed" ||
    echo "$passed passed, $failed failed, $skipped not run"
[ $failed -eq 0 ]
