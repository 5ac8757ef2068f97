#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `headrace store` on an ssd that a running appliance drives: each subcommand, an engine that ends
# meanwhile, hostile clients, users, and an image that another process uses.
# shellcheck disable=SC2317  # called through check
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

clients() { python3 "$(dirname "$0")/lib/clients.py" "$RUNTIME_DIRECTORY/box.sock" "$@"; }
image=$SCRATCH/x.img
ssd=soft:$image

# conf [WHEN [DEVICE_OPTIONS [CONTROL]]]: one checksum over an object of the image
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
appliance = { name = "box"; };
ssds = ( { name = "a"; device = "$ssd,size=64M${2-}"; timeout_ms = 600000; } );
gpus = ( { name = "g"; device = "host:1"; } );
boot = { post = "off"; backoff = "20ms"; results = true; };
control = { ${3-} };
pipelines = ( { name = "sum"; source = { object = "in"; }; operator = "crc32c"; tile = "4K"; slots = 2; ${1-} } );
CONF
}
phase() { "$HEADRACE" status --json | grep "\"phase\": \"$1\"" >/dev/null; }
# begins PHASE [WHEN [DEVICE_OPTIONS [CONTROL]]]: a new image with the object, and an appliance in that phase
begins() {
    local want=$1
    shift
    rm -f "$image"
    "$HEADRACE" store format "$ssd,size=64M" && "$HEADRACE" store put -q "$ssd" in "$SCRATCH/in" || return 1
    conf "$@"
    "$HEADRACE" boot "$SCRATCH/x.conf" >"$SCRATCH/boot.out" 2>"$SCRATCH/boot.err" </dev/null &
    until_true 60 phase "$want"
}
# A check runs in a shell of its own, which cannot wait for the appliance itself.
ends() { exits 0 stop --wait && says "box: stop: done" && [ ! -e "$RUNTIME_DIRECTORY/box.sock" ]; }
told() { warns "appliance 'box' drives this ssd, and carries this out"; }

head -c 5000001 /dev/urandom >"$SCRATCH/in"
head -c 3000000 /dev/urandom >"$SCRATCH/other"
# Each read of the first object takes half a second, so the pipeline runs for as long as the test needs.
printf 'on read lba 512-1700 count 1000000: delay 500ms\n' >"$SCRATCH/slow"

reads() {
    begins idle 'on = "request";' && exits 0 store ls "$ssd" && told && says "in" &&
        exits 0 store df --json "$ssd" && json 'r["objects"] == 1 and r["used_bytes"] == 5001216' &&
        exits 0 store get "$ssd" in "$SCRATCH/out.1" && cmp "$SCRATCH/in" "$SCRATCH/out.1" &&
        exits 0 store verify --json "$ssd" && json 'r["faults"] == 0 and r["complete"]' &&
        exits 0 store verify --map "$ssd" && exits 1 store get "$ssd" none "$SCRATCH/out.2" &&
        warns "there is no such object" && [ ! -e "$SCRATCH/out.2" ]
}
check "an idle appliance lists, reads and checks its objects" reads
writes() {
    exits 0 store put "$ssd" new "$SCRATCH/other" && told && exits 0 store get "$ssd" new - &&
        cmp "$SCRATCH/out" "$SCRATCH/other" && exits 1 store put "$ssd" new "$SCRATCH/in" &&
        warns "exists already" && exits 0 store put --replace "$ssd" new "$SCRATCH/in" &&
        exits 0 store put "$ssd" empty /dev/null --size 0 && exits 0 store get "$ssd" new - &&
        cmp "$SCRATCH/out" "$SCRATCH/in" && exits 2 store put "$ssd" a/b "$SCRATCH/in" &&
        exits 1 store put "$ssd" huge /dev/zero --size 1G && warns "no room for"
}
check "and stores objects" writes
changes() {
    exits 0 store cp "$ssd" new twin && told && says "twin: 5000001 bytes, CRC-32C" && exits 0 store get "$ssd" twin - &&
        cmp "$SCRATCH/out" "$SCRATCH/in" && exits 1 store cp "$ssd" in twin && warns "'twin': exists already" &&
        exits 0 store mv "$ssd" twin other && exits 1 store mv "$ssd" other in && warns "exists already; --replace" &&
        exits 0 store mv --replace "$ssd" other new && exits 0 store get "$ssd" new - && cmp "$SCRATCH/out" "$SCRATCH/in" &&
        exits 0 store cp "$ssd" new a && exits 0 store rm "$ssd" a && exits 1 store rm "$ssd" a && warns "there is no such object" &&
        exits 2 store mv "$ssd" new a/b && exits 2 store rm "$ssd" a/b && exits 1 store mv "$ssd" none x &&
        exits 1 store mv "$ssd" new headrace.starts && warns "belongs to the appliance" &&
        exits 1 store cp --replace "$ssd" new headrace.history && warns "'headrace.history' belongs to the appliance"
}
check "and copies, renames and removes them" changes
frees() {
    local before
    exits 0 store cp "$ssd" in twin && before=$(du -k "$image" | cut -f 1) && exits 0 store rm "$ssd" twin &&
        [ $((before - $(du -k "$image" | cut -f 1))) -gt 4800 ] && exits 0 store verify "$ssd"
}
check "rm gives the space of the image back" frees
by_name() { exits 0 store ls -c "$SCRATCH/x.conf" a --json && json 'len(r["objects"]) == 3'; }
check "the ssd is found by its name in a configuration" by_name
refusals() {
    exits 1 store unlock "$ssd" && warns "'unlock' is possible when it has ended" &&
        exits 2 store get --force "$ssd" in "$image" && warns "is the image of the store" &&
        exits 2 store put "$ssd" self "$image" && warns "is the image of the store" &&
        printf 'x' | "$HEADRACE" store put -q "$ssd" short - --size 2 2>"$SCRATCH/err"
    [ $? = 1 ] && warns "ended after 1 of 2 bytes" && exits 0 store ls "$ssd" && ! grep -F short "$SCRATCH/out"
}
check "what cannot be done is refused, and changes nothing" refusals
check "a clean stop ends the appliance" ends

done_starts() { exits 0 status --json && json "r['pipelines'][0]['starts_count'] == $1"; }
wakes() {
    begins idle 'on = "object in";' && until_true 60 done_starts 1 &&
        exits 0 store put --replace "$ssd" in "$SCRATCH/other" && until_true 60 grep -F "of 3000000 bytes" "$SCRATCH/boot.out" &&
        done_starts 2 && ends
}
check "a put starts the pipeline that waits for a new version" wakes
while_running() {
    begins running "" ",faults=$SCRATCH/slow" && exits 0 store put "$ssd" new "$SCRATCH/other" && told &&
        exits 0 store get "$ssd" new - && cmp "$SCRATCH/out" "$SCRATCH/other" && phase running
}
check "a pipeline runs meanwhile, without a schedule" while_running
used() {
    exits 1 store rm "$ssd" in && warns "busy: pipeline 'sum' reads object 'in' now" &&
        exits 1 store mv "$ssd" in x && warns "busy: pipeline 'sum' reads object 'in' now" &&
        exits 1 store mv --replace "$ssd" new in && warns "busy: pipeline 'sum' reads object 'in' now" &&
        exits 0 store cp "$ssd" new twin && exits 0 store rm "$ssd" twin && phase running
}
check "an object that the pipeline reads stays" used
# put_slowly: a put of 2 MiB whose client sends 1 MiB; it has begun when its object exists
under_way_put() { "$HEADRACE" store ls "$ssd" | grep "incomplete.*slow" >/dev/null; }
put_slowly() {
    rm -f "$SCRATCH/pipe" && mkfifo "$SCRATCH/pipe" || return 1
    "$HEADRACE" store put -q "$ssd" slow - --size 2M <"$SCRATCH/pipe" >"$SCRATCH/put.out" 2>"$SCRATCH/put.err" &
    putter=$!
    exec 9>"$SCRATCH/pipe"
    head -c 1M /dev/zero >&9 && until_true 60 under_way_put
}
# put_fails TEXT: the put ends with 1 and prints the text; no such object is left
put_fails() {
    exec 9>&-
    wait "$putter"
    [ $? = 1 ] && grep -F "$1" "$SCRATCH/put.err"
}
absent() { exits 0 store ls "$ssd" && ! grep -F slow "$SCRATCH/out"; }
# The status comes from the engine a moment later than the map of its store.
listed() {
    exits 0 status --json && json "any(q['request'] == 'store-put' and q['object'] == 'slow' and q['ssd'] == 'a' and
        q['total_bytes'] == 2 << 20 and q['client_pid'] == $putter and q['client_uid'] == $(id -u) for q in r['store']['requests'])"
}
hangs_up() {
    put_slowly && until_true 60 listed && exits 0 status && says "store-put" || return 1
    kill -KILL "$putter"
    exec 9>&-
    until_true 60 absent
}
check "a client that is killed leaves nothing" hangs_up
pending() {
    put_slowly && exits 1 store rm "$ssd" slow && warns "another client makes object 'slow' now" &&
        exits 0 store rm --pending "$ssd" && says ": 0 incomplete objects removed" || return 1
    kill -KILL "$putter"
    exec 9>&-
    until_true 60 absent
}
check "rm --pending keeps what another client makes" pending
stops() { put_slowly && ends && put_fails "the engine of the appliance ends" && absent; }
check "a stop ends a put, and nothing is stored" stops
killed() {
    local engine
    begins idle 'on = "request";' && put_slowly && exits 0 status --json || return 1
    engine=$(json_value "$SCRATCH/out" r 'r["engine_pid"]')
    kill -KILL "$engine" && until_true 60 grep -F "ended by signal 9" "$SCRATCH/boot.err" || return 1
    head -c 1M /dev/zero >&9
    put_fails "its engine has ended" && until_true 60 exits 0 store ls "$ssd" && ! grep "whole.*slow" "$SCRATCH/out"
}
check "an engine that dies ends a put with one line, and nothing is stored" killed
hostile() {
    clients store_hostile "$image" && clients store_flood "$image" 100 "$HEADRACE" store ls --wait=100 "$ssd" &&
        exits 0 store get "$ssd" in - && cmp "$SCRATCH/out" "$SCRATCH/in" && ends &&
        ! grep -iE 'warn|error' <(tail -n 5 "$SCRATCH/boot.err")
}
check "hostile clients disturb nothing" hostile

waits() {
    exec 8<"$image"
    flock -x -w 60 8 || return 1
    exits 3 store ls "$ssd" && warns "in use by another controller" || return 1
    exits 3 store ls --wait=1 "$ssd" && warns "in use by another controller" || return 1
    "$HEADRACE" store ls --wait=600 "$ssd" >"$SCRATCH/waits.out" 2>&1 8<&- &
    pid=$!
    exec 8<&-
    wait "$pid" && grep -F in "$SCRATCH/waits.out"
}
check "--wait waits for an image that another process uses" waits
foreground() {
    conf "" ",faults=$SCRATCH/slow"
    "$HEADRACE" run --quiet "$SCRATCH/x.conf" >"$SCRATCH/boot.out" 2>"$SCRATCH/boot.err" </dev/null &
    pid=$!
    until_true 60 phase running && asked && says in && exits 0 stop --wait || return 1
    wait "$pid"
    [ $? = 1 ]
}
asked() { exits 0 store ls "$ssd" && told; }
check "headrace run serves the store, too" foreground
memory() {
    conf 'on = "request";'
    sed -i '2s|device = "[^"]*"|device = "soft:memory,size=64M"; objects = ( { name = "in"; bytes = "1M"; } )|' "$SCRATCH/x.conf"
    exits 3 store ls -c "$SCRATCH/x.conf" a && warns "which does not run" || return 1
    "$HEADRACE" boot "$SCRATCH/x.conf" >"$SCRATCH/boot.out" 2>"$SCRATCH/boot.err" </dev/null &
    exits 0 store get --wait=60 -c "$SCRATCH/x.conf" a in - && [ "$(wc -c <"$SCRATCH/out")" = 1048576 ] && ends
}
check "an ssd in the memory of an appliance is reached" memory

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    as() { setpriv --reuid 65534 --regid 7 --clear-groups "$SCRATCH/headrace" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err"; }
    chmod 755 "$SCRATCH" "$(dirname "$SCRATCH")"
    cp "$HEADRACE" "$SCRATCH/headrace"
    if as --version; then
        reader() {
            begins idle 'on = "request";' "" 'mode = "0640"; group = "7";' && chmod 666 "$image" && as store ls "$ssd" && told &&
                as store get "$ssd" in - && cmp "$SCRATCH/out" "$SCRATCH/in" || return 1
            as store put -q "$ssd" new "$SCRATCH/in"
            [ $? = 3 ] && warns "may not send 'store-put': control.mode is \"0640\"" && ends
        }
        check "a member of the group may read, and not store" reader
    else
        skip "another user cannot run programs of this folder" "users of the store"
    fi
else
    skip "not root, or no setpriv" "users of the store"
fi
done_testing
