# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154,SC2086
# A pair of guests: commands in the other guest, RDMA between them, a link that goes down and comes
# back, lost and reordered packets, and a guest that dies and starts again while it receives tiles.
#: run machine=pair boot=intel_iommu=off memory=768
#: rdma
#: restores
#: limit 240

# shellcheck source=tests/lab/guest/rdma.sh
. /lab/rdma.sh

# write_across OPTION...: RDMA WRITE to the other guest by perftest
write_across() {
    peer ". /lab/rdma.sh; start bw ib_write_bw -d rxe0 -F $*; listens 18515" &&
        ib_write_bw -d rxe0 -F "$@" 10.0.0.2 && peer 'ended bw 0'
}
carrier() {
    [ "$(cat /sys/class/net/eth0/carrier)" = "$1" ]
}
other() {
    peer "[ \"\$(cat /sys/class/net/eth0/carrier)\" = $1 ]"
}

check "a command in the other guest" test "$(peer 'echo said; exit 0')" = said
peer 'exit 7' >/dev/null
check "its exit code" test $? = 7
check "the other guest has devices of its own" peer "test -e \"\$(pci \"\$nv0\")\""
check "an RDMA device here" rdma_up 10.0.0.1
check "an RDMA device there" peer '. /lab/rdma.sh; rdma_up 10.0.0.2'
check "RDMA writes of 64 KiB, 8 at a time" write_across -s 65536 -n 64 -t 8 -m 4096

check "the link goes down" host link net0 down
check "this guest sees it" soon carrier 0
check "the other one too" soon other 0
check "the link comes back" host link net0 up
check "this guest sees that" soon carrier 1
check "the other one too" soon other 1

# rxe retransmits what is lost, and what overtakes other packets.
check "packets are lost and reordered" netem loss 2% delay 1ms reorder 25%
check "RDMA writes" write_across -s 4096 -n 150 -t 8 -m 1024
lost() {
    /lab/tc -s qdisc show dev eth0 | tee /tmp/lost | grep -q 'dropped [1-9]'
}
check "some packets were lost" lost
check "no more packets are lost" netem off

tiles="tiles=2000 bytes=3000 slots=8 hold=20 dead=10"
receives() {
    peer ". /lab/rdma.sh; start receiver link_drive receive 10.0.0.2:7000 $tiles && listens 7000"
}
check "a receiver of tiles" receives
check "their sender" start sender link_drive send 10.0.0.2:7000 $tiles
check "some are sent" soon grep -q "^200 " /tmp/sender.out
check "the other guest dies" host peer_kill
gone() {
    ! ping -c 1 -W 1 10.0.0.2
}
check "it does not answer" gone
check "it starts again" host peer_boot
check "its RDMA device" peer '. /lab/rdma.sh; rdma_up 10.0.0.2'
check "RDMA writes to it" write_across -s 65536 -n 16 -t 8 -m 4096
check "a receiver needs tiles that the sender has given back" receives
check "so the sender fails" ended sender 4
check "it had seen that the other guest is gone" grep -q "down at" /tmp/sender.out
check "and says what is lost" grep -q "has lost tile" /tmp/sender.err
check "the same sender again" start sender link_drive send 10.0.0.2:7000 $tiles
check "all arrive" ended sender 0
check "at the receiver, too" peer 'ended receiver 0'
