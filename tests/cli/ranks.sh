#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `headrace run --mpi`: what it refuses without a launcher, and jobs of several ranks under mpirun, whose
# results are compared with those of one process.
# shellcheck disable=SC2016  # ${rank} is for headrace, not for the shell
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/ranks.sh
. "$(dirname "$0")/lib/ranks.sh"

build=$(dirname "$HEADRACE")
image=$SCRATCH/ssd.img

# conf FILE [DEVICE_OPTIONS [KEYS]]: 23 tiles of the longest object, the last one short
conf() {
    cat >"$SCRATCH/$1" <<CONF
ssds = ( { name = "a"; device = "soft:$image,shared=1${2-}"; timeout_ms = 60000; } );
gpus = ( { name = "g"; device = "host:2"; } );
operators = ( ${ops-} );
pipelines = (
  { name = "crc"; source = { object = "in"; }; operator = "crc32c"; tile = "16K"; shard = "tiles"; ${3-} },
  { name = "top"; source = { object = "in"; }; operator = "topk_dot"; tile = "16K"; shard = "tiles";
    args = { k = 7; query = [ 1.0, -2.0, 3.0, 0.5 ]; }; },
  { name = "sum"; operator = "filter_sum"; tile = "16K"; shard = "tiles"; blocks = { compute = 2; };
    source = ( { object = "date"; }, { object = "discount"; }, { object = "quantity"; }, { object = "price"; } );
    args = { shipdate_from = 10; shipdate_before = 2000; discount_from = 1; discount_to = 60; quantity_below = 40; }; }
  ${pipelines-} );
CONF
}

# An image whose data are the same in each run of the test.
make_image() {
    make_columns
    local object
    exits 0 store format "soft:$image,size=64M" || return 1
    for object in in date discount quantity price; do
        exits 0 store put "soft:$image" "$object" "$SCRATCH/$object" || return 1
    done
}

# ---- without a launcher

alone() {
    conf x.conf && exits 0 run "$SCRATCH/x.conf" && results >"$SCRATCH/alone" &&
        [ "$(wc -l <"$SCRATCH/alone")" -ge 15 ] && silent
}

# The program in a folder without plugin.
no_plugin() {
    mkdir -p "$SCRATCH/bin" && cp "$HEADRACE" "$SCRATCH/bin/headrace" || return 1
    HEADRACE=$SCRATCH/bin/headrace exits 3 run --mpi "$SCRATCH/x.conf" &&
        warns "--mpi: there is no headrace-mpi.so in $SCRATCH/bin; 'make' builds it when there is mpicc" &&
        [ "$(wc -l <"$SCRATCH/err")" -eq 1 ]
}

wrong_plugin() {
    echo "no library" >"$SCRATCH/bin/headrace-mpi.so"
    HEADRACE=$SCRATCH/bin/headrace exits 3 run --mpi "$SCRATCH/x.conf" &&
        warns "--mpi: $SCRATCH/bin/headrace-mpi.so: file too short" && [ "$(wc -l <"$SCRATCH/err")" -eq 1 ]
}

variables_alone() {
    sed 's/ssd.img/s${rank}.img/' "$SCRATCH/x.conf" >"$SCRATCH/v.conf"
    exits 2 run "$SCRATCH/v.conf" && warns "v.conf:1: ssds[0].device: \${rank} has a value only with 'headrace run --mpi'" &&
        exits 2 check "$SCRATCH/v.conf" && warns '${rank} has a value only'
}

shard_with_tap() {
    conf s.conf
    sed -i 's/operator = "crc32c"/operator = "copy"; sink = { tap = "t"; }/' "$SCRATCH/s.conf"
    exits 2 run "$SCRATCH/s.conf" && warns "pipelines[0].shard: is not possible with a tap"
}

no_file() {
    exits 2 run --mpi && warns "--mpi: name a file with the configuration" &&
        exits 2 run --mpi - && warns "--mpi: name a file with the configuration"
}

not_launched() {
    env -u PMIX_RANK -u PMIX_NAMESPACE -u OMPI_COMM_WORLD_SIZE -u PMI_RANK -u PMI_FD \
        "$HEADRACE" run --mpi "$SCRATCH/x.conf" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
    [ $? -eq 2 ] && warns "--mpi: not started by mpirun or srun, as in: mpirun -n 4 headrace run --mpi CONFIG" &&
        [ "$(wc -l <"$SCRATCH/err")" -eq 1 ]
}

# ---- jobs

same_result() {
    ranks "$1" 0 "$SCRATCH/x.conf" && silent && results | diff "$SCRATCH/alone" - &&
        [ "$(grep -c '^crc ' "$SCRATCH/out")" -eq 1 ]
}

same_json() {
    exits 0 run "$SCRATCH/x.conf" --json && cp "$SCRATCH/out" "$SCRATCH/alone.json" &&
        ranks 3 0 "$SCRATCH/x.conf" --json && json 'r["ranks"] == 3' &&
        json "[p['result'] for p in r['pipelines']] == [p['result'] for p in __import__('json').load(open('$SCRATCH/alone.json'))['pipelines']]" &&
        json "[p['read_bytes'] for p in r['pipelines']] == [p['read_bytes'] for p in __import__('json').load(open('$SCRATCH/alone.json'))['pipelines']]" &&
        json "[s['check'] for p in r['pipelines'] for s in p['sources']] == 6 * ['verified']"
}

# Its result comes from states and records.
user_operator() {
    env -i PATH="$PATH" make NVCC= O="$SCRATCH/op" op OP=gpu/ops/template/histogram.c >"$SCRATCH/out" 2>"$SCRATCH/err" ||
        return 1
    ops="{ name = \"histogram\"; file = \"$SCRATCH/op/histogram.op\"; }"
    pipelines=', { name = "user"; source = { object = "in"; }; operator = "histogram"; tile = "16K"; shard = "tiles";
        args = { from = -0.5; to = 0.75; bins = 10; }; }'
    conf u.conf
    exits 0 run "$SCRATCH/u.conf" && results >"$SCRATCH/user" && ranks 3 0 "$SCRATCH/u.conf" &&
        results | diff "$SCRATCH/user" - && [ "$(wc -l <"$SCRATCH/user")" -gt "$(wc -l <"$SCRATCH/alone")" ]
}

copies() {
    local r
    for r in 0 1 2; do cp --sparse=always "$image" "$SCRATCH/s$r.img"; done
    sed 's/ssd.img,shared=1/s${local_rank}.img/' "$SCRATCH/x.conf" >"$SCRATCH/v.conf"
    ranks 3 0 "$SCRATCH/v.conf" && results | diff "$SCRATCH/alone" -
}

other_object() {
    exits 0 store rm "soft:$SCRATCH/s2.img" price && exits 0 store put "soft:$SCRATCH/s2.img" price "$SCRATCH/in" &&
        ranks 3 2 "$SCRATCH/v.conf" &&
        warns "object 'price' on ssd 'a' has CRC-32C" && warns "on rank 2, but CRC-32C" &&
        [ "$(grep -c 'headrace: error' "$SCRATCH/err")" -eq 1 ]
}

missing_object() {
    exits 0 store rm "soft:$SCRATCH/s1.img" in && ranks 3 2 "$SCRATCH/v.conf" &&
        warns "rank 1: " && warns "there is no object 'in'" && [ "$(grep -c 'rank [02]: ' "$SCRATCH/err")" -eq 0 ]
}

mistake_once() {
    sed 's/k = 7/k = 0/' "$SCRATCH/x.conf" >"$SCRATCH/m.conf"
    ranks 3 2 "$SCRATCH/m.conf" && [ "$(grep -c 'headrace: error' "$SCRATCH/err")" -eq 1 ] && warns "error: rank 0: "
}

refused() {
    sed 's/shard = "tiles"; blocks/blocks/' "$SCRATCH/x.conf" >"$SCRATCH/m.conf"
    ranks 2 2 "$SCRATCH/m.conf" && warns "pipeline 'sum': with --mpi each pipeline needs shard = \"tiles\" or \"objects\"" || return 1
    ranks 2 0 "$SCRATCH/m.conf" --pipeline crc
}

# The first block of object `in`; blocks have 4 KiB.
first_lba() {
    exits 0 store ls --json "soft:$image" >&2 &&
        json_value "$SCRATCH/out" r '[o["offset_bytes"] // 4096 for o in r["objects"] if o["name"] == "in"][0]'
}

# Rank 1 cannot read a block of its part. Of the others each tile takes 2 s, so that their parts would take a minute:
# they are stopped.
soft_fault() {
    local lba
    lba=$(first_lba) || return 1
    echo "on read lba $((lba + 40)) count 1000000: status 0x281" >"$SCRATCH/f1"
    echo "on read lba $lba-$((lba + 91)) count 1000000: delay 2s" | tee "$SCRATCH/f0" >"$SCRATCH/f2"
    conf f.conf ",faults=$SCRATCH/f\${rank}" 'slots = 1;'
    sed -i '/"crc"/s/"16K"/"4K"/' "$SCRATCH/f.conf"
    ranks 3 4 "$SCRATCH/f.conf" && [ "$(grep -c 'Unrecovered Read Error' "$SCRATCH/err")" -eq 1 ] &&
        warns "error: rank 1: pipeline 'crc': object 'in'" &&
        [ "$(grep -c 'headrace: error' "$SCRATCH/err")" -eq 1 ] &&
        grep -q '^crc  *crc32c  *interrupted ' "$SCRATCH/out" && warns "rank 2: pipeline 'crc' interrupted"
}

# ---- processes that end

slow_job() {
    local lba
    lba=$(first_lba) || return 1
    echo "on read lba $lba-$((lba + 91)) count 1000000: delay 2s" >"$SCRATCH/slow"
    conf f.conf ",faults=$SCRATCH/slow" 'slots = 1;'
    sed -i '/"crc"/s/"16K"/"4K"/' "$SCRATCH/f.conf"
    timeout -k 5 200 mpirun -n 3 "$HEADRACE" run --mpi "$SCRATCH/f.conf" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &
    job=$!
    until_true 100 running 0 && until_true 100 running 1 && until_true 100 running 2
}

# The appliance of each rank has a name of its own.
running() {
    "$HEADRACE" status "f.$1" --json >"$SCRATCH/.status" &&
        json_holds "$SCRATCH/.status" r 'r["pipelines"][0]["tiles_done"] >= 1'
}

pid_of() {
    json_value "$SCRATCH/.status" r 'r["engine_pid"]'
}

gone() {
    ! "$HEADRACE" status f.0 >/dev/null 2>&1 && ! "$HEADRACE" status f.2 >/dev/null 2>&1
}

# ends_by SIGNAL RANK: the job ends, with a code other than 0 in $code
ends_by() {
    local pid
    slow_job && "$HEADRACE" status "f.$2" --json >"$SCRATCH/.status" && pid=$(pid_of) || return 1
    kill -"$1" "$pid" || return 1
    code=0
    wait "$job" || code=$?
    [ "$code" -ne 0 ] && [ "$code" -ne 124 ] && gone
}

killed() {
    ends_by KILL 1 && grep -q 'rank 1 .*signal 9' "$SCRATCH/err" || return 1
    same_result 3
}

terminated() {
    ends_by TERM 2 && [ "$code" -eq 1 ] && warns "rank 0: pipeline 'crc' interrupted" &&
        warns "rank 1: pipeline 'crc' interrupted" && says interrupted
}

# The example, with folders of this test.
example() {
    DIR=$SCRATCH/example ROWS=12345 timeout 200 tests/demo/ranks_example.sh ranks "$build" >"$SCRATCH/out" \
        2>"$SCRATCH/err" && says "the results are the same" && says "the sinks are the same" && [ "$(grep -c 'best rows' "$SCRATCH/out")" -eq 2 ]
}

check "one process runs all tiles of a pipeline with shard" make_image && check "its result" alone
check "no plugin beside the program: exit code 3" no_plugin
check "a plugin that is no library: exit code 3" wrong_plugin
check "\${rank} without --mpi: exit code 2" variables_alone
check "shard with a tap: exit code 2" shard_with_tap
check "--mpi without a file: exit code 2" no_file
if [ ! -e "$build/headrace-mpi.so" ]; then
    skip "built without mpicc" "jobs of several ranks"
    done_testing
    exit
fi
check "not started by mpirun: exit code 2" not_launched
if ! command -v mpirun >/dev/null; then
    skip "there is no mpirun (package openmpi-bin)" "jobs of several ranks"
    done_testing
    exit
fi
few_ranks_of_sanitizers 1 2 3 4 7
for n in "${counts[@]}"; do
    check "$n ranks have the result of one process" same_result "$n"
done
in_many "more ranks than tiles" same_result 25
check "3 ranks in JSON" same_json
check "3 ranks with a user operator" user_operator
unset ops pipelines
check "each rank has its own copy" copies
check "a copy with other data: exit code 2 names object and rank" other_object
check "a rank without the object: exit code 2 of all" missing_object
check "a mistake of the configuration is printed once" mistake_once
check "a pipeline without shard is refused" refused
check "a block that one rank cannot read: exit code 4 of all, printed once" soft_fault
check "a killed rank ends the job, and the next one succeeds" killed
check "SIGTERM to one rank ends all" terminated
check "the example of ranks" example
done_testing
