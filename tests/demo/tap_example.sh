#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One example of a tap: make an object, run a pipeline that hands its tiles to another process, and that
# process (gpu/tap/examples), which compares them with the object. Both must end with exit code 0.
# Usage: tests/demo/tap_example.sh EXAMPLE BUILD_FOLDER     EXAMPLE: tap-c tap-numpy tap-cupy tap-torch
#
# Variables, with their defaults:
#   ROWS=12345       of 4 KiB
#   DIR              folder for data and image; default: build/example/EXAMPLE
#   PYTHON           interpreter with NumPy; default: python3, or else /usr/bin/python3
set -euo pipefail
cd "$(dirname "$0")/../.."

example=${1:-} build=${2:-build} ROWS=${ROWS:-12345}
[[ $ROWS =~ ^[1-9][0-9]{0,6}$ ]] || { echo "example: ROWS is '$ROWS', expected 1 to 9999999" >&2; exit 2; }
dir=${DIR:-build/example/$example}
ssd=soft:$(realpath -m "$dir")/ssd.img
headrace=${HEADRACE:-$build/headrace}

find_numpy() {
    local python
    for python in ${PYTHON:-python3 /usr/bin/python3}; do
        ! "$python" -c 'import numpy' 2>/dev/null || { echo "$python"; return; }
    done
    echo "example: tap-numpy needs NumPy, which ${PYTHON:-python3} does not have:" \
        "apt-get install python3-numpy" >&2
    return 3
}

# The Python with the modules of tap-cupy and tap-torch, which also need a GPU.
find_gpu_python() {
    local python why
    for python in ${PYTHON:-python3 /usr/bin/python3}; do
        why=$("$python" -c "$2" 2>&1) && { echo "$python"; return; }
    done
    echo "example: $example needs an NVIDIA GPU with its driver and $1, which ${PYTHON:-python3} does not" \
        "have here: ${why##*$'\n'}" >&2
    return 3
}

case $example in
tap-c) consumer=("$build/gpu/tap/examples/tap_c") ;;
tap-numpy | tap-cupy | tap-torch)
    case $example in
    tap-numpy) python=$(find_numpy) || exit ;;
    tap-cupy) python=$(find_gpu_python CuPy 'import cupy; cupy.cuda.Device(0).compute_capability') || exit ;;
    tap-torch) python=$(find_gpu_python PyTorch 'import torch; torch.zeros(1, device="cuda:0")') || exit ;;
    esac
    consumer=("$python" "gpu/tap/examples/${example/-/_}.py")
    export PYTHONPATH=gpu/tap/client PYTHONDONTWRITEBYTECODE=1
    HEADRACE_TAP_LIBRARY=$(realpath -m "$build/libheadrace-tap.so.0")
    export HEADRACE_TAP_LIBRARY
    ;;
*)
    echo "example: there is no example '$example'; expected tap-c, tap-numpy," \
        "tap-cupy or tap-torch" >&2
    exit 2
    ;;
esac

# The socket gets a folder of its own, so the name of the tap is free.
engine='' reader=''
sockets=$(mktemp -d)
export RUNTIME_DIRECTORY=$sockets
clean_up() {
    [ -z "$engine" ] || kill "$engine" "$reader" 2>/dev/null || true
    wait
    rm -rf "$sockets"
}
trap clean_up EXIT

rm -rf "$dir"
mkdir -p "$dir"
head -c $((ROWS * 4096)) /dev/urandom >"$dir/data"
size=$((ROWS / 256 + 64))M
"$headrace" store format --force "$ssd,size=$size" >/dev/null
"$headrace" store put "$ssd" data "$dir/data"
sed -E "s|device = \"soft:[^\"]*\"|device = \"$ssd,size=$size\"|" \
    "config/examples/$example.conf" >"$dir/$example.conf"

# The consumer waits until the pipeline has opened its tap, and the pipeline until a consumer attaches. When
# one of them fails, the other has nothing to wait for.
"$headrace" run "$dir/$example.conf" >"$dir/run.out" &
engine=$!
"${consumer[@]}" "$example" "$dir/data" >"$dir/consumer.out" &
reader=$!
code=0
{ wait -n && wait -n; } || code=$?
[ "$code" -eq 0 ] || { echo "example: $example failed" >&2; exit "$code"; }
engine=''
cat "$dir/run.out" "$dir/consumer.out"
echo "the result is right"
