# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# The same reads through headrace and through the kernel's nvme driver with fio, alternately on one
# SSD in one guest: one thread, the same depth, size and range of the disk. fio.after.py compares.
#: run machine=big_ssd boot="intel_iommu=off highres=on" memory=1024
#: tools fio
#: limit 550

TURNS=7
cat >/tmp/bench.conf <<X
ssds = ( { name = "ssd0"; device = "pci:$nv0"; queue_entries = 64; } );
gpus = ( { name = "gpu0"; device = "host:1"; } );
X

# by_headrace NAME ACCESS DEPTH
by_headrace() {
    exits 0 headrace bench /tmp/bench.conf --json --seconds 0.5 --object 256 --only "$2" \
        --depth "$3" && give "headrace.$1.$turn" /tmp/out
}

# by_fio WAY NAME PATTERN SIZE DEPTH OPTION...
by_fio() {
    fio_out=/tmp/fio.json fio_to=fio_$1.$2.$turn fio_pattern=$3 fio_size=$4 fio_depth=$5
    shift 5
    exits 0 fio --name=reads --filename=/dev/nvme0n1 --thread --direct=1 --ioengine=io_uring \
        --offset=64M --size=256M --time_based --runtime=500ms --rw="$fio_pattern" \
        --bs="$fio_size" --iodepth="$fio_depth" --norandommap --fixedbufs --registerfiles "$@" \
        --output-format=json --output=$fio_out && give "$fio_to" $fio_out
}

# Completions found by polling, with each command sent separately, as fio does by default; the same
# in batches and without a timestamp per command; and completions by interrupts.
all_by_fio() {
    by_fio polled "$@" --hipri &&
        by_fio batched "$@" --hipri --gtod_reduce=1 --iodepth_batch=16 \
            --iodepth_batch_complete_min=1 --iodepth_batch_complete_max=32 &&
        by_fio interrupts "$@"
}

disk() {
    until [ -e /dev/nvme0n1 ]; do sleep 0.1; done
}

hugepages 64
modprobe nvme poll_queues=1
disk
check "polling is on" grep -q 1 /sys/block/nvme0n1/queue/io_poll
bind "$nv0" ""
check "format the store" exits 0 headrace store format --force "pci:$nv0"
for turn in $(seq $TURNS); do
    check "turn $turn: random 4 KiB, depth 32" by_headrace random32 read:random:4K 32
    check "turn $turn: random 4 KiB, depth 1" by_headrace random1 read:random:4K 1
    check "turn $turn: sequential 128 KiB, depth 32" by_headrace sequential32 \
        read:sequential:128K 32
    bind "$nv0" nvme
    disk
    check "turn $turn: fio, random 4 KiB, depth 32" all_by_fio random32 randread 4k 32
    check "turn $turn: fio, random 4 KiB, depth 1" all_by_fio random1 randread 4k 1
    check "turn $turn: fio, sequential 128 KiB, depth 32" all_by_fio sequential32 read 128k 32
    bind "$nv0" ""
done
