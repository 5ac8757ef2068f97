#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The examples of access operators at a small size: data, the run with a small cache and with all data in
# the cache, validation; errors of wrong data and wrong arguments.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

build=$(dirname "$HEADRACE")

# example NAME VARIABLE=VALUE...: run the example in $SCRATCH/NAME
example() {
    local name=$1
    shift
    env -u COUNT -u SSD "$@" SCALE="${SCALE:-9}" DIR="$SCRATCH/$name" HEADRACE="$HEADRACE" \
        timeout 200 tests/demo/example.sh "$name" "$build" >"$SCRATCH/out" 2>"$SCRATCH/err" &&
        [ "$(grep -c '^the result is right$' "$SCRATCH/out")" -eq 2 ] &&
        says "$name: cached over memory"
}

# conf NAME: the configuration of the last run of an example with the small cache
conf() {
    exits "$2" run "$SCRATCH/$1/cached.conf"
}

# put NAME OBJECT: replace an object by the file of the example
put() {
    exits 0 store rm "soft:$SCRATCH/$1/ssd.img" "$2" &&
        exits 0 store put "soft:$SCRATCH/$1/ssd.img" "$2" "$SCRATCH/$1/$2"
}

# word FILE INDEX BYTES VALUE: change an element
word() {
    python3 - "$@" <<'PY'
import sys
path, index, size, value = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
with open(path, "r+b") as f:
    f.seek(index * size)
    f.write(value.to_bytes(size, "little"))
PY
}

chase_refuses() {
    local start
    start=$(od -A n -t u8 -N 8 "$SCRATCH/chase/next")
    word "$SCRATCH/chase/next" "${start// /}" 8 123456789 && put chase next &&
        sed -i 's/hops = [0-9]*/hops = 100000/' "$SCRATCH/chase/cached.conf" && conf chase 1 &&
        warns "element ${start// /} of object 'next'"
}

# The block where the edges of bfs start; blocks have 4 KiB.
edges_lba() {
    exits 0 store ls --json "soft:$SCRATCH/bfs/ssd.img" >&2 && python3 - "$SCRATCH/out" <<'PY'
import json, sys
print([o["offset_bytes"] // 4096 for o in json.load(open(sys.argv[1]))["objects"] if o["name"] == "edges"][0])
PY
}

# Page 9 of the edges cannot be read. The search reads other pages before.
bfs_media_error() {
    local image="soft:$SCRATCH/bfs/ssd.img" first bad
    first=$(edges_lba) || return 1
    exits 0 store rm "$image" parents && exits 0 store rm "$image" levels || return 1
    bad=$((first + 9))
    echo "on read lba $bad count 1000000: status 0x281" >"$SCRATCH/bfs/faults"
    sed -E "s|(device = \"soft:[^\"]*)\"|\1,faults=$SCRATCH/bfs/faults\"|; s|operator = |verify = \"off\"; operator = |" "$SCRATCH/bfs/cached.conf" >"$SCRATCH/bad.conf"
    exits 4 run "$SCRATCH/bad.conf" &&
        warns "pipeline 'bfs': object 'edges', page 9, LBA $bad" && warns "Unrecovered Read Error" &&
        [ "$(grep -c "Unrecovered Read Error" "$SCRATCH/err")" = 1 ] &&
        exits 4 run "$SCRATCH/bad.conf" --json &&
        json 'r["pipelines"][0]["outcome"] == "failed"' &&
        json 'r["pipelines"][0]["failure"]["object"] == "edges"' &&
        json 'r["pipelines"][0]["failure"]["page"] == 9' &&
        json "r['pipelines'][0]['failure']['lba'] == $bad" &&
        json 'r["pipelines"][0]["failure"]["status"] == "Unrecovered Read Error"' &&
        json 'r["pipelines"][0]["cost"]["cache"]["pages_read"] > 1' &&
        exits 0 store ls "$image" && ! says levels >/dev/null
}

bfs_refuses_edge() {
    local first
    first=$(od -A n -t u8 -N 8 "$SCRATCH/bfs/offsets")
    word "$SCRATCH/bfs/edges" "${first// /}" 4 99999999 && put bfs edges && conf bfs 1 &&
        warns "element ${first// /} of object 'edges'"
}

bfs_refuses_offset() {
    word "$SCRATCH/bfs/offsets" 1 8 18446744073709551615 && put bfs offsets && conf bfs 1 &&
        warns "element 1 of object 'offsets'"
}

bfs_refuses_root() {
    sed -i 's/root = 0/root = 512/' "$SCRATCH/bfs/cached.conf"
    conf bfs 2 && warns "has 512 vertices, but the root is vertex 512"
}

too_many_issuers() {
    sed -i 's/issuers = [0-9]*/issuers = 2/' "$SCRATCH/gather/cached.conf"
    conf gather 1 && warns "operator gather"
}

# The configuration for two gpus, with the data and the sum of the run before it.
two_gpus() {
    sed "s|soft:[^\"]*|soft:$SCRATCH/gather/ssd.img|; s/lookups = [0-9]*/lookups = 2000/" \
        config/examples/gather-gpus.conf >"$SCRATCH/gpus.conf"
    exits 0 run "$SCRATCH/gpus.conf" && says "$(grep 'sum_fixed' "$SCRATCH/gather/cached.out")"
}

wrong_name() {
    ! tests/demo/example.sh sort "$build" 2>"$SCRATCH/err" && warns "there is no example 'sort'"
}

check "chase: the last indices are right" example chase COUNT=300
check "gather: the sum is right" example gather COUNT=2000
check "gather: the sum is right on two gpus" example gather COUNT=2000 GPUS=2
check "gather: config/examples/gather-gpus.conf runs on two gpus" two_gpus
check "gather: the sum is right with issuers" example gather COUNT=2000 ISSUERS=1
check "join: matches are right" example join COUNT=2000
check "join: matches are right on three gpus" example join COUNT=2000 GPUS=3
check "bfs: the tree is valid" example bfs
check "bfs: an edge that cannot be read" bfs_media_error
check "an index beyond the object ends the run" chase_refuses
check "a root that is no vertex is refused" bfs_refuses_root
sed -i 's/root = 512/root = 0/' "$SCRATCH/bfs/cached.conf"
check "an edge to a vertex that does not exist ends the run" bfs_refuses_edge
check "offsets that decrease end the run" bfs_refuses_offset
check "issuers leave a worker that computes" too_many_issuers
check "an unknown example is refused" wrong_name
done_testing
