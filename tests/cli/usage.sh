#!/bin/bash
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

full_stdout() {
    local got=0
    "$HEADRACE" check >/dev/full 2>"$SCRATCH/err" || got=$?
    [ "$got" = 1 ] && warns "standard output"
}

check "no command: usage on stderr, exit code 2" exits 2
check "an unknown command exits 2" exits 2 chek
check "an unknown command: the nearest command is suggested" warns "did you mean 'check'?"
check "--version" exits 0 --version
check "--help of everything, with exit codes" help_works
check "unknown options" unknown_option
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
check "a full standard output is a failure" full_stdout
long_message() {
    local path
    path=$(printf 'x%.0s' {1..2000})
    exits 2 check "$path"
    [ "$(tail -c 5 "$SCRATCH/err")" = "x..." ] || { echo "the cut does not show"; return 1; }
}
check "a truncated message is marked" long_message
done_testing
