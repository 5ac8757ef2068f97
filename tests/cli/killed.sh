#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kill -9 while writes are held: the durable part on the disk is correct byte by byte, and the next
# run continues after the durable part. A fault script holds all writes from one tile on, so the
# number of written tiles is exact.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

image=$SCRATCH/ssd.img
tiles=1024

# conf SLOTS [DEVICE_OPTIONS]
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
appliance = { checkpoint = "1ms"; };
ssds = ( { name = "a"; device = "soft:$image${2-}"; timeout_ms = 600000; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "p"; source = { object = "in"; }; operator = "copy";
  sink = { object = "out"; }; tile = "4K"; slots = $1; blocks = { prefetch = 1; compute = 1; writeback = 1; }; } );
CONF
}

make_image() {
    rm -f "$image"
    head -c $((tiles << 12)) /dev/urandom >"$SCRATCH/in"
    exits 0 store format "soft:$image,size=64M" && exits 0 store put "soft:$image" in "$SCRATCH/in"
}

# held TILE: the fault script that holds the sink's tiles from TILE on for 60 s, repeatedly.
# `out` follows `in`, the only object.
held() {
    exits 0 store ls --json "soft:$image" && python3 - "$SCRATCH/out" "$1" "$tiles" >"$SCRATCH/faults" <<'PYTHON'
import json, sys
at = (json.load(open(sys.argv[1]))["objects"][0]["offset_bytes"] >> 12) + int(sys.argv[3])
print(f"on write lba {at + int(sys.argv[2])}-{at + int(sys.argv[3]) - 1} count 1000000: status 0x021 crd 3")
PYTHON
}

# Compare the image with the source: FIRST to LAST tiles of the incomplete `out` are durable, all of
# them hold the source, and so do all of the TILES that were written, except data lost with a cache.
compare() {
    exits 0 store ls --json "soft:$image" && python3 - "$SCRATCH/out" "$image" "$SCRATCH/in" "$@" <<'PYTHON'
import json, sys
first, last, written = map(int, sys.argv[4:])
out, = [o for o in json.load(open(sys.argv[1]))["objects"] if o["name"] == "out"]
source = open(sys.argv[3], "rb").read()
with open(sys.argv[2], "rb") as image:
    image.seek(out["offset_bytes"])
    there = image.read(len(source))
same = [there[t:t + 4096] == source[t:t + 4096] for t in range(0, len(source), 4096)]
durable = out["durable_bytes"] // 4096
if not out["pending"] or out["durable_bytes"] % 4096 or not first <= durable <= last:
    sys.exit(f"{out['durable_bytes']} bytes are durable, pending: {out['pending']}")
if not all(same[:durable]):
    sys.exit(f"{durable} tiles are durable, and tile {same.index(False)} is not on the disk")
if any(same[written:]):
    sys.exit(f"tile {same.index(True, written)} is on the disk, and the script holds it")
print(durable, file=open(sys.argv[1] + ".durable", "w"))
PYTHON
}

# killed SLOTS TILE FIRST [DEVICE_OPTIONS]: held at TILE; at least FIRST tiles are durable then
killed() {
    local pid durable
    make_image && held "$2" && conf "$1" "${4-},faults=$SCRATCH/faults" || return 1
    "$HEADRACE" run "$SCRATCH/x.conf" >/dev/null 2>&1 </dev/null &
    pid=$!
    until_true 60 under_way "p['tiles_done'] == $2 and p['durable_tiles'] >= $3" || { kill -KILL "$pid"; return 1; }
    kill -KILL "$pid"
    wait "$pid" 2>/dev/null
    # With one slot all written tiles count, with two slots those before the slot that is behind.
    compare "$3" "$(($1 == 1 ? $2 : $2 > 2 ? $2 : $3))" "$2" || return 1
    durable=$(cat "$SCRATCH/out.durable")
    conf "$1"
    exits 0 run "$SCRATCH/x.conf" --json && json "r['pipelines'][0]['first_tile'] == $durable" &&
        json 'r["pipelines"][0]["outcome"] == "done"' &&
        exits 0 store get --force "soft:$image" out "$SCRATCH/copy" && cmp "$SCRATCH/in" "$SCRATCH/copy"
}

check "kill -9 with one slot, writes held from tile 1: 1 tile is durable" killed 1 1 1
check "kill -9 with one slot, writes held from tile 700: 700 tiles are durable" killed 1 700 700
check "kill -9 with one slot, writes held from the last tile: 1023 tiles are durable" killed 1 1023 1023
check "kill -9 with one slot and no volatile cache: 700 tiles are durable" killed 1 700 700 ,cache=0
check "kill -9 with two slots, writes held from tile 2: at least 1 tile is durable" killed 2 2 1
check "kill -9 with two slots, writes held from tile 700: at least 1 tile is durable" killed 2 700 1
check "kill -9 with two slots and no volatile cache: at least 1 tile is durable" killed 2 700 1 ,cache=0
done_testing
