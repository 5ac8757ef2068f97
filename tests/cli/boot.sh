#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# headrace boot as a service and as the first process of a PID namespace; headrace status.
# shellcheck disable=SC2317  # called through check
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

# conf BOOT_SETTINGS [DEVICE_OPTIONS]: one checksum over an object in memory
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
appliance = { name = "box"; };
ssds = ( { name = "a"; device = "soft:memory,size=64M${2-}";
  objects = ( { name = "in"; bytes = "4M"; } ); } );
gpus = ( { name = "g"; device = "host:2"; } );
boot = { post = "quick"; $1 };
pipelines = ( { name = "sum"; source = { object = "in"; }; operator = "crc32c"; tile = "64K"; } );
CONF
}

built_in() { exits 0 boot && says "ssd0:counting.copy, 16 of 16 tiles durable" &&
    warns "stage queues up in" && warns "first tile submitted"; }
stamped() { grep -qE '^20[2-9][0-9]-[01][0-9]-[0-3][0-9]T[0-9:]{8}\.[0-9]{6}Z \[ *[0-9]+\.[0-9]{6} \+[0-9]+\.[0-9]{6}\] headrace: ' "$SCRATCH/err"; }
check "the built-in configuration boots" built_in
check "messages carry the wall clock and both times" stamped
cat >"$SCRATCH/journal.py" <<'PYTHON'
import os, socket, subprocess, sys
own, its = socket.socketpair()
st = os.fstat(its.fileno())
env = dict(os.environ, JOURNAL_STREAM=f"{st.st_dev}:{st.st_ino}")
code = subprocess.run(sys.argv[1:], env=env, stdout=subprocess.DEVNULL, stderr=its).returncode
its.close()
sys.stdout.write(own.makefile().read())
sys.exit(code)
PYTHON
journal() {
    python3 "$SCRATCH/journal.py" "$HEADRACE" boot >"$SCRATCH/err" || return 1
    grep -qE '^\[ *[0-9.]+ \+[0-9.]+\] headrace: ' "$SCRATCH/err" && ! grep '^20' "$SCRATCH/err"
}
check "the journal adds the wall clock to messages" journal
leveled() {
    conf ''
    sed -i 's/name = "box";/name = "box"; log = "warn";/' "$SCRATCH/x.conf"
    exits 0 boot "$SCRATCH/x.conf" && silent && sed -i 's/"warn"/"info"/' "$SCRATCH/x.conf" &&
        exits 0 boot "$SCRATCH/x.conf" && warns "stage queues up in"
}
check "boot obeys appliance.log" leveled
# every line is an object with these members
objects() {
    python3 - "$SCRATCH/err" "$1" <<'PYTHON'
import json, re, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
assert all(re.fullmatch(r"20\d\d-\d\d-\d\dT[\d:]{8}\.\d{6}Z", m["time"]) and m["level"] in
           ("error", "warn", "info") and m["kernel_us"] > 0 and m["message"] for m in lines)
assert eval(sys.argv[2]), lines
PYTHON
}
json_lines() {
    conf ''
    exits 0 boot "$SCRATCH/x.conf" --log json && objects \
        '{("device", "soft:memory"), ("ssd", "a"), ("pipeline", "sum")} <= {i for m in lines for i in m.items()}' && says "64 tiles" || return 1
    sed -i 's/object = "in"; };/object = "im"; };/' "$SCRATCH/x.conf"
    exits 2 run --log json "$SCRATCH/x.conf" && objects 'lines[-1]["level"] == "error"' &&
        exits 2 boot --log xml "$SCRATCH/x.conf" && warns "--log is 'xml', expected text or json"
}
check "--log json writes each message as an object" json_lines

broken() { echo 'ssds = (' >"$SCRATCH/x.conf"; exits 2 boot "$SCRATCH/x.conf" && warns "x.conf:2"; }
check "boot does not retry a broken configuration" broken
check "a missing configuration" exits 2 boot "$SCRATCH/absent.conf"
check "an unknown option" exits 2 boot --nonsense
check "two configurations" exits 2 boot a b

field() { conf "$1"; exits 2 boot "$SCRATCH/x.conf" && warns "$2"; }
check "a wrong value of boot.after" field 'after = "explode";' 'boot.after: is "explode", expected'
check "a watchdog shorter than bring-up" field 'watchdog = "1s";' 'boot.watchdog: is under 5s'
check "a module with a relative path" field 'modules = ( { name = "a/b"; } );' \
    "boot.modules[0].name: 'a/b' is neither"
check "an unknown key" field 'restart = 1;' "unknown key; did you mean 'restarts'"

# The first read of each attempt fails with a temporary status.
fails() {
    printf 'on read: status 0x006 dnr\n' >"$SCRATCH/faults"
    conf 'restarts = 2; backoff = "20ms";' ",faults=$SCRATCH/faults"
    exits 4 boot "$SCRATCH/x.conf" && warns "restart 1 of 2 in 20 ms" &&
        warns "restart 2 of 2 in 40 ms" && warns "given up after 2 restarts"
}
check "a temporary failure is retried a bounded number of times" fails

unreadable_store() {
    printf 'on read: status 0x281 dnr\n' >"$SCRATCH/faults"
    conf 'restarts = 2; backoff = "20ms";' ",faults=$SCRATCH/faults"
    exits 4 boot "$SCRATCH/x.conf" && warns "'sum' is given up: Unrecovered Read Error" &&
        ! warns "restart 1" >/dev/null
}
check "a permanent failure is not retried" unreadable_store

# two [BAD_DEVICE_OPTIONS [BOOT_SETTINGS [SSD_SETTINGS]]]: pipeline `bad` over b.img comes before `good` over a.img
two() {
    cat >"$SCRATCH/x.conf" <<CONF
appliance = { name = "box"; };
ssds = ( { name = "a"; device = "soft:$SCRATCH/a.img"; },
  { name = "b"; device = "soft:$SCRATCH/b.img${1-}"; ${3-} } );
gpus = ( { name = "g"; device = "host:2"; } );
boot = { backoff = "20ms"; ${2-restarts = 2;} };
pipelines = (
  { name = "bad"; source = { ssd = "b"; object = "in"; }; operator = "crc32c"; tile = "64K"; },
  { name = "good"; source = { ssd = "a"; object = "in"; }; operator = "copy"; tile = "64K";
    sink = { ssd = "a"; object = "out"; }; } );
CONF
}
make_images() {
    rm -f "$SCRATCH"/[ab].img
    head -c 1000000 /dev/urandom >"$SCRATCH/in"
    for name in a b; do
        exits 0 store format "soft:$SCRATCH/$name.img,size=32M" &&
            exits 0 store put "soft:$SCRATCH/$name.img" in "$SCRATCH/in" || return 1
    done
}
copied() {
    exits 0 store get "soft:$SCRATCH/a.img" out - && cmp "$SCRATCH/in" "$SCRATCH/out"
}
# fault_in_object ACTION: half a megabyte after the start of the only object of b.img
fault_in_object() {
    exits 0 store ls --json "soft:$SCRATCH/b.img" || return 1
    python3 - "$SCRATCH/out" "$1" >"$SCRATCH/faults" <<'PYTHON'
import json, sys
at = json.load(open(sys.argv[1]))["objects"][0]["offset_bytes"] // 4096 + 128
print(f"on read lba {at} count 1000000: {sys.argv[2]}")
PYTHON
}
bad_block() {
    fault_in_object "status 0x281 dnr" || return 1
    two ",faults=$SCRATCH/faults"
    exits 4 boot "$SCRATCH/x.conf" && warns "object 'in', tile 8, " &&
        warns "'bad' is given up: Unrecovered Read Error" && ! warns "restart 1" >/dev/null &&
        says "a:out, 16 of 16 tiles durable" && copied
}
check "prepare images" make_images
check "a bad block is reported without restarts and stops no other pipeline" bad_block
lost() {
    fault_in_object drop || return 1
    two ",faults=$SCRATCH/faults" 'post = "off"; restarts = 2;' 'timeout_ms = 500;'
    exits 0 store rm "soft:$SCRATCH/a.img" out
    exits 4 boot "$SCRATCH/x.conf" && warns "restart 2 of 2" && copied
}
check "an ssd that loses commands stops only its own pipelines" lost
no_object() {
    two
    sed -i 's/{ ssd = "b"; object = "in"; }/{ ssd = "b"; object = "im"; }/' "$SCRATCH/x.conf"
    exits 0 store rm "soft:$SCRATCH/a.img" out
    exits 2 boot "$SCRATCH/x.conf" && warns "object 'im'" && warns "'bad' is given up" &&
        ! warns "restart 1" >/dev/null && copied
}
check "a missing object stops only its own pipeline and is not retried" no_object

# service STEP...: boot the configuration under a service manager (lib/service.py)
export SCRATCH
service() { python3 "$(dirname "$0")/lib/service.py" "$HEADRACE" "$SCRATCH/x.conf" "$@"; }
warned() { grep -qF -- "$1" "$SCRATCH/boot.err" || { cat "$SCRATCH/boot.err"; return 1; }; }

missing() {
    two "" 'wait_s = 0; restarts = 2;'
    rm -f "$SCRATCH/b.img"
    exits 0 store rm "soft:$SCRATCH/a.img" out
    exits 3 boot "$SCRATCH/x.conf" && says "FAIL controller" && warns "restart 2 of 2" && copied
}
check "a missing device fails the self-test and is used when it appears" missing
# `good` runs first, and is found complete when the other disk appears.
comes() {
    make_images && mv "$SCRATCH/b.img" "$SCRATCH/b.late" && two "" 'restarts = 0; wait_s = 86400;' &&
        service until=running "until=going down" until=waiting \
            "sh=$HEADRACE status --json | grep -q '\"phase\": \"waiting\"'" \
            "sh=mv $SCRATCH/b.late $SCRATCH/b.img" until=running exit=0 &&
        warned "is absent; waiting for it for 86400 s" && copied
}
check "boot waits for an absent disk and uses the other disks" comes
stops_waiting() {
    rm -f "$SCRATCH/b.img"
    service until=waiting signal=TERM exit=0
}
check "SIGTERM during the wait for an ssd is an orderly stop" stops_waiting
stops_backoff() {
    printf 'on read: status 0x006 dnr\n' >"$SCRATCH/faults"
    conf 'restarts = 2; backoff = "100000s";' ",faults=$SCRATCH/faults"
    service until=backoff signal=TERM exit=0
}
check "SIGTERM during the pause before a restart is an orderly stop" stops_backoff
# The self-test of the queue makes 64 reads, which take more than a minute.
stops_post() {
    printf 'on read count 1000000: delay 1s\n' >"$SCRATCH/faults"
    make_images && two ",faults=$SCRATCH/faults" && service until=post \
        "sh=until grep -q 'OK   controller b' $SCRATCH/boot.out; do sleep 0.05; done" \
        "sh=$HEADRACE status --json | grep -q '\"phase\": \"post\"'" \
        silent=STATUS=running signal=TERM exit=0 silent=READY=1 &&
        ! grep -q 'queue      b' "$SCRATCH/boot.out"
}
check "during the self-test of a slow ssd status answers and SIGTERM works" stops_post

stays() {
    conf 'after = "stay";'
    service until=staying "sh=$HEADRACE status >$SCRATCH/out" \
        "sh=$HEADRACE status box --json >$SCRATCH/json" \
        "sh=! $HEADRACE status other 2>$SCRATCH/err" signal=HUP \
        "sh=$HEADRACE status >$SCRATCH/out" told=READY=1 silent=STOPPING=1 signal=TERM exit=0 \
        told=STOPPING=1 &&
        says "box: staying" && says "64 of 64 tiles  100%" && cp "$SCRATCH/json" "$SCRATCH/out" &&
        json 'r["pipelines"][0]["outcome"] == "done"' &&
        json 'r["pipelines"][0]["read_bytes"] == 4 << 20'
}
check "status answers while an appliance stays, and SIGTERM ends it" stays
check "status reports no appliance afterwards" exits 3 status
check "status refuses a name with a slash" exits 3 status ../x

# A complete NOTIFY_SOCKET, with a watchdog whose keepalive is always due.
notified() {
    conf ''
    WATCHDOG_USEC=2 service until=running exit=0 told=READY=1 told=WATCHDOG=1 told=STOPPING=1
}
check "a service manager receives READY, keepalives and STOPPING" notified
no_place() {
    local reason="RUNTIME_DIRECTORY /dev/null: Not a directory"
    conf ''
    (
        export RUNTIME_DIRECTORY=/dev/null
        exits 0 boot "$SCRATCH/x.conf" && warns "warning: $reason" &&
            exits 0 run "$SCRATCH/x.conf" && warns "warning: $reason" &&
            exits 3 status && warns "($reason)"
    )
}
check "boot warns of an unusable RUNTIME_DIRECTORY, and status reports it" no_place

# first COMMAND...: as PID 1 of its own namespaces; reboot(2) ends them by a signal
first() { timeout 200 unshare -mpf --mount-proc "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null; }
if unshare -mpf --mount-proc true 2>/dev/null; then
    # Hide the watchdog of this machine, which would reset the machine.
    no_watchdog() {
        conf "watchdog = \"$1\";"
        # shellcheck disable=SC2016
        timeout 200 unshare -m sh -c \
            '[ ! -e /dev/watchdog ] || mount --bind /dev/null /dev/watchdog; exec "$@"' sh \
            "$HEADRACE" boot "$SCRATCH/x.conf" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &&
            says "64 tiles" && warns "nothing resets this machine if it hangs"
    }
    check "an appliance without its watchdog works and reports the lack" no_watchdog 30s
    as_first() { conf ''; first "$HEADRACE" boot "$SCRATCH/x.conf"; warns "is the first process" &&
        says "64 tiles" && warns "poweroff" && ! warns "does not poweroff" >/dev/null; }
    check "the first process powers off after the last pipeline" as_first
    unreadable() { echo '!' >"$SCRATCH/x.conf"; first "$HEADRACE" boot "$SCRATCH/x.conf"
        warns "x.conf:1" && warns "the appliance does not run (code 2); poweroff in 5 s"; }
    check "the first process reports mistakes of its configuration" unreadable
    # Both mistakes are reported, and the configuration's other settings for the end apply.
    mistaken() {
        conf 'after = "explode"; last_resort = "reboot";'
        sed -i 's/"crc32c"/"crc32x"/' "$SCRATCH/x.conf"
        first "$HEADRACE" boot "$SCRATCH/x.conf"
        warns "boot.after: is \"explode\"" && warns "there is no operator 'crc32x'" &&
            warns "the appliance does not run (code 2); reboot in 5 s" &&
            ! warns "does not reboot" >/dev/null
    }
    check "the first process obeys last_resort of a configuration with mistakes" mistaken
    # The supervisor collects an orphan that ends, and still waits for the shell.
    shell() {
        printf 'on read: status 0x281 dnr\n' >"$SCRATCH/faults"
        conf 'restarts = 0; last_resort = "shell";' ",faults=$SCRATCH/faults"
        echo '(sleep 0.2 &); sleep 1; echo the shell ends' | timeout 200 unshare -mpf --mount-proc \
            "$HEADRACE" boot "$SCRATCH/x.conf" >"$SCRATCH/out" 2>"$SCRATCH/err"
        warns "shell in 5 s" && says "the shell ends"
    }
    check "the first process waits for the shell of last_resort" shell
    container() {
        exits 0 store format "soft:$SCRATCH/c.img,size=16M" || return 1
        sha256sum "$SCRATCH/c.img" >"$SCRATCH/c.sum"
        timeout 200 unshare -mpf --mount-proc "$HEADRACE" store get "soft:$SCRATCH/c.img" none - \
            </dev/null >/dev/null 2>&-
        sha256sum --quiet -c "$SCRATCH/c.sum"
    }
    check "the first process with closed descriptors does not write to the image" container
    module() { conf 'modules = ( { name = "no_such_module"; } );'
        first "$HEADRACE" boot "$SCRATCH/x.conf"; warns "module no_such_module" && says "64 tiles"; }
    check "a missing module is named, and the appliance continues without it" module
else
    skip "no PID namespaces here" "the first process of a machine"
fi
done_testing
