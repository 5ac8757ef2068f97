# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# Functions for both guests of a pair, which scripts and commands for the other guest include.

# rdma_up ADDRESS: RDMA device rxe0 over the card eth0 with this address. Packets of 4096 bytes and
# their headers fit into the frames. Nothing, where an earlier script of the guest has left it.
rdma_up() {
    [ ! -e /sys/class/infiniband/rxe0 ] || return 0
    modprobe -a virtio_pci virtio_net rdma_rxe ib_uverbs crc32_generic
    soon test -e /sys/class/net/eth0 || return 1
    ip link set lo up
    ip link set eth0 mtu 9000 up
    ip address add "$1/24" dev eth0
    rdma link add rxe0 type rxe netdev eth0
    soon test -e /dev/infiniband/uverbs0
}

# listens PORT: wait until a program of this guest listens there
listens() {
    soon grep -qi "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$1") [0-9A-F:]* 0A " /proc/net/tcp /proc/net/tcp6
}

# netem OPTION...: what the network does to packets that this guest sends (tc-netem); off: nothing
netem() {
    [ "$1" != off ] || set -- limit 1000
    /lab/tc qdisc replace dev eth0 root netem "$@"
}
