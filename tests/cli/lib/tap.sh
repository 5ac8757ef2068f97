# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Functions of all command line tests: TAP, and running headrace with its output kept.
# Environment: HEADRACE, the binary under test; SCRATCH, a folder of the test's own.

count=0 failed=0

# Folder of control sockets: one for each test, because other tests run at the same time.
export RUNTIME_DIRECTORY=$SCRATCH/run

# check NAME COMMAND...: print one TAP line; after a failure the output of the command follows
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

# skip REASON NAME: print a TAP line for a check that cannot run on this machine
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
    timeout 200 "$HEADRACE" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null || got=$?
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

# unchanged FILE COMMAND...: the command leaves the contents of the file as they are
unchanged() {
    local file=$1 before
    before=$(cksum <"$file")
    shift
    "$@" || return 1
    [ "$(cksum <"$file")" = "$before" ] || { echo "$file was written to"; return 1; }
}

# Evaluates the expressions of this script, until the script ends.
evaluator=$SCRATCH/.evaluate
rm -rf "$evaluator" && mkdir -p "$evaluator" && mkfifo "$evaluator/ask" "$evaluator/answer" || exit 1
setpriv --pdeathsig KILL python3 -B "$(dirname "${BASH_SOURCE[0]}")/evaluate.py" "$evaluator" </dev/null &
disown

# json_value FILE NAME EXPRESSION: prints the value of the Python expression, in which NAME is the JSON
# document in FILE. Only one process of a script at a time may call it.
json_value() {
    local answer file=$1
    [ "${file:0:1}" = / ] || file=$PWD/$file
    printf '%s\0' "$file" "$2" "$3" >"$evaluator/ask"
    answer=$(<"$evaluator/answer")
    [ "${answer:0:1}" = = ] || { echo "$3: ${answer:1}" >&2; return 1; }
    echo "${answer:1}"
}

# json_holds FILE NAME EXPRESSION: its value is True
json_holds() {
    local answer
    answer=$(json_value "$@") || return 1
    [ "$answer" = True ] || { echo "$3: $answer"; return 1; }
}

# json EXPRESSION: stdout is one JSON object `r`, and the Python expression is true
json() {
    json_holds "$SCRATCH/out" r "$1"
}

# until_true SECONDS COMMAND...: repeat the command until it succeeds, for at most that time
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

# under_way EXPRESSION: headrace runs, and the Python expression is true for its first pipeline `p`
under_way() {
    "$HEADRACE" status --json >"$SCRATCH/.status" &&
        json_holds "$SCRATCH/.status" r "[bool($1) for p in r['pipelines'][:1]] == [True]"
}
