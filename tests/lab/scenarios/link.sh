# shellcheck shell=dash disable=SC2154,SC2016,SC2086
# The link between two appliances (gpu/remote) without pipelines: tests/lab/link_drive.c sends tiles
# from this guest to the other one and checks their bytes, while the network, the receiver or the
# sender fails.
#: run machine=pair boot=intel_iommu=off
#: rdma
#: limit 600

# shellcheck source=tests/lab/guest/rdma.sh
. /lab/rdma.sh

there=10.0.0.2:7000
# More tiles than are sent before a failure that this script causes: the receiver takes 20 ms for each.
long="tiles=1000 bytes=3000 last=1 slots=8 hold=20"

# receives OPTION...: a receiver in the other guest listens
receives() {
    peer ". /lab/rdma.sh; start receiver link_drive receive $there dead=10 $* && listens 7000" || {
        peer 'cat /tmp/receiver.out /tmp/receiver.err'
        return 1
    }
}
sends() {
    start sender link_drive send $there dead=10 "$@"
}
# done_with SENDER RECEIVER: both end with these exit codes
done_with() {
    ended sender "$1" && cat /tmp/sender.out /tmp/sender.err &&
        peer "ended receiver $2 && tail -n 30 /tmp/receiver.out /tmp/receiver.err"
}
# moved TILES: the sender has sent so many
moved() {
    [ "$(tail -n 1 /tmp/sender.out | cut -d ' ' -f 1)" -ge "$1" ]
}
# count NAME: a counter of the sender, from its last line
count() {
    sed -n "s/^tiles=.* $1=\([0-9]*\).*/\1/p" /tmp/sender.out
}

check "an RDMA device here" rdma_up 10.0.0.1
check "an RDMA device there" peer '. /lab/rdma.sh; rdma_up 10.0.0.2'

check "a receiver of 10,000 tiles of an odd size" receives tiles=10000 bytes=1037 last=11
check "its sender" sends tiles=10000 bytes=1037 last=11
check "all arrive, with the last one short" done_with 0 0
check "no receiver was not ready" test "$(count not_ready)" = 0

check "a receiver with one slot, which is slow" receives tiles=40 bytes=70001 slots=1 hold=5
check "its sender" sends tiles=40 bytes=70001 depth=8
check "all arrive, one credit at a time" done_with 0 0
check "no receiver was not ready" test "$(count not_ready)" = 0

check "the sender waits for a receiver" sends $long dead=1
check "which comes later" receives $long dead=1
check "the link is up" soon moved 100
check "the network loses and reorders packets" netem loss 3% delay 1ms reorder 25%
check "it goes on" soon moved 300
check "the network is good again" netem off
# A card that is down for a moment is no reason to break: rxe retransmits.
check "the link goes down" host link net0 down
sleep 0.1
check "for 0.1 s" host link net0 up
check "it goes on" soon moved 600
check "the link goes down again" host link net0 down
sleep 1
check "for 1 s" host link net0 up
check "it goes on" soon moved 700
check "the link goes down again" host link net0 down
sleep 3
check "for 3 s" host link net0 up
check "all arrive" done_with 0 0
check "the connection was lost and came back" test "$(count broken)" -ge 1 -a "$(count connections)" -ge 2

check "a receiver whose sender dies" receives $long
check "the sender" sends $long
check "a part is sent" soon moved 200
kill -KILL "$(cat /tmp/sender.pid)"
ended sender 137 >/dev/null
check "the same command again" sends $long
check "all arrive once" done_with 0 0
check "the second sender sent only the rest" test "$(sed -n 's/^tiles=\([0-9]*\) .*/\1/p' /tmp/sender.out)" -lt 1000

check "a receiver that dies" receives $long
check "the sender" sends $long
check "a part is sent" soon moved 200
check "the receiver dies" peer 'kill -KILL "$(cat /tmp/receiver.pid)"; ended receiver 137'
check "another one needs tiles that the sender has given back" receives $long
check "so the sender fails" ended sender 4
check "and says why" grep -q "has lost tile" /tmp/sender.err
check "the same sender again" sends $long
check "all arrive" done_with 0 0

# A sender that waits for the receiver's HELLO dies.
check "a receiver that is stopped" receives $long
peer 'kill -STOP "$(cat /tmp/receiver.pid)"'
check "the sender" sends $long
established() {
    grep -q '[0-9A-F]:1B58 01' /proc/net/tcp
}
check "it has connected" soon established
kill -KILL "$(cat /tmp/sender.pid)"
ended sender 137 >/dev/null
check "another sender" sends $long
peer 'kill -CONT "$(cat /tmp/receiver.pid)"'
check "all arrive" done_with 0 0

check "a receiver with another key" receives tiles=10 key=other
check "a sender is refused" exits 2 link_drive send $there tiles=10
check "the message names the key" warns "key"
check "a sender with the key" sends tiles=10 key=other
check "is taken after that" done_with 0 0
check "a receiver of other tiles" receives tiles=10 bytes=8192
check "a sender is refused" exits 2 link_drive send $there tiles=10 bytes=4096
check "the message names the size" warns "size"
check "a sender of another stream is refused" exits 2 link_drive send $there tiles=10 bytes=8192 name=x
check "a stranger is refused" peer 'head -c 4096 /dev/urandom | nc -w 5 10.0.0.2 7000; true'
# What a sender has said to the receiver, again: `nc` in the middle keeps it.
nc -l -p 7001 -e sh -c 'tee /tmp/said | nc 10.0.0.2 7000' &
check "a sender through a relay" start sender link_drive send 10.0.0.1:7001 tiles=10 bytes=8192
check "is taken" done_with 0 0
check "a receiver" receives tiles=10 bytes=8192
replay() {
    test -s /tmp/said && nc -w 5 10.0.0.2 7000 </tmp/said >/tmp/answer
}
check "the words of the other sender again" replay
check "are refused" soon peer 'grep refused /tmp/receiver.out'
check "a sender" sends tiles=10 bytes=8192
check "is taken after that" done_with 0 0

check "a receiver" receives tiles=300
check "a sender that fails at the end" sends tiles=300 code=4
check "both know" done_with 0 5
check "no receiver: the sender gives up after its limit" exits 3 link_drive send $there tiles=10 call=1
check "the message names the limit" warns "no connection for"
# The same of an RDMA device: rxe has no port without a card.
rdma link delete rxe0
check "no RDMA device" exits 3 link_drive send $there tiles=10
check "the message says so" warns "no RDMA device"
