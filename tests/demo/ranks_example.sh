#!/bin/bash
# The example of ranks: make an object, copy it to an ssd for each rank, run the pipelines in one process and then
# on the ranks of an MPI job, and compare the results.
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

step "data: $dir, $RANKS copies"
rm -rf "$dir"
mkdir -p "$dir"
dir=$(realpath "$dir")
python3 - "$dir/data" "$ROWS" <<'PY'
import array, random, sys
numbers = random.Random(1)
array.array("f", (numbers.gauss(0, 1) for _ in range(4 * int(sys.argv[2])))).tofile(open(sys.argv[1], "wb"))
PY
"$headrace" store format "soft:$dir/ssd0.img,size=$(((ROWS * 16 >> 20) + 64))M" >/dev/null
"$headrace" store put "soft:$dir/ssd0.img" data "$dir/data"
for ((r = 1; r < RANKS; r++)); do
    cp --sparse=always "$dir/ssd0.img" "$dir/ssd$r.img"
done

step "one process"
sed 's|soft:[^"]*|soft:'"$dir"'/ssd0.img|' config/examples/ranks.conf >"$dir/one.conf"
"$headrace" run "$dir/one.conf" | tee "$dir/one.out"

step "$RANKS ranks"
sed 's|soft:[^"]*|soft:'"$dir"'/ssd${rank}.img|' config/examples/ranks.conf >"$dir/ranks.conf"
"${mpirun[@]}" -n "$RANKS" "$headrace" run --mpi "$dir/ranks.conf" | tee "$dir/ranks.out"

# The lines of results are indented.
diff <(grep '^    ' "$dir/one.out") <(grep '^    ' "$dir/ranks.out")
echo "the results are the same"
