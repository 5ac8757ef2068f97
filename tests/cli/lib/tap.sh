# shellcheck shell=bash
# What the command line tests share: TAP, and running headrace with its output kept.
# Environment: HEADRACE, the binary under test; SCRATCH, a folder of the test's own.

count=0 failed=0

# Where the status sockets are: a place of its own, as other tests run at the same time.
export RUNTIME_DIRECTORY=$SCRATCH/run

# check NAME COMMAND...: one TAP line; what the command printed explains a failure
check() {
    local name=$1 said
    shift
    count=$((count + 1))
    if said=$("$@" 2>&1); then
        echo "ok $count - $name"
    else
        failed=1
        echo "not ok $count - $name"
        sed 's/^/# /' <<<"$said"
        sed 's/^/# out: /' "$SCRATCH/out" 2>/dev/null | head -n 20
        sed 's/^/# err: /' "$SCRATCH/err" 2>/dev/null | head -n 20
    fi
}

# skip REASON NAME: a line for what cannot be checked here
skip() {
    count=$((count + 1))
    echo "ok $count - $2 # SKIP $1"
}

# The last line of a script: the plan, and the exit status.
done_testing() {
    echo "1..$count"
    [ "$failed" -eq 0 ]
}

# exits CODE ARGUMENTS...: run headrace; its output is in $SCRATCH/out and $SCRATCH/err
exits() {
    local want=$1 got=0
    shift
    timeout 60 "$HEADRACE" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null || got=$?
    [ "$got" = "$want" ] || { echo "headrace $*: exit code $got, expected $want"; return 1; }
}

# says TEXT / warns TEXT: the last run printed it to stdout / stderr
says() {
    grep -qF -- "$1" "$SCRATCH/out" || { echo "not on stdout: $1"; return 1; }
}

warns() {
    grep -qF -- "$1" "$SCRATCH/err" || { echo "not on stderr: $1"; return 1; }
}

silent() {
    [ ! -s "$SCRATCH/err" ] || { echo "stderr is not empty"; return 1; }
}

# json EXPRESSION: stdout is one JSON object `r`, and the Python expression holds of it
json() {
    python3 -c '
import json, sys
r = json.load(open(sys.argv[1]))
try:
    ok = eval(sys.argv[2])
except Exception as e:
    ok = repr(e)
if ok is not True:
    sys.exit("%s: %s" % (sys.argv[2], ok))' "$SCRATCH/out" "$1"
}

# until_true SECONDS COMMAND...: the command succeeds at last, tried again and again
until_true() {
    local limit=$1 i
    shift
    for ((i = 0; i < limit * 20; i++)); do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep 0.05
    done
    echo "not within $limit s: $*"
    return 1
}

# under_way EXPRESSION: headrace runs, and the Python expression holds of its first pipeline `p`
under_way() {
    "$HEADRACE" status --json | python3 -c 'import json, sys
p = json.load(sys.stdin)["pipelines"][0]
sys.exit(not eval(sys.argv[1]))' "$1"
}
