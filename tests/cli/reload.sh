#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `headrace reload`: pipelines that are added, changed and removed while the appliance runs, mistakes in
# the file, and a configuration with which no engine comes up.
# shellcheck disable=SC2317  # called through check
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

image=$SCRATCH/x.img
head -c 3000000 /dev/urandom >"$SCRATCH/in"
# Each read of the first object takes half a second, so its pipeline runs for as long as the test needs.
printf 'on read lba 512-1300 count 1000000: delay 500ms\n' >"$SCRATCH/slow"

# pipeline NAME [KEYS]: one entry of the list
pipeline() { echo "{ name = \"$1\"; source = { object = \"in\"; }; operator = \"crc32c\"; tile = \"64K\"; ${2-on = \"request\";} }"; }
# conf PIPELINES [DEVICE_OPTIONS [REST]]: the configuration of the appliance
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
appliance = { name = "box"; };
ssds = ( { name = "a"; device = "soft:$image${2-}"; timeout_ms = 600000; } );
gpus = ( { name = "g"; device = "host:1"; } );
boot = { post = "off"; backoff = "20ms"; };
${3-}
pipelines = ( $1 );
CONF
}
in_phase() { "$HEADRACE" status --json | grep "\"phase\": \"$1\"" >/dev/null; }
# begins PIPELINES [DEVICE_OPTIONS [REST]]: a new image with the object, and an idle appliance
begins() {
    rm -f "$image"
    "$HEADRACE" store format "soft:$image,size=64M" && "$HEADRACE" store put -q "soft:$image" in "$SCRATCH/in" || return 1
    conf "$@"
    "$HEADRACE" boot "$SCRATCH/x.conf" >"$SCRATCH/boot.out" 2>"$SCRATCH/boot.err" </dev/null &
    until_true 60 in_phase idle
}
ends() { exits 0 stop --wait && says "box: stop: done"; }
names() { exits 0 status --json && json "[p['name'] for p in r['pipelines']] == $1"; }
engine() { "$HEADRACE" status --json >"$SCRATCH/status" && json_value "$SCRATCH/status" r 'r["engine_pid"]'; }
# The number of starts of a pipeline.
starts() { exits 0 status --json && json "[p['starts_count'] for p in r['pipelines'] if p['name'] == '$1'] == [$2]"; }

adds() {
    begins "$(pipeline a)" && exits 0 trigger a --wait && conf "$(pipeline b 'every = "1h";'), $(pipeline a)" &&
        exits 0 reload --wait --json && json 'r["result"] == "done" and r["changes"] == ["pipeline '"'b'"' is new"]' &&
        names "['b', 'a']" && starts a 1 && until_true 60 starts b 1 && exits 0 trigger a --wait && starts a 2
}
check "a pipeline that is added starts, and the others keep their starts" adds
changes() {
    conf "$(pipeline b 'every = "1h"; slots = 4;'), $(pipeline a)" '' 'memory = { host = "64M"; };' && exits 0 reload --wait &&
        says "  changes: memory" && says "  changes: pipeline 'b' is changed" && starts a 2 && starts b 1
}
check "a changed one, and memory, take a new engine" changes
removes() {
    conf "$(pipeline a)" && exits 0 reload --wait && says "  changes: pipeline 'b' is removed" && names "['a']" &&
        exits 2 trigger b && warns "there is no pipeline 'b'" && starts a 2
}
check "a removed one is gone" removes
schedule() {
    local before
    before=$(engine) && conf "$(pipeline a 'every = "1h";')" && exits 0 reload --json &&
        json 'r["result"] == "done" and r["changes"] == [] and r["waits_for"] == []' && [ "$(engine)" = "$before" ]
}
check "for the schedule alone the engine stays" schedule
mistakes() {
    local before
    before=$(engine) && conf "$(pipeline a 'every = "1h"; tiles = 3;'), $(pipeline a 'slots = -1;')"
    exits 2 reload && warns "appliance 'box': $SCRATCH/x.conf: nothing has changed: it has mistakes" &&
        warns "headrace: error: $SCRATCH/x.conf:6: " && grep -F "x.conf:6: " "$SCRATCH/err" | grep -F tiles &&
        exits 2 reload --json && json 'r["code"] == 2 and len(r["mistakes"]) >= 2 and all("x.conf:6: " in m for m in r["mistakes"])' &&
        [ "$(engine)" = "$before" ] && names "['a']"
}
check "mistakes are listed with their lines, and nothing changes" mistakes
once() {
    conf "$(pipeline a '')"
    exits 2 reload && warns "no pipeline repeats" && names "['a']" && rm "$SCRATCH/x.conf" && exits 2 reload &&
        warns "No such file or directory" && names "['a']" && ends
}
check "a configuration without a schedule, or without a file, changes nothing" once

running() { "$HEADRACE" status --json | grep '"outcome": "running"' >/dev/null; }
busy() {
    local before
    begins "$(pipeline a), $(pipeline c)" ",faults=$SCRATCH/slow" || return 1
    before=$(engine)
    "$HEADRACE" trigger a --wait >"$SCRATCH/a.out" 2>&1 &
    waiting=$!
    until_true 60 running || return 1
    conf "$(pipeline c)" ",faults=$SCRATCH/slow"
    exits 0 reload && says "box: reload: accepted" && says "  changes: pipeline 'a' is removed" &&
        says "  waits for the end of pipeline: a" && names "['a', 'c']" && [ "$(engine)" = "$before" ] || return 1
    wait "$waiting"
    until_true 100 grep -F "the new configuration is in force" "$SCRATCH/boot.err" && names "['c']" && [ "$(engine)" != "$before" ] && ends
}
check "a pipeline that runs is removed after its end" busy
reverts() {
    begins "$(pipeline a 'every = "1h";')" && until_true 60 starts a 1 || return 1
    conf "$(pipeline a), $(pipeline b)" && sed -i 's|device = "host:1"|device = "cuda:9"|' "$SCRATCH/x.conf"
    exits 3 reload --wait && warns "no engine comes up with the new configuration, and the earlier one is in force again" &&
        names "['a']" && until_true 60 in_phase idle && starts a 1 && exits 0 trigger a --wait && ends
}
check "when no engine comes up, the earlier configuration is in force again" reverts
# A configuration whose ssd is absent waits for it for wait_s; a newer one takes its place at once.
corrects() {
    begins "$(pipeline a)" && exits 0 trigger a --wait || return 1
    conf "$(pipeline a), $(pipeline b)" && sed -i "s|soft:$image|soft:$SCRATCH/absent.img|" "$SCRATCH/x.conf"
    exits 0 reload && until_true 60 in_phase waiting || return 1
    conf "$(pipeline c), $(pipeline a)"
    exits 0 reload --wait --json && json 'r["result"] == "done"' && names "['c', 'a']" && starts a 1 && exits 0 trigger a --wait && ends
}
check "a newer configuration takes the place of one that waits for its ssd" corrects
# The number of a start counts from 1 again: the reply has the new run, not the earlier one of that number.
again() {
    begins "$(pipeline a), $(pipeline b)" && exits 0 trigger a --wait && exits 0 trigger a --wait || return 1
    conf "$(pipeline b)" && exits 0 reload --wait && conf "$(pipeline b), $(pipeline a 'on = "request"; slots = 2;')" &&
        sed -i '/name = "a"/s/{ name = "a"; \(.*\)64K/{ name = "a"; \1128K/' "$SCRATCH/x.conf" && exits 0 reload --wait &&
        exits 0 trigger a --wait --json && json '(r["start"], r["run"]["start"], r["run"]["tiles"]) == (1, 1, 23)' &&
        exits 0 status --history a --json && json '[(x["start"], x["tiles"]) for x in r["runs"]] == [(1, 23), (2, 46), (1, 46)]' && ends
}
check "a pipeline that is added again has its own starts" again
# A user operator whose file is the same is no change.
same_operator() {
    env -i PATH="$PATH" make NVCC= O="$SCRATCH" op OP=tests/op/liar.c >"$SCRATCH/make.out" 2>&1 &&
        begins "$(pipeline a)" '' "operators = ( { name = \"liar\"; file = \"$SCRATCH/liar.op\"; } );" || return 1
    local before
    before=$(engine) && conf "$(pipeline a 'every = "1h";')" '' "operators = ( { name = \"liar\"; file = \"$SCRATCH/liar.op\"; } );" &&
        exits 0 reload --wait --json && json 'r["changes"] == []' && [ "$(engine)" = "$before" ] && ends
}
check "a user operator with the same file is no change" same_operator
done_testing
