#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The examples of taps: consumers in C and with NumPy get each byte of an object; they detect wrong data,
# and say what is missing.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

build=$(dirname "$HEADRACE")

# example CODE NAME VARIABLE=VALUE...: run the example in $SCRATCH/NAME
example() {
    local want=$1 name=$2 got=0
    shift 2
    env ROWS=1001 "$@" DIR="$SCRATCH/$name" timeout 200 tests/demo/tap_example.sh "$name" "$build" \
        >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null || got=$?
    [ "$got" = "$want" ] || { echo "example $name: exit code $got, expected $want"; return 1; }
}

c_gets_each_byte() {
    example 0 tap-c && silent && says "4 tiles, 4100096 bytes: all equal the file" &&
        says "tap tap-c: 4 tiles given back, 0 dropped" && says "the result is right"
}

# With tiles of one row, tiles outnumber slots.
c_gets_small_tiles() {
    sed -i 's/tile = "1M"/tile = "4K"/' "$SCRATCH/tap-c/tap-c.conf"
    together 0 "$SCRATCH/tap-c/data" && grep -q "^1001 tiles, 4100096 bytes: all" "$SCRATCH/consumer"
}

# together CODE FILE: the pipeline of the example, and its consumer with this file
together() {
    local engine got=0
    setpriv --pdeathsig KILL "$HEADRACE" run "$SCRATCH/tap-c/tap-c.conf" >"$SCRATCH/out" \
        2>"$SCRATCH/err" </dev/null &
    engine=$!
    timeout 200 "$build/gpu/tap/examples/tap_c" tap-c "$2" >"$SCRATCH/consumer" 2>&1 </dev/null || got=$?
    [ "$got" -eq 0 ] || kill -TERM "$engine"
    wait "$engine" || [ "$got" -ne 0 ] || return 1
    cat "$SCRATCH/consumer"
    [ "$got" = "$1" ] || { echo "consumer: exit code $got, expected $1"; return 1; }
}

c_detects_a_wrong_byte() {
    local file=$SCRATCH/wrong
    cp "$SCRATCH/tap-c/data" "$file" &&
        python3 - "$file" <<'PY' && together 1 "$file" && grep -q "differs from the file at byte 2000000$" "$SCRATCH/consumer"
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(2000000)
    byte = f.read(1)[0]
    f.seek(2000000)
    f.write(bytes([byte ^ 1]))
PY
}

c_detects_bytes_that_do_not_come() {
    local file=$SCRATCH/longer
    cat "$SCRATCH/tap-c/data" - >"$file" <<<x
    together 1 "$file" && grep -q "4100096 bytes came and are right, expected 4100098" "$SCRATCH/consumer"
}

c_says_what_is_missing() {
    local got=0
    "$build/gpu/tap/examples/tap_c" tap-c >"$SCRATCH/out" 2>"$SCRATCH/err" || got=$?
    [ "$got" -eq 2 ] && warns "Usage: tap_c TAP FILE" || return 1
    got=0
    "$build/gpu/tap/examples/tap_c" tap-c "$SCRATCH/none" >"$SCRATCH/out" 2>"$SCRATCH/err" || got=$?
    [ "$got" -eq 3 ] && warns "$SCRATCH/none: No such file"
}

numpy_counts_each_token() {
    example 0 tap-numpy && silent && says "1001 rows, 2050048 tokens: all counts equal" &&
        says "the result is right"
}

# An interpreter that does not see installed packages.
numpy_is_missing() {
    printf '#!/bin/sh\nexec python3 -S "$@"\n' >"$SCRATCH/python"
    chmod +x "$SCRATCH/python"
    example 3 tap-numpy PYTHON="$SCRATCH/python" && warns "apt-get install python3-numpy"
}

# The modules of a GPU are missing there, too.
a_gpu_is_missing() {
    example 3 tap-cupy PYTHON="$SCRATCH/python" &&
        warns "tap-cupy needs an NVIDIA GPU with its driver and CuPy" &&
        example 3 tap-torch PYTHON="$SCRATCH/python" &&
        warns "tap-torch needs an NVIDIA GPU with its driver and PyTorch"
}

wrong_names() {
    example 2 tap-d && warns "there is no example 'tap-d'" &&
        example 2 tap-c ROWS=0 && warns "ROWS is '0'"
}

has_numpy() {
    python3 -c 'import numpy' || /usr/bin/python3 -c 'import numpy'
}

check "C: each byte of the object comes" c_gets_each_byte
check "C: each byte comes in tiles of one block" c_gets_small_tiles
check "C: a wrong byte is detected" c_detects_a_wrong_byte
check "C: bytes that do not come are detected" c_detects_bytes_that_do_not_come
check "C: usage, and a file that is missing" c_says_what_is_missing
if has_numpy 2>/dev/null; then
    check "NumPy: each token is counted" numpy_counts_each_token
else
    skip "there is no NumPy (python3-numpy)" "NumPy: each token is counted"
fi
check "NumPy: its absence is said" numpy_is_missing
check "CuPy and PyTorch: the absence of a GPU, or of the module, is said" a_gpu_is_missing
check "an unknown example, or a wrong size, is refused" wrong_names
done_testing
