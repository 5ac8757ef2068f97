#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Devices that fail during a run: the messages, the exit code, and that a later run over the same
# image continues and produces the correct result.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

image=$SCRATCH/ssd.img

# conf [DEVICE_OPTIONS [DEADLINE_MS]]; a flush may be slow on the disk of this machine.
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

# The blocks of tile 300 in the source and in the sink: `out` follows `in`, the only object.
find_tiles() {
    exits 0 store ls --json "soft:$image" >&2 && python3 - "$SCRATCH/out" <<'PYTHON'
import json, sys
at = json.load(open(sys.argv[1]))["objects"][0]["offset_bytes"] // 4096
print(at + 300, at + (4 << 20) // 4096 + 300)
PYTHON
}

# fails_within DEADLINE_MS FAULT TEXT...: a run with the fault ends with exit code 4 and prints all of
# the texts
fails_within() {
    local text
    echo "$2" >"$SCRATCH/faults"
    conf ",faults=$SCRATCH/faults" "$1"
    shift 2
    exits 4 run "$SCRATCH/x.conf" || return 1
    for text in "$@"; do
        warns "$text" || return 1
    done
}

# fails FAULT TEXT...: a fault that a run reports long before the deadline of a command
fails() {
    fails_within 20000 "$@"
}
# loses FAULT TEXT...: a fault that a run reports at the deadline of a command
loses() {
    fails_within 4000 "$@"
}

# A disk that fails during the creation of its objects is a device error, not a mistake of the configuration.
fails_before_run() {
    echo "on write lba 900-1100 count 60: status 0x280 dnr" >"$SCRATCH/faults"
    cat >"$SCRATCH/m.conf" <<CONF
ssds = ( { name = "a"; device = "soft:memory,size=64M,faults=$SCRATCH/faults";
           objects = ( { name = "in"; bytes = "4M"; } ); } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "p"; source = { object = "in"; }; operator = "crc32c"; } );
CONF
    exits 4 run "$SCRATCH/m.conf" &&
        warns "m.conf:2: ssds[0].objects[0]: object 'in' of 4194304 bytes cannot be made on 'a': soft:memory: write of " &&
        warns "Write Fault (280)"
}

fails_json() {
    echo "on read lba $in: status 0x281 dnr" >"$SCRATCH/faults"
    conf ",faults=$SCRATCH/faults"
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
    fails "on write lba $out: remove" "pipeline 'p': ssd 'a' is lost: soft:" \
        "reads all ones: the device is gone, or its function is being reset; check slot, power and 'dmesg'" &&
        [ "$(grep -c "is lost" "$SCRATCH/err")" = 1 ] && ! grep -q "error: soft:" "$SCRATCH/err" &&
        ! grep -q "stay allocated" "$SCRATCH/err"
}

# deaf: the registers do not answer, but the configuration space does, so the function is not gone
deaf() {
    fails "on write lba $out: deaf" "pipeline 'p': ssd 'a' is lost: soft:" \
        "its registers do not answer, but its configuration space does" "bytes of memory stay allocated"
}

post_fails() {
    echo "on any nth 4: status 0x281 dnr" >"$SCRATCH/faults"
    conf ",faults=$SCRATCH/faults"
    exits 4 post "$SCRATCH/x.conf" && says "FAIL queue" && says "Unrecovered Read Error"
}

dead_on_arrival() {
    echo "on admin: cfs" >"$SCRATCH/faults"
    conf ",faults=$SCRATCH/faults"
    exits 4 run "$SCRATCH/x.conf" && warns "x.conf:2: ssd 'a' cannot be brought up: soft:" &&
        warns "controller fatal status (CSTS "
}

# Two pipelines, of which one has an ssd that does not answer Identify.
beside_bad() {
    cp "$image" "$SCRATCH/bad.img"
    echo "on admin opcode 0x06 count 99: status 0x6" >"$SCRATCH/faults"
    cat >"$SCRATCH/two.conf" <<CONF
ssds = ( { name = "good"; device = "soft:$image"; },
         { name = "bad"; device = "soft:$SCRATCH/bad.img,faults=$SCRATCH/faults"; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "p"; source = { ssd = "good"; object = "in"; }; operator = "crc32c"; },
              { name = "q"; source = { ssd = "bad"; object = "in"; }; operator = "crc32c"; } );
CONF
    exits 0 run "$SCRATCH/two.conf" --pipeline p && silent && says "in, verified" &&
        exits 4 run "$SCRATCH/two.conf" --pipeline q && warns "two.conf:2: ssd 'bad' cannot be brought up" &&
        exits 4 run "$SCRATCH/two.conf" && warns "ssd 'bad' cannot be brought up"
}

check "prepare an image" make_image
read -r in out < <(find_tiles)
check "a failed read is reported with pipeline, object, tile, LBA, queue and status" \
    fails "on read lba $in: status 0x281 dnr" "pipeline 'p'" "object 'in'" "tile 300, " "LBA $in: " \
    "ssd 'a' queue " "(read)" "Unrecovered Read Error" "tiles of object 'out' are durable"
check "after a failed read the next run resumes" goes_on
check "a failed read in JSON" fails_json
check "after a failed read in JSON the next run resumes" goes_on
check "a failed write is reported with object, tile, LBA and status" fails "on write lba $out: status 0x280 dnr" "object 'out'" "tile 300, " "LBA $out: " "(write)" "Write Fault"
check "after a failed write the next run resumes" goes_on
check "a lost read is reported with queue and command" \
    loses "on read lba $in: drop" "object 'in'" "queue " "lost command 0x" "(read)" "within 4000 ms"
check "after a lost read the next run resumes" goes_on
check "a lost write is reported with queue and command" \
    loses "on write lba $out: drop" "object 'out'" "lost command 0x" "(write)" "within 4000 ms"
check "after a lost write the next run resumes" goes_on
check "a completion after the deadline is reported as a lost command" \
    loses "on read lba $in: delay 60s" "lost command 0x" "(read)"
check "after a late completion the next run resumes" goes_on
check "a completion with an unknown CID is reported" fails "on read lba $in: wrong-cid 0xffff" "pipeline 'p'"
check "after a completion with an unknown CID the next run resumes" goes_on
check "a fatal controller is reported" fails "on read lba $in: cfs" "pipeline 'p'"
check "after a fatal controller the next run resumes" goes_on
check "a device that is gone is reported with its name and a remedy" gone
check "after the loss of a device the next run resumes" goes_on
check "the memory of a function that does not answer, but is not gone, stays allocated" deaf
check "after a function that does not answer the next run resumes" goes_on
check "a power cut is reported" fails "on write lba $out: powercut torn seed 3" "pipeline 'p'"
check "after a power cut the next run resumes" goes_on
check "the self-test shows the failed step" post_fails
check "a controller that is fatal at bring-up is reported" dead_on_arrival
check "a named pipeline runs beside a bad ssd that it does not use" beside_bad
check "a disk that fails during creation of objects is a device error" fails_before_run
done_testing
