# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Functions of tests of feeds, after lib/tap.sh: a disk, a configuration, producers, and what was stored.

export HEADRACE_TAP_LIBRARY=${HEADRACE%/*}/libheadrace-tap.so.0
export PYTHONPATH=$PWD/gpu/tap/client PYTHONDONTWRITEBYTECODE=1
helper=$PWD/tests/cli/lib/producer.py
engine=''

# conf [SOURCE_KEYS [SINK_KEYS [KEYS [DEVICE]]]]: up to 64 tiles of 64 KiB
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
appliance = { checkpoint = "50ms"; };
ssds = ( { name = "a"; device = "soft:d.img"; timeout_ms = 60000; } );
gpus = ( { name = "g"; device = "${4-host:2}"; } );
pipelines = ( { name = "take"; source = { feed = "f"; bytes = "4M"; ${1-} }; operator = "copy"; tile = "64K";
                sink = { object = "out"; ${2-} }; ${3-} } );
CONF
}

# disk: an empty one
disk() {
    rm -f "$SCRATCH/d.img"
    "$HEADRACE" store format "soft:$SCRATCH/d.img,size=32M" >/dev/null
}

# begin: run the configuration beside the producers
begin() {
    rm -f "$SCRATCH"/{a,b,h}
    [ -z "$engine" ] || kill -KILL "$engine" 2>/dev/null # that of a check that has failed
    setpriv --pdeathsig KILL "$HEADRACE" run "$SCRATCH/x.conf" --json >"$SCRATCH/out" \
        2>"$SCRATCH/err" </dev/null &
    engine=$!
}

# ended CODE: the run ends with this exit code
ended() {
    local got=0
    wait "$engine" || got=$?
    [ "$got" = "$1" ] || { echo "run: exit code $got, expected $1"; return 1; }
}

# producer NAME ARGUMENTS...: its output is in $SCRATCH/NAME
producer() {
    local name=$1
    shift
    timeout 200 "${python-python3}" "$helper" f "$@" >"$SCRATCH/$name" 2>&1 </dev/null || {
        cat "$SCRATCH/$name"
        return 1
    }
}

# holds BYTES [OBJECT]: the object has so many bytes of the counting pattern, and its checksum is right
holds() {
    "$HEADRACE" store get "soft:$SCRATCH/d.img" "${2-out}" - >"$SCRATCH/object" 2>"$SCRATCH/err" &&
        python3 - "$SCRATCH/object" "$1" <<'PY'
import struct
import sys
with open(sys.argv[1], "rb") as f:
    got = f.read()
count = int(sys.argv[2])
words = (count + 7) // 8
sys.exit(got != struct.pack(f"<{words}Q", *range(words))[:count] and
         f"the object has {len(got)} bytes, or wrong ones, expected {count}")
PY
}

feed() {
    json "(lambda f: $1)(r['pipelines'][0]['feed'])"
}

no_socket() {
    [ ! -e "$SCRATCH/run/f.feed" ] || { echo "the socket is left"; return 1; }
}
