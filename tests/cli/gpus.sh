#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Pipelines on several gpus of the host backend: the same results as on one gpu, one read of each page,
# what check, run and status report, and bad inputs.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

image="soft:$SCRATCH/a.img"
table='table = { object = "table"; };'
rows=2048 row=256 lookups=3000 # 128 pages of 4 KiB

# conf GPUS OPERATOR OBJECTS ARGS [KEYS [MEMORY [DEVICE_OPTIONS [GPU_KEYS]]]]: one pipeline on these gpus
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
ssds = ( { name = "a"; timeout_ms = 60000; device = "$image${7:-}"; } );
gpus = ( { name = "g0"; device = "host:2"; }, { name = "g1"; device = "host:2"; ${8:-} },
         { name = "g2"; device = "host:2"; } );
memory = { ${6:-} };
pipelines = ( {
    name = "p"; operator = "$2"; $1
    objects = { $3 };
    args = { $4 };
    ${5:-}
} );
CONF
}

one='gpu = "g0";' two='gpus = [ "g0", "g1" ];' three='gpus = [ "g2", "g0", "g1" ];'

# Rows of numbers k / 2^20, indices, a chain of all numbers, a half full hash table of random keys, and
# keys of which half are in it.
objects() {
    python3 - "$SCRATCH" "$rows" "$row" "$lookups" <<'PY' || return 1
import random, struct, sys
folder, rows, row, lookups = sys.argv[1], *map(int, sys.argv[2:])
random.seed(14)
def write(name, form, values):
    open(folder + "/" + name, "wb").write(struct.pack("<%d%s" % (len(values), form), *values))
write("table", "f", [random.randrange(-2**20, 2**20) / 2**20 for _ in range(rows * row // 4)])
write("indices", "I", [random.randrange(rows) for _ in range(lookups)])
order = list(range(20000))
random.shuffle(order)
write("next", "Q", order)
mask = 2**64 - 1
def mix(x):
    x = (x + 0x9e3779b97f4a7c15) & mask
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & mask
    x = (x ^ x >> 27) * 0x94d049bb133111eb & mask
    return x ^ x >> 31
buckets = [0, 0] * 8192
for i in range(4096):
    key = 2 * i + 1
    at = mix(key) * 8192 >> 64
    while buckets[2 * at]:
        at = (at + 1) % 8192
    buckets[2 * at:2 * at + 2] = [key, random.getrandbits(64)]
write("buckets", "Q", buckets)
write("keys", "Q", [random.randrange(1, 8192) for _ in range(5000)])
PY
    exits 0 store format "$image,size=64M" || return 1
    for name in table indices next buckets keys; do
        exits 0 store put "$image" "$name" "$SCRATCH/$name" || return 1
    done
}

# result_is EXPRESSION: of the last run, done without a warning; `x` is its result, `c` its page counters
result_is() {
    silent && json 'r["pipelines"][0]["outcome"] == "done"' &&
        json "(lambda x, c: $1)(r['pipelines'][0]['result'], r['pipelines'][0]['cost']['cache'])"
}

# same GPUS OPERATOR OBJECTS ARGS VALUES KEYS: these values of the result are the same as on one gpu
same() {
    local want
    conf "$one" "$2" "$3" "$4" 'io = 1; compute = 2;'
    exits 0 run "$SCRATCH/x.conf" --json && result_is True || return 1
    want=$(python3 -c 'import json, sys
result = json.load(open(sys.argv[1]))["pipelines"][0]["result"]
print([result[name] for name in sys.argv[2].split()])' "$SCRATCH/out" "$5")
    conf "$1" "$2" "$3" "$4" "$6"
    exits 0 run "$SCRATCH/x.conf" --json && result_is "[x[name] for name in '$5'.split()] == $want"
}

gather_args="row = $row; lookups = $lookups; zipf = 0.9;"
join='table = { object = "buckets"; }; keys = { object = "keys"; };'

plans() {
    conf "$two" gather "$table" "$gather_args" 'cache = { frames = 448; }; io = 1; compute = 2;'
    exits 0 check "$SCRATCH/x.conf" &&
        says 'gather on g0, g1: 448 frames of 4 KiB, clock; blocks 1 I/O + 2 compute, on each gpu' &&
        exits 0 check "$SCRATCH/x.conf" --json &&
        json 'r["pipelines"][0]["gpu"] == "g0" and r["pipelines"][0]["gpus"] == ["g0", "g1"]' &&
        json '[p["gpu"] for p in r["partitions"]] == ["g0", "g1"]' &&
        json 'all({"448 frames of 4 KiB", "directory and mailboxes", "addresses of other gpus"} <=
                  {x["purpose"] for x in p["parts"]} for p in r["partitions"])' &&
        json '(lambda bytes: bytes[0] == 2 * bytes[1] > 0)([x["size_bytes"]
               for p in r["partitions"] for x in p["parts"] if x["purpose"] == "operator states"])'
}

lists() {
    exits 0 check --operators --json &&
        json '({o["name"]: o["several_gpus"] for o in r["operators"] if o["shape"] == "access"} ==
               {"chase": True, "gather": True, "join": True, "bfs": False})' &&
        exits 0 check --operators && says "runs on one gpu, or on several"
}

# Both caches hold all pages: each page comes from the ssd once, and is copied to the other gpu.
reads_once() {
    conf "$two" gather "$table" "$gather_args warm = 1;" 'cache = { frames = 448; }; io = 2; compute = 2;'
    exits 0 run "$SCRATCH/x.conf" --json && result_is 'c["pages_read"] == 128' &&
        json 'r["pipelines"][0]["cost"]["cache"]["pages_copied"] > 0' &&
        json 'r["pipelines"][0]["cost"]["cache"]["evictions"] == 0' &&
        json 'r["pipelines"][0]["read_bytes"] == 128 * 4096' &&
        json 'r["pipelines"][0]["cost"]["compute"]["blocks"] == 4' &&
        json 'r["pipelines"][0]["cost"]["io"]["workers"] == 4' &&
        json 'r["pipelines"][0]["gpus"] == ["g0", "g1"]'
}

# written GPUS KEYS: each lookup writes its row; neighbours are written on different gpus
written() {
    conf "$1" gather "$table indices = { object = \"indices\"; };
        rows = { object = \"rows\"; bytes = $((lookups * row)); replace = true; };" "$gather_args" "$2"
    exits 0 run "$SCRATCH/x.conf" --json && result_is "x['lookups'] == $lookups" &&
        exits 0 store get --force "$image" rows "$SCRATCH/got" && exits 0 store verify "$image" &&
        python3 - "$SCRATCH" "$row" <<'PY'
import struct, sys
folder, row = sys.argv[1], int(sys.argv[2])
table, index = open(folder + "/table", "rb").read(), open(folder + "/indices", "rb").read()
want = b"".join(table[i * row:(i + 1) * row] for (i,) in struct.iter_unpack("<I", index))
sys.exit(open(folder + "/got", "rb").read() != want)
PY
}

# Ctrl-C ends the workers of both gpus; a new object is removed. All reads would take many minutes.
interrupted() {
    local pid code=0
    echo "on read lba 256-16000 count 1000000: delay 100ms" >"$SCRATCH/faults"
    conf "$two" gather "$table rows = { object = \"cut\"; bytes = 38400000; };" \
        "row = $row; lookups = 150000;" 'cache = { frames = 28; }; io = 1; compute = 1;' '' ",faults=faults"
    "$HEADRACE" run "$SCRATCH/x.conf" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &
    pid=$!
    until_true 60 under_way 'p["cache"]["pages_read"] > 3' || { kill -KILL $pid; return 1; }
    kill -INT $pid
    wait $pid || code=$?
    [ $code -eq 1 ] || { echo "exit code $code"; return 1; }
    warns "pipeline 'p' interrupted" && exits 0 store ls "$image" && ! says cut >/dev/null
}

# The failure of one gpu ends the run on both; the message names the gpu.
media_error() {
    echo "on read lba 256-16000 count 1000000: status 0x281" >"$SCRATCH/faults"
    conf "$two" gather "$table" "$gather_args" 'cache = { frames = 448; }; verify = "off";' '' ",faults=faults"
    exits 4 run "$SCRATCH/x.conf" --json && grep -qE "pipeline 'p' on gpu 'g[01]': object 'table', page" "$SCRATCH/err" &&
        warns "Unrecovered Read Error" && json 'r["pipelines"][0]["outcome"] == "failed"'
}

beyond_the_table() {
    conf "$two" gather "$table indices = { object = \"next\"; };" "$gather_args"
    exits 1 run "$SCRATCH/x.conf" && warns "operator gather cannot accept the value of element" &&
        grep -qE "pipeline 'p' on gpu 'g[01]'" "$SCRATCH/err"
}

status_names_gpus() {
    conf "$two" gather "$table" "$gather_args"
    sed -i '1i boot = { after = "stay"; post = "off"; };\nappliance = { name = "gpus"; };' "$SCRATCH/x.conf"
    timeout --foreground 200 "$HEADRACE" boot "$SCRATCH/x.conf" >"$SCRATCH/boot.out" 2>"$SCRATCH/boot.err" </dev/null &
    local pid=$! ok=0
    until_true 150 done_in_boot || ok=1
    kill -TERM $pid
    wait $pid
    return $ok
}

done_in_boot() {
    "$HEADRACE" status gpus --json >"$SCRATCH/out" && json 'r["pipelines"][0]["outcome"] == "done"' &&
        json 'r["pipelines"][0]["gpus"] == ["g0", "g1"]'
}

# refused CODE TEXT: check and run end with that code and print the text
refused() {
    exits "$1" check "$SCRATCH/x.conf" && warns "$2" && exits "$1" run "$SCRATCH/x.conf" && warns "$2"
}

# wrong GPUS TEXT: check and run report the value of `gpus` with this text
wrong() {
    conf "$1" gather "$table" "$gather_args"
    refused 2 "x.conf:6: pipelines[0].gpus: $2"
}

one_gpu_only() {
    conf "$two" bfs 'offsets = { object = "next"; }; edges = { object = "indices"; };' 'root = 0;'
    refused 2 'x.conf:6: pipelines[0].gpus: operator bfs runs on one gpu; expected gpu = "NAME" in place of gpus'
}

shared_memory() {
    conf "$two" gather "$table" "$gather_args issuers = 1;"
    refused 2 "x.conf:5: pipeline 'p': operator gather with these arguments shares 2097152 bytes of memory among its workers, so it runs on one gpu; expected gpu = \"g0\""
}

too_small() {
    conf "$two" gather "$table" "$gather_args" 'cache = { frames = 5000; };' 'host = "8M";'
    refused 2 "gpu 'g0': the partition does not fit"
}

too_few_blocks() {
    conf "$two" gather "$table" "$gather_args" 'io = 1; compute = 2;' '' '' 'blocks = 2;'
    refused 2 "x.conf:2: gpu 'g1': pipelines that may run at the same time need 3 blocks, but gpus[1].blocks allows 2"
}

too_few_queues() {
    conf "$three" gather "$table" "$gather_args" 'io = 100; compute = 1;'
    exits 3 check "$SCRATCH/x.conf" && warns "the pipelines need 300 I/O queue pairs, but the controller has 255 left"
}

one_command() {
    conf "$two" gather "$table" "$gather_args"
    sed -i 's/name = "a";/name = "a"; queue_entries = 2;/' "$SCRATCH/x.conf"
    refused 2 "an I/O worker has 1 command at a time, expected 2 or more with several gpus; use queue_entries of 3 or more"
}

check "objects in a store" objects
check "check --operators says which operators run on several gpus" lists
check "check shows both gpus and their partitions" plans
check "each page is read once for both gpus" reads_once
sums="sum_fixed lookups skipped"
check "gather on two gpus" same "$two" gather "$table" "$gather_args" "$sums" 'io = 1; compute = 2;'
check "gather on three gpus, two I/O blocks each" \
    same "$three" gather "$table" "$gather_args" "$sums" 'io = 2; compute = 1;'
for policy in clock lru stream; do
    check "gather with caches of 14 frames, $policy" same "$two" gather "$table" "$gather_args" "$sums" \
        "cache = { frames = 14; policy = \"$policy\"; }; io = 1; compute = 2;"
done
check "join on two gpus" same "$two" join "$join" 'warm = 0;' 'keys matches payload_sum buckets' \
    'cache = { frames = 28; }; io = 1; compute = 2;'
check "chase on two gpus" same "$two" chase 'next = { object = "next"; };' 'hops = 300; chains = 6;' \
    'checksum hops' 'io = 1; compute = 2;'
check "rows written on two gpus" written "$two" 'io = 1; compute = 2;'
check "rows written on two gpus with small caches" written "$two" 'cache = { frames = 21; }; io = 1; compute = 2;'
check "rows written on three gpus" written "$three" 'cache = { frames = 112; }; io = 2; compute = 1;'
check "Ctrl-C ends a run on two gpus" interrupted
check "a block that cannot be read" media_error
check "an index beyond the table" beyond_the_table
check "boot, and its status" status_names_gpus
check "a gpu named twice" wrong 'gpus = [ "g0", "g0" ];' "names 'g0' twice, expected different gpus"
check "a missing gpu" wrong 'gpus = [ "g0", "g7" ];' "there is no gpu 'g7'"
check "a list of one" wrong 'gpus = [ "g0" ];' 'has 1 name, expected 2 to 8; gpu = "NAME" is for one gpu'
check "gpu and gpus" wrong 'gpu = "g0"; gpus = [ "g0", "g1" ];' "is beside gpu, expected one of the two"
check "an operator that runs on one gpu" one_gpu_only
check "arguments for one gpu" shared_memory
check "frames that do not fit" too_small
check "blocks that one gpu does not allow" too_few_blocks
check "queue pairs that the controller does not have" too_few_queues
check "queues with room for one command" one_command
done_testing
