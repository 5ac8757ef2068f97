#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The models of this folder, checked by spin in all interleavings; and models with a planted mistake,
# in which spin must find an error. TAP. Needs spin and gcc, and is faster with tcc; SCRATCH is an empty folder.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
count=0 failed=0
command -v spin >/dev/null || { echo "ok 1 - models # SKIP spin is not installed"; echo "1..1"; exit 0; }

# The search is short, compared with the compilation: tcc compiles a verifier in 20 ms, gcc in 1 to 10 s; the
# search takes twice as long.
short=0
search=(-DSAFETY) # of the verifier, when it is compiled and when it runs
options=()

# searches_cycles: look for runs that go on for ever without progress, where each process gets its turn
searches_cycles() {
    search=(-DNP -DNFAIR=3) options=(-l -f)
}

# verify MODEL DEFINITION...: spin's verifier over the model; its report is in $SCRATCH/report
verify() {
    local model=$1
    shift
    rm -rf "$SCRATCH/work" && mkdir "$SCRATCH/work" && cd "$SCRATCH/work" || return 1
    local compiler=(gcc -O1) table=24
    if [ "$short" = 1 ]; then
        table=20 compiler=(gcc -O0)
        ! command -v tcc >/dev/null || compiler=(tcc)
    fi
    spin -a "$@" "$model" >"$SCRATCH/report" 2>&1 &&
        "${compiler[@]}" -w "${search[@]}" -DVECTORSZ=2048 -DMEMLIM=2048 -o pan pan.c \
            >>"$SCRATCH/report" 2>&1 &&
        ./pan -m200000 "-w$table" "${options[@]}" >>"$SCRATCH/report" 2>&1
}

result() {
    count=$((count + 1))
    [ "$1" = 0 ] || failed=1
    [ "$1" = 0 ] && echo "ok $count - $2" && return
    echo "not ok $count - $2"
    sed 's/^/# /' "$SCRATCH/report" | head -n 40
}

# holds NAME MODEL DEFINITION...: no error, all states searched, no step of a process left out
holds() {
    local name=$1 model=$2 bad=0
    shift 2
    verify "$here/$model" "$@" && grep -q "errors: 0" "$SCRATCH/report" &&
        ! grep -qE "Search not completed|max search depth|out of memory" "$SCRATCH/report" || bad=1
    result $bad "$name ($(sed -n 's/ states, stored.*//p' "$SCRATCH/report" | tr -d ' ') states)"
}

# finds NAME MODEL SED TEXT DEFINITION...: the edited model differs, and spin reports TEXT
finds() {
    local name=$1 model=$2 edit=$3 text=$4 bad=0 short=1
    shift 4
    sed "$edit" "$here/$model" >"$SCRATCH/$model"
    : >"$SCRATCH/report"
    ! cmp -s "$here/$model" "$SCRATCH/$model" || bad=1
    [ $bad = 1 ] || verify "$SCRATCH/$model" "$@"
    grep -q "$text" "$SCRATCH/report" || bad=1
    result $bad "a mistake is found: $name"
}

# breaks NAME TEXT DEFINITION...: a definition removes a rule from the model of several gpus; spin reports
# TEXT
breaks() {
    local name=$1 text=$2 bad=0 short=1
    shift 2
    verify "$here/peers.pml" "$@"
    grep -q "$text" "$SCRATCH/report" || bad=1
    result $bad "a mistake is found: $name"
}

holds "page cache: no wait is endless" page_cache.pml -DACCESSES=1
holds "page cache: frames, writes and reads, epochs move at any time" page_cache.pml -DACCESSES=1 \
    -DFREE_EPOCHS
holds "page cache: pages that are written as a whole are not read" page_cache.pml -DACCESSES=1 -DWHOLE
finds "a page that is being filled is dirty" page_cache.pml \
    's/state\[way\] = READING; frame_page\[way\]/state[way] = DIRTY; frame_page[way]/' \
    "assertion violated" -DACCESSES=1 -DWHOLE
finds "a frame is used again one epoch early" page_cache.pml 's/NOW + 2 - seen/NOW + 1 - seen/' \
    "assertion violated" -DACCESSES=1 -DFREE_EPOCHS
finds "write-back does not wait for writers" page_cache.pml \
    's/!writes\[w\] && PASSED(wait_for\[w\]) -> post/!writes[w] -> post/' \
    "assertion violated" -DACCESSES=2
finds "a waiting worker does not publish its epoch" page_cache.pml '/seen\[me\] > 0 -> quiescent(me)/d' \
    "invalid end state" -DACCESSES=2
finds "a dirty page is removed" page_cache.pml \
    's/:: state\[w\] == READY || IS_OFFERED(w) ->$/:: state[w] >= READY ->/' \
    "assertion violated" -DACCESSES=2
finds "the owner adds a page without a search" page_cache.pml \
    's/:: PRESENT(p)$/:: false/; s/:: !PRESENT(p) -> kept/:: true -> kept/
     s/&& !PRESENT(kept) && state/\&\& state/' \
    "assertion violated" -DACCESSES=1 -DWAYS=2

holds "several gpus: two gpus read and write a page, and remove it" peers.pml -DACCESSES=2 -DEVICTIONS=1
holds "several gpus: two pages, one frame each" peers.pml -DACCESSES=2 -DPAGES=2
holds "several gpus: a page in two ways of a gpu" peers.pml -DWAYS=2 -DEVICTIONS=1
holds "several gpus: three gpus" peers.pml -DGPUS=3
short=1 holds "several gpus: a reader and a writer on a gpu" peers.pml -DWORKERS=3 -DWRITERS=4 -DREADERS=3
short=1 holds "several gpus: few commands" peers.pml -DACCESSES=2 -DPAGES=2 -DWAYS=2 -DCROSS
breaks "an epoch does not wait for workers of other gpus" "assertion violated" -DACCESSES=2 -DEVICTIONS=1 \
    -DEPOCH_OF_ONE_GPU
breaks "DROP is sent before the epoch has passed" "assertion violated" -DACCESSES=2 -DDROP_EARLY
breaks "a frame is used again before DROPPED" "assertion violated" -DACCESSES=2 -DREUSE_EARLY
breaks "DROP does not wait for a copy" "assertion violated" -DACCESSES=2 -DEVICTIONS=1 -DDROP_DURING_COPY
breaks "a WANTS does not wait for a FILLING one" "assertion violated" -DACCESSES=2 -DFILL_TWICE
breaks "GRANT does not wait for transfers to others" "assertion violated" -DACCESSES=2 \
    -DWRITE_DURING_TRANSFER
breaks "a writer does not look at SHARED" "assertion violated" -DACCESSES=2 -DWRITERS_IGNORE_SHARED
breaks "CLEANED is sent before the page is written" "assertion violated" -DACCESSES=2 -DCLEANED_UNWRITTEN
breaks "write-back of a page for CLEAN does not wait for writers" "assertion violated" -DACCESSES=2 \
    -DWRITE_EARLY
breaks "the home sends without room" "assertion violated" -DACCESSES=2 -DNO_ROOM -DRING=1
breaks "the home counts one answer too few" "assertion violated" -DACCESSES=2 -DROOM=1 -DRING=1
breaks "a GET takes the last command" "invalid end state" -DACCESSES=2 -DPAGES=2 -DWAYS=2 -DCROSS \
    -DNO_RESERVE -DCOMMANDS=1
breaks "a writer does not ask again for a SHARED page" "invalid end state" -DWORKERS=3 -DWRITERS=4 \
    -DREADERS=3 -DNO_REPEAT
searches_cycles
holds "several gpus: two gpus that write to one page make progress" peers.pml -DACCESSES=2
breaks "CLEAN and INVALIDATE do not wait for workers that wait for the page" "non-progress cycle" \
    -DACCESSES=2 -DNO_GRACE
echo "1..$count"
[ $failed = 0 ]
