#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The last runs of each pipeline of an appliance: in the status, in the reply to trigger --wait, and as a
# history that survives restarts of the engine and of the supervisor.
# shellcheck disable=SC2016,SC2317  # an inner shell expands; called through check
set -uo pipefail
# Operators of this script die of SIGILL, as without a sanitizer.
export ASAN_OPTIONS=${ASAN_OPTIONS-}:handle_sigill=0
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
export SCRATCH HEADRACE

# conf KEYS_OF_SUM KEYS_OF_COPY KEYS_OF_BAD [SOURCE_OF_COPY]
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
appliance = { name = "box"; };
ssds = ( { name = "a"; device = "soft:$SCRATCH/a.img"; } );
gpus = ( { name = "g"; device = "host:2"; } );
operators = ( { name = "liar"; file = "$SCRATCH/liar.op"; } );
boot = { post = "off"; restarts = 1; backoff = "20ms"; };
pipelines = (
  { name = "sum"; source = { object = "in"; }; operator = "crc32c"; tile = "64K"; $1 },
  { name = "copy"; source = { object = "${4-none}"; }; operator = "copy"; tile = "64K"; $2
    sink = { object = "out"; replace = true; }; },
  { name = "bad"; source = { object = "in"; }; operator = "liar"; args = { lie = "trap"; };
    tile = "64K"; sink = { object = "bad"; replace = true; }; $3 } );
CONF
}
prepare() {
    env -i PATH="$PATH" make NVCC= O="$SCRATCH" op OP=tests/op/liar.c >"$SCRATCH/out" 2>"$SCRATCH/err" &&
        head -c 1000000 /dev/urandom >"$SCRATCH/in" && image
}
image() {
    rm -f "$SCRATCH/a.img"
    exits 0 store format "soft:$SCRATCH/a.img,size=32M" &&
        exits 0 store put "soft:$SCRATCH/a.img" in "$SCRATCH/in"
}
service() { python3 "$(dirname "$0")/lib/service.py" "$HEADRACE" "$SCRATCH/x.conf" "$@"; }
# Called by the shell of a step. holds ARGUMENTS... -- EXPRESSION: headrace prints JSON, and the
# expression is true for it (r).
cat >"$SCRATCH/holds" <<'HOLDS'
#!/bin/bash
expression=${*: -1}
"$HEADRACE" "${@:1:$#-2}" >"$SCRATCH/reply" 2>"$SCRATCH/refusal"
python3 -c '
import json, sys
r = json.load(open(sys.argv[1]))
want = json.loads(sys.argv[3])
if not eval(sys.argv[2]):
    sys.exit(f"{sys.argv[2]}: {r}")' "$SCRATCH/reply" "$expression" "$(cat "$SCRATCH/crc")"
HOLDS
chmod +x "$SCRATCH/holds"
holds() { echo "sh=\"\$SCRATCH/holds\" $1 --json -- '$2'"; }
stopped=(signal=TERM exit=0)
check "prepare an image and an operator" prepare
conf '' '' ''
checksum() {
    sed '/name = "copy"/,/name = "bad"/d; s/"64K";  },/"64K"; } );/' "$SCRATCH/x.conf" | grep -v lie >"$SCRATCH/run.conf"
    sed -i '/operators/d; /bad/d' "$SCRATCH/run.conf"
    exits 0 run --json "$SCRATCH/run.conf" &&
        python3 -c 'import json, sys
print(json.dumps(json.load(sys.stdin)["pipelines"][0]["result"]))' <"$SCRATCH/out" >"$SCRATCH/crc" &&
        grep -q crc32c "$SCRATCH/crc"
}
check "the result of headrace run" checksum

request='on = "request";'
replies() {
    conf "$request" "$request" "$request"
    service until=idle \
        "$(holds 'trigger sum --wait' 'r["run"]["result"] == want and r["run"]["outcome"] == "done" and r["run"]["start"] == 1 and r["run"]["duration_ms"] > 0')" \
        "$(holds 'trigger copy --wait' 'r["run"]["outcome"] == "failed" and "none" in r["run"]["message"] and "result" not in r["run"]')" \
        'sh=[ "$("$HEADRACE" status | grep -c "no object .none.")" = 1 ]' \
        "$(holds 'trigger bad --wait' '"ended by signal" in r["run"]["message"] or "exited with" in r["run"]["message"]')" \
        "$(holds status '[p["last"]["outcome"] for p in r["pipelines"]] == ["done", "failed", "failed"]')" \
        "$(holds status 'r["pipelines"][0]["last"]["result"] == want and r["pipelines"][2]["last"]["engine_ended"]')" \
        'sh="$HEADRACE" status | grep -q "^      result {.*crc32c"' \
        'sh="$HEADRACE" status | grep -q "^    start 1: failed 20[0-9-]*T.*, 0.000 ms, copy"' \
        "${stopped[@]}"
}
check "trigger --wait and status have the result of a run" replies

# An engine that dies in a start whose number an earlier start of that name has: both deaths are kept.
removed() {
    image && sed '/name = "bad"/,/lie = "trap"/d; s/^    tile = "64K"; sink = { object = "bad".*//' "$SCRATCH/x.conf" |
        sed 's/replace = true; }; },$/replace = true; }; } );/' >"$SCRATCH/less.conf" && cp "$SCRATCH/x.conf" "$SCRATCH/all.conf" &&
        service until=idle 'sh="$HEADRACE" trigger bad --wait 2>"$SCRATCH/err"; cp "$SCRATCH/less.conf" "$SCRATCH/x.conf" && "$HEADRACE" reload --wait' \
            'sh=cp "$SCRATCH/all.conf" "$SCRATCH/x.conf" && "$HEADRACE" reload --wait' \
            "$(holds 'trigger bad --wait' 'r["run"]["start"] == 1')" \
            "$(holds 'status --history bad' '[(x["start"], x["engine_ended"]) for x in r["runs"]] == [(1, True), (1, True)]')" \
            "${stopped[@]}"
}
check "a pipeline that is added again and ends the engine has that in its history" removed
# The engine that follows writes the death.
image >/dev/null
service until=idle 'sh="$HEADRACE" trigger sum --wait; "$HEADRACE" trigger bad --wait; true' \
    'sh=until "$HEADRACE" status --json | grep "\"phase\": \"idle\"" >/dev/null; do sleep 0.05; done' \
    "${stopped[@]}" >/dev/null 2>&1

# The same runs after a restart of the supervisor, and more of them, of which 16 are kept.
history() {
    service until=idle \
        "$(holds 'status --history bad' '[x["start"] for x in r["runs"]] == [1] and "tile 3" in r["runs"][0]["message"]')" \
        'sh=for i in $(seq 2 20); do "$HEADRACE" trigger sum --wait || exit; done' signal=KILL exit=-9 &&
        service until=idle \
            "$(holds 'status --history sum' '[x["start"] for x in r["runs"]] == list(range(20, 4, -1))')" \
            "$(holds 'status --history sum' 'all(x["result"] == want and x["outcome"] == "done" for x in r["runs"])')" \
            'sh=[ "$("$HEADRACE" status --history sum | grep -c "start [0-9]*: done")" = 16 ]' \
            'sh="$HEADRACE" status --history none 2>"$SCRATCH/err"; [ $? = 2 ]' \
            'sh="$HEADRACE" status --history none --json 2>"$SCRATCH/err" | python3 -m json.tool >/dev/null' "${stopped[@]}" &&
        exits 0 store verify "soft:$SCRATCH/a.img"
}
check "a history of 16 runs survives the death of the supervisor" history

# A page is damaged: only that run is missing. Text in a page that is no JSON has no way into a reply.
damaged() {
    python3 - "$SCRATCH/a.img" <<'PYTHON' && service until=idle \
        "$(holds 'status --history sum' 'len(r["runs"]) == 15 and 20 not in [x["start"] for x in r["runs"]]')" \
        "${stopped[@]}"
import sys
image = open(sys.argv[1], "r+b")
data = image.read()
at = max((int.from_bytes(data[p + 16:p + 24], "little"), p) for p in range(0, len(data), 4096)
         if data[p:p + 6] == b"hrpast" and data[p + 24:p + 28] == b"sum\0")[1]
image.seek(at + 600)
image.write(b"\xff" * 100)
PYTHON
}
check "a damaged page is one run less" damaged

# A result with a value for each of many tiles: the arrays are left out.
long() {
    sed -i 's/"crc32c"; tile = "64K"/"crc32c"; tile = "4K"/' "$SCRATCH/x.conf" && service until=idle \
        "$(holds 'trigger sum --wait' 'r["run"]["result"] == {"crc32c": want["crc32c"]} and r["run"]["result_shortened"]')" \
        "${stopped[@]}"
}
check "a result that is too long keeps its single values" long

# Pipelines that run once. The death after which the appliance gives up has no engine that writes it.
once() {
    image && conf '' '' '' in && sed -i 's/backoff = "20ms"/backoff = "2s"/' "$SCRATCH/x.conf" &&
        service until=backoff "$(holds 'status --history sum' 'r["runs"][0]["result"] == want')" \
            "$(holds 'status --history copy' '[x["outcome"] for x in r["runs"]] == ["done"]')" exit=1 &&
        service until=backoff "$(holds 'status --history bad' 'len(r["runs"]) == 2')" exit=1
}
check "runs of pipelines that run once are kept as well" once

foreign() {
    image && exits 0 store put "soft:$SCRATCH/a.img" headrace.history "$SCRATCH/in" &&
        conf "$request" "$request" "$request" && service until=idle \
        "$(holds 'trigger sum --wait' 'r["run"]["result"] == want')" "${stopped[@]}" &&
        grep -q "the history of runs is not durable: .*was not made by" "$SCRATCH/boot.err" &&
        exits 0 store get "soft:$SCRATCH/a.img" headrace.history - && cmp "$SCRATCH/in" "$SCRATCH/out"
}
check "an object of the user with the name of the history stays, and one line tells it" foreign

# The controller fails between bring-up and the first start: no run fails, and none begins.
lost() {
    local lba
    image && cat >"$SCRATCH/x.conf" <<CONF && : >"$SCRATCH/faults" && exits 0 boot "$SCRATCH/x.conf" || return 1
boot = { post = "off"; restarts = 1; backoff = "20ms"; };
ssds = ( { name = "a"; device = "soft:$SCRATCH/a.img,faults=$SCRATCH/faults"; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "sum"; source = { object = "in"; }; operator = "crc32c"; } );
CONF
    exits 0 store ls "soft:$SCRATCH/a.img" --json &&
        lba=$(json_value "$SCRATCH/out" r '[o["offset_bytes"] // 4096 for o in r["objects"]
            if o["name"] == "headrace.history"][0]') || return 1
    echo "on read lba $lba-$((lba + 255)): cfs" >"$SCRATCH/faults"
    exits 4 boot "$SCRATCH/x.conf" && warns "a device that pipelines need has failed" &&
        warns "given up after 1 restarts"
}
check "an appliance whose pipelines cannot start has failed" lost
done_testing
