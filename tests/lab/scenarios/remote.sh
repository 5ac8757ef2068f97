# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154,SC2016
# Pipelines of two appliances over RDMA: this guest sends an object, the other one takes its tiles and
# stores or computes, while the network, one of the two, both, or a disk fails.
#: run machine=pair boot=intel_iommu=off memory=768
#: rdma
#: limit 900

# shellcheck source=tests/lab/guest/rdma.sh
. /lab/rdma.sh

# Tiles of 4 KiB, the last one short.
bytes=1634437
tiles=400
key="remote = { key = \"/tmp/key\"; call = \"100s\"; };
boot = { post = \"off\"; backoff = \"50ms\"; };"

# sends [OPTIONS_OF_THE_SSD [PIPELINES]]: the configuration of this guest
sends() {
    cat >/tmp/send.conf <<X
ssds = ( { name = "a"; device = "soft:/tmp/a.img${1-}"; timeout_ms = 60000; } );
gpus = ( { name = "g"; device = "host:1"; } );
$key
pipelines = ( { name = "send"; source = { object = "in"; }; operator = "copy"; tile = "4K"; slots = 16;
    sink = { remote = "10.0.0.2:4791"; name = "s"; depth = 8; }; } ${2-} );
X
}
# takes [OPTIONS_OF_THE_SSD [SLOTS [PIPELINES]]]: the configuration of the other guest
takes() {
    peer "cat >/tmp/take.conf" "<<X
appliance = { checkpoint = \"50ms\"; };
ssds = ( { name = \"b\"; device = \"soft:/tmp/b.img${1-}\"; timeout_ms = 300000; } );
gpus = ( { name = \"g\"; device = \"host:1\"; } );
$key
pipelines = ( { name = \"take\"; source = { remote = \"10.0.0.2:4791\"; name = \"s\"; bytes = \"8M\"; };
    operator = \"copy\"; tile = \"4K\"; slots = ${2-16}; sink = { object = \"out\"; }; } ${3-} );
X"
}
# both [COMMAND]: of headrace, in both guests
both() {
    peer "start take headrace ${1-run --json} /tmp/take.conf" &&
        eval "start send headrace ${1-run --json} /tmp/send.conf"
}
# done_with SENDER RECEIVER: both end with these exit codes. If they do not, the counters of both streams say where.
done_with() {
    ended send "$1" || { headrace status --json; peer "ended take $2; cat /tmp/take.err; headrace status --json"; return 1; }
    cat /tmp/send.err
    peer "ended take $2 && cat /tmp/take.err"
}
# arrived [OBJECT FILE]: the other guest's object has the bytes of a file in this guest, and is removed
arrived() {
    peer "headrace store get -q soft:/tmp/b.img ${1-out} - | sha256sum | cut -c 1-64; headrace store rm soft:/tmp/b.img ${1-out}" \
        >/tmp/sum && cat /tmp/sum && [ "$(head -n 1 /tmp/sum)" = "$(sha256sum <"${2-/tmp/in}" | cut -c 1-64)" ]
}
# Shell commands for the other guest: true when a part of the sink is durable.
is_durable="headrace status --json >/tmp/take.status 2>/dev/null &&
    [ \"\$(sed -n 's/.*\"durable_tiles\": \([0-9]*\).*/\1/p' /tmp/take.status | head -n 1)\" -gt 20 ]"
# The other guest waits until a part is durable: one command, so the caller goes on without delay.
durable() {
    peer "is_durable() { $is_durable; }
        soon is_durable"
}
# stream MEMBER: the first one of this name in the sender's result
stream() {
    sed 's/[,{]/\n/g' /tmp/send.out | sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" | head -n 1
}
# One write of a tile there does not end, so the receiver is not done, however late its engine is killed.
stuck() {
    peer 'echo "on write lba 512-16383 nth 150 count 1: drop" >/tmp/fails'
}
# The receiver's engine is killed when a part is durable. The next one does not have that fault.
kill_in_peer() {
    peer "is_durable() { $is_durable; }
        soon is_durable && : >/tmp/fails && kill -KILL \"\$(sed -n 's/.*\"engine_pid\": \([0-9]*\).*/\1/p' /tmp/take.status)\""
}
# The process of the engine here. It is unknown while the appliance does not answer.
engine_here() {
    mine=$(headrace status --json 2>/dev/null | sed -n 's/.*"engine_pid": \([0-9]*\).*/\1/p')
    [ -n "$mine" ]
}

check "an RDMA device here" rdma_up 10.0.0.1
check "an RDMA device there" peer '. /lab/rdma.sh; rdma_up 10.0.0.2'
head -c $bytes /dev/urandom >/tmp/in
head -c 1048576 /dev/urandom >/tmp/floats
printf '%032d' 7 >/tmp/key
chmod 400 /tmp/key
check "the key" peer 'printf %032d 7 >/tmp/key; chmod 400 /tmp/key; headrace store format soft:/tmp/b.img,size=64M'
check "a store" exits 0 headrace store format soft:/tmp/a.img,size=64M
check "an object of an odd length" exits 0 headrace store put -q soft:/tmp/a.img in /tmp/in
check "an object of numbers" exits 0 headrace store put -q soft:/tmp/a.img floats /tmp/floats
# Three streams: tiles as they are, tiles to an operator with a result, tiles from an operator.
sends "" ',
    { name = "send1"; source = { object = "in"; }; operator = "copy"; tile = "4K"; slots = 4;
      sink = { remote = "10.0.0.2:4792"; name = "s1"; }; },
    { name = "send2"; source = { object = "floats"; }; operator = "cast_f32_bf16"; tile = "8K"; slots = 4;
      sink = { remote = "10.0.0.2:4793"; name = "s2"; }; }'
check "the other side" takes "" 16 ',
    { name = "take1"; source = { remote = "10.0.0.2:4792"; name = "s1"; bytes = "8M"; };
      operator = "crc32c"; tile = "4K"; slots = 4; },
    { name = "take2"; source = { remote = "10.0.0.2:4793"; name = "s2"; bytes = "8M"; };
      operator = "copy"; tile = "4K"; slots = 4; sink = { object = "half"; }; }'
check "check shows the device" exits 0 headrace check /tmp/send.conf
check "by its name" says rxe0

check "400 tiles, and two streams with operators" both
check "both are done" done_with 0 0
check "all bytes are there" arrived
check "the run had all tiles" test "$(stream tiles)" = $tiles
check "no CPU copied a tile" test "$(stream tiles_copied)" = 0
check "no receiver was not ready" test "$(stream not_ready)" = 0
result() {
    headrace store ls soft:/tmp/a.img --json | tr -d '\n ' | sed 's/.*"name":"in",[^}]*"crc32c":"\([0-9a-f]*\)".*/\1/' >/tmp/crc
    peer "grep -A 1 '\"result\": {' /tmp/take.out" | tee /tmp/result
    [ "$(wc -c </tmp/crc)" = 8 ] && grep -qF "\"crc32c\": \"$(cat /tmp/crc)\"" /tmp/result
}
check "the operator there has the result of the object here" result
transformed() {
    cat >/tmp/local.conf <<X
ssds = ( { name = "a"; device = "soft:/tmp/a.img"; } );
gpus = ( { name = "g"; device = "host:1"; } );
pipelines = ( { name = "local"; source = { object = "floats"; }; operator = "cast_f32_bf16"; tile = "8K";
    sink = { object = "half"; }; } );
X
    exits 0 headrace run /tmp/local.conf && headrace store get -q soft:/tmp/a.img half - >/tmp/half &&
        [ "$(wc -c </tmp/half)" = 524288 ] && arrived half /tmp/half
}
check "the operator here has sent what it makes without a stream" transformed
check "the other side" takes

# 12 s for a part of the rest, so that it fails in the middle. An engine that starts again reads the file again.
echo "on read nth 120 count 96: delay 2s" >/tmp/slow
sends ",faults=/tmp/slow"
check "a sender with a slow disk" both
check "a part is durable at the receiver" durable
check "the link goes down" host link net0 down
sleep 1
check "and comes back after 1 s" host link net0 up
check "both are done" done_with 0 0
check "all bytes are there" arrived
check "the connection was lost and came back" test "$(stream broken)" -ge 1

check "a sender" both
check "a part is durable" durable
kill -KILL "$(cat /tmp/send.pid)"
ended send 137
sends
check "is killed, and the same command goes on" start send headrace run --json /tmp/send.conf
check "both are done" done_with 0 0
check "all bytes are there" arrived
check "only the rest was sent" grep -q "resumes at tile [1-9]" /tmp/send.err

# Appliances under `headrace boot`. With the engine of the receiver dies what is not durable there, so the sender's
# run fails, and starts again by itself.
sends
takes ",faults=/tmp/fails"
check "a disk there that does not end a write" stuck
check "two appliances" both boot
check "the engine that receives is killed when a part is durable" kill_in_peer
check "both appliances are done" done_with 0 0
check "all bytes are there" arrived
check "the receiver's engine was restarted" peer 'grep "ended by signal 9" /tmp/take.err'
check "it continued at its durable tiles" peer 'grep "resumes at tile [1-9]" /tmp/take.err'
check "the sender's run was, too" grep "has lost tile\|the connection is down" /tmp/send.err

check "a disk there that does not end a write" stuck
check "two appliances" both boot
check "the engine here" soon engine_here
# First the one here: without the other one it may end by itself.
check "both engines are killed when a part is durable" eval "durable && kill -KILL $mine && kill_in_peer"
check "both appliances are done" done_with 0 0
check "all bytes are there" arrived
check "the sender's engine was restarted" grep "ended by signal 9" /tmp/send.err
check "the receiver's engine, too" peer 'grep "ended by signal 9" /tmp/take.err'
check "it continued at its durable tiles" peer 'grep "resumes at tile [1-9]" /tmp/take.err'

# A disk that fails at one end ends both runs, and both name its object.
echo "on read nth 150 count 60: status 0x281 dnr" >/tmp/fails
sends ",faults=/tmp/fails"
check "a sender whose disk fails" both
check "both end with 4" done_with 4 4
check "the sender names its object" grep -q "object 'in'" /tmp/send.err
check "the receiver too" peer "grep \"object 'in'\" /tmp/take.err"
sends
check "the fault" peer 'echo "on write nth 150 count 60: status 0x280 dnr" >/tmp/fails'
check "the other side" takes ",faults=/tmp/fails"
check "a receiver whose disk fails" both
check "both end with 4" done_with 4 4
check "the sender names the receiver's object" grep -q "object 'out'" /tmp/send.err
check "the other side" takes "" 1
check "a receiver with one slot" both
check "both are done" done_with 0 0
check "all bytes are there" arrived

check "another key" peer 'rm /tmp/key; printf %032d 8 >/tmp/key; chmod 400 /tmp/key'
check "the receiver" peer 'start take headrace run --json /tmp/take.conf'
check "refuses the sender" exits 2 headrace run /tmp/send.conf
check "whose message names the key" warns key
check "the receiver ends by a signal" peer 'kill -INT "$(cat /tmp/take.pid)"; ended take 1'
