#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Access operators under mpirun: lookups, or the table, divided over ranks by shards, against one process; and what
# they cannot divide.
# shellcheck disable=SC2016  # ${rank} is for headrace, not for the shell
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/ranks.sh
. "$(dirname "$0")/lib/ranks.sh"

build=$(dirname "$HEADRACE")
objects=(table indices next buckets keys values picks)


make_data() {
    python3 - "$SCRATCH" <<'PY'
import random, struct, sys
folder, r, rows, lookups, buckets = sys.argv[1], random.Random(11), 1501, 2503, 2048
def write(name, form, values):
    open(f"{folder}/{name}", "wb").write(struct.pack(f"<{len(values)}{form}", *values))
def mix(x):
    mask = 2**64 - 1
    x = x + 0x9e3779b97f4a7c15 & mask
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & mask
    x = (x ^ x >> 27) * 0x94d049bb133111eb & mask
    return x ^ x >> 31
write("table", "f", [r.uniform(-2, 2) for _ in range(16 * rows)])
write("indices", "I", [r.randrange(rows) for _ in range(lookups)])
write("picks", "Q", [r.randrange(rows) for _ in range(lookups)])
write("values", "Q", [r.getrandbits(63) for _ in range(rows)])
write("next", "Q", r.sample(range(rows), rows))
table = [0] * (2 * buckets)
for _ in range(1000):
    key = r.randrange(1, 1500)
    at = mix(key) * buckets >> 64
    while table[2 * at]:
        at = (at + 1) % buckets
    table[2 * at:2 * at + 2] = key, r.getrandbits(60)
write("buckets", "Q", table)
write("keys", "Q", [r.randrange(1, 3000) for _ in range(lookups)])
PY
}

make_operator() {
    env -i PATH="$PATH" make NVCC= O="$SCRATCH/op" op OP=gpu/ops/template/pick_sum.c >"$SCRATCH/out" 2>"$SCRATCH/err"
}

# conf FILE DEVICE
conf() {
    cat >"$SCRATCH/$1" <<CONF
ssds = ( { name = "a"; device = "soft:$SCRATCH/$2"; timeout_ms = 60000; } );
gpus = ( { name = "g"; device = "host:2"; } );
operators = ( { name = "pick_sum"; file = "$SCRATCH/op/pick_sum.op"; } );
pipelines = (
  { name = "zipf"; operator = "gather"; shard = "objects"; objects = { table = { object = "table"; }; };
    args = { row = 64; lookups = 2503; zipf = 0.8; ahead = 4; }; cache = { frames = 16; }; compute = 2; },
  { name = "given"; operator = "gather"; shard = "objects"; compute = 2; cache = { frames = 32; };
    objects = { table = { object = "table"; }; indices = { object = "indices"; }; };
    args = { row = 64; lookups = 2500; issuers = 1; }; },
  { name = "rows"; operator = "gather"; shard = "objects"; compute = 2;
    objects = { table = { object = "table"; }; indices = { object = "indices"; }; rows = { object = "rows"; bytes = 160192; }; };
    args = { row = 64; lookups = 2503; }; },
  { name = "crc"; operator = "crc32c"; shard = "objects"; source = { object = "rows"; }; tile = "4K"; },
  { name = "chase"; operator = "chase"; shard = "objects"; objects = { next = { object = "next"; }; };
    args = { hops = 50; chains = 5; }; },
  { name = "join"; operator = "join"; shard = "objects"; compute = 2;
    objects = { table = { object = "buckets"; }; keys = { object = "keys"; }; }; },
  { name = "user"; operator = "pick_sum"; shard = "objects"; compute = 2;
    objects = { picks = { object = "picks"; }; values = { object = "values"; }; }; }
);
CONF
}

# The results without times, and without what one rank alone has counted.
kept() {
    results | grep -Ev '^    (run_ns|ns_per_hop|p50_ns|p99_ns|[a-z]*_per_s|pages:) ?'
}

alone() {
    local object
    exits 0 store format "soft:$SCRATCH/one.img,size=16M" || return 1
    for object in "${objects[@]}"; do
        exits 0 store put "soft:$SCRATCH/one.img" "$object" "$SCRATCH/$object" || return 1
    done
    conf one.conf one.img && conf ranks.conf 's${rank}.img' && exits 0 run "$SCRATCH/one.conf" && kept >"$SCRATCH/alone" &&
        [ "$(grep -cE '^    (sum_fixed|checksum|matches|sum|picks|crc32c) ' "$SCRATCH/alone")" -eq 11 ] &&
        exits 0 store get --force "soft:$SCRATCH/one.img" rows "$SCRATCH/rows"
}

# make_ssds N [OBJECT ROW_BYTES]...: an ssd for each rank with all objects (or those in $only) whole, but these in
# shards
make_ssds() {
    local n=$1 r object
    local -A of=()
    shift
    while [ $# -gt 0 ]; do
        of[$1]=$2
        shift 2
    done
    rm -f "$SCRATCH"/s*.img
    for ((r = 0; r < n; r++)); do
        exits 0 store format "soft:$SCRATCH/s$r.img,size=4M" || return 1
        for object in ${only:-${objects[@]}}; do
            if [ "$n" -gt 1 ] && [ "${of[$object]-}" ]; then
                exits 0 store put --shard "$r/$n" --row-bytes "${of[$object]}" --tile-rows 512 "soft:$SCRATCH/s$r.img" \
                    "$object" "$SCRATCH/$object" || return 1
            else
                exits 0 store put "soft:$SCRATCH/s$r.img" "$object" "$SCRATCH/$object" || return 1
            fi
        done
    done
}

# put_again RANK OBJECT FILE [OPTIONS...]
put_again() {
    local r=$1 object=$2 file=$3
    shift 3
    exits 0 store rm "soft:$SCRATCH/s$r.img" "$object" && exits 0 store put "$@" "soft:$SCRATCH/s$r.img" "$object" "$file"
}

# The new objects of the ranks, one after another, are that of one process.
joined() {
    local r
    for ((r = 0; r < $1; r++)); do
        "$HEADRACE" store get "soft:$SCRATCH/s$r.img" rows - 2>/dev/null || { echo "rank $r has no rows"; return 1; }
    done | cmp - "$SCRATCH/rows"
}

lookups_divided() {
    make_ssds "$1" indices 4 keys 8 picks 8 && ranks "$1" 0 "$SCRATCH/ranks.conf" && silent &&
        kept | diff "$SCRATCH/alone" - && joined "$1"
}

# Without `rows`, which follow the lookups. The first two results are those of zipf and given.
table_divided() {
    only="table indices" make_ssds 3 table 64 && ranks 3 0 "$SCRATCH/ranks.conf" --pipeline zipf && silent &&
        kept | diff <(head -n 5 "$SCRATCH/alone") - || return 1
    ranks 3 0 "$SCRATCH/ranks.conf" --pipeline given && silent && kept | diff <(sed -n 6,11p "$SCRATCH/alone") -
}

# Nothing is divided but the work.
all_whole() {
    only="table indices picks values" make_ssds 3 && ranks 3 0 "$SCRATCH/ranks.conf" --json --pipeline rows && joined 3 &&
        json 'r["ranks"] == 3 and r["pipelines"][0]["result"]["lookups"] == 2503' || return 1
    ranks 3 0 "$SCRATCH/ranks.conf" --pipeline user && kept | diff <(tail -n 4 "$SCRATCH/alone") -
}

outcome() {
    grep -q "^$1  *[a-z0-9_]*  *$2 " "$SCRATCH/out" || { echo "$1 is not $2"; return 1; }
}

# Complete objects stay; when one rank has lost its part, all ranks make theirs again.
again() {
    ranks 3 0 "$SCRATCH/ranks.conf" --pipeline rows && outcome rows 'already complete' || return 1
    exits 0 store rm "soft:$SCRATCH/s1.img" rows && ranks 3 0 "$SCRATCH/ranks.conf" --pipeline rows && outcome rows 'done' && joined 3
}

# ---- refused: exit code 2; no rank writes

# refused N LINES TEXT...: the errors of a job of all pipelines, or of $pipeline
refused() {
    local n=$1 lines=$2 r text
    shift 2
    for ((r = 0; r < n; r++)); do cp "$SCRATCH/s$r.img" "$SCRATCH/before$r"; done
    ranks "$n" 2 "$SCRATCH/${config-ranks.conf}" --pipeline "${pipeline-rows}" || return 1
    [ "$(errors)" -eq "$lines" ] || { echo "$(errors) errors, expected $lines"; return 1; }
    for text; do warns "$text" || return 1; done
    for ((r = 0; r < n; r++)); do cmp "$SCRATCH/s$r.img" "$SCRATCH/before$r" || return 1; done
}

not_divisible() {
    cat >"$SCRATCH/bfs.conf" <<CONF
ssds = ( { name = "a"; device = "soft:$SCRATCH/one.img,shared=1"; } );
gpus = ( { name = "g"; device = "host:1"; } );
pipelines = ( { name = "bfs"; operator = "bfs"; args = { root = 0; };
    objects = { offsets = { object = "next"; }; edges = { object = "indices"; }; }; } );
CONF
    ranks 2 2 "$SCRATCH/bfs.conf" && [ "$(errors)" -eq 1 ] &&
        warns "bfs.conf:3: pipeline 'bfs': its operator does not divide its work over ranks" || return 1
    sed -i 's/operator = "bfs";/& shard = "objects";/' "$SCRATCH/bfs.conf"
    exits 2 check "$SCRATCH/bfs.conf" && warns "pipelines[0].shard: operator bfs does not divide its work over ranks" &&
        ranks 2 2 "$SCRATCH/bfs.conf" && [ "$(errors)" -eq 1 ] && warns "pipelines[0].shard: operator bfs does not divide"
}

no_shard_key() {
    sed 's/"chase"; shard = "objects"/"chase"/' "$SCRATCH/ranks.conf" >"$SCRATCH/key.conf" && only="next" make_ssds 2 &&
        config=key.conf pipeline=chase refused 2 1 "pipeline 'chase': with --mpi each pipeline needs shard"
}

two_kinds() {
    only="table indices" make_ssds 2 table 64 && refused 2 2 "as 'rows' of operator gather, is divided over ranks, and 'table' is, too"
}

not_this_object() {
    only="next" make_ssds 2 next 8 &&
        pipeline=chase refused 2 2 "object 'next', as 'next' of operator chase, is shard 0 of 2 of a data set; expected the whole"
}

part_of_a_row() {
    only="table indices" make_ssds 2 && put_again 0 indices "$SCRATCH/indices" --shard 0/2 --row-bytes 2 --tile-rows 1 &&
        put_again 1 indices "$SCRATCH/indices" --shard 1/2 --row-bytes 2 --tile-rows 1 || return 1
    head -c 10006 "$SCRATCH/indices" >"$SCRATCH/odd"
    put_again 0 indices "$SCRATCH/odd" --shard 0/2 --row-bytes 2 --tile-rows 1 &&
        put_again 1 indices "$SCRATCH/odd" --shard 1/2 --row-bytes 2 --tile-rows 1 &&
        pipeline=given refused 2 2 "as 'indices' of operator gather, is a shard of 5004 bytes from byte 5002 on"
}

one_is_whole() {
    only="table indices" make_ssds 2 indices 4 && put_again 1 indices "$SCRATCH/indices" &&
        pipeline=given refused 2 1 "pipeline 'given': object 'indices' of rank 1 is no shard" &&
        put_again 0 indices "$SCRATCH/indices" && put_again 1 indices "$SCRATCH/indices" --shard 1/2 --row-bytes 4 &&
        pipeline=given refused 2 1 "pipeline 'given': object 'indices' of rank 0 is no shard"
}

missing_rows() {
    only="buckets keys" make_ssds 2 keys 8 && put_again 0 keys "$SCRATCH/keys" --shard 0/3 --row-bytes 8 --tile-rows 512 &&
        pipeline="join" refused 2 1 "pipeline 'join': object 'keys': rank 0 has shard 0 of 3, rows 0 to 511, but the job has 2 ranks"
}

other_table() {
    only="table" make_ssds 2 || return 1
    { head -c 96063 "$SCRATCH/table" && echo; } >"$SCRATCH/other"
    put_again 1 table "$SCRATCH/other" && pipeline=zipf refused 2 1 "pipeline 'zipf': object 'table' on ssd 'a' has CRC-32C" \
        "on rank 1, but CRC-32C" || return 1
    head -c 96000 "$SCRATCH/table" >"$SCRATCH/other"
    put_again 1 table "$SCRATCH/other" &&
        pipeline=zipf refused 2 1 "object 'table' on ssd 'a' has 96000 bytes on rank 1, but 96064 on rank 0"
}

one_store() {
    sed 's/one.img/one.img,shared=1/' "$SCRATCH/one.conf" >"$SCRATCH/store.conf"
    exits 0 store rm "soft:$SCRATCH/one.img" rows && cp "$SCRATCH/one.img" "$SCRATCH/before" &&
        ranks 2 2 "$SCRATCH/store.conf" --pipeline rows && [ "$(errors)" -eq 1 ] &&
        warns "pipeline 'rows': rows on ssd 'a' of ranks 0 and 1 is in the same store" && cmp "$SCRATCH/one.img" "$SCRATCH/before"
}

# ---- failures

# A block that one rank cannot read, and an index that one rank refuses: no rank keeps its new object.
failing() {
    local r lba
    only="table indices" make_ssds 3 indices 4 && exits 0 store ls --json "soft:$SCRATCH/s1.img" || return 1
    lba=$(json_value "$SCRATCH/out" r '[o["offset_bytes"] // 4096 for o in r["objects"] if o["name"] == "table"][0]') || return 1
    echo "on read lba $((lba + 1)) count 1000000: status 0x281" >"$SCRATCH/f1"
    : | tee "$SCRATCH/f0" >"$SCRATCH/f2"
    sed 's/s${rank}.img/s${rank}.img,faults='"${SCRATCH//\//\\/}"'\/f${rank}/' "$SCRATCH/ranks.conf" >"$SCRATCH/fault.conf"
    ranks 3 4 "$SCRATCH/fault.conf" --pipeline rows && [ "$(errors)" -eq 1 ] &&
        warns "error: rank 1: pipeline 'rows': object 'table'" || return 1
    python3 -c 'import struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
data[-4:] = struct.pack("<I", 1501)
open(sys.argv[2], "wb").write(data)' "$SCRATCH/indices" "$SCRATCH/wrong" &&
        for r in 0 1 2; do put_again "$r" indices "$SCRATCH/wrong" --shard "$r/3" --row-bytes 4 --tile-rows 512 || return 1; done
    ranks 3 1 "$SCRATCH/ranks.conf" --pipeline rows && [ "$(errors)" -eq 1 ] &&
        warns "rank 2: pipeline 'rows': operator gather cannot accept the value of element 966 of object 'indices'" || return 1
    for r in 0 1 2; do
        exits 0 store ls --json "soft:$SCRATCH/s$r.img" && json '"rows" not in [o["name"] for o in r["objects"]]' || return 1
    done
}

check "objects, a user operator and the result of one process" eval 'make_data && make_operator && alone'
if [ ! -e "$build/headrace-mpi.so" ] || ! command -v mpirun >/dev/null; then
    skip "built without mpicc, or there is no mpirun (package openmpi-bin)" "jobs of several ranks"
    done_testing
    exit
fi
few_ranks_of_sanitizers 1 2 3 4 7
for n in "${counts[@]}"; do
    check "$n ranks that divide lookups have the results and rows of one process" lookups_divided "$n"
done
check "3 ranks that divide the table" table_divided
in_many "3 ranks with whole objects" all_whole
in_many "complete objects stay, or all ranks make them again" again
in_many "an operator that does not divide its work" not_divisible
in_many "a pipeline without shard" no_shard_key
in_many "shards of the table and of the lookups" two_kinds
in_many "a shard of an object that ranks do not divide" not_this_object
in_many "a shard that begins within a row" part_of_a_row
in_many "shards on some ranks only" one_is_whole
in_many "shards of another number of ranks" missing_rows
in_many "whole objects that differ" other_table
in_many "new objects of two ranks in one store" one_store
check "a failure of one rank: its exit code, printed once, and no rank keeps its rows" failing
done_testing
