#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One example of an access operator: make its data, run it with a cache of a quarter of the data, then
# with all data in the cache, then the same work by a program that calls pread(); check each result, and
# print the times beside each other.
# Usage: tests/demo/example.sh EXAMPLE BUILD_FOLDER     EXAMPLE: chase gather join bfs
#
# Variables, with their defaults for a machine of two cores:
#   SCALE=16         2^SCALE vertices (bfs), rows of 512 bytes (gather), 32 elements of 8 bytes each
#                    (chase), 16 rows of the build side (join)
#   EDGE_FACTOR=16   bfs: edges for each vertex
#   SEED=1
#   COUNT            hops (5000), lookups (50000), keys (50000)
#   ZIPF=1.0         gather: exponent
#   ISSUERS=0        gather: workers that only request rows
#   DEVICE=host:2    of the gpu; of each of them: with several GPUs a list, "cuda:0 cuda:1"
#   GPUS=1           number of gpus (gather, join, chase)
#   SSD              device of the ssd without size; default: an image in DIR
#   IO=1 COMPUTE=2   blocks of each gpu; chase uses one block, because it has one chain
#   BLOCK            threads of a block on a GPU; default: that of headrace
#   FRAMES           pages of the cache; default: a quarter of the data
#   THREADS=2        of the program that calls pread()
#   DIR              folder for data and image; default: build/example/EXAMPLE
set -euo pipefail
cd "$(dirname "$0")/../.."

example=${1:-} build=${2:-build}
SCALE=${SCALE:-16} EDGE_FACTOR=${EDGE_FACTOR:-16} SEED=${SEED:-1} ZIPF=${ZIPF:-1.0}
ISSUERS=${ISSUERS:-0} DEVICE=${DEVICE:-host:2} GPUS=${GPUS:-1} IO=${IO:-1} THREADS=${THREADS:-2}
[[ $GPUS =~ ^[1-8]$ ]] || { echo "example: GPUS is '$GPUS', expected 1 to 8" >&2; exit 2; }
case $example in
chase) COUNT=${COUNT:-5000} COMPUTE=${COMPUTE:-1} ;;
gather | join | bfs) COUNT=${COUNT:-50000} COMPUTE=${COMPUTE:-2} ;;
*)
    echo "example: there is no example '$example'; expected chase, gather, join or bfs" >&2
    exit 2
    ;;
esac

dir=${DIR:-build/example/$example}
ssd=${SSD:-soft:$(realpath -m "$dir")/ssd.img}
headrace=${HEADRACE:-$build/headrace} tool=$build/tests/demo/$example
row=512

case $example in
chase) make_args=("$((1 << SCALE + 5))" "$SEED") check_args=("$COUNT" 1 "$SEED") objects=(next) ;;
gather) make_args=("$((1 << SCALE))" "$row" "$SEED") check_args=("$row" "$COUNT" "$ZIPF" "$SEED") objects=(table) ;;
join) make_args=("$((1 << SCALE + 4))" "$COUNT" "$SEED") check_args=() objects=(table keys) ;;
bfs) make_args=("$SCALE" "$EDGE_FACTOR" "$SEED") check_args=(0) objects=(offsets edges) ;;
esac

step() {
    printf '\n== %s\n' "$*"
}

# value FILE NAME: print the value of that name in the result
value() {
    awk -v name="$2" '$1 == name { print $2; exit }' "$1"
}

# Keys of the configuration: a gpu for each device, the last device for all that are left, and their names.
list_gpus() {
    local i devices
    read -ra devices <<<"$DEVICE"
    gpus='' names=''
    for ((i = 0; i < GPUS; i++)); do
        gpus+="${gpus:+, }{ name = \"gpu$i\"; device = \"${devices[i]:-${devices[-1]}}\"; }"
        names+="${names:+, }\"gpu$i\""
    done
    [ "$GPUS" -eq 1 ] && names="gpu = $names;" || names="gpus = [ $names ];"
}

# conf FRAMES WARM: the configuration of the example with the values of this run
conf() {
    sed -E -e "s|device = \"soft:[^\"]*\"|device = \"$ssd,size=$size\"|" \
        -e "s|^gpus = .*|gpus = ( $gpus );|" -e "s|operator = \"$example\";|& $names|" \
        -e "s/([{ ])(frames) = [^;]*;/\1\2 = $1;/" -e "s/( )(warm) = [^;]*;/\1\2 = $2;/" \
        -e "s/( )(io) = [^;]*;/\1\2 = $IO;${BLOCK:+ threads = $BLOCK;}/" -e "s/( )(compute) = [^;]*;/\1\2 = $COMPUTE;/" \
        -e "s/( )(hops|lookups) = [^;]*;/\1\2 = $COUNT;/" -e "s/( )(seed) = [^;]*;/\1\2 = $SEED;/" \
        -e "s/( )(zipf) = [^;]*;/\1\2 = $ZIPF;/" -e "s/( )(issuers) = [^;]*;/\1\2 = $ISSUERS;/" \
        -e "s/( )(bytes) = [^;]*;/\1\2 = $((4 << SCALE));/" "config/examples/$example.conf"
}

# run NAME FRAMES WARM: run the example, fetch its new object, check the result
run() {
    conf "$2" "$3" >"$dir/$1.conf"
    "$headrace" run "$dir/$1.conf" | tee "$dir/$1.out"
    if [ "$example" = bfs ]; then
        "$headrace" store get --force "$ssd" parents "$dir/parents"
        "$headrace" store get --force "$ssd" levels "$dir/levels"
    fi
    "$tool" check "$dir" "$dir/$1.out" "${check_args[@]}"
    echo "the result is right"
}

list_gpus
step "data: $dir"
rm -rf "$dir"
mkdir -p "$dir"
"$tool" make "$dir" "${make_args[@]}"
bytes=0
for object in "${objects[@]}"; do
    bytes=$((bytes + $(stat -c %s "$dir/$object")))
done
size=$(((bytes + (16 << SCALE) >> 20) + 64))M
pages=$((bytes / 4096 + 64))
frames=${FRAMES:-$((pages / 4))}
"$headrace" store format --force "$ssd,size=$size" >/dev/null
for object in "${objects[@]}"; do
    "$headrace" store put "$ssd" "$object" "$dir/$object"
done

step "$example: $bytes bytes of data, a cache of $frames pages"
run cached "$frames" 0

# Twice as many frames as pages, because pages are not spread evenly over the sets of the cache.
step "$example: all data in the cache"
run memory $((2 * pages + (8 << SCALE) / 4096)) 1

step "$example: $THREADS threads that call pread()"
"$tool" staged "$dir" "$THREADS" "${check_args[@]}" | tee "$dir/staged.out"

step "times of the work, without bring-up"
cached=$(value "$dir/cached.out" run_ns) memory=$(value "$dir/memory.out" run_ns)
staged=$(value "$dir/staged.out" run_ns)
awk -v name="$example" -v c="$cached" -v m="$memory" -v s="$staged" 'BEGIN {
    printf "%s: cached_ms %.3f memory_ms %.3f pread_ms %.3f\n", name, c / 1e6, m / 1e6, s / 1e6
    printf "%s: cached over memory %.2f, pread over cached %.2f\n", name, c / m, s / c }'
