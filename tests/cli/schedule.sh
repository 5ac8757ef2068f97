#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# headrace boot with pipelines that repeat: starts, versions of a sink, restarts, check and status.
# shellcheck disable=SC2317  # called through check
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
export TZ=UTC0

# conf KEYS_OF_SUM KEYS_OF_COPY [SINK]: one checksum and one copy over an image
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
appliance = { name = "box"; };
ssds = ( { name = "a"; device = "soft:$SCRATCH/a.img"; } );
gpus = ( { name = "g"; device = "host:2"; } );
boot = { post = "off"; backoff = "20ms"; ${4-} };
pipelines = (
  { name = "sum"; source = { object = "in"; }; operator = "crc32c"; tile = "64K"; $1 },
  { name = "copy"; source = { object = "${5-in}"; }; operator = "copy"; tile = "64K"; $2
    sink = { object = "out"; ${3-keep = 2;} }; } );
CONF
}
image() {
    rm -f "$SCRATCH/a.img"
    head -c 1000000 /dev/urandom >"$SCRATCH/in"
    exits 0 store format "soft:$SCRATCH/a.img,size=32M" &&
        exits 0 store put "soft:$SCRATCH/a.img" in "$SCRATCH/in"
}
export SCRATCH HEADRACE
service() { python3 "$(dirname "$0")/lib/service.py" "$HEADRACE" "$SCRATCH/x.conf" "$@"; }
# until EXPRESSION: a shell command that waits until the status has it; p is the pipeline `copy`
cat >"$SCRATCH/until.py" <<'PYTHON'
import json, subprocess, sys, time
for _ in range(1200):
    out = subprocess.run([sys.argv[1], "status", "--json"], capture_output=True).stdout
    r = json.loads(out) if out else {"pipelines": []}
    s, p = (r.get("pipelines", []) + [{}, {}])[:2]
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

mistake() { conf "$1" ''; exits 2 check "$SCRATCH/x.conf" && warns "$2"; }
check "images are made" image
check "two rules for one pipeline" mistake 'every = "1s"; at = "03:00";' \
    "x.conf:6: pipelines[0].at: cannot be used together with 'every'"
zone() {
    conf 'at = "03:00";' ''
    TZ=$1 exits "$2" check "$SCRATCH/x.conf" && { [ "$2" = 0 ] || warns "$3"; }
}
check "a time zone that the machine does not know" zone Europe/Berln 2 \
    "x.conf:6: pipelines[0].at: is a local time, and TZ in the environment is \"Europe/Berln\", which is no time zone"
check "a time zone of rules" zone CET-1CEST,M3.5.0,M10.5.0/3 0
check "a cycle of after" mistake 'after = "sum";' "no pipeline of a cycle would ever start"
cycle() {
    conf '' 'on = "object in";' && sed -i 's/operator = "crc32c"; tile = "64K";/operator = "copy"; tile = "64K"; '"$1"' sink = { object = "in"; keep = 2; };/
        s/source = { object = "in"; }; operator = "copy"; tile = "64K"; '"$1"'/source = { object = "out"; }; operator = "copy"; tile = "64K"; '"$1"'/' "$SCRATCH/x.conf"
    exits 2 check "$SCRATCH/x.conf" && warns "x.conf:6: pipelines[0].${1%% *}: a cycle of pipelines would run without end: 'sum' $2 'copy' on object 'in' of 'sum'"
}
check "a cycle through objects" cycle 'on = "object out";' "on object 'out' of"
check "a cycle through an object and the end of a pipeline" cycle 'after = "copy";' after
no_keep() { conf '' 'every = "1s";' ' '; exits 2 check "$SCRATCH/x.conf" &&
    warns "object 'out' is made at each start"; }
check "a sink that a second start could not make" no_keep

repeats() {
    conf 'every = "100ms";' 'after = "sum";'
    service "$(until_status 'p["done_count"] >= 5')" "${stopped[@]}" || return 1
    exits 0 store ls "soft:$SCRATCH/a.img" && says out && says out.1 && says headrace.starts &&
        ! says out.2 >/dev/null && exits 0 store get "soft:$SCRATCH/a.img" out - &&
        cmp "$SCRATCH/in" "$SCRATCH/out" && exits 0 store get "soft:$SCRATCH/a.img" out.1 - &&
        cmp "$SCRATCH/in" "$SCRATCH/out"
}
check "a pipeline repeats, another one follows it, and the versions of its sink are whole" repeats
goes_on() { exits 0 check --json "$SCRATCH/x.conf" &&
    json 'r["starts"][1]["done_count"] >= 5 and r["starts"][0]["last_outcome"] in ("done", "interrupted")' &&
    service "$(until_status 'p["done_count"] >= 10')" "${stopped[@]}"; }
check "the numbers of starts go on after a restart" goes_on
shows() {
    image || return 1
    conf 'at = "03:00";' 'every = "1h";'
    exits 0 check "$SCRATCH/x.conf" && says 'at 03:00' && says ' 03:00:00 UTC, in ' &&
        exits 0 check --json "$SCRATCH/x.conf" &&
        json 'r["starts"][0]["next_start_utc"].endswith("T03:00:00Z")' &&
        json 'r["starts"][0]["waits_for"] == "time"'
}
check "check prints the next starts" shows

# The engine dies: the interrupted start is made again by another engine.
# shellcheck disable=SC2016  # the shell of service.py expands it
killed() {
    conf 'every = "1h";' 'forever = true;'
    service "$(until_status 'p["done_count"] >= 12')" \
        'sh=kill -KILL $(cut -d" " -f1 /proc/$PID/task/$PID/children)' \
        "$(until_status 'r["restarts"] == 1 and p["done_count"] >= 16')" "${stopped[@]}"
}
check "starts go on after the death of an engine" killed
# The supervisor is killed with its engine, as by a power cut.
cut() {
    service "$(until_status 'p["done_count"] >= 20')" signal=KILL exit=-9 &&
        service "$(until_status 'p["done_count"] >= 24')" "${stopped[@]}" &&
        exits 0 store verify "soft:$SCRATCH/a.img"
}
check "starts go on after the death of the supervisor" cut

fails() {
    conf 'every = "50ms";' 'forever = true;' 'keep = 2;' '' none
    image && service "$(until_status 's["done_count"] >= 20 and p["failures_count"] >= 2')" \
        "$(until_status 's["failures_count"] == 0')" "${stopped[@]}" && grep -q "there is no object 'none'" "$SCRATCH/boot.err"
}
check "a pipeline that fails pauses, and stops no other one" fails
# The long pipeline takes minutes, because each of its reads takes two seconds: it does not end before the stop.
beside() {
    image || return 1
    printf 'on read lba 256-16383 count 1000000: delay 2s\n' >"$SCRATCH/faults"
    cat >"$SCRATCH/x.conf" <<CONF
appliance = { name = "box"; parallel = ${1-2}; };
ssds = ( { name = "a"; device = "soft:$SCRATCH/a.img"; },
  { name = "slow"; device = "soft:memory,size=64M,faults=$SCRATCH/faults"; timeout_ms = 600000;
    objects = ( { name = "long"; bytes = "48M"; } ); } );
gpus = ( { name = "g"; device = "host:2"; } );
boot = { post = "off"; };
pipelines = (
  { name = "sum"; source = { object = "in"; ssd = "a"; }; operator = "crc32c"; tile = "64K"; every = "50ms"; },
  { name = "long"; source = { object = "long"; ssd = "slow"; }; operator = "crc32c"; tile = "64K"; forever = true; } );
CONF
    service "$(until_status "$2")" "${stopped[@]}"
}
check "a pipeline starts when it is due, beside a long one" \
    beside 2 's["done_count"] >= 10 and p["starts_count"] == 1 and p["outcome"] == "running"'
check "a due pipeline beyond appliance.parallel waits for the one that runs" \
    beside 1 's["done_count"] == 1 and s["last_outcome"] == "running" and p["outcome"] == "running"'
waits() {
    conf 'every = "50ms";' 'on = "object late";' 'keep = 1;' '' late
    service "$(until_status 's["done_count"] >= 25 and p["waits_for"] == "object"')" \
        "${stopped[@]}" && exits 0 store put "soft:$SCRATCH/a.img" late "$SCRATCH/in" &&
        service "$(until_status 'p["done_count"] >= 1 and p["waits_for"] == "event"')" "${stopped[@]}"
}
check "a pipeline waits for its object, and starts when it is there" waits
later() {
    image && conf 'every = "1h";' 'on = "object late";' 'keep = 1;' '' late && exits 0 check "$SCRATCH/x.conf" &&
        says "pipeline 'copy' waits for object 'late' on ssd 'a', which does not exist yet" &&
        exits 0 check --json "$SCRATCH/x.conf" && json 'r["starts"][1]["awaits_object"] == "late"' &&
        json '[p["name"] for p in r["pipelines"]] == ["sum"]'
}
check "check notes an object that a schedule waits for" later
made() {
    conf 'every = "1h";' 'after = "sum";' 'keep = 1;' '' in && sed -i 's/object = "in"; }; operator = "crc/object = "out"; }; operator = "crc/' \
        "$SCRATCH/x.conf" && exits 0 check "$SCRATCH/x.conf" && says "pipeline 'sum' waits for object 'out'"
}
check "check notes an object that a later pipeline makes" made
never() { conf 'every = "1h";' 'every = "1h";' 'keep = 1;' '' none; exits 2 check "$SCRATCH/x.conf" &&
    warns "there is no object 'none' on ssd 'a'"; }
check "an object that nothing makes or waits for is a mistake" never
foreign() {
    image && exits 0 store put "soft:$SCRATCH/a.img" headrace.starts "$SCRATCH/in" &&
        conf 'every = "50ms";' '' &&
        service "$(until_status 's["done_count"] >= 3')" "${stopped[@]}" &&
        grep -q "the starts of pipelines are not durable: .*was not made by" "$SCRATCH/boot.err" &&
        [ "$(grep -c "not durable" "$SCRATCH/boot.err")" = 1 ] &&
        exits 0 store get "soft:$SCRATCH/a.img" headrace.starts - && cmp "$SCRATCH/in" "$SCRATCH/out"
}
check "an object of the user with the name of the starts stays, and one line tells it" foreign
# results KEY LINES: so many results are printed after a start that was asked for
results() {
    image && conf 'on = "request";' 'on = "request";' 'keep = 2;' "$1" && service until=idle \
        "sh=$HEADRACE trigger sum --wait" "${stopped[@]}" &&
        [ "$(grep -c crc32c "$SCRATCH/boot.out")" = "$2" ]
}
check "starts of pipelines that repeat print no results" results '' 0
check "starts of pipelines that repeat print results when the configuration says so" \
    results 'results = true;' 2
in_hours() {
    image && conf 'every = "73800s";' 'on = "request";' &&
        service "$(until_status 's["starts_count"] == 1 and s["last_outcome"] == "done"')" \
            "sh=$HEADRACE status | grep -qE 'every .*; next in 20 h 2[89] min$'" \
            "sh=$HEADRACE status | grep -qE '^box: .*, up [0-9].* m?s, '" "${stopped[@]}"
}
check "status tells the next start in hours and minutes" in_hours
done_testing
