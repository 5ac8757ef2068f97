#!/bin/bash
# Devices that fail in the middle of a run: what is said, the exit code, and that a later run over
# the same image goes on and gets everything right.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

image=$SCRATCH/ssd.img

# conf [DEVICE_OPTIONS [DEADLINE_MS]]; a disk of this machine may take its time over a flush.
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
appliance = { checkpoint = "5ms"; };
ssds = ( { name = "a"; device = "soft:$image${1-}"; timeout_ms = ${2-20000}; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "p"; source = { object = "in"; }; operator = "copy";
  sink = { object = "out"; }; tile = "4K"; slots = 4; } );
CONF
}

make_image() {
    head -c $((4 << 20)) /dev/urandom >"$SCRATCH/in"
    exits 0 store format "soft:$image,size=64M" && exits 0 store put "soft:$image" in "$SCRATCH/in"
}

# The blocks that tiles 300 are read from and written to: `out` comes behind `in`, the only object.
find_tiles() {
    exits 0 store ls --json "soft:$image" >&2 && python3 - "$SCRATCH/out" <<'PYTHON'
import json, sys
at = json.load(open(sys.argv[1]))["objects"][0]["offset_bytes"] // 4096
print(at + 300, at + (4 << 20) // 4096 + 300)
PYTHON
}

# fails FAULT TEXT...: a run with the fault ends with exit code 4 and says all of the texts
fails() {
    local text
    echo "$1" >"$SCRATCH/faults"
    shift
    conf ",faults=$SCRATCH/faults" 2000
    exits 4 run "$SCRATCH/x.conf" || return 1
    for text in "$@"; do
        warns "$text" || return 1
    done
}

fails_json() {
    echo "on read lba $in: status 0x281 dnr" >"$SCRATCH/faults"
    conf ",faults=$SCRATCH/faults" 2000
    exits 4 run "$SCRATCH/x.conf" --json && json 'r["exit_code"] == 4' &&
        json 'r["pipelines"][0]["outcome"] == "failed"' &&
        json 'r["pipelines"][0]["failure"]["status"] == "Unrecovered Read Error"' &&
        json 'r["pipelines"][0]["failure"]["error"] == 0x281' &&
        json 'r["pipelines"][0]["failure"]["object"] == "in"' &&
        json 'r["pipelines"][0]["failure"]["queue"] >= 2' &&
        json "r['pipelines'][0]['failure']['lba'] == $in" &&
        json 'r["pipelines"][0]["failure"]["tile"] == 300' &&
        json 'r["pipelines"][0]["read_bytes"] >= 290 * 4096' &&
        json 'r["pipelines"][0]["cost"]["prefetch"]["commands"] >= 300'
}

goes_on() {
    conf
    exits 0 run "$SCRATCH/x.conf" && exits 0 store get --force "soft:$image" out "$SCRATCH/copy" &&
        cmp "$SCRATCH/in" "$SCRATCH/copy" && exits 0 store rm "soft:$image" out
}

gone() {
    fails "on write lba $out: remove" "pipeline 'p': ssd 'a' (soft:" \
        "is lost: the device is gone, or its function was reset; check slot, power and 'dmesg'" &&
        [ "$(grep -c "all ones" "$SCRATCH/err")" = 1 ]
}

post_fails() {
    echo "on any nth 4: status 0x281 dnr" >"$SCRATCH/faults"
    conf ",faults=$SCRATCH/faults" 2000
    exits 4 post "$SCRATCH/x.conf" && says "FAIL queue" && says "Unrecovered Read Error"
}

dead_on_arrival() {
    echo "on admin: cfs" >"$SCRATCH/faults"
    conf ",faults=$SCRATCH/faults" 2000
    exits 4 run "$SCRATCH/x.conf" && warns "ssd 'a' cannot be brought up"
}

check "an image is made" make_image
read -r in out < <(find_tiles)
check "a read that fails names pipeline, object, tile, LBA, queue and status" \
    fails "on read lba $in: status 0x281 dnr" "pipeline 'p'" "object 'in'" "tile 300, " "LBA $in: " \
    "ssd 'a' queue " "(read)" "Unrecovered Read Error" "tiles of object 'out' are durable"
check "the next run goes on" goes_on
check "... in JSON" fails_json
check "the next run goes on" goes_on
check "a write that fails" fails "on write lba $out: status 0x280 dnr" "object 'out'" "tile 300, " "LBA $out: " "(write)" "Write Fault"
check "the next run goes on" goes_on
check "a lost read names queue and command" \
    fails "on read lba $in: drop" "object 'in'" "queue " "lost command 0x" "(read)" "within 2000 ms"
check "the next run goes on" goes_on
check "a lost write names queue and command" \
    fails "on write lba $out: drop" "object 'out'" "lost command 0x" "(write)" "within 2000 ms"
check "the next run goes on" goes_on
check "a completion that comes too late is a lost command" \
    fails "on read lba $in: delay 6s" "lost command 0x" "(read)"
check "the next run goes on" goes_on
check "a completion with a foreign CID" fails "on read lba $in: wrong-cid 0xffff" "pipeline 'p'"
check "the next run goes on" goes_on
check "a controller that fails" fails "on read lba $in: cfs" "pipeline 'p'"
check "the next run goes on" goes_on
check "a device that is gone: which, and what to do" gone
check "the next run goes on" goes_on
check "a power cut" fails "on write lba $out: powercut torn seed 3" "pipeline 'p'"
check "the next run goes on" goes_on
check "the self-test shows the step that fails" post_fails
check "a controller that fails at once" dead_on_arrival
done_testing
