# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Functions of tests of taps, after lib/tap.sh: a run beside consumers, and what it reports.

export HEADRACE_TAP_LIBRARY=${HEADRACE%/*}/libheadrace-tap.so.0
export PYTHONPATH=$PWD/gpu/tap/client PYTHONDONTWRITEBYTECODE=1
helper=$PWD/tests/cli/lib/consumer.py
engine=''

# begin: run the configuration beside the consumers
begin() {
    rm -f "$SCRATCH"/{a,b,h}
    setpriv --pdeathsig KILL "$HEADRACE" run "$SCRATCH/x.conf" --json >"$SCRATCH/out" \
        2>"$SCRATCH/err" </dev/null &
    engine=$!
}

# ended CODE: the run ends with this exit code
ended() {
    local got=0
    wait "$engine" || got=$?
    [ "$got" = "$1" ] || { echo "run: exit code $got, expected $1"; return 1; }
}

# consumer NAME ARGUMENTS...: its output is in $SCRATCH/NAME
consumer() {
    local name=$1
    shift
    timeout 200 python3 "$helper" t "$@" >"$SCRATCH/$name" 2>&1 </dev/null || {
        cat "$SCRATCH/$name"
        return 1
    }
}

# tap CONDITION: holds for the counters t of the tap
tap() {
    json "(lambda t: $1)(r['pipelines'][0]['tap'])"
}
