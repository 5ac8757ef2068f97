#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Pipelines with access operators, from source to result: the template, an operator that writes,
# reports of check, run and --json, and bad inputs.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

image="soft:$SCRATCH/a.img"

# builds SOURCE: build only the host part, into $SCRATCH, as a user does, outside of this make
builds() {
    env -i PATH="$PATH" make NVCC= O="$SCRATCH" op OP="$1" >"$SCRATCH/out" 2>"$SCRATCH/err"
}

# conf OPERATOR OBJECTS [KEYS [MEMORY [DEVICE_OPTIONS]]]: a configuration with one pipeline
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
ssds = ( { name = "a"; device = "$image${5:-}"; } );
gpus = ( { name = "g"; device = "host:2"; } );
memory = { ${4:-} };
operators = ( { name = "pick_sum"; file = "pick_sum.op"; }, { name = "stamp"; file = "stamp.op"; } );
pipelines = ( {
    name = "p"; operator = "$1";
    objects = { $2 };
    ${3:-}
} );
CONF
}

pick_sum='picks = { object = "picks"; }; values = { object = "values"; };'

build_both() {
    builds gpu/ops/template/pick_sum.c && builds tests/op/stamp.c && builds tests/op/halves.c && silent
}

# 300 picks of 40000 numbers (79 pages), 40 numbers, and a length that is no whole number
objects() {
    python3 - "$SCRATCH" <<'PY' || return 1
import random, struct, sys
random.seed(9)
values = [random.getrandbits(64) for _ in range(40000)]
picks = [random.randrange(40000) for _ in range(300)]
def write(name, data):
    open(sys.argv[1] + "/" + name, "wb").write(data)
write("values", struct.pack("<40000Q", *values))
write("picks", struct.pack("<300Q", *picks))
write("sum", str(sum(values[i] for i in picks) % 2**64).encode())
write("far", struct.pack("<2Q", 5, 40000))
write("odd", bytes(41))
write("old", struct.pack("<1000Q", *range(1000)))
PY
    exits 0 store format "$image,size=64M" || return 1
    for name in values picks far odd old; do
        exits 0 store put "$image" "$name" "$SCRATCH/$name" || return 1
    done
}

lists() {
    conf pick_sum "$pick_sum"
    exits 0 check --operators "$SCRATCH/x.conf" &&
        says "object picks (read, ranks may divide it): little-endian u64: indices of the numbers to add" &&
        says "object twin (read and written, optional): the same, if given" &&
        exits 0 check --operators --json "$SCRATCH/x.conf" &&
        json '[(o["shape"], [x["name"] for x in o["objects"]]) for o in r["operators"]
               if o["name"] == "pick_sum"] == [("access", ["picks", "values"])]' &&
        json 'all(o["shape"] == "stream" for o in r["operators"] if o["name"] == "copy")'
}

plans() {
    conf pick_sum "$pick_sum" 'cache = { frames = 28; page = "4K"; policy = "lru"; }; io = 2; compute = 2;'
    exits 0 check "$SCRATCH/x.conf" && says "28 frames of 4 KiB, lru; blocks 2 I/O + 2 compute" &&
        says "reads  a:values as values, 320000 bytes" &&
        exits 0 check "$SCRATCH/x.conf" --json &&
        json 'r["pipelines"][0]["cache"]["frames"] == 28' &&
        json 'r["pipelines"][0]["blocks"] == {"io": 2, "compute": 2, "threads": 1, "io_workers": 2}' &&
        json '{"page table", "28 frames of 4 KiB", "request rings", "counters of I/O workers",
               "PRP lists"} <= {p["purpose"] for p in r["partitions"][0]["parts"]}'
}

# all pages fit: each is read once
reads_once() {
    conf pick_sum "$pick_sum"
    exits 0 run "$SCRATCH/x.conf" --json && silent &&
        json 'r["pipelines"][0]["outcome"] == "done"' &&
        json "r['pipelines'][0]['result'] == {'sum': $(cat "$SCRATCH/sum"), 'picks': 300}" &&
        json 'r["pipelines"][0]["cost"]["cache"]["pages_read"] <= 80' &&
        json 'r["pipelines"][0]["cost"]["cache"]["evictions"] == 0' &&
        json 'r["pipelines"][0]["cost"]["cache"]["accesses"] == 600' &&
        json 'r["pipelines"][0]["read_bytes"] == 4096 * r["pipelines"][0]["cost"]["cache"]["pages_read"]' &&
        json 'sorted(r["pipelines"][0]["cost"]) == ["cache", "compute", "io"]'
}

# small_cache POLICY: the same result with 7 frames, several workers of each kind
small_cache() {
    conf pick_sum "$pick_sum" "cache = { frames = 7; policy = \"$1\"; }; io = 1; compute = 2;"
    exits 0 run "$SCRATCH/x.conf" && says "sum $(cat "$SCRATCH/sum")" && says "evicted" &&
        says "a:picks as picks, 2400 bytes, read" && silent
}

large_pages() {
    conf pick_sum "$pick_sum" 'cache = { frames = "1M"; page = "64K"; }; io = 2;'
    exits 0 run "$SCRATCH/x.conf" --json &&
        json "r['pipelines'][0]['result']['sum'] == $(cat "$SCRATCH/sum")" &&
        json 'r["pipelines"][0]["cost"]["cache"]["pages_read"] <= 6'
}

# stamped NAME COUNT TIMES FIRST: element i of the object is FIRST * i + TIMES * (i + 1)
stamped() {
    exits 0 store get --force "$image" "$1" "$SCRATCH/got" && python3 - "$SCRATCH/got" "$2" "$3" "$4" <<'PY'
import struct, sys
n, times, first = map(int, sys.argv[2:])
got = struct.unpack("<%dQ" % n, open(sys.argv[1], "rb").read())
sys.exit(list(got) != [first * i + times * (i + 1) for i in range(n)])
PY
}

makes_objects() {
    conf stamp 'out = { object = "new"; bytes = 20000; }; twin = { object = "twin"; bytes = 800; };' \
        'args = { times = 2; }; cache = { frames = 7; }; io = 1;'
    exits 0 check "$SCRATCH/x.conf" && exits 0 store ls "$image" && ! says "new" >/dev/null &&
        exits 0 run "$SCRATCH/x.conf" && says "bytes 20800" && says "a:new as out, 20000 bytes, written, new" &&
        stamped new 2500 2 0 && stamped twin 100 2 0 && exits 0 store verify "$image"
}

# The disk has old data where the new object is created, and the operator adds to the values there.
makes_zeros() {
    head -c 8M /dev/zero | tr '\0' '\377' >"$SCRATCH/ones"
    exits 0 store put "$image" ones "$SCRATCH/ones" && exits 0 store rm "$image" ones || return 1
    conf stamp 'out = { object = "over"; bytes = 5000000; };' 'args = { times = 1; first = 300; count = 200; };'
    exits 0 check "$SCRATCH/x.conf" && exits 0 run "$SCRATCH/x.conf" && says "bytes 5000000" || return 1
    exits 0 store get --force "$image" over "$SCRATCH/got" && python3 - "$SCRATCH/got" <<'PY'
import struct, sys
data = open(sys.argv[1], "rb").read()
got = struct.unpack("<625000Q", data)
sys.exit(list(got) != [i + 1 if 300 <= i < 500 else 0 for i in range(625000)])
PY
}

# A run with a complete object writes no zeros to the object.
keeps_zeros() {
    cp "$SCRATCH/got" "$SCRATCH/before"
    exits 0 run "$SCRATCH/x.conf" --json && json 'r["pipelines"][0]["outcome"] == "already complete"' &&
        exits 0 store get --force "$image" over "$SCRATCH/got" && cmp "$SCRATCH/got" "$SCRATCH/before" &&
        exits 0 store rm "$image" over
}

# A disk that refuses the zeros: the message names the object, and the object is removed.
zeros_fail() {
    echo "on write lba 700-16000 count 1000000: status 0x280" >"$SCRATCH/faults"
    conf stamp 'out = { object = "over"; bytes = 5000000; };' 'args = { times = 1; };' '' ",faults=faults"
    exits 4 run "$SCRATCH/x.conf" && warns "x.conf:7: object 'over' of 5000000 bytes on ssd 'a' cannot be filled with zeros:" &&
        warns "Write Fault" && exits 0 store ls "$image" && ! says over >/dev/null
}

complete() {
    exits 0 run "$SCRATCH/x.conf" --json && json 'r["pipelines"][0]["outcome"] == "already complete"'
}

other_object() {
    conf stamp 'out = { object = "new"; bytes = 8000; };' 'args = { times = 1; };'
    exits 1 run "$SCRATCH/x.conf" && warns "x.conf:7: object 'new' exists on ssd 'a', and is not of this run" &&
        stamped new 2500 2 0
}

replaces() {
    conf stamp 'out = { object = "twin"; bytes = 8000; replace = true; };' 'args = { times = 1; };'
    exits 0 check "$SCRATCH/x.conf" && says "replaces the existing object" &&
        exits 0 run "$SCRATCH/x.conf" --json && json 'r["pipelines"][0]["outcome"] == "done"' &&
        exits 0 store get --force "$image" twin "$SCRATCH/got" && [ "$(stat -c %s "$SCRATCH/got")" = 8000 ]
}

# An object that exists is changed; it has the checksum of its new data.
changes() {
    conf stamp 'out = { object = "old"; };' 'args = { times = 1; }; cache = { frames = 7; };'
    exits 0 run "$SCRATCH/x.conf" && stamped old 1000 1 1 && exits 0 store verify "$image" &&
        exits 0 store ls "$image" --json &&
        json '[len(o["crc32c"]) for o in r["objects"] if o["name"] == "old"] == [8]'
}

# Elements of single precision, and written ones of 32 bits, whole pages and a part of one.
floats() {
    python3 -c 'import struct, sys
sys.stdout.buffer.write(struct.pack("<3000f", *[i + 0.5 for i in range(3000)]))' >"$SCRATCH/halves"
    exits 0 store put "$image" halves "$SCRATCH/halves" || return 1
    conf halves 'in = { object = "halves"; }; out = { object = "twice"; bytes = 12000; };' 'cache = { frames = 7; }; compute = 2;'
    sed -i 's/operators = (/operators = ( { name = "halves"; file = "halves.op"; },/' "$SCRATCH/x.conf"
    exits 0 run "$SCRATCH/x.conf" && says "sum $((3000 * 3000))" && exits 0 store get --force "$image" twice "$SCRATCH/got" &&
        python3 - "$SCRATCH/got" <<'PY'
import struct, sys
sys.exit(struct.unpack("<3000I", open(sys.argv[1], "rb").read()) != tuple(2 * i + 1 for i in range(3000)))
PY
}

# Ctrl-C removes a new object.
interrupted() {
    local pid code=0
    conf stamp 'out = { object = "cut"; bytes = 20000; };' 'args = { times = 1000000000; }; cache = { frames = 7; };'
    "$HEADRACE" run "$SCRATCH/x.conf" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &
    pid=$!
    until_true 60 under_way 'p["cache"]["pages_written"] > 3' || { kill -KILL $pid; return 1; }
    kill -INT $pid
    wait $pid || code=$?
    [ $code -eq 1 ] || { echo "exit code $code"; return 1; }
    warns "pipeline 'p' interrupted" && exits 0 store ls "$image" && ! says cut >/dev/null
}

# refused CODE TEXT: check and run end with that exit code and print the text on stderr
refused() {
    exits "$1" check "$SCRATCH/x.conf" && warns "$2" && exits "$1" run "$SCRATCH/x.conf" && warns "$2"
}

short_object() {
    conf pick_sum 'picks = { object = "picks"; }; values = { object = "odd"; };'
    refused 2 "x.conf:7: object 'odd' on ssd 'a', 41 bytes, as 'values' of operator pick_sum: expected one number of 8 bytes or more, and whole ones"
}

missing_object() {
    conf pick_sum 'picks = { object = "picks"; }; values = { object = "valuse"; };'
    refused 2 "x.conf:7: there is no object 'valuse' on ssd 'a'; did you mean 'values'?"
}

too_few_frames() {
    conf pick_sum "$pick_sum" 'cache = { frames = 5; };'
    refused 2 "x.conf:8: pipelines[0].cache.frames: is 5, expected 7 to 4294967295"
}

too_many_frames() {
    conf pick_sum "$pick_sum" 'cache = { frames = 5000; };' 'host = "8M";'
    refused 2 "the partition does not fit" || return 1
    # more than any address space holds
    conf pick_sum "$pick_sum" 'cache = { frames = "900T"; page = "64K"; };'
    exits 3 run "$SCRATCH/x.conf" && warns "gpu 'g': pipeline " && warns " frames of 64 KiB have "
}

large_page() {
    conf pick_sum "$pick_sum" 'cache = { page = "32K"; };' '' ',mdts=2'
    refused 2 "pipeline 'p': object 'picks': pages have 32768 bytes, but commands of ssd 'a' transfer at most 16384 (MDTS); use smaller pages"
}

unknown_key() {
    conf pick_sum "$pick_sum" 'cache = { frame = 9; };'
    refused 2 "x.conf:8: pipelines[0].cache.frame: unknown key; did you mean 'frames'?"
}

beyond_the_end() {
    conf pick_sum 'picks = { object = "far"; }; values = { object = "values"; };'
    exits 1 run "$SCRATCH/x.conf" --json &&
        warns "pipeline 'p': operator pick_sum accesses element or page 40000 of object 'values', beyond its 320000 bytes" &&
        json 'r["pipelines"][0]["outcome"] == "failed" and r["pipelines"][0]["failure"]["object"] == "values"'
}

# The block of a page cannot be read: exit code 4, with object, page, LBA and status.
media_error() {
    echo "on read lba 256-16000 count 1000000: status 0x281" >"$SCRATCH/faults"
    conf pick_sum "$pick_sum" 'cache = { frames = 7; }; verify = "off";' '' ",faults=faults"
    exits 4 run "$SCRATCH/x.conf" --json && warns "pipeline 'p': object 'picks', page 0, LBA" &&
        warns "Unrecovered Read Error" &&
        json 'r["pipelines"][0]["failure"]["page"] == 0' &&
        json '{"lba", "queue", "command", "opcode", "status"} <= set(r["pipelines"][0]["failure"])'
}

# crc32c FILE: in hexadecimal
crc32c() {
    python3 - "$1" <<'PY'
import sys
crc = 0xffffffff
for byte in open(sys.argv[1], "rb").read():
    crc ^= byte
    for _ in range(8):
        crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
print("%08x" % (crc ^ 0xffffffff))
PY
}

# A later pipeline reads the object of an earlier pipeline, and waits for it with appliance.parallel.
depends() {
    cat >"$SCRATCH/x.conf" <<CONF
appliance = { parallel = 2; };
ssds = ( { name = "a"; device = "$image"; } );
gpus = ( { name = "g"; device = "host:2"; } );
operators = ( { name = "stamp"; file = "stamp.op"; } );
pipelines = (
    { name = "make"; operator = "stamp"; objects = { out = { object = "chain"; bytes = 8000; replace = true; }; };
      args = { times = 1; }; },
    { name = "sum"; operator = "crc32c"; source = { object = "chain"; }; }
);
CONF
    exits 0 check "$SCRATCH/x.conf" --json && json 'r["pipelines"][1]["waits_for"] == ["make"]' &&
        exits 0 run "$SCRATCH/x.conf" --json &&
        json '[p["outcome"] for p in r["pipelines"]] == ["done", "done"]' &&
        cp "$SCRATCH/out" "$SCRATCH/report" &&
        exits 0 store get --force "$image" chain "$SCRATCH/got" && mv "$SCRATCH/report" "$SCRATCH/out" &&
        json "\"$(crc32c "$SCRATCH/got")\" in json.dumps(r['pipelines'][1]['result'])"
}

boots() {
    conf pick_sum "$pick_sum" '' '' ''
    sed -i '1i boot = { after = "stay"; post = "off"; };\nappliance = { name = "access"; };' "$SCRATCH/x.conf"
    # --foreground: else timeout sends SIGTERM to its group, too, and the second one ends headrace at once
    timeout --foreground 200 "$HEADRACE" boot "$SCRATCH/x.conf" >"$SCRATCH/boot.out" 2>"$SCRATCH/boot.err" </dev/null &
    local pid=$! ok=0
    until_true 150 done_in_boot || ok=1
    kill -TERM $pid
    wait $pid
    [ $ok -eq 0 ] && grep -qF "sum $(cat "$SCRATCH/sum")" "$SCRATCH/boot.out"
}

done_in_boot() {
    "$HEADRACE" status access --json >"$SCRATCH/out" && json 'r["pipelines"][0]["outcome"] == "done"' &&
        json 'r["pipelines"][0]["read_bytes"] > 0'
}

# A run without tiles shows pages on the terminal and in status, and no percentage.
page_progress() {
    local pid ok=0
    conf stamp 'out = { object = "cut"; bytes = 20000; };' 'args = { times = 1000000000; }; cache = { frames = 7; };'
    script -qec "$HEADRACE run $SCRATCH/x.conf" /dev/null >"$SCRATCH/terminal" 2>&1 </dev/null &
    pid=$!
    until_true 60 shows_pages && exits 0 status && says " pages read" && ! says tiles >/dev/null || ok=1
    "$HEADRACE" status --json >"$SCRATCH/out"
    kill -INT "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["pid"])' "$SCRATCH/out")" || ok=1
    wait $pid
    return $ok
}

shows_pages() {
    grep -qE 'p  [0-9]+ pages read  ' "$SCRATCH/terminal" && ! grep -q 'ETA' "$SCRATCH/terminal"
}

no_tiles() {
    conf pick_sum "$pick_sum"
    exits 0 run "$SCRATCH/x.conf" && [ "$(awk '$1 == "p" { print $4 }' "$SCRATCH/out")" = - ]
}

counters() {
    exits 0 status --counters && says "pages_read" && says "hits_ppm" && says "evictions"
}

check "make op builds operators that access objects" build_both
check "objects in a store" objects
check "check --operators lists their objects" lists
check "check shows frames, blocks and all parts" plans
check "a run reads each page once when all pages fit" reads_once
for policy in clock lru stream; do
    check "7 frames, $policy" small_cache "$policy"
done
check "pages of 64 KiB" large_pages
check "new objects" makes_objects
check "a second run finds the new objects complete and does nothing" complete
check "a new object over old data is zero where the operator writes nothing" makes_zeros
check "a complete new object is not filled with zeros again" keeps_zeros
check "a new object that cannot be filled with zeros" zeros_fail
check "an incomplete object of another run is kept" other_object
check "an incomplete object of another run is replaced on request" replaces
check "an existing object is changed and loses its checksum" changes
check "elements of single precision are read, and 32 bits are written" floats
check "Ctrl-C removes a new object" interrupted
check "an object of a wrong length" short_object
check "a missing object" missing_object
check "too few frames" too_few_frames
check "frames beyond the memory limit" too_many_frames
check "pages longer than the controller's longest command" large_page
check "an unknown key" unknown_key
check "an element beyond the object" beyond_the_end
check "an unreadable block" media_error
check "progress of a run shows pages in place of tiles" page_progress
check "the table has no number of tiles" no_tiles
check "status --counters" counters
check "a later pipeline reads a new object" depends
check "boot" boots
done_testing
