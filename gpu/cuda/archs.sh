#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Print the architectures of this machine's GPUs for ARCHS in gpu/cuda/cuda.mk: "90" for compute capability 9.0.
# Usage: gpu/cuda/archs.sh NVCC
# Prints "all" when a GPU is too new for that nvcc, because such a GPU runs only the PTX of a release, or when
# nvidia-smi does not answer. Prints nothing when no GPU is one that the cuda backend can use (8.0 or later).
set -uo pipefail

known=$("$1" --list-gpu-code)
mapfile -t capabilities < <(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -u)
[ ${#capabilities[@]} -gt 0 ] || capabilities=(unknown)
archs=()
for capability in "${capabilities[@]}"; do
    arch=${capability/./}
    [[ $arch =~ ^[0-9]+$ ]] || { echo all; exit; }
    [ "$arch" -ge 80 ] || continue
    [[ $known$'\n' == *"sm_$arch"$'\n'* ]] || { echo all; exit; }
    archs+=("$arch")
done
echo "${archs[*]}"
