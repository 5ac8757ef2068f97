#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Data sets sharded by rows over ranks: `store put --shard`, results and sinks under mpirun against those of one
# process, restarts, and shards that do not fit.
# shellcheck disable=SC2016  # ${rank} is for headrace, not for the shell
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/ranks.sh
. "$(dirname "$0")/lib/ranks.sh"

build=$(dirname "$HEADRACE")
image=$SCRATCH/one.img
objects=(in date discount quantity price)
declare -A row=([in]=16 [date]=4 [discount]=4 [quantity]=4 [price]=8)
declare -A tile_rows=([in]=1024 [date]=2048 [discount]=2048 [quantity]=2048 [price]=2048)

# An operator whose states differ from those of histogram: no merge(), no records.
make_operators() {
    cat >"$SCRATCH/sum_xor.c" <<'C'
#include "gpu/ops/operator.h"
struct state { uint64_t sum, mixed; };
HR_OP_CODE void hr_operator_init(const void *args, void *state)
{
}
HR_OP_CODE uint32_t hr_operator_tile(const void *args, void *state, const struct hr_op_tile *tile)
{
	const uint32_t *word = (const uint32_t *)(const void *)tile->in[0];
	struct state *s = (struct state *)state;
	uint32_t i;

	if (hr_thread() == 0)
		for (i = 0; i < tile->in_bytes[0] / 4; i++) {
			s->sum += word[i];
			s->mixed ^= word[i] * (tile->index + 1);
		}
	return 0;
}
HR_OP_CODE void hr_operator_finish(const struct hr_op_all *all)
{
	struct state *result = (struct state *)all->result;
	uint32_t w;

	for (w = 0; hr_thread() == 0 && w < all->workers; w++) {
		const struct state *s =
			(const struct state *)(const void *)(all->states + (uint64_t)w * all->state_bytes);

		result->sum += s->sum;
		result->mixed ^= s->mixed;
	}
}
#ifdef HR_OP_CPU
static uint32_t row_bytes(const void *args, uint32_t source)
{
	return 4;
}
static uint32_t state_bytes(const void *args)
{
	return sizeof(struct state);
}
static void report(const struct hr_op_all *all, const struct hr_op_report *to)
{
	const struct state *s = all->result;

	to->u64(to, "sum", s->sum);
	to->u64(to, "mixed", s->mixed);
}
HR_OPERATOR(.name = "sum_xor", .help = "Sum, and sum modulo two.", .output = HR_OUT_NONE,
	    .row_bytes = row_bytes, .state_bytes = state_bytes, .report = report);
#endif
C
    local file
    for file in gpu/ops/template/histogram.c "$SCRATCH/sum_xor.c"; do
        env -i PATH="$PATH" make NVCC= O="$SCRATCH/op" op OP="$file" >"$SCRATCH/out" 2>"$SCRATCH/err" || return 1
    done
    mv "$SCRATCH"/op/*.op "$SCRATCH" && rm -rf "$SCRATCH/op"
}

# conf FILE DEVICE [SHARD]: all built-in stream operators and two user operators
conf() {
    local shard=${3-objects}
    cat >"$SCRATCH/$1" <<CONF
appliance = { checkpoint = "1ms"; };
ssds = ( { name = "a"; device = "soft:$SCRATCH/$2"; timeout_ms = 60000; } );
gpus = ( { name = "g"; device = "host:2"; } );
operators = ( { name = "histogram"; file = "$SCRATCH/histogram.op"; }, { name = "sum_xor"; file = "$SCRATCH/sum_xor.op"; } );
pipelines = (
  { name = "crc"; source = { object = "in"; }; operator = "crc32c"; tile = "16K"; shard = "$shard"; },
  { name = "top"; source = { object = "in"; }; operator = "topk_dot"; tile = "16K"; shard = "$shard";
    args = { k = 7; query = [ 1.0, -2.0, 3.0, 0.5 ]; }; },
  { name = "sum"; operator = "filter_sum"; tile = "16K"; shard = "$shard"; blocks = { compute = 2; };
    source = ( { object = "date"; }, { object = "discount"; }, { object = "quantity"; }, { object = "price"; } );
    args = { shipdate_from = 10; shipdate_before = 2000; discount_from = 1; discount_to = 60; quantity_below = 40; }; },
  { name = "user1"; source = { object = "in"; }; operator = "histogram"; tile = "16K"; shard = "$shard";
    blocks = { compute = 2; }; args = { from = -0.5; to = 0.75; bins = 10; }; },
  { name = "user2"; source = { object = "in"; }; operator = "sum_xor"; tile = "16K"; shard = "$shard"; },
  { name = "copy"; source = { object = "in"; }; operator = "copy"; tile = "16K"; shard = "$shard"; slots = 1;
    sink = { object = "out"; checksum = true; }; },
  { name = "cast"; source = { object = "in"; }; operator = "cast_f32_bf16"; tile = "16K"; shard = "$shard";
    sink = { object = "half"; checksum = true; }; } ${pipelines-} );
CONF
}

# The objects of one process, and those of N ranks.
make_image() {
    local object
    exits 0 store format "soft:$image,size=64M" || return 1
    for object in "${objects[@]}"; do
        exits 0 store put "soft:$image" "$object" "$SCRATCH/$object" || return 1
    done
}

# The stores are made once for each N, and copied.
make_shards() {
    local n=$1 object r
    rm -f "$SCRATCH"/s*.img
    [ ! -e "$SCRATCH/made.$n" ] || { cp --sparse=always "$SCRATCH/made.$n"/* "$SCRATCH"; return; }
    for ((r = 0; r < n; r++)); do
        exits 0 store format "soft:$SCRATCH/s$r.img,size=16M" || return 1
        for object in "${objects[@]}"; do
            exits 0 store put --shard "$r/$n" --row-bytes "${row[$object]}" --tile-rows "${tile_rows[$object]}" \
                "soft:$SCRATCH/s$r.img" "$object" "$SCRATCH/$object" || return 1
        done
    done
    mkdir "$SCRATCH/made.$n" && cp --sparse=always "$SCRATCH"/s*.img "$SCRATCH/made.$n"
}

# joined N OBJECT: the shards of the ranks, one after another, are the object of one process
joined() {
    local r
    for ((r = 0; r < $1; r++)); do
        timeout 60 "$HEADRACE" store get "soft:$SCRATCH/s$r.img" "$2" - 2>/dev/null || return 1
    done >"$SCRATCH/joined"
    timeout 60 "$HEADRACE" store get "soft:$image" "$2" - 2>/dev/null | cmp - "$SCRATCH/joined"
}

# ---- shards in a store

# again OBJECT: a pipeline that reads a sink
again() {
    pipelines=", { name = \"again\"; source = { object = \"$1\"; }; operator = \"crc32c\"; tile = \"8K\"; shard = \"objects\"; }"
}

alone() {
    again half
    conf one.conf one.img && conf ranks.conf 's${rank}.img' && exits 0 run "$SCRATCH/one.conf" && silent &&
        results >"$SCRATCH/alone" && [ "$(wc -l <"$SCRATCH/alone")" -ge 30 ]
}

listed() {
    make_shards 3 && exits 0 store ls "soft:$SCRATCH/s1.img" &&
        says "price  (shard 1/3: 16384 of 46000 rows from row 14336)" &&
        exits 0 store ls --json "soft:$SCRATCH/s1.img" &&
        json '[o["shard"]["index"] for o in r["objects"]] == 5 * [1]' &&
        json '{(o["shard"]["first_row"], o["shard"]["rows"], o["shard"]["all_rows"]) for o in r["objects"][1:]} == {(14336, 16384, 46000)}' &&
        exits 0 store verify "soft:$SCRATCH/s1.img" && joined 3 price && joined 3 in
}

put_refused() {
    cp "$SCRATCH/s0.img" "$SCRATCH/before.img"
    local put="store put" to="soft:$SCRATCH/s0.img x $SCRATCH/in"
    # shellcheck disable=SC2086
    exits 2 $put --shard 3/3 --row-bytes 16 $to && warns "'3/3' is out of range" &&
        exits 2 $put --shard 1 --row-bytes 16 $to && exits 2 $put --shard /3 --row-bytes 16 $to &&
        exits 2 $put --shard 1/ --row-bytes 16 $to && exits 2 $put --shard 0/65537 --row-bytes 16 $to &&
        exits 2 $put --shard 1/3 $to && warns "--shard needs --row-bytes" &&
        exits 2 $put --row-bytes 16 $to && warns "need --shard" &&
        exits 2 $put --shard 1/3 --row-bytes 17 $to && warns "368000 bytes are not whole rows of 17 bytes" &&
        exits 2 $put --shard 1/3 --row-bytes 16 "soft:$SCRATCH/s0.img" a234567890123456789012345678901x "$SCRATCH/in" &&
        warns "the name of a shard has at most 31 characters" && cmp "$SCRATCH/s0.img" "$SCRATCH/before.img"
}

# A file that ends early leaves nothing.
put_short() {
    head -c 300000 "$SCRATCH/in" | timeout 60 "$HEADRACE" store put --shard 0/3 --row-bytes 16 --tile-rows 64 --size 368000 \
        "soft:$SCRATCH/s0.img" x - >"$SCRATCH/out" 2>"$SCRATCH/err"
    [ $? -eq 1 ] && warns "ended after 300000 of 368000 bytes" && exits 0 store ls "soft:$SCRATCH/s0.img" &&
        ! says " x " >/dev/null
}

shard_alone() {
    sed 's/s${rank}/s1/' "$SCRATCH/ranks.conf" >"$SCRATCH/m.conf"
    exits 2 run "$SCRATCH/m.conf" --pipeline crc && [ "$(errors)" -eq 1 ] &&
        warns "object 'in' on ssd 'a' is shard 1 of 3 of a data set, 8192 of 23000 rows from row 7168" &&
        warns "'mpirun -n 3 headrace run --mpi'"
}

# ---- jobs

same_as_one() {
    make_shards "$1" && ranks "$1" 0 "$SCRATCH/ranks.conf" && silent && results | diff "$SCRATCH/alone" - &&
        joined "$1" out && joined "$1" half
}

# A later job reads the sinks of the one before; its own sinks are complete.
later_job() {
    again out
    conf later.conf 's${rank}.img' &&
        exits 0 store ls --json "soft:$SCRATCH/s0.img" && json 'max(o["shard"]["count"] for o in r["objects"]) == 3' &&
        ranks 3 0 "$SCRATCH/later.conf" --pipeline again && silent && ranks 3 0 "$SCRATCH/ranks.conf" --json &&
        json '[p["outcome"] for p in r["pipelines"] if "sink" in p] == 2 * ["already complete"]'
}

# Ranks with whole copies make shards of a sink, too.
from_copies() {
    local r
    rm -f "$SCRATCH"/s*.img
    exits 0 store rm "soft:$image" half out && exits 0 run "$SCRATCH/one.conf" || return 1
    for r in 0 1 2 3; do
        exits 0 store format "soft:$SCRATCH/s$r.img,size=16M" &&
            exits 0 store put "soft:$SCRATCH/s$r.img" in "$SCRATCH/in" || return 1
    done
    pipelines='' conf copies.conf 's${rank}.img' tiles && ranks 4 0 "$SCRATCH/copies.conf" --pipeline copy && silent &&
        says "a:in, verified, CRC-32C" && joined 4 out && ranks 4 0 "$SCRATCH/copies.conf" --pipeline cast && joined 4 half
}

# One byte of the copy of rank 2 differs, in tiles that rank 2 reads: only rank 0 finds it, with the data of all.
damaged_copy() {
    local r
    for r in 0 1 2 3; do exits 0 store rm "soft:$SCRATCH/s$r.img" out || return 1; done
    flip "$SCRATCH/s2.img" in 200000 && ranks 4 4 "$SCRATCH/copies.conf" --pipeline copy &&
        warns "error: rank 0: pipeline 'copy': object 'in' on ssd 'a' differs from the stored data" && [ "$(errors)" -eq 1 ] || return 1
    for r in 0 1 2 3; do
        exits 0 store ls --json "soft:$SCRATCH/s$r.img" && json '"out" not in [o["name"] for o in r["objects"]]' || return 1
    done
}

# flip IMAGE OBJECT BYTE
flip() {
    exits 0 store ls --json "soft:$1" && python3 - "$SCRATCH/out" "$@" <<'PY'
import json, sys
at = [o["offset_bytes"] for o in json.load(open(sys.argv[1]))["objects"] if o["name"] == sys.argv[3]][0] + int(sys.argv[4])
with open(sys.argv[2], "r+b") as image:
    image.seek(at)
    byte = image.read(1)[0]
    image.seek(at)
    image.write(bytes([byte ^ 1]))
PY
}

# A shard is compared with its own checksum, by its rank.
damaged_shard() {
    make_shards 3 && flip "$SCRATCH/s1.img" in 100 && ranks 3 4 "$SCRATCH/ranks.conf" --pipeline copy &&
        warns "error: rank 1: pipeline 'copy': object 'in' on ssd 'a' differs from the stored data" || return 1
    # repaired, the job continues where the other ranks are
    flip "$SCRATCH/s1.img" in 100 && ranks 3 0 "$SCRATCH/ranks.conf" --pipeline copy && joined 3 out
}

# ---- a killed rank

# held_job DELAY: each read of rank 1 takes as long, from its tile 4 of 8 on, so its sink stops there.
held_job() {
    local lba
    exits 0 store ls --json "soft:$SCRATCH/s1.img" >&2 &&
        lba=$(json_value "$SCRATCH/out" r '[o["offset_bytes"] // 4096 for o in r["objects"] if o["name"] == "in"][0]') ||
        return 1
    echo "on read lba $((lba + 16))-$((lba + 31)) count 1000000: delay $1" >"$SCRATCH/f1"
    : | tee "$SCRATCH/f0" >"$SCRATCH/f2"
    sed 's/s${rank}.img/s${rank}.img,faults='"${SCRATCH//\//\\/}"'\/f${rank}/' "$SCRATCH/ranks.conf" >"$SCRATCH/held.conf"
    timeout -k 5 200 mpirun -n 3 "$HEADRACE" run --mpi "$SCRATCH/held.conf" --pipeline copy >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &
    job=$!
    until_true 300 durable_on 1 11
}

# durable_on RANK TILES
durable_on() {
    "$HEADRACE" status "held.$1" --json >"$SCRATCH/.status" &&
        json_holds "$SCRATCH/.status" r "r['pipelines'][0]['durable_tiles'] >= $2"
}

killed() {
    local code=0
    make_shards 3 && held_job 60s || return 1
    kill -KILL "$(json_value "$SCRATCH/.status" r 'r["engine_pid"]')" || return 1
    wait "$job" || code=$?
    [ "$code" -ne 0 ] && [ "$code" -ne 124 ] && grep -q 'rank 1 .*signal 9' "$SCRATCH/err" || return 1
    exits 0 store ls --json "soft:$SCRATCH/s1.img" &&
        json '[o["pending"] for o in r["objects"] if o["name"] == "out"] == [True]' &&
        json '[o["durable_bytes"] for o in r["objects"] if o["name"] == "out"] == [4 * 16384]' || return 1
    ranks 3 0 "$SCRATCH/ranks.conf" --pipeline copy && warns "rank 1: pipeline 'copy' resumes at tile 11 of 23" &&
        joined 3 out && exits 0 store verify "soft:$SCRATCH/s1.img"
}

# A signal stops the job; the ranks continue where each of them is.
stopped() {
    local code=0
    make_shards 3 && held_job 3s || return 1
    kill -TERM "$(json_value "$SCRATCH/.status" r 'r["engine_pid"]')" || return 1
    wait "$job" || code=$?
    [ "$code" -eq 1 ] || { echo "exit code $code"; return 1; }
    ranks 3 0 "$SCRATCH/ranks.conf" --pipeline copy && warns "rank 1: pipeline 'copy' resumes at tile" && joined 3 out
}

# Another number of ranks does not continue the sinks of this one.
other_number() {
    make_shards 3 && ranks 3 0 "$SCRATCH/ranks.conf" --pipeline copy || return 1
    local r
    for r in 0 1; do
        exits 0 store rm "soft:$SCRATCH/s$r.img" in && exits 0 store put --shard "$r/2" --row-bytes 16 --tile-rows 1024 \
            "soft:$SCRATCH/s$r.img" in "$SCRATCH/in" || return 1
    done
    ranks 2 1 "$SCRATCH/ranks.conf" --pipeline copy && warns "object 'out' exists on ssd 'a', and is not of this run"
}

# ---- shards that do not fit: exit code 2, one line, nothing is written

refused() {
    local n=$1 r text
    shift
    for ((r = 0; r < n; r++)); do cp "$SCRATCH/s$r.img" "$SCRATCH/before$r"; done
    ranks "$n" 2 "$SCRATCH/${config-ranks.conf}" && [ "$(errors)" -eq 1 ] || return 1
    for text; do warns "$text" || return 1; done
    for ((r = 0; r < n; r++)); do cmp "$SCRATCH/s$r.img" "$SCRATCH/before$r" || return 1; done
}

# put_again RANK ARGUMENTS...: another object `in` on the ssd of a rank
put_again() {
    local r=$1
    shift
    exits 0 store rm "soft:$SCRATCH/s$r.img" in && exits 0 store put "$@" "soft:$SCRATCH/s$r.img" in "$SCRATCH/${file-in}"
}

other_job_size() {
    make_shards 3 && refused 2 "object 'in': rank 0 has shard 0 of 3, rows 0 to 7167, but the job has 2 ranks"
}

overlap() {
    make_shards 3 && put_again 2 --shard 1/3 --row-bytes 16 --tile-rows 1024 &&
        refused 3 "object 'in': rows 7168 to 15359 of rank 2 overlap with those of the ranks before, which end with row 15359"
}

gap() {
    make_shards 3 && put_again 1 --shard 2/3 --row-bytes 16 --tile-rows 1024 &&
        refused 3 "object 'in': rows 7168 to 15359 are missing: rank 1 has rows 15360 to 22999"
}

other_row() {
    make_shards 3 && put_again 1 --shard 1/3 --row-bytes 32 --tile-rows 512 &&
        refused 3 "object 'in': rank 1 has rows 3584 to 7679 of 32 bytes each, but a row of rank 0 has 16 bytes"
}

other_data() {
    make_shards 3 || return 1
    { head -c 367999 "$SCRATCH/in" && echo; } >"$SCRATCH/other"
    file=other put_again 1 --shard 1/3 --row-bytes 16 --tile-rows 1024 &&
        refused 3 "object 'in': rank 1 has rows 7168 to 15359 of another data set" "than rank 0"
}

no_shard() {
    make_shards 3 && put_again 1 && refused 3 "object 'in' of rank 1 is no shard" "'store put --shard 1/3'"
}

within_a_tile() {
    make_shards 3 || return 1
    local r
    for r in 0 1 2; do put_again "$r" --shard "$r/3" --row-bytes 16 --tile-rows 64 || return 1; done
    refused 3 "object 'in': rows 7680 to 15359 of rank 1 begin within a tile of 16384 bytes" "the 1024 rows of a tile"
}

not_of_shards() {
    make_shards 3 && sed 's/"objects"/"tiles"/' "$SCRATCH/ranks.conf" >"$SCRATCH/tiles.conf" &&
        config=tiles.conf refused 3 "object 'in' of rank 0 is shard 0 of 3 of a data set; expected shard = \"objects\""
}

# One store cannot have the sinks of two ranks.
one_store() {
    rm -f "$SCRATCH"/s*.img
    exits 0 store format "soft:$SCRATCH/s.img,size=16M" && exits 0 store put "soft:$SCRATCH/s.img" in "$SCRATCH/in" || return 1
    cp "$SCRATCH/s.img" "$SCRATCH/before"
    pipelines='' conf store.conf s.img,shared=1 tiles && ranks 2 2 "$SCRATCH/store.conf" --pipeline copy &&
        warns "pipeline 'copy': the sink on ssd 'a' of ranks 0 and 1 is in the same store" && [ "$(errors)" -eq 1 ] &&
        cmp "$SCRATCH/s.img" "$SCRATCH/before"
}

# A rank whose sink cannot be made: the others do not begin theirs.
full_rank() {
    make_shards 3 || return 1
    head -c 14200000 /dev/zero >"$SCRATCH/big"
    exits 0 store put "soft:$SCRATCH/s2.img" big "$SCRATCH/big" || return 1
    local r
    for r in 0 1 2; do cp "$SCRATCH/s$r.img" "$SCRATCH/before$r"; done
    ranks 3 1 "$SCRATCH/ranks.conf" --pipeline copy && warns "rank 2: " && warns "cannot be created on ssd 'a'" &&
        [ "$(errors)" -eq 1 ] || return 1
    for r in 0 1 2; do cmp "$SCRATCH/s$r.img" "$SCRATCH/before$r" || return 1; done
}

check "objects, operators and the result of one process" eval 'make_columns && make_operators && make_image && alone'
check "shards in ls and verify; together they are the object" listed
check "put: bad shards, rows and names: exit code 2, nothing written" put_refused
check "put: a short file leaves nothing" put_short
check "a shard without ranks: exit code 2" shard_alone
if [ ! -e "$build/headrace-mpi.so" ] || ! command -v mpirun >/dev/null; then
    skip "built without mpicc, or there is no mpirun (package openmpi-bin)" "jobs of several ranks"
    done_testing
    exit
fi
few_ranks_of_sanitizers 2 3 4 7
for n in "${counts[@]}"; do
    check "$n ranks have the results and sinks of one process" same_as_one "$n"
done
in_many "more ranks than tiles" same_as_one 25
check "a later job reads the sinks; complete sinks stay" eval 'same_as_one 3 && later_job'
check "ranks with copies make shards of a sink" from_copies
check "a damaged copy: exit code 4, and no rank keeps its sink" damaged_copy
check "a damaged shard: exit code 4 of its rank; repaired, the job continues" damaged_shard
check "kill -9 of a rank: the same command continues at its watermark" killed
check "SIGTERM to a rank: all stop, and continue" stopped
check "sinks of another number of ranks are not continued" other_number
check "another number of ranks than shards" other_job_size
check "shards that overlap" overlap
check "a shard that is missing" gap
check "another length of a row" other_row
check "another data set" other_data
check "an object that is no shard" no_shard
check "a shard that begins within a tile" within_a_tile
check "shards in a pipeline of whole objects" not_of_shards
check "sinks of two ranks in one store" one_store
check "a rank without room: no rank writes" full_rank
done_testing
