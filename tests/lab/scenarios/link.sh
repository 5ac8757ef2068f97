# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154,SC2016,SC2086
# The link between two appliances (boot/remote) without pipelines: tests/lab/link_drive.c sends tiles
# from this guest to the other one and checks their bytes, while the network, the receiver or the
# sender fails.
#: run machine=pair boot="intel_iommu=off highres=on"
#: rdma
#: limit 600

# shellcheck source=tests/lab/guest/rdma.sh
. /lab/rdma.sh

there=10.0.0.2:7000
# More tiles than are sent before a failure that this script causes: 160 a second, because the receiver holds
# each of 8 for 50 ms.
long="tiles=400 bytes=3000 last=1 slots=8 hold=50"

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
# moved TILES [PROGRAM]: the sender has sent so many
moved() {
    [ "$(tail -n 1 "/tmp/${2-sender}.out" | cut -d ' ' -f 1)" -ge "$1" ]
}
# count NAME [PROGRAM]: a counter of the sender, from its last line
count() {
    sed -n "s/^tiles=.* $1=\([0-9]*\).*/\1/p" "/tmp/${2-sender}.out"
}

check "an RDMA device here" rdma_up 10.0.0.1
check "an RDMA device there" peer '. /lab/rdma.sh; rdma_up 10.0.0.2'

# More than the receiver's window of 4,096.
check "a receiver of 5,000 tiles of an odd size" receives tiles=5000 bytes=1037 last=11
check "its sender" sends tiles=5000 bytes=1037 last=11
check "all arrive, with the last one short" done_with 0 0
check "no receiver was not ready" test "$(count not_ready)" = 0

check "a receiver with one slot, which is slow" receives tiles=40 bytes=70001 slots=1 hold=5
check "its sender" sends tiles=40 bytes=70001 depth=8
check "all arrive, one credit at a time" done_with 0 0
check "no receiver was not ready" test "$(count not_ready)" = 0

check "the sender waits for a receiver" sends $long dead=1
check "which comes later" receives $long dead=1
check "the link is up" soon moved 40
check "the network loses and reorders packets" netem loss 3% delay 1ms reorder 25%
check "it goes on" soon moved 120
check "the network is good again" netem off
# A card that is down for a moment is no reason to break: rxe retransmits.
check "the link goes down" host link net0 down
sleep 0.1
check "for 0.1 s" host link net0 up
check "it goes on" soon moved 240
check "the link goes down again" host link net0 down
sleep 1
check "for 1 s" host link net0 up
check "all arrive" done_with 0 0
check "the connection was lost and came back" test "$(count broken)" -ge 1 -a "$(count connections)" -ge 2

# The address gets another place in the device's table of GIDs.
check "a receiver whose GID changes" receives $long
check "its sender" sends $long
check "a part is sent" soon moved 80
check "the GID changes" peer 'ip address del 10.0.0.2/24 dev eth0; ip address add 10.0.1.9/24 dev eth0
    ip address add 10.0.0.2/24 dev eth0; ip address del 10.0.1.9/24 dev eth0'
check "all arrive" done_with 0 0

check "a receiver whose sender dies" receives $long
check "the sender" sends $long
check "a part is sent" soon moved 80
kill -KILL "$(cat /tmp/sender.pid)"
ended sender 137 >/dev/null
check "the same command again" sends $long
check "all arrive once" done_with 0 0
check "the second sender sent only the rest" test "$(sed -n 's/^tiles=\([0-9]*\) .*/\1/p' /tmp/sender.out)" -lt 400

check "a receiver that dies" receives $long
check "the sender" sends $long
check "a part is sent" soon moved 80
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

# Both sides die in each state of a connection, one side in each stream, all streams at once. In the state
# `done` the other side is not at its end; in `bye` it is, and ends without the dead one.
#
# each SIDE STATES COMMAND: for each stream whose SIDE (s: sender, r: receiver) dies in a state: $port, $dies
# (die=STATE), $other (an option of the other side)
sender_states="calling greeting opening offered flow done bye"
receiver_states="greeting opening offered flow done bye"
cat >/tmp/each <<'X'
short="tiles=20 bytes=3000 last=1 slots=8"
each() {
    port=7100
    [ "$1" = s ] || port=7200
    for state in $2; do
        port=$((port + 1)) dies=die=$state other=''
        case $state in
        done) dies="$dies dead=10" other="linger=10000 dead=10" ;;
        bye) dies="$dies dead=2" other=dead=2 ;;
        *) dies="$dies dead=10" other=dead=10 ;;
        esac
        eval "$3" || { echo "in state $state"; return 1; }
    done
}
# drive SIDE PROGRAM OPTION...: a receiver waits for ever
drive() {
    side=$1 program=$2
    shift 2
    [ "$side" = send ] || set -- call=0 "$@"
    start "$program" link_drive "$side" "10.0.0.2:$port" "name=s$port" $short "$@"
}
X
. /tmp/each
check "the other guest has these streams" peer "cat >/tmp/each <<'X'
$(cat /tmp/each)
X"
there() {
    peer ". /lab/rdma.sh; . /tmp/each; $1"
}
check "receivers, half of which die" there "
    each s '$sender_states' 'drive receive r\$port \$other && listens \$port' &&
    each r '$receiver_states' 'drive receive r\$port \$dies && listens \$port'"
check "senders that die" each s "$sender_states" 'drive send "s$port" $dies'
check "senders whose receivers die" each r "$receiver_states" 'drive send "s$port" $other'
check "a sender has died in each state" each s "$sender_states" 'ended "s$port" 137'
check "a receiver has died in each state" there "each r '$receiver_states' 'ended r\$port 137'"
check "the same senders again" each s "${sender_states% bye}" 'drive send "s$port" dead=10'
check "the same receivers again; one has all tiles" there "
    each r '${receiver_states% bye}' '
        has=; [ \$state != done ] || has=durable=20
        drive receive r\$port \$has dead=10'"
check "all arrive where senders died" each s "${sender_states% bye}" 'ended "s$port" 0'
check "also for their receivers" there "each s '$sender_states' 'ended r\$port 0'"
check "all arrive where receivers died" each r "$receiver_states" 'ended "s$port" 0'
check "also for their receivers" there "each r '${receiver_states% bye}' 'ended r\$port 0'"

# The network is down for 30 s.
check "a receiver" receives $long dead=1
check "its sender" sends $long dead=1
check "a part is sent" soon moved 40
check "the link goes down" host link net0 down
uptime_seconds
down_at=$up

# Meanwhile, in this guest: sides that do not fit. A slow machine must not look like a dead side.
modprobe rdma_rxe
check "an RDMA device of this guest alone" rdma link add rxe1 type rxe netdev lo
here=127.0.0.1:7000
# takes OPTION...: a receiver in this guest listens
takes() {
    start local_receiver link_drive receive $here dead=100 "$@" && listens 7000
}
fits() {
    start local_sender link_drive send $here dead=100 "$@" && ended local_sender 0 && ended local_receiver 0
}
check "a receiver with another key" takes tiles=10 key=other
check "a sender is refused" exits 2 link_drive send $here tiles=10
check "the message names the key" warns "it has another key"
check "a sender with the key is taken after that" fits tiles=10 key=other
check "a receiver of other tiles" takes tiles=10 bytes=8192
check "a sender is refused" exits 2 link_drive send $here tiles=10 bytes=4096
check "the message names the size" warns "its tiles have another size"
check "a sender of another stream is refused" exits 2 link_drive send $here tiles=10 bytes=8192 name=x
check "the message names the name" warns "its stream has another name"
check "a sender of more tiles is refused" exits 2 link_drive send $here tiles=11 bytes=8192
check "the message names the tiles" warns "it takes fewer tiles"
check "a sender of the next version is refused" exits 2 link_drive send $here tiles=10 bytes=8192 newer=1
check "the message names the version" warns "it has another version of the protocol"
sleep 1 # a receiver tells of one refusal in a second
head -c 4096 /dev/urandom | nc -w 5 127.0.0.1 7000 >/dev/null
check "a stranger is refused" soon grep "refused: no HELLO of a sender" /tmp/local_receiver.out
# What a sender has said to the receiver, again: `nc` in the middle keeps it.
nc -l -p 7001 -e sh -c 'tee /tmp/said | nc 127.0.0.1 7000' &
check "a sender through a relay" start local_sender link_drive send 127.0.0.1:7001 tiles=10 bytes=8192 dead=100
check "is taken" ended local_sender 0
check "and its receiver" ended local_receiver 0
check "a receiver" takes tiles=10 bytes=8192
replay() {
    test -s /tmp/said && nc -w 5 127.0.0.1 7000 </tmp/said >/tmp/answer
}
check "the words of the other sender again" replay
check "are refused" soon grep "refused: another key" /tmp/local_receiver.out
check "a sender is taken after that" fits tiles=10 bytes=8192
check "a receiver of the next version" takes tiles=10 newer=1
check "refuses a sender" exits 2 link_drive send $here tiles=10
check "whose message names the version" warns "it has another version of the protocol"
kill -KILL "$(cat /tmp/local_receiver.pid)"
ended local_receiver 137 >/dev/null
check "a receiver" takes tiles=300
check "a sender that fails at the end" start local_sender link_drive send $here tiles=300 code=4 dead=100
check "it is done" ended local_sender 0
check "both know" ended local_receiver 5
check "no receiver: the sender gives up after its limit" exits 3 link_drive send $here tiles=10 call=1
check "the message names the limit" warns "no connection for"
rdma link delete rxe1
check "no RDMA device" exits 3 link_drive send $here tiles=10
check "the message says so" warns "no RDMA device has the address 127.0.0.1"
for each in /lib/*/libibverbs.so.1 /usr/lib/*/libibverbs.so.1; do
    [ ! -e "$each" ] || mv "$each" "$each.away"
done
check "no libibverbs" exits 3 link_drive send $here tiles=10
check "the message says so" warns libibverbs.so.1
for each in /lib/*/libibverbs.so.1.away /usr/lib/*/libibverbs.so.1.away; do
    [ ! -e "$each" ] || mv "$each" "${each%.away}"
done

while [ $((up - down_at)) -lt 30 ]; do
    nap
    uptime_seconds
done
check "the link comes back after 30 s" host link net0 up
check "all arrive" done_with 0 0
check "the connection was lost and came back" test "$(count broken)" -ge 1 -a "$(count connections)" -ge 2
check "no receiver was not ready" test "$(count not_ready)" = 0
