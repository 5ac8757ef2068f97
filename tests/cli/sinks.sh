#!/bin/bash
# Sinks: `check` refuses what `run` refuses, a refused run leaves nothing behind, incomplete objects are
# told of and collected, and `boot` does not try again what cannot change.
# Environment: HEADRACE, the binary under test; SCRATCH, an empty folder.
# shellcheck disable=SC2016  # an inner shell expands
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
cd "$SCRATCH" || exit 1

store() { timeout -k 5 60 "$HEADRACE" store "$@"; }
headrace() { timeout -k 5 120 "$HEADRACE" "$@"; }

# exits CODE TEXT COMMAND...: exit code, and a piece of what is said
exits() {
    local want=$1 text=$2 said code
    shift 2
    said=$("$@" 2>&1)
    code=$?
    [ "$code" -eq "$want" ] || { echo "exit code $code, not $want: $said"; return 1; }
    grep -qF -e "$text" <<<"$said" || { echo "'$text' is not in: $said"; return 1; }
}

# unchanged IMAGE COMMAND...: the command must not write to the image
unchanged() {
    local image=$1 before
    before=$(sha256sum <"$image")
    shift
    "$@" || return 1
    [ "$(sha256sum <"$image")" = "$before" ] || { echo "$image was written to"; return 1; }
}

objects() { store ls "$1" | awk 'NR > 1 { print $5 ":" $4 }' | sort | tr '\n' ' '; }
holds() { [ "$(objects "$1")" = "$2" ] || { echo "has $(objects "$1")"; return 1; }; }
both_refuse() { # both_refuse CODE TEXT CONFIG: check and run, with the same words
    unchanged s.img exits "$1" "$2" headrace check "$3" || return 1
    exits "$1" "$2" headrace run "$3"
}

# make OBJECTS [SIZE]: an image with room for so many, and 4 MiB of it are object `in`
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

# ---- what is refused

echo "$devices pipelines = ( $(pipe p1 in one), $(pipe p2 in two), $(pipe p3 in three) );" >three.conf
no_room() {
    make 16 && store put soft:s.img more in.4M >/dev/null || return 1
    both_refuse 1 "object 'three' of 4194304 bytes cannot be created on ssd 'a': there is no room" \
        three.conf && holds soft:s.img "in:whole more:whole "
}
check "three sinks where two fit: check and run refuse, and nothing is left" no_room
full_map() {
    make 2 || return 1
    both_refuse 1 "object 'two' of 4194304 bytes cannot be created on ssd 'a': the object map is full" \
        three.conf && holds soft:s.img "in:whole "
}
check "a full object map is called so" full_map
check "and not by an error of the system" bash -c \
    '! "$0" run three.conf 2>&1 | grep -i "open files"' "$HEADRACE"

echo "$devices pipelines = ( $(pipe p1 in one), $(pipe p2 in taken) );" >taken.conf
taken() {
    make 16 && store put soft:s.img taken in.4M >/dev/null || return 1
    both_refuse 1 "object 'taken' exists on ssd 'a', and is not of this run: 'headrace store put'" \
        taken.conf && holds soft:s.img "in:whole taken:whole "
}
check "a second sink that is taken: the first is not created" taken

# A source that is the sink of an earlier pipeline: what is there is judged all the same.
echo "$devices pipelines = ( $(pipe p1 in one), $(pipe p2 one two) );" >chain.conf
chained() {
    make 16 && exits 0 "" headrace run chain.conf || return 1
    exits 0 "whole: nothing to do" headrace check chain.conf || return 1
    store rm soft:s.img one || return 1
    both_refuse 1 "object 'two' exists on ssd 'a', and is not of this run: its source 'one' is made anew" \
        chain.conf && holds soft:s.img "in:whole two:whole "
}
check "a chain of pipelines is judged by check, too" chained
newer() {
    make 16 32M && exits 0 "" headrace run chain.conf && store put --replace soft:s.img in in.4M >/dev/null || return 1
    both_refuse 1 "object 'one' exists on ssd 'a', and is not of this run: its source 'in' was stored after it" \
        chain.conf
}
check "a source that is newer is named" newer
other_arguments() {
    make 16 && exits 0 "" headrace run chain.conf || return 1
    sed 's/64K/128K/' chain.conf >other.conf
    both_refuse 1 "operator, arguments, sources or tile size" other.conf
}
check "other arguments are named" other_arguments

# ---- boot

boots_once() {
    make 16 && store put soft:s.img taken in.4M >/dev/null || return 1
    echo "$(cat taken.conf) boot = { post = \"off\"; restarts = 3; backoff = \"5s\"; };" >boot.conf
    exits 1 "which a restart does not change" timeout 60 "$HEADRACE" boot boot.conf &&
        holds soft:s.img "in:whole one:whole taken:whole "
}
check "boot runs what it can, and does not try again what cannot change" boots_once

# ---- incomplete objects

# cut NAME: an incomplete object of 4 MiB
cut_put() {
    mkfifo fifo
    "$HEADRACE" store put --size 4M soft:s.img "$1" - <fifo >/dev/null 2>&1 &
    exec 3>fifo
    head -c 1M /dev/zero >&3 # more than a pipe holds: put has begun to read
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
check "no room names the command that makes some" hints
check "rm without a name needs --pending" exits 2 "which objects" store rm soft:s.img
check "--older-than needs --pending" exits 2 "--older-than" store rm --older-than 1h soft:s.img in
check "and an age" exits 2 "out of range" store rm --pending --older-than soon soft:s.img
check "young ones stay" exits 0 "0 incomplete objects removed" \
    store rm --pending --older-than 1h soft:s.img
check "all of them" holds soft:s.img "c1:incomplete c2:incomplete in:whole "
check "old ones go" exits 0 "2 incomplete objects removed, 8388608 bytes" \
    bash -c 'sleep 0.01; "$0" store rm --pending --older-than 5ms soft:s.img' "$HEADRACE"
check "whole ones stay" holds soft:s.img "in:whole "
check "none is no mistake" exits 0 "0 incomplete objects removed" store rm --pending soft:s.img
collects() {
    make 16 && cut_put junk && cut_put one || return 1
    echo "$devices pipelines = ( $(pipe p1 in one) );
        boot = { post = \"off\"; collect = \"1ms\"; };" >collect.conf
    exits 1 "object 'one' is incomplete on ssd 'a', and is not of this run" headrace run collect.conf &&
        holds soft:s.img "in:whole junk:incomplete one:incomplete " || return 1
    exits 0 "1 incomplete object of 4194304 bytes older than boot.collect removed" \
        timeout 60 "$HEADRACE" boot collect.conf && holds soft:s.img "in:whole one:whole "
}
check "boot.collect removes them, and run does not" collects

done_testing
