#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Worker code compiles for workers of 64 lanes, as GPUs of other makers have them: for the CPU, with
# the words of tests/fakes/lanes.h. A mask of lanes in 32 bits loses lanes there, which the compiler
# reports as an error (-Wconversion); first a mask of 32 bits proves it. Names that belong to the
# compiler or the GPUs of one maker appear only in the files of the backend. Not every maker's
# compiler has memcpy() and memset() for GPU code, so worker code has words for them.
set -euo pipefail

sources=(cache/crc32c.c cache/object.c cache/objects/run.h gpu/worker/*.c gpu/worker/io/*.c gpu/tap/role.c gpu/tap/feed.c gpu/cuda/image/operators.cu gpu/ops/template/*.c tests/op/*.c)

# compile FILE: with 64 lanes, worker code only
compile() {
    gcc -std=gnu11 -march=x86-64-v2 -iquote . -D_GNU_SOURCE -Wall -Wextra -Wshadow -Wconversion \
        -Wno-unused-parameter -Werror -DHR_LANES=64u -DHR_OP_WORKER_CODE= \
        -include tests/fakes/lanes.h -fsyntax-only -x c "$1"
}

# ballot TYPE: a function that keeps a mask of lanes in that type
ballot() {
    printf '#include "nvme/queue/worker.h"\n%s f(void);\n%s f(void)\n{\n\treturn hr_ballot(true);\n}\n' "$1" "$1"
}
ballot hr_mask | compile - || { echo "worker.sh: rule is too strict" >&2; exit 1; }
! ballot uint32_t | compile - 2>/dev/null ||
    { echo "worker.sh: rule is blind: a mask of 64 lanes in 32 bits" >&2; exit 1; }

bad=0
maker='\b(__CUDA[A-Z_]*__|__HIP[A-Z_]*__|__(device|global|shared|constant|forceinline)__|(thread|block)(Idx|Dim))\b'
for blind in __CUDACC__ __CUDA_ARCH__ __device__ threadIdx.x; do
    grep -qE "$maker" <<<"x $blind y" || { echo "worker.sh: rule is blind: $blind" >&2; exit 1; }
done
if grep -rnE "$maker" --include='*.[ch]' --include='*.cu' config nvme cache gpu boot tests |
    grep -vE '^(nvme/queue/worker\.h|nvme/queue/worker_cuda\.h|gpu/cuda/|tests/gpu/[a-z_]*\.cu)'; then
    echo "worker.sh: only nvme/queue/worker.h knows compilers, and only a backend's files its GPUs"
    bad=1
fi
mapfile -t operators < <(grep -lE '^HR_OP_CODE ' gpu/ops/*.c gpu/ops/template/*.c tests/op/*.c)
for source in cache/crc32c.c cache/object.c cache/objects/*.h nvme/queue/queue.h gpu/worker/*.[ch] gpu/worker/io/*.[ch] gpu/tap/role.[ch] gpu/tap/feed.[ch] "${operators[@]}"; do
    # The lines after HR_OP_CPU are the description, for the CPU.
    ! sed '/^#ifdef HR_OP_CPU/,$d' "$source" | grep -nE '\bmem(cpy|set|move)\(' ||
        { echo "$source: worker code calls the C library; nvme/queue/worker.h has words"; bad=1; }
done
for source in "${sources[@]}"; do
    compile "$source" || { echo "$source: does not compile with 64 lanes"; bad=1; }
done
exit $bad
