# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# Tiles over the link of two appliances (tests/lab/link_drive.c) and plain RDMA writes by perftest,
# alternately between the same two guests, with the same size, depth and MTU: rates, and packets for a
# tile, which do not depend on other load; and the time from the return of a link that was down for 1 s
# to the next tile. link.after.py compares.
#: run machine=pair boot="intel_iommu=off highres=on"
#: rdma
#: limit 550

# shellcheck source=tests/lab/guest/rdma.sh
. /lab/rdma.sh

TURNS=7
there=10.0.0.2:7000

# Packets of this guest, in both directions
packets() {
    counters=/sys/class/infiniband/rxe0/ports/1/hw_counters
    echo $(($(cat $counters/sent_pkts) + $(cat $counters/rcvd_pkts)))
}
# measure COMMAND...: it succeeds; its output, with the packets that it took, is in /tmp/out
measure() {
    before=$(packets)
    exits 0 "$@" && echo "packets=$(($(packets) - before))" >>/tmp/out
}
by_link() {
    peer ". /lab/rdma.sh; start receiver link_drive receive $there slots=16 $* && listens 7000" &&
        measure link_drive send $there slots=16 depth=8 "$@" && give "link.$bytes.$turn" /tmp/out &&
        peer 'ended receiver 0'
}
by_perftest() {
    peer ". /lab/rdma.sh; start bw ib_write_bw -d rxe0 -F -t 8 -m 4096 $* && listens 18515" &&
        measure ib_write_bw -d rxe0 -F -t 8 -m 4096 "$@" 10.0.0.2 &&
        give "perftest.$bytes.$turn" /tmp/out && peer 'ended bw 0'
}

check "an RDMA device here" rdma_up 10.0.0.1
check "an RDMA device there" peer '. /lab/rdma.sh; rdma_up 10.0.0.2'
for turn in $(seq $TURNS); do
    for bytes in 65536 1048576; do
        tiles=$((134217728 / bytes))
        check "turn $turn: $bytes bytes, link" by_link tiles=$tiles bytes=$bytes check=0
        check "turn $turn: $bytes bytes, perftest" by_perftest -s $bytes -n $tiles
    done
done

# The receiver takes 1 ms for each tile, so the stream is not at its end before the link is back.
recover() {
    peer ". /lab/rdma.sh; start receiver link_drive receive $there tiles=4000 hold=2 && listens 7000" &&
        start sender link_drive send $there tiles=4000 && soon grep -q '^500 ' /tmp/sender.out &&
        host link net0 down && sleep 1 && host link net0 up &&
        cut -d ' ' -f 1 /proc/uptime >/tmp/back && give "back.$turn" /tmp/back &&
        ended sender 0 && peer 'ended receiver 0' && give "recovery.$turn" /tmp/sender.out
}
for turn in $(seq 3); do
    check "turn $turn: the link is down for 1 s" recover
done
