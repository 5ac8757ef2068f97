#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Sinks: `check` refuses the same configurations as `run`, a refused run leaves no object, incomplete
# objects are reported and collected, and `boot` does not retry permanent failures.
# Environment: HEADRACE, the binary under test; SCRATCH, an empty folder.
# shellcheck disable=SC2016  # an inner shell expands
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/store.sh
. "$(dirname "$0")/lib/store.sh"
cd "$SCRATCH" || exit 1

headrace() { timeout -k 5 120 "$HEADRACE" "$@"; }

# Without the history of runs, an object of the appliance.
objects() { store ls "$1" | awk 'NR > 1 && $5 != "headrace.history" { print $5 ":" $4 }' | sort | tr '\n' ' '; }
holds() { [ "$(objects "$1")" = "$2" ] || { echo "has $(objects "$1")"; return 1; }; }
both_refuse() { # both_refuse CODE TEXT CONFIG: check and run, with the same message
    unchanged s.img exits "$1" "$2" headrace check "$3" || return 1
    exits "$1" "$2" headrace run "$3"
}

# make OBJECTS [SIZE]: an image for that many objects, with an object `in` of 4 MiB
make() {
    rm -f s.img
    store format --objects "$1" "soft:s.img,size=${2:-16M}" >/dev/null &&
        store put soft:s.img in in.4M >/dev/null
}
head -c 4M /dev/urandom >in.4M

devices='ssds = ( { name = "a"; device = "soft:s.img"; } );
gpus = ( { name = "g"; device = "host:1"; } );'
pipe() { # pipe NAME FROM TO [MORE]
    echo "{ name = \"$1\"; source = { object = \"$2\"; }; operator = \"copy\";
        sink = { object = \"$3\"; ${4:-} }; tile = \"64K\"; slots = 4; }"
}

# ---- refusals

echo "$devices pipelines = ( $(pipe p1 in one), $(pipe p2 in two), $(pipe p3 in three) );" >three.conf
no_room() {
    make 16 && store put soft:s.img more in.4M >/dev/null || return 1
    both_refuse 1 "object 'three' of 4194304 bytes cannot be created on ssd 'a': soft:s.img: 'three': no room for 4194304 bytes: the largest gap has 3145728" \
        three.conf && holds soft:s.img "in:whole more:whole "
}
check "check and run refuse three sinks where two fit, and create no object" no_room
full_map() {
    make 2 || return 1
    both_refuse 1 "object 'two' of 4194304 bytes cannot be created on ssd 'a': soft:s.img: 'two': the object map is full (2 objects)" \
        three.conf && holds soft:s.img "in:whole "
}
check "the error of a full object map names the map" full_map
check "the error of a full object map has no text of an errno" bash -c \
    '! "$0" run three.conf 2>&1 | grep -i "open files"' "$HEADRACE"

echo "$devices pipelines = ( $(pipe p1 in one), $(pipe p2 in taken) );" >taken.conf
taken() {
    make 16 && store put soft:s.img taken in.4M >/dev/null || return 1
    both_refuse 1 "object 'taken' exists on ssd 'a', and is not of this run: 'headrace store put'" \
        taken.conf && holds soft:s.img "in:whole taken:whole "
}
check "an existing second sink is refused, and the first sink is not created" taken

# A source that is the sink of an earlier pipeline: an existing object of that name is checked, too.
echo "$devices pipelines = ( $(pipe p1 in one), $(pipe p2 one two) );" >chain.conf
chained() {
    make 16 && exits 0 "" headrace run chain.conf || return 1
    exits 0 "already complete: nothing to do" headrace check chain.conf || return 1
    store rm soft:s.img one || return 1
    both_refuse 1 "object 'two' exists on ssd 'a', and is not of this run: its source 'one' is made again" \
        chain.conf && holds soft:s.img "in:whole two:whole "
}
check "check also evaluates a chain of pipelines" chained
newer() {
    make 16 32M && exits 0 "" headrace run chain.conf && store put --replace soft:s.img in in.4M >/dev/null || return 1
    both_refuse 1 "object 'one' exists on ssd 'a', and is not of this run: its source 'in' was stored after it" \
        chain.conf
}
check "a source newer than its incomplete sink is named" newer
other_arguments() {
    make 16 && exits 0 "" headrace run chain.conf || return 1
    sed 's/64K/128K/' chain.conf >other.conf
    both_refuse 1 "operator, arguments, sources or tile size" other.conf
}
check "changed arguments of an incomplete sink are named" other_arguments

# ---- boot

boots_once() {
    make 16 && store put soft:s.img taken in.4M >/dev/null || return 1
    echo "$(cat taken.conf) boot = { post = \"off\"; restarts = 3; backoff = \"5s\"; };" >boot.conf
    exits 1 "which a restart does not change" timeout 200 "$HEADRACE" boot boot.conf &&
        holds soft:s.img "in:whole one:whole taken:whole "
}
check "boot runs the valid pipelines and does not retry permanent failures" boots_once

# ---- incomplete objects

# cut NAME: an incomplete object of 4 MiB
cut_put() {
    mkfifo fifo
    "$HEADRACE" store put --size 4M soft:s.img "$1" - <fifo >/dev/null 2>&1 &
    exec 3>fifo
    head -c 1M /dev/zero >&3 # more than fits a pipe, so put has begun to read
    kill -KILL $!
    wait $!
    exec 3>&-
    rm fifo
} 2>/dev/null
told() {
    make 16 && cut_put c1 && cut_put c2 || return 1
    holds soft:s.img "c1:incomplete c2:incomplete in:whole " || return 1
    exits 0 "incomplete                8388608 in 2 objects" store df soft:s.img || return 1
    store df --json soft:s.img >df.json &&
        python3 -c 'import json; d = json.load(open("df.json"))
assert d["pending_bytes"] == 8 << 20 and d["pending_objects"] == 2, d'
}
check "df counts incomplete objects" told
hints() {
    both_refuse 1 "2 incomplete objects hold 8388608 bytes: 'headrace store rm --pending soft:s.img' removes" \
        three.conf && exits 1 "headrace store rm --pending soft:s.img" store put soft:s.img big in.4M
}
check "the error of a full store names the command that frees space" hints
check "rm without a name needs --pending" exits 2 "no object given" store rm soft:s.img
check "--older-than needs --pending" exits 2 "--older-than" store rm --older-than 1h soft:s.img in
check "rm --older-than needs a valid age" exits 2 "out of range" store rm --pending --older-than soon soft:s.img
check "rm --pending --older-than keeps younger objects" exits 0 "0 incomplete objects removed" \
    store rm --pending --older-than 1h soft:s.img
check "all objects are kept" holds soft:s.img "c1:incomplete c2:incomplete in:whole "
check "rm --pending --older-than removes older objects" exits 0 "2 incomplete objects removed, 8388608 bytes" \
    bash -c 'sleep 0.01; "$0" store rm --pending --older-than 5ms soft:s.img' "$HEADRACE"
check "rm --pending keeps whole objects" holds soft:s.img "in:whole "
check "rm --pending without incomplete objects succeeds" exits 0 "0 incomplete objects removed" store rm --pending soft:s.img
collects() {
    make 16 && cut_put junk && cut_put one || return 1
    echo "$devices pipelines = ( $(pipe p1 in one) );
        boot = { post = \"off\"; collect = \"1ms\"; };" >collect.conf
    exits 1 "object 'one' is incomplete on ssd 'a', and is not of this run" headrace run collect.conf &&
        holds soft:s.img "in:whole junk:incomplete one:incomplete " || return 1
    exits 0 "1 incomplete object of 4194304 bytes older than boot.collect removed" \
        timeout 200 "$HEADRACE" boot collect.conf && holds soft:s.img "in:whole one:whole "
}
check "boot.collect removes incomplete objects, and run keeps them" collects

done_testing
