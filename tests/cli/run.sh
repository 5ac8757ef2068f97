#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check, run, post and bench over the embedded configuration and over an image; JSON fields.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

check_json() {
    exits 0 check --json && json 'len(r["pipelines"]) == 2' &&
        json 'r["pipelines"][0]["path"] == "host memory (host backend)"' &&
        json 'r["ssds"][0]["block_bytes"] in (512, 4096)' &&
        json 'all(p["size_bytes"] > 0 for p in r["partitions"][0]["parts"])' &&
        json 'sum(p["used_bytes"] for p in r["partitions"][0]["places"]) <= 64 << 20'
}

parts_do_not_overlap() {
    exits 0 check --json && json 'all(a["offset_bytes"] + a["size_bytes"] <= b["offset_bytes"]
        for a in r["partitions"][0]["parts"] for b in r["partitions"][0]["parts"]
        if a["place"] == b["place"] and a is not b and a["offset_bytes"] <= b["offset_bytes"])'
}

# The same parts as check prints, with addresses: base + offset for each place, with one base per
# place.
run_map() {
    exits 0 run --map && silent && says "partition of gpu gpu0" && says "workers        CPU            ssds" &&
        says "checksum" && grep -Eq '^host +0x0{12} +[0-9]+  (0x[0-9a-f]{12} ){3}pipeline' "$SCRATCH/out" &&
        exits 0 run --map --json && json 'len(r["partitions"]) == 1' &&
        json 'all(len({p[a] - p["offset_bytes"] for p in r["partitions"][0]["parts"] if p["place"] == place}) == 1
            for a in ("worker_address", "cpu_address") for place in ("control", "host", "worker"))' &&
        json 'all(p["ssd_address"] > 0 for p in r["partitions"][0]["parts"] if p["place"] == "host")' &&
        exits 0 run --json && json '"partitions" not in r' &&
        exits 0 check --json && json '"cpu_address" not in r["partitions"][0]["parts"][0]'
}

# The pattern of the embedded configuration: the numbers from 0, of 8 bytes each, in 16 MiB. The expected value is that
# of rhash --crc32c.
checksum() {
    json 'r["pipelines"][0]["result"]["crc32c"] == "6e21e9f9"'
}

run_json() {
    exits 0 run --json && silent && json 'r["exit_code"] == 0' &&
        json '[(g["name"], g["device"]) for g in r["gpus"]] == [("gpu0", "host:2")]' &&
        json 'r["gpus"][0]["backend"].startswith("host:")' &&
        json '[p["outcome"] for p in r["pipelines"]] == ["done", "done"]' &&
        json 'r["pipelines"][0]["read_bytes"] == 16 << 20' &&
        json 'r["pipelines"][1]["sink"]["durable_bytes"] == 16 << 20' &&
        json 'r["first_tile_ms"] > 0' && json 'r["resident_max_bytes"] > 0'
}

run_one() {
    exits 0 run --pipeline copy --json && json '[p["name"] for p in r["pipelines"]] == ["copy"]'
}

quiet_when_piped() {
    exits 0 run && silent && says "checksum" && ! grep -q $'\r' "$SCRATCH/out" &&
        head -n 1 "$SCRATCH/out" | grep "^pipeline " >/dev/null # nothing was chosen
}

post_json() {
    exits 0 post --json && json 'r["failed"] == 0 and r["passed"] >= 12' &&
        json '{"cpu", "memory", "clock", "backend", "workers", "operator", "controller", "queue", "smart",
            "store", "loopback", "map", "peer_data"} == {s["step"] for s in r["steps"]}' &&
        json 'any("firmware 1.0, NVMe 1.4, 65536 blocks of 4096 bytes" in s["detail"] for s in r["steps"])'
}

post_without_store() {
    truncate -s 64M "$SCRATCH/blank.img"
    cat >"$SCRATCH/blank.conf" <<CONF
ssds = ( { name = "a"; device = "soft:$SCRATCH/blank.img"; } );
gpus = ( { name = "g"; device = "host:1"; } );
CONF
    exits 0 post "$SCRATCH/blank.conf" --json && json 'r["skipped"] == 4' &&
        cmp -n $((64 << 20)) "$SCRATCH/blank.img" /dev/zero
}

bench_json() {
    exits 0 bench --json --seconds 0.05 && json 'len(r["ssds"][0]["measurements"]) == 12' &&
        json 'all(m["commands"] > 0 and m["latency_p50_us"] <= m["latency_p99_us"] <= m["latency_max_us"]
            for m in r["ssds"][0]["measurements"])' &&
        json '[o["operator"] for o in r["ssds"][0]["operators"]] == [
            "copy", "crc32c", "cast_f32_bf16", "topk_dot", "filter_sum"]' &&
        json 'all(o["bytes_per_s"] > 0 for o in r["ssds"][0]["operators"])' &&
        json 'all("bytes_per_s_copied" not in o for o in r["ssds"][0]["operators"])' && # no GPU to copy to
        bench_misses
}

# Reads through the page cache, in the report of the command before.
bench_misses() {
    json '0 < r["ssds"][0]["misses"]["miss_p50_us"] <= r["ssds"][0]["misses"]["miss_p99_us"]' &&
        json 'all(r["ssds"][0]["misses"][name] > 0 for name in
            ("read_p50_us", "misses_per_s", "raw_per_s", "of_raw"))' &&
        json 'r["ssds"][0]["misses"]["reads_per_miss"] == 1'
}

bench_only() {
    exits 0 bench --json --seconds 0.05 --only write:random:64K --depth 3 &&
        json '[(m["access"], m["pattern"], m["io_bytes"], m["depth"])
            for m in r["ssds"][0]["measurements"]] == [("write", "random", 65536, 3)]' &&
        json 'r["ssds"][0]["measurements"][0]["commands"] > 0' &&
        json '"operators" not in r["ssds"][0] and "misses" not in r["ssds"][0]' &&
        exits 0 bench --json --seconds 0.05 --only misses && bench_misses &&
        json 'len(r["ssds"][0]["measurements"]) == 1 and "operators" not in r["ssds"][0]' &&
        exits 2 bench --seconds 0.05 --only read:sequential:1G && warns "takes up to" &&
        [ "$(grep -c error: "$SCRATCH/err")" = 1 ]
}

bench_peers() {
    cat >"$SCRATCH/two.conf" <<'CONF'
ssds = ( { name = "s"; device = "soft:memory,size=64M"; } );
gpus = ( { name = "a"; device = "host:2"; }, { name = "b"; device = "host:2"; } );
CONF
    exits 0 bench "$SCRATCH/two.conf" --json --seconds 0.05 --only peers &&
        json 'r["ssds"][0]["peers"]["reads_per_page"] == 1' &&
        json 'r["ssds"][0]["peers"]["peer_reads_per_gpu_s"] > 0 and "of_page" not in r["ssds"][0]["peers"]' &&
        json '"operators" not in r["ssds"][0] and "misses" not in r["ssds"][0]' &&
        exits 2 bench --only peers && warns "--only peers needs two gpus" &&
        [ "$(grep -c error: "$SCRATCH/err")" = 1 ]
}

bench_baseline_refused() {
    exits 3 bench --baseline "$SCRATCH/baseline" && warns "--baseline needs a GPU" &&
        [ "$(grep -c error: "$SCRATCH/err")" = 1 ] && [ ! -e "$SCRATCH/baseline" ] &&
        exits 3 bench "$SCRATCH/blank.conf" --seconds 0.01 && warns "has no object store" &&
        [ "$(grep -c error: "$SCRATCH/err")" = 1 ]
}

bench_leaves_nothing() {
    rm -f "$SCRATCH/bench.img"
    cat >"$SCRATCH/bench.conf" <<CONF
ssds = ( { name = "a"; device = "soft:$SCRATCH/bench.img"; } );
gpus = ( { name = "g"; device = "host:1"; } );
CONF
    exits 0 store format "soft:$SCRATCH/bench.img,size=64M" &&
        exits 0 bench "$SCRATCH/bench.conf" --seconds 0.02 && says "random" &&
        exits 0 store ls "soft:$SCRATCH/bench.img" && ! grep -q headrace.bench "$SCRATCH/out"
}

# soft:null has no store for objects: the bench uses it directly, and no other command uses it.
null_is_for_bench_only() {
    cat >"$SCRATCH/null.conf" <<CONF
ssds = ( { name = "a"; device = "soft:null,size=1G,threads=2"; } );
gpus = ( { name = "g"; device = "host:1"; } );
pipelines = ( { name = "p"; source = { object = "x"; }; operator = "crc32c"; } );
CONF
    exits 0 bench "$SCRATCH/null.conf" --json --seconds 0.02 &&
        json 'r["ssds"][0]["object_bytes"] == 1 << 30' &&
        json 'all(m["commands"] > 0 for m in r["ssds"][0]["measurements"])' &&
        exits 2 run "$SCRATCH/null.conf" && warns "soft:null" && warns "bench" &&
        exits 3 store format soft:null,size=1G && warns "keeps no data" &&
        exits 3 store ls soft:null,size=1G && warns "keeps no data"
}

# Its time depends on the load of this machine; `make bench` and the lab compare it with goals.
first_tile() {
    exits 0 run --json && json '0 < r["first_tile_ms"] < 60000'
}

resident() {
    if ldd "$HEADRACE" | grep -E 'lib(asan|tsan|ubsan)' >/dev/null; then
        return 0
    fi
    # memory.host is 64 MiB; used media memory of the software ssd counts, too.
    exits 0 run --json && json 'r["resident_max_bytes"] <= (64 << 20) + (16 << 20)'
}

few_cpus() {
    cat >"$SCRATCH/cpus.conf" <<'END'
ssds = ( { name = "s"; device = "soft:memory,size=16M"; objects = ( { name = "o"; bytes = "1M"; } ); } );
gpus = ( { name = "g"; device = "host:1000"; }, { name = "idle"; device = "host:1"; } );
pipelines = ( { name = "p"; gpu = "g"; source = { object = "o"; }; operator = "crc32c"; } );
END
    exits 0 check "$SCRATCH/cpus.conf" && says "host:1000: only $(getconf _NPROCESSORS_ONLN) CPUs" &&
        says "idle         host:1, not used by any pipeline" &&
        for command in check run; do
            exits 0 $command --json "$SCRATCH/cpus.conf" && json 'len(r["gpus"]) == 1' &&
                json '"only" in r["gpus"][0]["note"]' || return 1
        done
}

check "check prints the map of the embedded configuration" exits 0 check
check "check prints the path of each pipeline" says "path: host memory (host backend)"
check "check prints nothing else" silent
check "check --json" check_json
check "check warns of fewer CPUs than configured" few_cpus
check "no two parts of the map overlap" parts_do_not_overlap
check "run --map prints the map with addresses" run_map
check "run --json" run_json
check "the checksum equals the checksum of another program" checksum
check "run --pipeline runs only the named pipeline" run_one
check "piped output has no progress line" quiet_when_piped
check "run --json has the time of the first tile" first_tile
check "resident memory stays within the configuration" resident
check "post --json: each step passes" post_json
check "post on a blank image skips steps that write" post_without_store
check "bench --json" bench_json
check "bench --only" bench_only
check "bench --only peers measures pages of two gpus" bench_peers
check "bench --baseline without a GPU" bench_baseline_refused
check "bench removes its object" bench_leaves_nothing
check "soft:null is for bench only" null_is_for_bench_only
done_testing
