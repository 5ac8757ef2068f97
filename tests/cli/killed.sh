#!/bin/bash
# kill -9 while writes are held: what the disk promises then is what it holds, byte by byte, and the
# next run goes on from there. A script holds all writes from a tile on, so the moment is exact.
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

# held TILE: the fault script that holds the sink's tiles from that one on for 60 s, again and again.
# `out` comes behind `in`, the only object.
held() {
    exits 0 store ls --json "soft:$image" && python3 - "$SCRATCH/out" "$1" "$tiles" >"$SCRATCH/faults" <<'PYTHON'
import json, sys
at = (json.load(open(sys.argv[1]))["objects"][0]["offset_bytes"] >> 12) + int(sys.argv[3])
print(f"on write lba {at + int(sys.argv[2])}-{at + int(sys.argv[3]) - 1} count 1000000: status 0x021 crd 3")
PYTHON
}

# The image against the source: durable bytes of the incomplete `out` are FIRST to LAST tiles, all of
# them hold the source, and so do all of the TILES that were written, with what a cache has lost.
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
    # With one slot all that is written counts, with two what is written below the slot that is behind.
    compare "$3" "$(($1 == 1 ? $2 : $2 > 2 ? $2 : $3))" "$2" || return 1
    durable=$(cat "$SCRATCH/out.durable")
    conf "$1"
    exits 0 run "$SCRATCH/x.conf" --json && json "r['pipelines'][0]['first_tile'] == $durable" &&
        json 'r["pipelines"][0]["outcome"] == "done"' &&
        exits 0 store get --force "soft:$image" out "$SCRATCH/copy" && cmp "$SCRATCH/in" "$SCRATCH/copy"
}

check "one slot, held at tile 1" killed 1 1 1
check "one slot, held at tile 700" killed 1 700 700
check "one slot, held at the last tile" killed 1 1023 1023
check "... without a volatile cache" killed 1 700 700 ,cache=0
check "two slots, held at tile 2: one tile counts" killed 2 2 1
check "two slots, held at tile 700" killed 2 700 1
check "... without a volatile cache" killed 2 700 1 ,cache=0
done_testing
