#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An appliance with a pipeline whose operator ends the engine: it is suspended, and the others go on.
# shellcheck disable=SC2016,SC2317  # an inner shell expands; called through check
set -uo pipefail
# Operators of this script die of SIGILL, as without a sanitizer.
export ASAN_OPTIONS=${ASAN_OPTIONS-}:handle_sigill=0
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
export SCRATCH HEADRACE

# conf LIE KEYS_OF_BAD KEYS_OF_SUM BOOT_SETTINGS [KEYS_OF_APPLIANCE]
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
appliance = { name = "box"; ${5-} };
ssds = ( { name = "a"; device = "soft:$SCRATCH/a.img"; } );
gpus = ( { name = "g"; device = "host:2"; } );
operators = ( { name = "liar"; file = "$SCRATCH/liar.op"; } );
boot = { post = "off"; $4 };
pipelines = (
  { name = "bad"; source = { object = "in"; }; operator = "liar"; args = { lie = "$1"; };
    tile = "64K"; sink = { object = "out"; keep = 1; }; operator_s = 1; $2 },
  { name = "sum"; source = { object = "in"; }; operator = "crc32c"; tile = "64K"; $3 } );
CONF
}
image() {
    rm -f "$SCRATCH/a.img"
    exits 0 store format "soft:$SCRATCH/a.img,size=32M" &&
        exits 0 store put "soft:$SCRATCH/a.img" in "$SCRATCH/in"
}
prepare() {
    env -i PATH="$PATH" make NVCC= O="$SCRATCH" op OP=tests/op/liar.c >"$SCRATCH/out" 2>"$SCRATCH/err" &&
        head -c 1000000 /dev/urandom >"$SCRATCH/in" && image
}
service() { python3 "$(dirname "$0")/lib/service.py" "$HEADRACE" "$SCRATCH/x.conf" "$@"; }
warned() { grep -qE -- "$1" "$SCRATCH/boot.err" || { cat "$SCRATCH/boot.err"; return 1; }; }
# until EXPRESSION: a shell command that waits until the status has it; b and s are `bad` and `sum`
cat >"$SCRATCH/until.py" <<'PYTHON'
import json, os, subprocess, sys, time
for _ in range(1200):
    if " Z " in open(f"/proc/{os.environ['PID']}/stat").read():
        sys.exit("the appliance has ended")
    out = subprocess.run([sys.argv[1], "status", "--json"], capture_output=True).stdout
    r = json.loads(out) if out else {"pipelines": []}
    b, s = (r.get("pipelines", []) + [{}, {}])[:2]
    try:
        if eval(sys.argv[2]):
            sys.exit(0)
    except KeyError:
        pass
    time.sleep(0.05)
sys.exit(f"{sys.argv[2]}: {r}")
PYTHON
until_status() { echo "sh=python3 $SCRATCH/until.py $HEADRACE '$1'"; }
stopped=(signal=TERM exit=0)
check "prepare an image and an operator" prepare

# Four engines die, more than boot.restarts; the other pipeline goes on, and the appliance with it.
goes_on() {
    image && conf "$1" 'every = "20ms";' 'every = "20ms";' 'restarts = 2; backoff = "20ms";' &&
        service "$(until_status 'b["failures_count"] >= 4 and s["done_count"] >= 10 and s["failures_count"] == 0')" \
            "$(until_status 'b["suspended"] and b["engine_deaths_in_row"] >= 4')" \
            "$(until_status 'not s["suspended"] and "engine_deaths_in_row" not in s')" \
            "${stopped[@]}" && warned "$2" && warned "pipeline 'bad' is suspended for [0-9.]+ m?s: " &&
        ! warned "given up" >/dev/null
}
check "an operator that crashes ends no other pipeline" goes_on trap \
    "engine [0-9]+: (ended by signal|exited with code).* in operator 'liar' of pipeline 'bad', tile 3; it ran: "
check "an operator that writes out of its memory is named" goes_on address \
    "in operator 'liar' of pipeline 'bad', tile [0-9]+; it ran: "
check "an operator that ends the process is named" goes_on exit \
    "exited with code 5 in the middle of its work in operator 'liar' of pipeline 'bad', tile [0-9]+; "
check "an operator that crashes in its report is named" goes_on report \
    "in report\(\) of operator 'liar' of pipeline 'bad'"

# The other pipelines run side by side with the one that crashes, and are not to blame.
side_by_side() {
    image && conf trap 'every = "20ms";' 'every = "20ms";' 'restarts = 2; backoff = "20ms";' 'parallel = 4;' &&
        service "$(until_status 'b["failures_count"] >= 3 and s["done_count"] >= 10 and s["failures_count"] == 0')" \
            "${stopped[@]}"
}
check "a pipeline beside the one that crashes is not suspended" side_by_side

# The operator works on the tile for longer than operator_s.
hangs() {
    image && conf loop 'on = "request";' 'every = "20ms";' 'restarts = 2; backoff = "1h";' &&
        service "$(until_status 's["done_count"] >= 1')" \
            'sh="$HEADRACE" trigger bad' "$(until_status 'b["suspended"] and s["done_count"] >= 5')" \
            'sh=n=$("$HEADRACE" status | grep -c "suspended for"); [ "$n" = 1 ]' \
            'sh=! "$HEADRACE" trigger bad 2>"$SCRATCH/err" && grep -q "resume" "$SCRATCH/err"' \
            'sh="$HEADRACE" resume bad' "$(until_status 'not b["suspended"]')" "${stopped[@]}" &&
        warned "in operator 'liar' of pipeline 'bad', tile [0-9]+, which it does not end; it ran"
}
check "an operator that never ends is suspended, and resume lifts that" hangs

# The supervisor is killed too: the suspension is durable.
durable() {
    image && conf trap 'every = "20ms";' 'on = "request";' 'restarts = 2; backoff = "1h";' &&
        service "$(until_status 'b["suspended"]')" 'sh="$HEADRACE" trigger sum --wait' \
            signal=KILL exit=-9 &&
        service "$(until_status 'b["suspended"] and b["suspended_for_ms"] > 1000000')" \
            'sh="$HEADRACE" trigger sum --wait' \
            'sh="$HEADRACE" resume bad' "$(until_status 'b["failures_count"] == 2')" \
            "${stopped[@]}"
}
check "a suspension lasts after a restart of the supervisor" durable

# Nothing else can run: the appliance gives up.
alone() {
    image && conf trap 'every = "20ms";' 'on = "request";' 'restarts = 2; backoff = "20ms";' &&
        sed -i '/name = "sum"/d; s/\(operator_s = 1.*\)},/\1} );/' "$SCRATCH/x.conf" &&
        exits 1 boot "$SCRATCH/x.conf" && warns "given up: more than 2 engines in a row" &&
        [ "$(grep -c "engine [0-9]*: started" "$SCRATCH/err")" = 3 ]
}
check "the appliance gives up when nothing can run" alone

# Killed from outside: both ran, none is known to be the cause. Each runs alone, and then both go on.
unknown() {
    image && conf none 'forever = true;' 'forever = true;' 'restarts = 1; backoff = "20ms";' 'parallel = 2;' || return 1
    for i in 1 2 3; do
        steps+=("$(until_status "r[\"restarts\"] == $i - 1 and r[\"engine_pid\"] and r[\"phase\"] == \"idle\"")"
            'sh=kill -KILL $(cut -d" " -f1 /proc/$PID/task/$PID/children)')
    done
    service "${steps[@]}" "$(until_status 'r["restarts"] == 3 and b["done_count"] >= 20 and s["done_count"] >= 20')" \
        "$(until_status 'not b["suspended"] and not s["suspended"]')" "${stopped[@]}"
}
steps=()
check "engines that are killed from outside suspend what ran, and all goes on" unknown
done_testing
