#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `headrace check` beside a running appliance: what it judges with the properties, objects and space that the
# appliance reports, and what it says when it gets none.
# shellcheck disable=SC2317  # called through check
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

head -c 3000000 /dev/urandom >"$SCRATCH/in"
# conf FILE DEVICE OBJECT SINK [KEYS]: a copy of an object
conf() {
    cat >"$SCRATCH/$1" <<CONF
appliance = { name = "box"; };
ssds = ( { name = "a"; device = "$2"; namespace = 1; }, { name = "b"; device = "$2"; namespace = 2; } );
gpus = ( { name = "g"; device = "host:1"; } );
boot = { post = "off"; };
pipelines = ( { name = "p"; source = { ssd = "a"; object = "$3"; }; operator = "copy";
  sink = { ssd = "b"; object = "$4"; ${6-replace = true;} }; ${5-on = \"request\";} } );
CONF
}
ssd=soft:$SCRATCH/x.img,namespaces=2
"$HEADRACE" store format "$ssd,size=64M" && "$HEADRACE" store format --nsid 2 "$ssd" &&
    "$HEADRACE" store put -q "$ssd" in "$SCRATCH/in" && "$HEADRACE" store put -q --nsid 2 "$ssd" old "$SCRATCH/in" || exit 1
conf x.conf "$ssd" in out
exits 0 check "$SCRATCH/x.conf" && cp "$SCRATCH/out" "$SCRATCH/alone"
exits 0 check --json "$SCRATCH/x.conf" && cp "$SCRATCH/out" "$SCRATCH/alone.json"
"$HEADRACE" boot "$SCRATCH/x.conf" >"$SCRATCH/boot.out" 2>"$SCRATCH/boot.err" </dev/null &
idle() { "$HEADRACE" status --json | grep '"phase": "idle"' >/dev/null; }
until_true 60 idle

same() {
    exits 0 check "$SCRATCH/x.conf" && silent && [ "$(grep -c "appliance 'box' drives it" "$SCRATCH/out")" = 2 ] &&
        diff <(grep -v "appliance 'box' drives it" "$SCRATCH/out") "$SCRATCH/alone"
}
check "the report is the same one, and names the appliance" same
as_json() {
    exits 0 check --json "$SCRATCH/x.conf" && json '[s["driven_by_appliance"] for s in r["ssds"]] == ["box", "box"]' &&
        cmp <(grep -v -e driven_by -e next_start -e start_utc "$SCRATCH/out") <(grep -v -e next_start -e start_utc "$SCRATCH/alone.json")
}
check "also as JSON" as_json
judged() {
    exits 0 trigger p --wait && exits 0 check "$SCRATCH/x.conf" && grep -E "^p .* done " "$SCRATCH/out" || return 1
    conf y.conf "$ssd" inn out '' && exits 2 check "$SCRATCH/y.conf" && warns "y.conf:5: there is no object 'inn' on ssd 'a'; did you mean 'in'?" &&
        conf y.conf "$ssd" in old "" "" && exits 1 check "$SCRATCH/y.conf" && warns "object 'old' exists" &&
        conf y.conf "$ssd" in new 'slots = 1000; tile = "512K";' && sed -i 's/^boot/memory = { host = "64M"; }; boot/' "$SCRATCH/y.conf" &&
        exits 2 check "$SCRATCH/y.conf" && warns "the limit of memory.host is 67108864" && conf y.conf "$ssd" in new '' &&
        sed -i 's/namespace = 1;/namespace = 1; serial = "other";/' "$SCRATCH/y.conf" && exits 3 check "$SCRATCH/y.conf" && warns "'other'"
}
check "objects, sinks, memory, starts and serial numbers are judged" judged
space() {
    head -c 16M /dev/zero >"$SCRATCH/big" && exits 0 store put -q "$ssd" big "$SCRATCH/big" && conf y.conf "$ssd" big new '' &&
        exits 0 check "$SCRATCH/y.conf" && exits 0 store put -q --nsid 2 "$ssd" fill "$SCRATCH/big" && exits 1 check "$SCRATCH/y.conf" &&
        warns "no room for 16777216 bytes" && exits 0 store rm --nsid 2 "$ssd" fill && exits 0 check "$SCRATCH/y.conf"
}
check "space is judged as it is now" space
unchanged_by() { unchanged "$SCRATCH/x.img" exits 0 check "$SCRATCH/x.conf"; }
check "nothing is written" unchanged_by
ends() { exits 0 stop --wait && exits 0 check "$SCRATCH/x.conf" && ! grep -F "drives it" "$SCRATCH/out"; }
check "without the appliance the ssds are opened" ends

foreign() {
    exec 8<"$SCRATCH/x.img"
    flock -x 8
    exits 3 check "$SCRATCH/x.conf" && warns "in use"
    local code=$?
    exec 8<&-
    return $code
}
check "an image that another process uses is an error" foreign
done_testing
