#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The headrace program on the GPU of this machine: a killed run and the run after it, a user operator
# that the driver links, user operators whose GPU code fails, and access operators, also on two GPUs.
# Usage: tests/gpu/headrace.sh [FOLDER]   (build/tests/gpu: headrace, histogram.op and liar.op)
# RIG_DEVICE is the device (cuda:0), RIG_SECOND another one of that kind (cuda:1 if the machine has it);
# with host:N only the parts that apply to it run. RIG_ONLY=REGEX: only parts whose names match. HR_TEST_SEED
# repeats the data of an earlier run. The last line counts parts: "N passed, M failed[, K not run]".
set -uo pipefail
# shellcheck source=tests/gpu/parts.sh
. "$(dirname "$0")/parts.sh"
folder=$(realpath -- "${1:-build/tests/gpu}")
device=${RIG_DEVICE:-cuda:0}
second=${RIG_SECOND:-}
[ -n "$second" ] || [ "${device%:*}" = host ] || [ ! -e /dev/nvidia1 ] || second=cuda:1
seed=${HR_TEST_SEED:-$(($(od -An -N4 -tu4 /dev/urandom)))}

for file in headrace histogram.op liar.op; do
    [ -f "$folder/$file" ] || { echo "headrace.sh: no $folder/$file: make gpu-tests" >&2; exit 2; }
done
scratch=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null; rm -rf "$scratch"' EXIT
export RUNTIME_DIRECTORY=$scratch/run
cd "$scratch" || exit 2

# exits CODE ARGUMENTS...: run headrace; its output is in out and err
exits() {
    local want=$1 got=0
    shift
    timeout -k 5 60 "$folder/headrace" "$@" >out 2>err </dev/null || got=$?
    [ "$got" -eq "$want" ] || { echo "headrace $*: exit code $got, expected $want"; return 1; }
}

# warns TEXT: the last run printed the text on stderr
warns() {
    grep -qF -- "$1" err || { echo "not on stderr: $1"; return 1; }
}

# now: print the time in milliseconds
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

# 2048 tiles of random bytes, and numbers of every kind; writes are delayed, so that a run of
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
    head -c 1600000 numbers >table
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
        exits 0 store put soft:ssd.img numbers numbers && exits 0 store put soft:ssd.img table table && echo "HR_TEST_SEED=$seed"
}

ask() {
    timeout 5 "$folder/headrace" status --json >state 2>/dev/null
}

# field NAME: print the number of that name in the last status
field() {
    grep -o "\"$1\": [0-9]*" state | head -n 1 | grep -o '[0-9]*$'
}

# Start the copy and kill it when the counter $1 in its status exceeds $2. The last status stays in
# the file state.
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
        [ $(($(now) - end)) -lt 20000 ] || { echo "the process still exists 20 s after SIGKILL"; return 1; }
        sleep 0.01
    done
    gone_ms=$(($(now) - end))
    wait "$pid" 2>/dev/null || code=$?
    pid=
    [ "$code" -eq 137 ] || { echo "exit code $code, expected that of SIGKILL"; return 1; }
}

# Run the same pipeline to the end: check the tile where it continued, and the whole copy.
finish_copy() {
    local first
    exits 0 run copy.conf --json || return 1
    first=$(grep -o '"first_tile": [0-9]*' out | grep -o '[0-9]*$')
    [ "$first" -ge "$1" ] || { echo "resumes at tile $first, but $1 were durable"; return 1; }
    exits 0 store get --force soft:ssd.img out copy || return 1
    [ "$(sha256sum <in)" = "$(sha256sum <copy)" ] || { echo "the copy is not the source"; return 1; }
    exits 0 store verify soft:ssd.img || return 1
    exits 0 run copy.conf --json && grep -q '"already complete"' out || return 1
    exits 0 store rm soft:ssd.img out || return 1
    echo "at tile $(field tiles_done) of $(field tiles), ended in $gone_ms ms; then resumed at tile $first"
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

# checksum DEVICE: print the checksum of object `in`
checksum() {
    exits 0 run "crc32c-${1%:*}.conf" && grep "crc32c [0-9a-f]* of" out
}

# flip OBJECT BYTE: invert one bit of the object on the disk
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

# A wrong bit of a source is detected with every operator, in every place, and with every `bounce`.
# Without a wrong bit, sinks and their checksums are exact.
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
                exits 4 run rot.conf --pipeline "$p" && warns "object 'in' on ssd 'a' differs from the stored data" || return 1
            done
            flip in "$at" || return 1
        done
        exits 0 run rot.conf --json && [ "$(grep -c '"verified": true' out)" -eq 4 ] || return 1
        exits 0 store verify soft:ssd.img || return 1
    done
    exits 0 store rm soft:ssd.img rot.copy && exits 0 store rm soft:ssd.img rot.cast &&
        echo "4 operators, 3 places, 3 ways to read"
}

# A GPU error in an operator's code ends the run in time and is reported; the next process can use the GPU.
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
    warns "$2: " && warns "user operator, liar" || return 1
    here=$(checksum "$device") || { echo "the next run: $here"; return 1; }
    host=$(checksum host:1) || { echo "$host"; return 1; }
    [ "$here" = "$host" ] || { echo "the next run: $here, on the host: $host"; return 1; }
    echo "$2 after $ms ms"
}

# An engine whose GPU has failed ends; the next engine runs the remaining tiles on the same GPU.
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

# gather_conf NAME GPUS KEYS CACHE: sums of rows of `table`, which are also written to the object `rows`
gather_conf() {
    cat >"$1.conf" <<CONF
appliance = { name = "gpu-test"; };
ssds = ( { name = "a"; device = "soft:ssd.img"; timeout_ms = 20000; } );
gpus = ( $2 );
pipelines = ( { name = "p"; operator = "gather"; $3
    objects = { table = { object = "table"; };
                rows = { object = "rows"; bytes = $((lookups * 512)); replace = true; }; };
    args = { row = 512; lookups = $lookups; zipf = 0.9; seed = 7; };
    cache = { $4 }; } );
CONF
}

# gathered NAME: run it; what does not depend on time is in NAME.sums, and the rows in NAME.rows
gathered() {
    exits 0 run "$1.conf" --json && python3 - out >"$1.sums" <<'PY' || return 1
import json, sys
p = json.load(open(sys.argv[1]))["pipelines"][0]
print({name: value for name, value in p["result"].items() if not name.endswith(("_ns", "per_s"))})
print(p["cost"]["cache"], file=sys.stderr)
PY
    exits 0 store get --force soft:ssd.img rows "$1.rows" && exits 0 store verify soft:ssd.img
}

# same_rows GPUS KEYS CACHE: the same sums and rows as on the CPU
same_rows() {
    lookups=20000
    gather_conf host '{ name = "h"; device = "host:2"; }' '' 'frames = "4M";' && gathered host &&
        gather_conf gpu "$1" "$2" "$3" && gathered gpu && cmp host.sums gpu.sums && cmp host.rows gpu.rows &&
        cat gpu.sums
}

# sanitized_rows TOOL: an error that the tool finds is a failure
sanitized_rows() {
    lookups=500
    gather_conf gpu "$one" '' 'frames = 112;'
    timeout -k 5 100 "$sanitizer" --tool "$1" --error-exitcode 9 "$folder/headrace" run gpu.conf >out 2>err ||
        { tail -n 20 out; return 1; }
    grep "ERROR SUMMARY" out err
}

# The soft SSD reaches the memory of a GPU through a mapping in this process, of the driver (dma-buf) or of
# gdrcopy. Where the machine has neither, the refusal names both.
proves() {
    exits 0 store format --force soft:prove.img,size=100M || return 1
    if ! exits 0 topo --prove "$device" soft:prove.img; then
        exits 66 topo --prove "$device" soft:prove.img && warns "memory of the gpu cannot be opened for ssds" &&
            exits 0 post post.conf && grep "peer_data" out | grep "^SKIP" >line && echo "not reachable: $(tail -n 1 err)"
        return
    fi
    grep "64 MiB" out
    for quirk in ones drop swap late; do
        exits 4 topo --prove "$device" "soft:prove.img,quirks=peer-$quirk" || return 1
    done
    exits 0 post post.conf && grep "peer_data" out | grep "^OK" >line && tail -n 1 line
}

one="{ name = \"g\"; device = \"$device\"; }"
two="$one, { name = \"g2\"; device = \"$second\"; }"
both='gpus = [ "g", "g2" ];'
sanitizer=$(command -v compute-sanitizer || command -v /usr/local/cuda/bin/compute-sanitizer)

part "data for the program" prepare
part "an access operator with a small cache gives the same rows as on the CPU" same_rows "$one" '' 'frames = 112;'
part "an access operator with all pages in its cache gives the same rows" same_rows "$one" '' 'frames = 16384;'
if [ -n "$second" ]; then
    part "an access operator on two gpus gives the same rows" same_rows "$two" "$both" 'frames = 16384;'
    part "an access operator on two gpus with small caches gives the same rows" same_rows "$two" "$both" 'frames = 1120;'
else
    not_run "access operators on two gpus" "no second one"
fi
if [ "${device%:*}" != host ] && [ -n "$sanitizer" ]; then
    part "memcheck of an access operator" sanitized_rows memcheck
    part "synccheck of an access operator" sanitized_rows synccheck
else
    not_run "compute-sanitizer on access operators" "no GPU, or no compute-sanitizer"
fi
sed "s|ssd.img|prove.img|" histogram-host.conf | sed "s|device = \"host:1\"|device = \"$device\"|" >post.conf
part "data that the SSD and the GPU exchange" proves
part "a run killed early, and its resumption" killed_and_finished tiles_done 0
part "a run killed with durable tiles, and its resumption" killed_and_finished durable_tiles 200
part "a user operator gives the same result as on host:1" same_histogram
part "a changed bit is detected, and sinks have checksums" verified
if [ "${device%:*}" = host ]; then
    not_run "operators that fail on a GPU" "$device is no GPU"
else
    part "an operator that writes to an unmapped address" strays address CUDA_ERROR_ILLEGAL_ADDRESS
    part "an operator that stops its block" strays trap CUDA_ERROR_LAUNCH_FAILED
    sink=boot part "an engine whose GPU fails, and the next engine" boots trap CUDA_ERROR_LAUNCH_FAILED
fi

finish
