#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Controllers that differ from the specification as whole models do: the option quirks= of the software
# controller. The driver works with each, and says nothing about most of them.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
export SCRATCH

image=$SCRATCH/ssd.img

make_image() {
    head -c 3072000 /dev/urandom >"$SCRATCH/in"
    exits 0 store format "soft:$image,size=64M" && exits 0 store put "soft:$image" in "$SCRATCH/in"
}

# conf OPTIONS
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
ssds = ( { name = "a"; device = "soft:$image,$1"; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "p"; source = { object = "in"; }; operator = "copy";
    sink = { object = "out"; replace = true; }; tile = "256K"; slots = 4; } );
CONF
}

# works OPTIONS: a run and a command have the right data and print no error and no warning
works() {
    conf "$1"
    exits 0 run "$SCRATCH/x.conf" && silent &&
        exits 0 store get --force "soft:$image,$1" out "$SCRATCH/copy" && silent &&
        cmp "$SCRATCH/in" "$SCRATCH/copy"
}

# refused TEXT OPTIONS
refused() {
    exits 2 store ls "soft:$image,$2" && warns "$1"
}

# fails CODE TEXT OPTIONS: a run with these options
fails() {
    conf "$3"
    exits "$1" run "$SCRATCH/x.conf" && warns "$2"
}

# two OPTIONS: a configuration with two disks
two() {
    cp "$image" "$SCRATCH/other.img" && exits 0 store format --force "soft:$SCRATCH/other.img" || return 1
    cat >"$SCRATCH/x.conf" <<CONF
ssds = ( { name = "a"; device = "soft:$image,$1"; },
         { name = "b"; device = "soft:$SCRATCH/other.img,$1"; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "p"; source = { ssd = "a"; object = "in"; }; operator = "copy";
    sink = { ssd = "b"; object = "out"; }; } );
CONF
}

# alike OPTIONS TEXT: two disks that report the same identifier, and are two disks
alike() {
    two "$1" && exits 0 check "$SCRATCH/x.conf" && exits 0 run "$SCRATCH/x.conf" || return 1
    if [ -n "$2" ]; then
        warns "x.conf:2: ssd 'b'" && warns "line 1" && warns "report the same $2, but cannot be one disk"
    else
        silent
    fi &&
        exits 0 store get --force "soft:$SCRATCH/other.img" out "$SCRATCH/copy" && cmp "$SCRATCH/in" "$SCRATCH/copy"
}

# one OPTIONS TEXT: they may be one disk
one() {
    two "$1" && exits 2 run "$SCRATCH/x.conf" && warns "are the same disk: both report the same $2"
}

goes_back() {
    works quirks=sqhd-back && exits 0 store rm "soft:$image" out && exits 0 run --json "$SCRATCH/x.conf" &&
        json 'r["pipelines"][0]["cost"]["prefetch"]["odd_heads"] > 0' &&
        json 'r["pipelines"][0]["cost"]["writeback"]["odd_heads"] > 0'
}

# An access operator reads pages of 64 KiB in commands of several pages: each has a list.
lists() {
    works quirks=list-end || return 1
    cat >"$SCRATCH/x.conf" <<CONF
ssds = ( { name = "a"; device = "soft:$image,quirks=list-end"; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "p"; operator = "gather"; io = 1; compute = 1;
    objects = { table = { object = "in"; }; };
    args = { row = 512; lookups = 20000; zipf = 1.0; seed = 1; ahead = 4; issuers = 0; warm = 1; };
    cache = { frames = "8M"; page = "64K"; }; } );
CONF
    exits 0 run --json "$SCRATCH/x.conf" && silent && json 'r["pipelines"][0]["cost"]["io"]["commands"] > 0'
}

# few OPTIONS PIPELINES [KEYS]: a configuration with a controller that creates 8 queue pairs
few() {
    cat >"$SCRATCH/x.conf" <<CONF
ssds = ( { name = "a"; device = "soft:$image,quirks=few-queues$1"; } );
gpus = ( { name = "g"; device = "host:2"; } );
boot = { post = "off"; restarts = 0; };
${3-}
pipelines = ( $2 );
CONF
}
sum() { echo "{ name = \"$1\"; source = { object = \"in\"; }; operator = \"crc32c\"; tile = \"64K\"; blocks = { prefetch = $2; }; ${3-} }"; }
planned="admin create I/O CQ 9: Invalid Queue Identifier (101); going on with 8"

# One of the 8 is of the object store.
enough() {
    few "" "$(sum p 7)"
    exits 0 run "$SCRATCH/x.conf" && silent
}
# needs_more OPTIONS: more queue pairs are configured than exist
needs_more() {
    few "$1" "$(sum p 5), $(sum q 3)"
    exits 3 run "$SCRATCH/x.conf" && warns "$planned" &&
        warns "the pipelines need 8 I/O queue pairs, but the controller has 7 left; use fewer blocks" &&
        [ "$(wc -l <"$SCRATCH/err")" -eq "$2" ]
}
fixed() {
    printf '%s\n' "on admin opcode 0x09 nth 2: status 0x6" "on admin opcode 0x0a: status 0x2" >"$SCRATCH/faults"
    needs_more ",faults=$SCRATCH/faults" 3 && warns "nor does it report the number"
}
bench() {
    few "" "$(sum p 1)"
    exits 3 bench "$SCRATCH/x.conf" --blocks 8 --seconds 0.1 && warns "$planned" &&
        warns "cannot create I/O queue pair 9 of 8: all are in use"
}
# One SQ is refused once, when the sink exists: the second plan removes it and makes it again.
again() {
    printf '%s\n' "on admin opcode 0x01 nth 3: status 0x6 dnr" >"$SCRATCH/faults"
    conf "faults=$SCRATCH/faults"
    exits 3 run "$SCRATCH/x.conf" && warns "create I/O SQ 3: Internal Error (006); going on with 2" &&
        warns "need 2 I/O queue pairs, but the controller has 1 left" && exits 0 store ls --json "soft:$image" &&
        json 'not any(o["pending"] for o in r["objects"])'
}
# Both repeat, and run at the same time until the queue pairs of both do not exist: then one after the
# other.
repeats() {
    printf '%s\n' "on read nth 40 count 1000000: delay 20ms" >"$SCRATCH/faults"
    few ",faults=$SCRATCH/faults" "$(sum p 5 'every = "50ms";'), $(sum q 6 'every = "50ms";')" "appliance = { name = \"box\"; parallel = 2; };"
    cat >"$SCRATCH/until.py" <<'PYTHON'
import json, subprocess, sys, time
for _ in range(1200):
    out = subprocess.run([sys.argv[1], "status", "--json"], capture_output=True).stdout
    p = json.loads(out).get("pipelines", []) if out else []
    if len(p) == 2 and all(x.get("done_count", 0) >= 3 and x["failures_count"] == 0 for x in p):
        sys.exit(0)
    time.sleep(0.05)
sys.exit(f"{p}")
PYTHON
    python3 "$(dirname "$0")/lib/service.py" "$HEADRACE" "$SCRATCH/x.conf" \
        "sh=python3 $SCRATCH/until.py $HEADRACE" signal=TERM exit=0 || { cat "$SCRATCH/boot.err"; return 1; }
    [ "$(grep -cF "$planned" "$SCRATCH/boot.err")" -eq 1 ] || { cat "$SCRATCH/boot.err"; return 1; }
}

check "prepare an image" make_image
check "a shutdown that never completes is no error" works quirks=no-shutdown
check "a controller that becomes ready one unit of CAP.TO late" works quirks=late-ready
check "admin queues must fill a page" works quirks=admin-64
check "registers read all ones for a while after CC.EN = 0" works quirks=ones
check "an SQHD that goes back is counted, and is no error" goes_back
check "lists of PRPs do not end where a page ends" lists
check "several quirks at once" works quirks=no-shutdown+late-ready+admin-64+ones
check "queues of another priority than medium are refused" fails 4 "create I/O SQ 1: Invalid Field" quirks=medium-priority
check "a model that needs medium priority gets it" works quirks=medium-priority,id=8086:f1a5
check "a model that never completes a shutdown" works quirks=no-shutdown,id=15ad:07f0
check "a model that is ready too early" works quirks=early-ready,id=144d:a822
check "two disks with one EUI64 are two disks, with a warning" alike quirks=same-eui64 EUI64
check "two disks with one NGUID are two disks, with a warning" alike quirks=same-nguid NGUID
check "the identifiers of a model that is known for it are not compared" alike quirks=same-nguid,id=1987:5012 ""
check "reservations do not take one identifier for one disk" alike quirks=same-eui64,reservations=1 EUI64
check "disks of one subsystem with one EUI64 are one disk" one quirks=same-eui64+same-serial EUI64
check "disks of controllers that share with one EUI64 are one disk" one quirks=same-eui64,shared=1 EUI64
check "a controller that creates few queue pairs has enough for a small pipeline" enough
check "more queue pairs are configured than the controller creates" needs_more "" 2
check "the same when it does not report the number" fixed
check "bench with more workers than there are queue pairs" bench
check "no sink stays after a queue pair was refused" again
check "pipelines that repeat share the queue pairs that exist" repeats
check "an unknown quirk is refused with all names" refused "'two': expected some of these" quirks=ones+two
check "a malformed id is refused" refused "id=8086: expected VENDOR:DEVICE" id=8086
done_testing
