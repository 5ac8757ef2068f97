#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119  # the arguments of conf are optional
# The store of an ssd from Python: bytes, arrays, tables and files, on an image and beside a pipeline.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/feed.sh
. "$(dirname "$0")/lib/feed.sh"

tester=$PWD/tests/cli/lib/store_python.py
export HEADRACE

# python WHAT: with the interpreter in `python`
python_does() {
    timeout 200 "${python-python3}" "$tester" "${ssd-soft:$SCRATCH/d.img}" "$1" </dev/null
}

on_a_disk() {
    disk && python_does "$1"
}

# The name of an ssd in a configuration, whose appliance drives it.
beside_a_pipeline() {
    local ssd=a
    disk && conf && begin
    until_true 60 test -S "$SCRATCH/run/f.feed" || return 1
    CONF=$SCRATCH/x.conf python_does live && producer b && ended 0 && holds $((4 << 20))
}

# with MODULE NAME WHAT: check it with an interpreter that has the module
with() {
    local python
    for python in python3 /usr/bin/python3; do
        "$python" -c "import $1" 2>/dev/null || continue
        check "$2" on_a_disk "$3"
        return
    done
    skip "there is no module $1" "$2"
}

check "bytes, buffers and files need no module" on_a_disk plain
check "what is missing is said" on_a_disk mistakes
check "wrong headers of safetensors are refused" on_a_disk hostile_files
with numpy "arrays of NumPy, and safetensors" numpy
with numpy "arrays of NumPy come back with type and shape" arrays
with pyarrow "tables of Arrow" arrow
check "an appliance carries it out beside its pipeline" beside_a_pipeline
done_testing
