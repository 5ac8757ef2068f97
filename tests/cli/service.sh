#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# boot/appliance/headrace.service: an appliance works with what the unit permits, and leaves nothing behind
# when only its supervisor is killed.
# shellcheck disable=SC2317  # called through check
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
unit=boot/appliance/headrace.service
export SCRATCH

# setting KEY: all its values in the unit
setting() { sed -n "s/^$1=//p" "$unit"; }
is() { [ "$(setting "$1")" = "$2" ] || { echo "$1=$(setting "$1"), expected $2"; return 1; }; }

# The helper of pci/undo.h is in the unit's control group. "mixed" and "control-group" would kill it.
check "only the supervisor gets the signals of systemd" is KillMode process

analyzed() { systemd-analyze security --offline=yes --no-pager --threshold=40 "$unit"; }
if systemd-analyze --version >/dev/null 2>&1; then
    check "the exposure of the service is 4.0 or less" analyzed
else
    skip "no systemd-analyze here" "the exposure of the service is 4.0 or less"
fi

cat >"$SCRATCH/x.conf" <<CONF
appliance = { name = "box"; };
ssds = ( { name = "a"; device = "soft:$SCRATCH/a.img"; } );
gpus = ( { name = "g"; device = "host:2"; } );
boot = { post = "quick"; };
control = { mode = "0660"; group = "1"; };
pipelines = ( { name = "sum"; source = { object = "in"; }; operator = "copy"; tile = "64K";
                sink = { object = "out"; replace = true; }; on = "request"; } );
CONF
prepare() {
    rm -f "$SCRATCH/a.img"
    head -c 1000000 /dev/urandom >"$SCRATCH/in"
    exits 0 store format "soft:$SCRATCH/a.img,size=32M" && exits 0 store put "soft:$SCRATCH/a.img" in "$SCRATCH/in" &&
        chown 1:1 "$SCRATCH/a.img" && chmod 600 "$SCRATCH/a.img"
}

# The capabilities and limits of the unit, without systemd. A container may forbid to raise limits.
priority="prlimit --rtprio=$(setting LimitRTPRIO) --nice=$((20 - $(setting LimitNICE)))"
$priority true 2>/dev/null || priority=''
export PRIORITY=$priority
cat >"$SCRATCH/limited" <<'LIMITED'
#!/bin/bash
capabilities=$(sed -n 's/^CapabilityBoundingSet=//p' "$UNIT" | tr '[:upper:] ' '[:lower:],' | sed 's/cap_/+/g')
umask "$(sed -n 's/^UMask=//p' "$UNIT")"
ulimit -c "$(sed -n 's/^LimitCORE=//p' "$UNIT")"
# shellcheck disable=SC2086  # words
exec $PRIORITY setpriv --no-new-privs --bounding-set="-all,$capabilities" $TRACE "$HEADRACE" "$@"
LIMITED
chmod +x "$SCRATCH/limited"
# limited STEP...: as lib/service.py
limited() { UNIT=$unit TRACE=${TRACE-} python3 "$(dirname "$0")/lib/service.py" "$SCRATCH/limited" "$SCRATCH/x.conf" "$@" ||
    { cat "$SCRATCH/boot.err"; return 1; }; }

reload=$(setting ExecReload)
reload="$HEADRACE ${reload#* }"
works() {
    prepare && limited until=idle "sh=$HEADRACE trigger sum --wait" "sh=$reload" \
        "sh=stat -c '%g %a' $SCRATCH/run/box.sock | grep -qx '1 660'" \
        "sh=grep -q '^NoNewPrivs:.1' /proc/\$PID/status" \
        "sh=[ -z '$priority' ] || chrt -p \$PID | grep -q SCHED_RR" \
        "sh=echo '!' >>$SCRATCH/x.conf; ! $reload 2>$SCRATCH/reload.err" \
        signal=TERM exit=0 && sed -i '$d' "$SCRATCH/x.conf" && chown 0 "$SCRATCH/a.img" &&
        exits 0 store get "soft:$SCRATCH/a.img" out - && cmp "$SCRATCH/in" "$SCRATCH/out" &&
        grep -q 'nothing has changed' "$SCRATCH/reload.err"
}
# Calls that the filter of the unit names, and that the appliance makes.
filtered() {
    prepare && TRACE="strace -D -f -qq -o $SCRATCH/calls" limited until=idle "sh=$HEADRACE trigger sum --wait" signal=TERM exit=0 &&
        python3 - "$SCRATCH/calls" "$(setting SystemCallFilter | tr '\n' ' ')" <<'PYTHON'
import re
import subprocess
import sys

def names(group):
    if not group.startswith("@"):
        return {group}
    lines = subprocess.run(["systemd-analyze", "syscall-filter", group], capture_output=True, text=True, check=True).stdout
    found = set()
    for name in lines.split("\n")[1:]:
        name = name.strip()
        if name and not name.startswith("#"):
            found |= names(name)
    return found

denied = set().union(*(names(g.lstrip("~")) for g in sys.argv[2].split()))
made = {m[1] for line in open(sys.argv[1], errors="replace") if (m := re.match(r"\d+ +(\w+)\(", line))}
if "fdatasync" not in made or len(made) < 30:
    sys.exit(f"the trace is incomplete: {sorted(made)}")
if made & denied:
    sys.exit(f"the unit denies {sorted(made & denied)}")
PYTHON
}
killed() {
    prepare
    limited until=idle "sh=$HEADRACE status --json >$SCRATCH/json" signal=KILL exit=-9 || return 1
    grep -oE '"(engine_)?pid": *[0-9]+' "$SCRATCH/json" | grep -oE '[0-9]+$' >"$SCRATCH/pids"
    while read -r pid; do
        timeout 60 tail --pid="$pid" -f /dev/null || { echo "process $pid is left"; return 1; }
    done <"$SCRATCH/pids"
    [ "$(wc -l <"$SCRATCH/pids")" = 2 ]
}
if [ "$(id -u)" = 0 ] && setpriv --no-new-privs --bounding-set=-all true 2>/dev/null; then
    check "an appliance starts, runs, reloads and stops with the capabilities of the unit" works
    if strace -qq -o /dev/null true 2>/dev/null && systemd-analyze syscall-filter >/dev/null 2>&1; then
        check "the unit's filter denies no system call that an appliance makes" filtered
    else
        skip "no strace, or no systemd-analyze here" "the unit's filter denies no system call that an appliance makes"
    fi
    check "a supervisor that is killed leaves no process behind" killed
else
    skip "not root" "an appliance with the capabilities of the unit"
fi
done_testing
