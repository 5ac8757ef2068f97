#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The example of ranks: make a data set, store it whole for one process and in shards of its rows on an ssd for each
# rank, run the pipelines in one process and then on the ranks of an MPI job, and compare results and sinks.
# Usage: tests/demo/ranks_example.sh ranks BUILD_FOLDER
#
# Variables, with their defaults:
#   ROWS=123457      of 16 bytes
#   RANKS=3
#   DIR              folder for data and images; default: build/example/ranks
#   MPIRUN=mpirun    with its options
# shellcheck disable=SC2016  # ${rank} is for headrace, not for the shell
set -euo pipefail
cd "$(dirname "$0")/../.."

build=${2:-build} ROWS=${ROWS:-123457} RANKS=${RANKS:-3}
[[ $ROWS =~ ^[1-9][0-9]{0,6}$ ]] || { echo "example: ROWS is '$ROWS', expected 1 to 9999999" >&2; exit 2; }
[[ $RANKS =~ ^[1-9][0-9]?$ ]] || { echo "example: RANKS is '$RANKS', expected 1 to 99" >&2; exit 2; }
dir=${DIR:-build/example/ranks}
headrace=$(realpath -m "${HEADRACE:-$build/headrace}")
read -ra mpirun <<<"${MPIRUN:-mpirun}"
command -v "${mpirun[0]}" >/dev/null || {
    echo "example: there is no ${mpirun[0]}: apt-get install libopenmpi-dev openmpi-bin" >&2
    exit 3
}

# A job as root, with more ranks than processors, in a container; ranks of one machine.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_mpi_yield_when_idle=1

step() {
    printf '\n== %s\n' "$*"
}

step "data: $dir, $ROWS rows in $RANKS shards"
rm -rf "$dir"
mkdir -p "$dir"
dir=$(realpath "$dir")
python3 - "$dir/data" "$ROWS" <<'PY'
import array, random, sys
numbers = random.Random(1)
array.array("f", (numbers.gauss(0, 1) for _ in range(4 * int(sys.argv[2])))).tofile(open(sys.argv[1], "wb"))
PY
size=$(((ROWS * 24 >> 20) + 64))M
"$headrace" store format "soft:$dir/one.img,size=$size" >/dev/null
"$headrace" store put "soft:$dir/one.img" data "$dir/data"
for ((r = 0; r < RANKS; r++)); do
    "$headrace" store format "soft:$dir/ssd$r.img,size=$size" >/dev/null
    # a tile of 64K has 4096 rows
    "$headrace" store put --shard "$r/$RANKS" --row-bytes 16 --tile-rows 4096 "soft:$dir/ssd$r.img" data "$dir/data"
done

step "one process"
sed 's|soft:[^"]*|soft:'"$dir"'/one.img|' config/examples/ranks.conf >"$dir/one.conf"
"$headrace" run "$dir/one.conf" | tee "$dir/one.out"

step "$RANKS ranks"
sed 's|soft:[^"]*|soft:'"$dir"'/ssd${rank}.img|' config/examples/ranks.conf >"$dir/ranks.conf"
"${mpirun[@]}" -n "$RANKS" "$headrace" run --mpi "$dir/ranks.conf" | tee "$dir/ranks.out"

# The lines of results are indented. Times differ, and so do the pages that one rank has read.
results() {
    grep '^    ' "$1" | grep -Ev '^    (run_ns|lookups_per_s|pages:)'
}

diff <(results "$dir/one.out") <(results "$dir/ranks.out")
echo "the results are the same"

# The sinks of the ranks, one after another, are that of one process.
for ((r = 0; r < RANKS; r++)); do
    "$headrace" store get "soft:$dir/ssd$r.img" half -
done >"$dir/half"
"$headrace" store get "soft:$dir/one.img" half - | cmp - "$dir/half"
echo "the sinks are the same"
