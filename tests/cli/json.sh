#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --json of every command and view: one valid document, each member once, in its order; the exit
# code of a failed write to stdout.
# Environment: HEADRACE, the binary under test; SCRATCH, an empty folder.
# shellcheck disable=SC2317  # called through check
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

here=$(cd "$(dirname "$0")" && pwd)
zcat "$here/captures/two_switches.lspci.gz" >"$SCRATCH/box"
zcat "$here/captures/switch_acs.lspci.gz" >"$SCRATCH/before"
cd "$SCRATCH" || exit 1
mapfile -t gpus < <(grep -E '^[0-9a-f:.]+ Class 0500:' box | awk '{ print "--gpu=0000:" $1 }')
gpus+=(--ignore-vm) # the lab's machines have emulated ports

cat >c.conf <<'CONF'
ssds = ( { name = "s"; device = "soft:disk.img,size=64M"; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = (
    { name = "sum"; source = { object = "in"; }; operator = "crc32c"; tile = "64K"; },
    { name = "copy"; source = { object = "in"; }; operator = "copy"; tile = "64K";
      sink = { object = "out"; replace = true; }; } );
CONF
head -c 1000000 /dev/zero >in
"$HEADRACE" store format soft:disk.img,size=64M >/dev/null
"$HEADRACE" store put -q soft:disk.img in in >/dev/null

# document MEMBERS ARGUMENTS...: one object, whose members of the first level are these
document() {
    local members=$1
    shift
    "$HEADRACE" "$@" --json >said 2>err
    [ "$(tail -c 1 said)" = "" ] || { echo "no newline at its end"; return 1; }
    python3 - "$members" <<'PY' || { cat err; head -c 2000 said; return 1; }
import json, sys

def members(pairs):
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        sys.exit(f"a member twice: {names}")
    return dict(pairs)

said = json.loads(open("said", "rb").read().decode(), object_pairs_hook=members,
                  parse_constant=lambda name: sys.exit(f"{name} is no number of JSON"))
if list(said) != sys.argv[1].split():
    sys.exit(f"members: {' '.join(said)}\nexpected: {sys.argv[1]}")
PY
}

# full ARGUMENTS...: a disk that is full under stdout fails the command, with the reason printed once
full() {
    local code=0
    "$HEADRACE" "$@" --json >/dev/full 2>err || code=$?
    [ "$code" -eq "$want" ] || { echo "exit $code, expected $want"; return 1; }
    if [ "$(grep -c 'standard output' err)" != 1 ] ||
        ! grep -q 'standard output: cannot write the report: No space left on device' err; then
        cat err
        return 1
    fi
}

# both MEMBERS ARGUMENTS...
both() {
    check "${*:2} --json" document "$@"
    check "${*:2} --json, stdout is full" full "${@:2}"
}

want=1
both "schema version appliance configuration ssds parallel gpus pipelines partitions" check c.conf
both "schema version operators" check --operators
both "schema version appliance configuration first_tile_ms resident_max_bytes gpus pipelines exit_code" run c.conf
both "schema version appliance configuration first_tile_ms resident_max_bytes gpus pipelines partitions exit_code" \
    run c.conf --map
both "schema version configuration steps passed failed skipped exit_code" post c.conf
both "schema version configuration ssds exit_code" bench c.conf --seconds 0.01 --only read:random:4096
both "schema version ssd objects" store ls soft:disk.img
both "schema version ssd total_bytes used_bytes pending_bytes pending_objects free_bytes largest_gap_bytes objects \
objects_max" store df soft:disk.img
both "schema version findings ssd faults complete" store verify soft:disk.img

want=66
box=(topo --from box "${gpus[@]}")
both "schema version view machine answer headlines rows columns functions pairs exit_code" "${box[@]}"
both "schema version view machine to_gpu from_gpu exit_code" "${box[@]}" --bandwidth
both "schema version view machine assignment gb_per_s upper_bound exit_code" "${box[@]}" --plan
both "schema version view machine functions predicted_groups groups_by_registers mismatches \
below_one_switch exit_code" "${box[@]}" --groups
both "schema version view machine gpus nvmes exit_code" "${box[@]}" --software
both "schema version view machine redirecting ports pairs_redirected pairs_unread pairs_redirected_at_boot boot_ports \
setpci undo exit_code" "${box[@]}" --fix
both "schema version view machine boot changes pairs_judged predicted_groups_before predicted_groups_after \
pairs exit_code" "${box[@]}" --what-if iommu=on
both "schema version view machine facts verdicts differences exit_code" "${box[@]}" --baseline before
both "schema version view machine peers pairs exit_code" "${box[@]}" --peers gpu,nvme,nic

both "schema version view machine gpu nvme verdict rule kernel_verdict kernel_distance distance flows modifiers \
findings decided_by why path hops facts_missing ruled_out exit_code" "${box[@]}" --explain GPU0 NVME0
both "schema version view rules exit_code" topo --rules

# fails CODE MESSAGE FILE LINE ARGUMENTS...: the only output is one object with the error, which is also on stderr
fails() {
    local want=$1 message=$2 file=$3 line=$4 got=0
    shift 4
    "$HEADRACE" "$@" >said 2>err || got=$?
    [ "$got" = "$want" ] || { echo "exit $got, expected $want"; return 1; }
    grep -qF "headrace: error: $message" err || { cat err; return 1; }
    WANT=$want MESSAGE=$message FILE=$file LINE=$line python3 - <<'PY' || { cat said; return 1; }
import json, os
r = json.load(open("said"))
assert (r["schema"], r["version"], r["exit_code"]) == ("headrace.error", 1, int(os.environ["WANT"]))
assert r["message"].startswith(os.environ["MESSAGE"]) and r["errors"][0]["message"] == r["message"]
assert r.get("file", "") == os.environ["FILE"] and str(r.get("line", "")) == os.environ["LINE"]
PY
}

silent_failure() {
    ! "$HEADRACE" "$@" >said 2>err && [ ! -s said ]
}

{
    printf 'ssds = ( { name = "s"; device = "soft:disk.img"; } );\ngpus = ( { name = "g"; device = "host:2"; } );\n'
    printf 'pipelines = ( { name = "p"; operator = "crc33c"; source = { object = "in"; }; } );\n'
} >wrong.conf
sed 's/crc33c/crc32c/; s/"in"/"im"/' wrong.conf >missing.conf
for command in run check bench post; do
    check "$command --json, a mistake in the file" fails 2 "wrong.conf:3: pipelines[0].operator" wrong.conf 3 \
        "$command" --json wrong.conf
done
check "run --json, an object that does not exist" fails 2 "missing.conf:3: there is no object 'im'" missing.conf 3 \
    run --json missing.conf
check "check --json, an object that does not exist" fails 2 "missing.conf:3: there is no object 'im'" missing.conf 3 \
    check missing.conf --json
check "run --json, no file" fails 2 "none.conf: " '' '' run none.conf --json
for command in ls df verify; do
    check "store $command --json, no image" fails 3 "soft:none.img: cannot open" '' '' store "$command" soft:none.img --json
done
for command in status stop reload "trigger p" "pause p" "resume p"; do
    # shellcheck disable=SC2086  # words
    check "$command --json, no appliance" fails 3 "" '' '' $command --json
done
check "an unknown option beside --json" fails 2 "run: unknown option '--jsn'" '' '' run --json --jsn
check "an unknown command beside --json" fails 2 "'rum' is not a headrace command" '' '' rum --json
check "topo --json, an impossible change" fails 64 "--what-if move:1=2: there is no function '1'" '' '' "${box[@]}" --what-if move:1=2 --json
check "topo --json, a missing capture" fails 65 "none: No such file" '' '' "${box[@]}" --baseline none --json
check "--json behind -- is no option" silent_failure run -- --json

# Numbers of `cost` and those of status are the counters that status --counters explains.
explained() {
    "$HEADRACE" status --counters >counters || return 1
    "$HEADRACE" run c.conf --json >said 2>err || return 1
    python3 - <<'PY'
import json, sys

listed = {line.split()[0] for line in open("counters") if line.startswith("  ")}
for pipeline in json.load(open("said"))["pipelines"]:
    for role in pipeline["cost"].values():
        if not set(role) <= listed:
            sys.exit(f"not explained: {set(role) - listed}")
if not {"tiles_done", "heartbeat", "durable_tiles", "read_bytes_per_s", "lost_commands"} <= listed:
    sys.exit(f"not listed: {listed}")
PY
}
check "status --counters explains the numbers of a run" explained
check "status --counters accepts no name" fails 2 "status: --counters stands alone" '' '' status --counters name --json

# The name of a file can contain any bytes: a byte that is not UTF-8 is replaced.
latin=$(printf 'caf\xe9 \x01"')
cp c.conf "$latin"
check "a name that is not UTF-8" document "schema version appliance configuration ssds parallel gpus pipelines partitions" \
    check "$latin"
check "a name that is not UTF-8 shows each replaced byte" grep -qF '"caf\ufffd \u0001\""' said
done_testing
