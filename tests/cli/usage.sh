#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Help, versions, wrong usage and wrong configurations: texts and exit codes.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

commands="check run store post bench" # topo has its own exit codes and tests

help_works() {
    exits 0 help && silent && says "usage: headrace COMMAND" || return 1
    exits 0 --help && silent && says "usage: headrace COMMAND" || return 1
    for command in $commands; do
        says "  $command" && exits 0 "$command" --help && silent && says "usage: headrace $command" &&
            says "Exit codes:" && says "  4  device error" && exits 0 help "$command" &&
            says "usage: headrace $command" && exits 0 --help || return 1
    done
}

unknown_option() {
    for command in check run post bench; do
        exits 2 "$command" --bandwidth && warns "unknown option '--bandwidth'" &&
            warns "Try 'headrace $command --help'" || return 1
    done
}

too_many() {
    for command in check run post bench; do
        exits 2 "$command" a.conf b.conf && warns "one configuration expected" || return 1
    done
}

# conf TEXT: a configuration in $SCRATCH/x.conf
conf() {
    printf '%s\n' "$1" >"$SCRATCH/x.conf"
}

devices='ssds = ( { name = "a"; device = "soft:memory,size=64M"; objects = ( { name = "o"; bytes = "1M"; } ); } );
gpus = ( { name = "g"; device = "host:1"; } );'

all_mistakes() {
    conf 'ssds = ( { nam = "a"; device = "soft:memory"; } );
gpus = ( { name = "g"; device = "host:1"; } );
pipelines = ( { name = "p"; source = { object = "o"; };
  operator = "crc32"; slots = 0; } );'
    for command in check run post bench; do
        exits 2 "$command" "$SCRATCH/x.conf" && warns "x.conf:1: ssds[0].nam: unknown key" &&
            warns "x.conf:1: ssds[0]: key 'name' is missing" &&
            warns "x.conf:4: pipelines[0].operator: there is no operator 'crc32'; did you mean 'crc32c'?" &&
            warns "x.conf:4: pipelines[0].slots: is 0, expected an integer from 1 to 1024" || return 1
    done
}

no_object() {
    conf "$devices
pipelines = ( { name = \"p\"; operator = \"crc32c\";
  source = { object = \"oo\"; }; } );"
    exits 2 check "$SCRATCH/x.conf" && warns "x.conf:4: there is no object 'oo' on ssd 'a'"
}

too_small() {
    conf "$devices
memory = { host = \"1M\"; };
pipelines = ( { name = \"p\"; operator = \"crc32c\"; tile = \"256K\"; slots = 4; source = { object = \"o\"; }; } );"
    exits 2 run "$SCRATCH/x.conf" && warns "the partition does not fit" && warns 1048576 &&
        warns "memory.host" && warns "use smaller tiles, fewer slots, or fewer frames"
}

direct() {
    conf "$devices
memory = { path = \"direct\"; };
pipelines = ( { name = \"p\"; operator = \"crc32c\"; source = { object = \"o\"; }; } );"
    exits 3 check "$SCRATCH/x.conf" && warns 'memory.path is "direct"' && warns "CPU threads"
}

no_image() {
    conf "ssds = ( { name = \"a\"; device = \"soft:$SCRATCH/none.img\"; } );
gpus = ( { name = \"g\"; device = \"host:1\"; } );
pipelines = ( { name = \"p\"; operator = \"crc32c\"; source = { object = \"o\"; }; } );"
    exits 3 run "$SCRATCH/x.conf" && warns "none.img" && [ ! -e "$SCRATCH/none.img" ]
}

no_pipeline() {
    exits 2 run --pipeline checksun && warns "there is no pipeline 'checksun'; did you mean 'checksum'?"
}

hostile_name() {
    printf 'a = "\033[31m' >"$SCRATCH/x.conf"
    exits 2 check "$SCRATCH/x.conf" && ! grep -q $'\033' "$SCRATCH/err"
}

# A standard output that is full, or closed by the parent process, makes each command fail.
full_stdout() {
    local words code
    for words in check --version --help help "help check" "check --help"; do
        code=0
        # shellcheck disable=SC2086  # several words
        "$HEADRACE" $words >/dev/full 2>"$SCRATCH/err" || code=$?
        [ "$code" = 1 ] && warns "standard output" || return 1
        code=0
        # shellcheck disable=SC2086
        "$HEADRACE" $words >&- 2>"$SCRATCH/err" || code=$?
        [ "$code" = 1 ] && warns "standard output" || return 1
    done
}

# Messages do not go into an image, whose descriptor would be one of the three.
closed_descriptors() {
    local image=soft:$SCRATCH/closed.img,size=16M
    head -c 100000 /dev/urandom >"$SCRATCH/data"
    exits 0 store format "$image" || return 1
    "$HEADRACE" store put "$image" kept "$SCRATCH/data" <&- >&- 2>&-
    "$HEADRACE" store put "$image" kept "$SCRATCH/data" <&- >&- 2>&- # fails, with a message
    "$HEADRACE" store get "$image" absent "$SCRATCH/none" <&- >&- 2>&-
    exits 0 store verify "$image" && exits 0 store get "$image" kept "$SCRATCH/back" &&
        cmp "$SCRATCH/data" "$SCRATCH/back"
}

check "no command: usage on stderr, exit code 2" exits 2
check "an unknown command exits 2" exits 2 chek
check "an unknown command: the nearest command is suggested" warns "did you mean 'check'?"
check "--version" exits 0 --version
check "--help of everything, with exit codes" help_works
check "unknown options" unknown_option

# near TEXT ARGUMENTS...: a mistyped word is answered with the word that was meant
near() {
    local text=$1 got=0
    shift
    timeout 60 "$HEADRACE" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null || got=$?
    [ "$got" = 2 ] || [ "$got" = 64 ] || { echo "exit code $got"; return 1; }
    warns "$text"
}
check "a mistyped option of run" near "unknown option '--jsno'; did you mean '--json'?" run --jsno
check "a mistyped option of store" near "unknown option '--replac3'; did you mean '--replace'?" store put --replac3 soft:x y z
check "a mistyped option of bench" near "unknown option '--secnds'; did you mean '--seconds'?" bench --secnds 1
check "a mistyped option of topo" near "unknown option '--explian'; did you mean '--explain'?" topo --explian
check "a mistyped kind of ssd" near "did you mean 'soft:x.img,size=64M'?" store ls sotf:x.img,size=64M
check "an option that resembles none" near "unknown option '--frobnicate'" run --frobnicate

quiet_run() {
    exits 0 run -q --pipeline checksum && exits 0 run --quiet --pipeline checksum
}
check "run -q is run --quiet" quiet_run
check "more than one configuration" too_many
check "an option without its value" exits 2 run --pipeline
check "bench: a length out of range" exits 2 bench --seconds 0
for only in read:random: read:random:0 read:random:5000 read:random:8T read:4K write Read:random:4K; do
    check "bench --only $only" exits 2 bench --only "$only"
done
check "all mistakes of a file are reported in one pass, with lines" all_mistakes
check "a missing file" exits 2 check "$SCRATCH/none.conf"
check "a folder in place of a file" exits 2 check "$SCRATCH"
check "a device in place of a file" exits 2 check /dev/zero
check "control characters do not reach the terminal" hostile_name
check "a missing object" no_object
check "a partition that does not fit, with the sum" too_small
check "path direct on the host backend" direct
check "a missing image is not created" no_image
check "a missing pipeline" no_pipeline
check "a full or closed standard output is a failure" full_stdout
check "an image is not written to in place of closed descriptors" closed_descriptors
long_message() {
    local path
    path=$(printf 'x%.0s' {1..2000})
    exits 2 check "$path"
    [ "$(tail -c 5 "$SCRATCH/err")" = "x..." ] || { echo "the cut does not show"; return 1; }
}
check "a truncated message is marked" long_message

# The second run of a chain is refused, so check says it before the first one.
chain() {
    rm -f "$SCRATCH/chain.img"
    cat >"$SCRATCH/chain.conf" <<CONF
ssds = ( { name = "a"; device = "soft:chain.img"; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = (
  { name = "p"; source = { object = "in"; }; operator = "copy"; sink = { object = "out"; replace = true; }; tile = "4K"; },
  { name = "q"; source = { object = "out"; }; operator = "copy"; sink = { object = "end"; $1 }; tile = "4K"; }
);
CONF
    head -c 8192 /dev/zero >"$SCRATCH/zeros"
    exits 0 store format "soft:$SCRATCH/chain.img,size=64M" && exits 0 store put "soft:$SCRATCH/chain.img" in "$SCRATCH/zeros"
}

broken_chain() {
    chain "" && exits 0 check "$SCRATCH/chain.conf" &&
        warns "chain.conf:5: the next run refuses object 'end': pipeline 'q' makes it from 'out', which each run makes again (replace, line 4); set replace = true here, too" &&
        exits 0 run "$SCRATCH/chain.conf" && exits 1 run "$SCRATCH/chain.conf" && warns "object 'end' exists"
}

whole_chain() {
    chain "replace = true;" && exits 0 check "$SCRATCH/chain.conf" && silent && exits 0 run "$SCRATCH/chain.conf" &&
        exits 0 run "$SCRATCH/chain.conf"
}

check "check warns of a chain whose second run would be refused" broken_chain
check "a chain with replace everywhere runs twice" whole_chain

# A file of NumPy, made without it: version 1, with this description.
npy() {
    python3 - "$1" "$2" <<'PY'
import struct, sys
head = ("{'descr': %s, 'fortran_order': False, 'shape': (4,), }" % sys.argv[2]).encode().ljust(117) + b"\n"
open(sys.argv[1], "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack("<4f", 1, 2, 3, 4))
PY
}

containers() {
    local image="soft:$SCRATCH/c.img"
    npy "$SCRATCH/a.npy" "'<f4'" && printf 'PAR1....PAR1' >"$SCRATCH/p" && printf 'ARROW1....ARROW1' >"$SCRATCH/r" &&
        exits 0 store format "$image,size=64M" || return 1
    exits 0 store put "$image" raw "$SCRATCH/a.npy" && warns "is a file of NumPy, stored with its header" && warns "--npy" &&
        exits 0 store put "$image" parquet "$SCRATCH/p" && warns "is a Parquet file" && warns "to_numpy()" &&
        exits 0 store put "$image" arrow "$SCRATCH/r" && warns "is an Arrow file" &&
        exits 0 store put "$image" other /etc/passwd && silent &&
        exits 0 store put --npy "$image" numbers "$SCRATCH/a.npy" && silent && says "numbers: 16 bytes" &&
        exits 0 store get "$image" numbers "$SCRATCH/numbers" && tail -c 16 "$SCRATCH/a.npy" | cmp - "$SCRATCH/numbers" || return 1
    exits 2 store put --npy "$image" x "$SCRATCH/p" && warns "is no file of NumPy" || return 1
    npy "$SCRATCH/b.npy" "'>f4'" && exits 2 store put --npy "$image" x "$SCRATCH/b.npy" && warns "no little-endian numbers" || return 1
    sed "s/False/True /" "$SCRATCH/a.npy" >"$SCRATCH/f.npy" && exits 2 store put --npy "$image" x "$SCRATCH/f.npy" &&
        warns "is in column order"
}
check "files of NumPy, Parquet and Arrow: a warning, and --npy" containers
done_testing
