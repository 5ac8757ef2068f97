# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Functions of tests of remote sinks and sources, after lib/tap.sh: two appliances on this machine, over a
# libibverbs without a network device (tests/fakes/ibverbs).

export LD_LIBRARY_PATH=${HEADRACE%/*}/tests/fakes/ibverbs
export FAKE_IBVERBS_DIR=$SCRATCH/verbs
mkdir -p "$FAKE_IBVERBS_DIR"
sender='' receiver=''

# free_port: a TCP port that no program listens at
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
port=$(free_port)

key() {
    rm -f "$SCRATCH/$1"
    head -c 32 /dev/urandom >"$SCRATCH/$1" && chmod 600 "$SCRATCH/$1"
}

key key

# sends [SINK_KEYS [KEYS [SSD_OPTIONS [GROUP_KEYS]]]]: the configuration of the sender, 64 KiB a tile
sends() {
    cat >"$SCRATCH/send.conf" <<CONF
ssds = ( { name = "a"; device = "soft:a.img${3-}"; timeout_ms = 60000; } );
gpus = ( { name = "g"; device = "host:1"; } );
remote = { key = "key"; ${4-} };
pipelines = ( { name = "send"; source = { object = "in"; }; operator = "copy"; tile = "64K"; slots = 4;
                sink = { remote = "127.0.0.1:$port"; name = "s"; ${1-} }; ${2-} } );
CONF
}

# takes [SOURCE_KEYS [KEYS [SSD_OPTIONS [GROUP_KEYS]]]]: that of the receiver, with other slots
takes() {
    cat >"$SCRATCH/take.conf" <<CONF
appliance = { checkpoint = "20ms"; };
ssds = ( { name = "b"; device = "soft:b.img${3-}"; timeout_ms = 60000; } );
gpus = ( { name = "g"; device = "host:1"; } );
remote = { key = "key"; ${4-} };
pipelines = ( { name = "take"; source = { remote = "127.0.0.1:$port"; name = "s"; bytes = "32M"; ${1-} };
                operator = "copy"; tile = "64K"; slots = 6; sink = { object = "out"; }; ${2-} } );
CONF
}

# data BYTES: a pattern in which each word differs
data() {
    python3 - "$SCRATCH/data" "$1" <<'PY'
import struct
import sys
count = int(sys.argv[2])
words = (count + 7) // 8
with open(sys.argv[1], "wb") as f:
    f.write(struct.pack(f"<{words}Q", *(n * 0x9e3779b97f4a7c15 % 2**64 for n in range(words)))[:count])
PY
}

# disks BYTES: the sender's has an object of so many bytes, the receiver's is empty
disks() {
    rm -f "$SCRATCH"/[ab].img
    data "$1" && "$HEADRACE" store format "soft:$SCRATCH/a.img,size=96M" >/dev/null &&
        "$HEADRACE" store format "soft:$SCRATCH/b.img,size=96M" >/dev/null &&
        "$HEADRACE" store put "soft:$SCRATCH/a.img" in "$SCRATCH/data" >/dev/null
}

# begin send|take: run it beside the script
begin() {
    setpriv --pdeathsig KILL "$HEADRACE" run "$SCRATCH/$1.conf" --json >"$SCRATCH/$1.out" \
        2>"$SCRATCH/$1.err" </dev/null &
    [ "$1" = send ] && sender=$! || receiver=$!
}

both() {
    begin take
    begin send
}

# stop_all: what a check that has failed has left
stop_all() {
    local each
    for each in $sender $receiver; do
        kill -KILL "$each" 2>/dev/null
        wait "$each" 2>/dev/null
    done
    sender='' receiver=''
}

# ended send|take CODE: the run ends with this exit code
ended() {
    local got=0 process=$receiver
    [ "$1" = take ] || process=$sender
    wait "$process" || got=$?
    [ "$1" = send ] && sender='' || receiver=''
    [ "$got" = "$2" ] || { echo "$1: exit code $got, expected $2"; cat "$SCRATCH/$1.err"; return 1; }
}

# tells send|take TEXT: on stderr of the run
tells() {
    grep -qF -- "$2" "$SCRATCH/$1.err" || { echo "$1 does not say: $2"; cat "$SCRATCH/$1.err"; return 1; }
}

# quiet send|take: nothing on stderr
quiet() {
    ! grep -v 'no receiver of remote .* yet: waiting$' "$SCRATCH/$1.err" || { echo "says $1"; return 1; }
}

# arrived: the object of the receiver has the data of the sender's, and its checksum is right
arrived() {
    "$HEADRACE" store get "soft:$SCRATCH/b.img" out - >"$SCRATCH/got" 2>"$SCRATCH/err" &&
        cmp "$SCRATCH/got" "$SCRATCH/data" && exits 0 store verify "soft:$SCRATCH/b.img"
}

# remote send|take EXPRESSION: of the object `remote` r of its result
remote() {
    json_holds "$SCRATCH/$1.out" r "(lambda r: $2)(r['pipelines'][0]['remote'])"
}

# copies BYTES: both run to their ends, and the object arrives
copies() {
    stop_all
    disks "$1" && both && ended take 0 && ended send 0 && quiet take && quiet send && arrived
}
