#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `headrace topo --prove` and the step peer_data of `headrace post`: data that an SSD and a GPU exchange,
# with software SSDs that have faults of a path (quirks peer-*), and CPU threads in place of a GPU.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

data=$SCRATCH/data.img blank=$SCRATCH/blank.img store=$SCRATCH/store.img
make_images() {
    head -c 12M /dev/urandom >"$data" && truncate -s 12M "$blank" && rm -f "$store" &&
        exits 0 store format "soft:$store,size=64M"
}

# proves CODE OPTIONS...: the exit code of --prove with a software SSD
proves() {
    local want=$1
    shift
    exits "$want" topo --prove host:1 "$@"
}

# row DIRECTION EXPRESSION: the last row of that direction, `x`, has the property
row() {
    json "(lambda x: $2)([x for x in r['rows'] if x['direction'] == '$1'][-1])"
}

# both FAULT FAULT FIRST DEVICE: the faults of both directions, the first in the size FIRST
both() {
    proves 4 "soft:$4" --json && silent && json "r['view'] == 'prove' and not r['proven'] and r['exit_code'] == 4" &&
        row ssd_to_gpu "x['outcome'] == 'differs' and x['fault'] == '$1' and x['bytes'] == $3" &&
        row gpu_to_ssd "x['outcome'] == 'differs' and x['fault'] == '$2'"
}

# ---- paths that work

existing_blocks() {
    unchanged "$data" proves 0 "soft:$data" && silent && says "existing blocks" && says "Compare" &&
        says "proven: SSD writes GPU memory, 4 KiB to 8 MiB" && says "proven: SSD reads GPU memory, 4 KiB to 8 MiB" &&
        says "not tested: larger sizes" && says "doorbells written by the GPU (flow F1)"
}

all_sizes() {
    proves 0 "soft:$store" --json && json "r['proven'] and r['doorbell_by_gpu'] == 'not tested'" &&
        json "[x['bytes'] for x in r['rows']] == [4096 << i for i in range(15)] * 2" &&
        json "all(x['outcome'] == 'equal' and x['gb_per_s'] >= 0 for x in r['rows'])" &&
        json "{x['by'] for x in r['rows']} == {'scratch area'}"
}

small_blocks() {
    proves 0 "soft:$data,lba=512,mdts=2" && proves 0 "soft:$data,mdts=0,threads=3"
}

named_range() {
    cp "$data" "$SCRATCH/x.img" && proves 0 "soft:$SCRATCH/x.img,quirks=no-compare" --scratch 1M,64K --force &&
        cmp -n 1048576 "$data" "$SCRATCH/x.img" && cmp -i 1114112 "$data" "$SCRATCH/x.img" &&
        ! cmp -s "$data" "$SCRATCH/x.img"
}

keeps_objects() {
    head -c 3M /dev/urandom >"$SCRATCH/in" && exits 0 store put "soft:$store" in "$SCRATCH/in" &&
        proves 0 "soft:$store" && exits 0 store get --force "soft:$store" in "$SCRATCH/out.bin" &&
        cmp "$SCRATCH/in" "$SCRATCH/out.bin" && exits 0 store verify "soft:$store"
}

check "images are made" make_images
check "blocks of a disk are compared both ways, and the disk is only read" existing_blocks
check "a store's scratch area is used for all sizes that fit" all_sizes
check "small blocks, small and large commands, several threads" small_blocks
check "only the named range is overwritten" named_range
check "objects of a store stay as they are" keeps_objects

# ---- what is not proven is never called proven

no_way_back() {
    unchanged "$data" proves 5 "soft:$data,quirks=no-compare" && says "proven: SSD writes GPU memory" &&
        says "NOT proven: SSD reads GPU memory: see above" && says "no store with a scratch area" &&
        says "no Compare command" && says "--scratch FIRST,BYTES"
}

constant_blocks() {
    proves 5 "soft:$blank" --json && json "not r['proven'] and {x['outcome'] for x in r['rows']} == {'weak'}" &&
        proves 5 "soft:$blank" && says "hold one value only" &&
        proves 5 soft:memory,size=16M && says "hold one value only"
}

protected_disk() {
    unchanged "$data" proves 0 "soft:$data,readonly=1" && says "Compare" &&
        unchanged "$store" proves 5 "soft:$store,readonly=1,quirks=no-compare" && says "write protected"
}

check "without a scratch area and Compare the reads of the SSD are not proven" no_way_back
check "constant blocks prove little" constant_blocks
check "a write protected disk is not written" protected_disk

# ---- faults of a path

# The data are random: a byte of the first word may be as before.
ones() {
    both all-ones all-ones 4096 "$store,quirks=peer-ones" && row gpu_to_ssd "x['got'] == 'f' * 16 and x['offset'] < 8" &&
        proves 4 "soft:$store,quirks=peer-ones" && says "got ffffffffffffffff" &&
        says "ones: the read was aborted by the root complex" && says 'memory.path = "bounce"' &&
        both all-ones unknown 4096 "$data,quirks=peer-ones" &&
        both all-ones all-ones 4096 "$store,lba=512,quirks=peer-ones+no-compare"
}

dropped() {
    both stale zeros 8192 "$store,quirks=peer-drop" && row ssd_to_gpu "4096 <= x['offset'] < 4104" &&
        row gpu_to_ssd "x['bytes'] == 8192 and '1 of 2 pages' in x['text']" &&
        both stale unknown 8192 "$data,quirks=peer-drop" &&
        both stale zeros 8192 "$store,mdts=1,quirks=peer-drop"
}

swapped() {
    both moved moved 8192 "$store,quirks=peer-swap" && row ssd_to_gpu "'the data of byte 0x1000' in x['text']" &&
        both moved unknown 8192 "$data,quirks=peer-swap" &&
        both moved moved 8192 "$store,threads=2,quirks=peer-swap"
}

late() {
    both late zeros 4096 "$store,quirks=peer-late" && row ssd_to_gpu "'equal' in x['text'] and 'ms later' in x['text']" &&
        both late unknown 4096 "$data,quirks=peer-late" &&
        both late zeros 4096 "$store,lba=512,quirks=peer-late"
}

# The guard is random, too: its first bytes may be what the write leaves.
stray() {
    proves 4 "soft:$store,quirks=peer-stray" --json && row ssd_to_gpu "x['fault'] == 'stray' and x['bytes'] == 4096" &&
        row ssd_to_gpu "any(f'{n} bytes behind the end' in x['text'] for n in range(8))" && row gpu_to_ssd "x['outcome'] == 'equal'" &&
        proves 4 "soft:$data,quirks=peer-stray" && says "memory beside them was written" &&
        proves 4 "soft:$data,lba=512,quirks=peer-stray" && says "stray"
}

# A controller that refuses a command, and one whose Compare always succeeds
refused_commands() {
    echo 'on write nth 2 count 99: status 0x004 dnr' >"$SCRATCH/faults"
    proves 3 "soft:$store,faults=$SCRATCH/faults" && says "the command failed: Data Transfer Error (004)" &&
        echo 'on any opcode 5 count 9999: status 0x285 dnr' >"$SCRATCH/faults" &&
        proves 4 "soft:$data,faults=$SCRATCH/faults" && says "Compare Failure" &&
        echo 'on any opcode 5 count 9999: status 0x002 dnr' >"$SCRATCH/faults" &&
        proves 3 "soft:$data,faults=$SCRATCH/faults" && says "the command failed: Invalid Field in Command (002)"
}

lost_commands() {
    echo 'on any opcode 5: drop' >"$SCRATCH/faults"
    proves 66 "soft:$data,faults=$SCRATCH/faults" && warns "no completion after"
}

check "words that are all ones are found in both directions" ones
check "pages that do not arrive are found in both directions" dropped
check "pages that are exchanged are found in both directions" swapped
check "data that arrive late are found in both directions" late
check "a write beside the data is found" stray
check "a command that fails is named" refused_commands
check "a lost command ends the comparison" lost_commands

# ---- refusals

usage() {
    exits 64 topo --prove host:1 && warns "--prove takes a GPU and an SSD" &&
        exits 64 topo --from "$data" --prove GPU0 NVME0 && warns "moves data on this machine; not together with --from" &&
        exits 64 topo --prove GPU0 NVME0 --from "$data" && warns "not together with --from" &&
        exits 64 topo --prove GPU0 NVME0 box.txt && warns "unexpected argument" &&
        exits 64 topo --prove GPU0 NVME0 --fix && warns "not together with --prove" &&
        exits 64 topo --prove host:1 "soft:$data" --format dot && warns "text or json" &&
        exits 64 topo --prove host:1 "soft:$data" --scratch 1M,1M && warns "--force" &&
        exits 64 topo --prove host:1 "soft:$data" --scratch 1M,100 --force && warns "FIRST,BYTES" &&
        exits 64 topo --prove host:1 "soft:$data" --force && warns "only together with --scratch" &&
        exits 64 topo --prove host:1 "soft:$store" --scratch 1M,1M --force && warns "has an object store" &&
        exits 64 topo --prove host:1 sotf:x && exits 64 topo --prove host:x "soft:$data"
}

absent() {
    exits 66 topo --prove host:1 "soft:$SCRATCH/none.img" && warns "No such file" &&
        exits 66 topo --prove host:1 soft:null,size=16M && warns "keeps no data" &&
        exits 66 topo --prove cuda:99 "soft:$data" && exits 66 topo --prove host:1 "soft:$data" --nsid 7 &&
        warns "no active namespace 7"
}

outside() {
    exits 66 topo --prove host:1 "soft:$data" --scratch 64M,1M --force && warns "beyond the end"
}

# On this machine: no GPU, a bridge of the host, a function that the topology blocks, a disk that is none
on_this_machine() {
    local host=0000:00:00.0 other
    "$HEADRACE" topo --json >"$SCRATCH/machine" 2>/dev/null
    other=$(python3 -c 'import json, sys
r = json.load(open(sys.argv[1]))
print(next((f["address"] for f in r["functions"] if f["facts"]["class"]["value"] >> 16 != 6), ""))' "$SCRATCH/machine") || return 0
    [ -n "$other" ] || return 0
    exits 64 topo --prove "$other" "$other" && warns "the same function twice" || return 1
    grep -q "\"address\": \"$host\"" "$SCRATCH/machine" || return 0
    exits 64 topo --prove "$host" "$other" && warns "a bridge has no memory for SSDs" || return 1
    grep -q '"name": "GPU0"' "$SCRATCH/machine" || { exits 6 topo --prove GPU0 "$other" && warns "no GPU in this machine"; }
}

check "usage errors are refused, and nothing is read from a capture" usage
check "functions of this machine that cannot be compared are refused" on_this_machine
check "devices that do not exist are named" absent
check "a range outside of the disk is refused" outside

# ---- post

# conf SSD [LINE]
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
${2-}
ssds = ( { name = "a"; device = "soft:$1"; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "p"; source = { object = "in"; }; operator = "copy"; sink = { object = "out"; }; } );
CONF
}

# step CODE TEXT: post ends with the code, and its line about data has the text
step() {
    exits "$1" post "$SCRATCH/x.conf" || return 1
    grep "peer_data  g a" "$SCRATCH/out" >"$SCRATCH/line"
    grep -qF -- "$2" "$SCRATCH/line" || { echo "no '$2'"; return 1; }
}

post_proves() {
    conf "$store" && step 0 "OK " && step 0 "SSD writes GPU memory: equal, 4 to " && step 0 "SSD reads GPU memory: equal, 4 to "
}

post_finds() {
    conf "$store,quirks=peer-ones" && step 4 "FAIL" && step 4 "all ones: the read was aborted" &&
        conf "$store,quirks=peer-drop" && step 4 "stale" && conf "$store,quirks=peer-swap" && step 4 "moved" &&
        conf "$store,quirks=peer-late" && step 4 "late" && conf "$data,quirks=peer-stray" && step 4 "stray"
}

post_skips() {
    conf "$data,quirks=no-compare" && unchanged "$data" step 0 "SKIP" && step 0 "not proven: there is no store" &&
        conf "$blank" && step 0 "SKIP" && conf "$store,quirks=peer-ones" 'memory = { path = "bounce"; };' &&
        step 0 'memory.path is "bounce"'
}

check "the self-test compares data of each gpu and ssd" post_proves
check "the self-test finds each fault of a path" post_finds
check "the self-test does not pass what it cannot prove" post_skips

done_testing
