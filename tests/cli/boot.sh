#!/bin/bash
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
stamped() { grep -qE '^\[ *[0-9]+\.[0-9]{6} \+[0-9]+\.[0-9]{6}\] headrace: ' "$SCRATCH/err"; }
check "the built-in configuration boots" built_in
check "messages carry both times" stamped

broken() { echo 'ssds = (' >"$SCRATCH/x.conf"; exits 2 boot "$SCRATCH/x.conf" && warns "x.conf:2"; }
check "a broken configuration is not tried again" broken
check "a configuration that is not there" exits 2 boot "$SCRATCH/absent.conf"
check "an unknown option" exits 2 boot --nonsense
check "two configurations" exits 2 boot a b

field() { conf "$1"; exits 2 boot "$SCRATCH/x.conf" && warns "$2"; }
check "a wrong end" field 'after = "explode";' 'boot.after: is "explode", expected'
check "a watchdog that bring-up would trip" field 'watchdog = "1s";' 'boot.watchdog: is under 5s'
check "a module with a relative path" field 'modules = ( { name = "a/b"; } );' \
    "boot.modules[0].name: 'a/b' is neither"
check "an unknown key" field 'restart = 1;' "unknown key; did you mean 'restarts'"

# Every read fails for good, so each attempt does.
fails() {
    printf 'on read: status 0x281 dnr\n' >"$SCRATCH/faults"
    conf 'restarts = 2; backoff = "20ms";' ",faults=$SCRATCH/faults"
    exits 4 boot "$SCRATCH/x.conf" && warns "restart 1 of 2 in 0.0 s" &&
        warns "restart 2 of 2 in 0.0 s" && warns "given up after 2 restarts"
}
check "a pipeline that fails is run again, a bounded number of times" fails

missing() {
    cat >"$SCRATCH/x.conf" <<CONF
ssds = ( { name = "a"; device = "soft:$SCRATCH/absent.img"; } );
gpus = ( { name = "g"; device = "host:1"; } );
boot = { post = "full"; restarts = 1; backoff = "10ms"; };
pipelines = ( { name = "p"; source = { object = "in"; }; operator = "crc32c"; } );
CONF
    exits 3 boot "$SCRATCH/x.conf" && says "FAIL controller" && warns "restart 1 of 1"
}
check "a device that is missing fails the self-test, and may come later" missing

# start: boot the configuration in the background, until it can be asked
start() {
    "$HEADRACE" boot "$SCRATCH/x.conf" >"$SCRATCH/boot.out" 2>"$SCRATCH/boot.err" </dev/null &
    pid=$!
    for _ in $(seq 100); do
        "$HEADRACE" status --json 2>/dev/null | grep -q '"phase": "staying"' && return
        sleep 0.05
    done
    cat "$SCRATCH/boot.err"
    return 1
}
stop() { local code=0; kill -TERM "$pid"; wait "$pid" || code=$?; [ "$code" = "$1" ]; }
stays() {
    conf 'after = "stay";'
    start && exits 0 status && says "box: staying" && says "64 of 64 tiles  100%" &&
        exits 0 status box --json && json 'r["pipelines"][0]["outcome"] == "done"' &&
        exits 3 status other && kill -HUP "$pid" && sleep 0.1 && exits 0 status && stop 0
}
check "an appliance that stays can be asked, and SIGTERM ends it" stays
check "nobody answers afterwards" exits 3 status
check "a name with a slash is no appliance" exits 3 status ../x

notified() {
    conf ''
    python3 - "$HEADRACE" "$SCRATCH" <<'PYTHON'
import os, socket, subprocess, sys
headrace, scratch = sys.argv[1:]
path = scratch + "/notify"
if os.path.exists(path):
    os.unlink(path)
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(path)
s.settimeout(30)
p = subprocess.Popen([headrace, "boot", scratch + "/x.conf"], stdout=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL, env=dict(os.environ, NOTIFY_SOCKET=path))
got = ""
while "STOPPING=1" not in got:
    got += s.recv(4096).decode() + "\n"
sys.exit(p.wait() or "READY=1" not in got or got.index("READY=1") > got.index("STOPPING=1"))
PYTHON
}
check "a service manager hears READY and STOPPING" notified

# first COMMAND...: as PID 1 of namespaces of its own; reboot(2) ends them by a signal
first() { timeout 60 unshare -mpf --mount-proc "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null; }
if unshare -mpf --mount-proc true 2>/dev/null; then
    # Never the watchdog of this machine: it would do what it is for.
    no_watchdog() {
        conf "watchdog = \"$1\";"
        # shellcheck disable=SC2016
        timeout 60 unshare -m sh -c \
            '[ ! -e /dev/watchdog ] || mount --bind /dev/null /dev/watchdog; exec "$@"' sh \
            "$HEADRACE" boot "$SCRATCH/x.conf" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &&
            says "64 tiles" && warns "nothing resets this machine if it hangs"
    }
    check "without its watchdog an appliance works, and says so" no_watchdog 30s
    check "nothing is said of a watchdog that waits longer than the ssd" \
        eval '! warns "CAP.TO" >/dev/null'
    # The soft controller may take 5 s.
    hasty() { no_watchdog 5s && warns "may take 5 s to become ready (CAP.TO), and boot.watchdog is 5 s"; }
    check "a watchdog that is faster than an ssd may be is told of" hasty
    as_first() { conf ''; first "$HEADRACE" boot "$SCRATCH/x.conf"; warns "is the first process" &&
        says "64 tiles" && warns "poweroff" && ! warns "does not poweroff" >/dev/null; }
    check "the first process powers off when it is done" as_first
    unreadable() { echo '!' >"$SCRATCH/x.conf"; first "$HEADRACE" boot "$SCRATCH/x.conf"
        warns "x.conf:1" && warns "the appliance does not run (code 2); poweroff in 5 s"; }
    check "the first process says what is wrong with its configuration" unreadable
    # Both mistakes are told, and what else the configuration says of the end counts.
    mistaken() {
        conf 'after = "explode"; last_resort = "reboot";'
        sed -i 's/"crc32c"/"crc32x"/' "$SCRATCH/x.conf"
        first "$HEADRACE" boot "$SCRATCH/x.conf"
        warns "boot.after: is \"explode\"" && warns "there is no operator 'crc32x'" &&
            warns "the appliance does not run (code 2); reboot in 5 s" &&
            ! warns "does not reboot" >/dev/null
    }
    check "the last resort of a configuration with mistakes is taken" mistaken
    # An orphan that ends is collected on the way, and is not the shell.
    shell() {
        printf 'on read: status 0x281 dnr\n' >"$SCRATCH/faults"
        conf 'restarts = 0; last_resort = "shell";' ",faults=$SCRATCH/faults"
        echo '(sleep 0.2 &); sleep 1; echo the shell ends' | timeout 60 unshare -mpf --mount-proc \
            "$HEADRACE" boot "$SCRATCH/x.conf" >"$SCRATCH/out" 2>"$SCRATCH/err"
        warns "shell in 5 s" && says "the shell ends"
    }
    check "the shell of the last resort is waited for" shell
    container() {
        exits 0 store format "soft:$SCRATCH/c.img,size=16M" || return 1
        sha256sum "$SCRATCH/c.img" >"$SCRATCH/c.sum"
        timeout 60 unshare -mpf --mount-proc "$HEADRACE" store get "soft:$SCRATCH/c.img" none - \
            </dev/null >/dev/null 2>&-
        sha256sum --quiet -c "$SCRATCH/c.sum"
    }
    check "a first process that is none of a machine holds what is closed, too" container
    module() { conf 'modules = ( { name = "no_such_module"; } );'
        first "$HEADRACE" boot "$SCRATCH/x.conf"; warns "module no_such_module" && says "64 tiles"; }
    check "a module that is not there is named, and the appliance tries without" module
else
    skip "no PID namespaces here" "what the first process of a machine does"
fi
done_testing
