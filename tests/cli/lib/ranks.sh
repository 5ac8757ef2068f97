# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Jobs of several ranks under mpirun. After tests/cli/lib/tap.sh.

# For a job as root, in a container, with more ranks than processors.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none
# Open MPI frees less than it allocates, which would change the exit code of a build with AddressSanitizer.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
# hwloc would read the names of all PCI devices in each of three or more ranks: AddressSanitizer takes seconds for it.
export HWLOC_COMPONENTS=-pci
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_orte_tmpdir_base=$SCRATCH TMPDIR=$SCRATCH

# ranks N CODE ARGUMENTS...: a job; exit code, and the output as of exits
ranks() {
    local n=$1 want=$2 got=0
    shift 2
    timeout -k 5 200 mpirun -n "$n" "$HEADRACE" run --mpi "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null || got=$?
    [ "$got" = "$want" ] || { echo "$n ranks: exit code $got, expected $want"; return 1; }
}

# The results of all pipelines, without times.
results() {
    grep '^    ' "$SCRATCH/out"
}

# Number of errors of headrace in the last job; mpirun prints lines of its own.
errors() {
    grep -c 'headrace: error' "$SCRATCH/err"
}

# Files date, discount, quantity and price of one table, and in: the same in each run of a test.
make_columns() {
    python3 - "$SCRATCH" <<'PY'
import random, struct, sys
folder, rows, r = sys.argv[1], 46000, random.Random(7)
columns = {"date": [r.randrange(2500) for _ in range(rows)], "discount": [r.randrange(100) for _ in range(rows)],
           "quantity": [r.randrange(80) for _ in range(rows)]}
for name, values in columns.items():
    open(f"{folder}/{name}", "wb").write(struct.pack(f"<{rows}i", *values))
open(f"{folder}/price", "wb").write(struct.pack(f"<{rows}q", *[r.randrange(10**7) for _ in range(rows)]))
open(f"{folder}/in", "wb").write(struct.pack("<92000f", *[r.uniform(-1, 1) for _ in range(92000)]))
PY
}

# few_ranks_of_sanitizers N...: sets counts, and in_many, which is check, or a skip in the build of a sanitizer: a job
# of many ranks shows it nothing that a job of three does not, and each rank takes it long.
# shellcheck disable=SC2034,SC2317  # the script uses counts and in_many
few_ranks_of_sanitizers() {
    counts=("$@")
    in_many() { check "$@"; }
    if ldd "$HEADRACE" 2>/dev/null | grep -E 'lib(asan|tsan|ubsan)' >/dev/null; then
        counts=(3)
        in_many() { skip "sanitizer build" "$1"; }
    fi
}
