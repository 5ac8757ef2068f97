#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Sources of configurations and the folders of the files they name; files that are opened, created
# or left unchanged; suggestions in messages.
# Environment: HEADRACE, the binary under test; SCRATCH, an empty folder.
# shellcheck disable=SC2016  # an inner shell expands
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
cd "$SCRATCH" || exit 1

# ends CODE TEXT COMMAND...: exit code, and a part of the output
ends() {
    local want=$1 text=$2 said code
    shift 2
    said=$(timeout -k 5 200 "$@" 2>&1)
    code=$?
    [ "$code" -eq "$want" ] || { echo "exit code $code, not $want: $said"; return 1; }
    grep -qF -e "$text" <<<"$said" || { echo "'$text' is not in: $said"; return 1; }
}

mkdir conf else
head -c 100000 /dev/urandom >in
"$HEADRACE" store format soft:conf/s.img,size=16M >/dev/null
"$HEADRACE" store put soft:conf/s.img in in >/dev/null
write() { # write DEVICE FILE
    cat >"$2" <<CONF
ssds = ( { name = "a"; device = "$1"; } );
gpus = ( { name = "g"; device = "host:1"; } );
pipelines = ( { name = "p"; source = { object = "in"; }; operator = "crc32c"; } );
CONF
}
write soft:s.img conf/x.conf
write soft:conf/s.img pipe.conf

# ---- configurations from pipes

check "a configuration from standard input" ends 0 "p" bash -c '"$0" check - <pipe.conf' "$HEADRACE"
check "a configuration from a pipe" ends 0 "p" bash -c 'cat pipe.conf | "$0" run -' "$HEADRACE"
check "a configuration from a slow pipe" ends 0 "p" bash -c '(sleep 0.3; cat pipe.conf) | "$0" run -' "$HEADRACE"
check "a configuration from process substitution" ends 0 "p" bash -c '"$0" run <(sleep 0.2; cat pipe.conf)' "$HEADRACE"
named_pipe() {
    mkfifo fifo && { (sleep 0.2; cat pipe.conf >fifo) & ends 0 "p" "$HEADRACE" run fifo; }
}
check "a configuration from a named pipe" named_pipe
check "mistakes of a configuration from a pipe have lines" ends 2 "standard input:2: zzz: unknown key" \
    bash -c 'printf "\nzzz = 1;\n" | "$0" check -' "$HEADRACE"
check "an empty configuration is refused with the missing key" ends 2 "key 'ssds' is missing" \
    bash -c '"$0" check - </dev/null' "$HEADRACE"
check "an endless configuration is refused by its length" ends 2 "longer than" bash -c '"$0" check - </dev/zero' "$HEADRACE"

# ---- files are found from the folder of the configuration

check "an image is found from the folder of the configuration" ends 0 "p" "$HEADRACE" run conf/x.conf
check "an image is found from any working directory" ends 0 "p" bash -c 'cd else && "$0" run ../conf/x.conf' "$HEADRACE"
check "store --config finds the image, too" ends 0 "in" \
    bash -c 'cd else && "$0" store ls --config ../conf/x.conf a' "$HEADRACE"
write "soft:$PWD/conf/s.img" else/absolute.conf
check "an absolute path of an image is used unchanged" ends 0 "p" "$HEADRACE" run else/absolute.conf
faults() {
    echo "on read nth 1: status 0x281 dnr" >conf/faults
    write soft:s.img,faults=faults,mdts=4 conf/faults.conf
    ends 4 "Unrecovered Read Error" "$HEADRACE" run conf/faults.conf
}
check "a fault script is found from the folder of the configuration" faults

# ---- files that are created

write soft:none.img,size=16M none.conf
not_made() {
    ends 3 "'headrace store format' with size= makes one" "$@" && [ ! -e none.img ]
}
check "check creates no image" not_made "$HEADRACE" check none.conf
check "run creates no image" not_made "$HEADRACE" run none.conf
check "post creates no image" ends 3 "" "$HEADRACE" post none.conf
for verb in ls df verify; do
    check "store $verb creates no image" ends 3 "cannot open" "$HEADRACE" store $verb soft:none.img,size=16M
done
check "store put creates no image" ends 3 "cannot open" "$HEADRACE" store put soft:none.img,size=16M a in
check "no image exists afterwards" test ! -e none.img
reads_only() {
    chmod 444 conf/s.img
    # Root may write in any case, so the test checks how the file is opened.
    ends 0 "in" "$HEADRACE" store ls soft:conf/s.img || return 1
    if command -v strace >/dev/null && strace -o trace -e trace=openat "$HEADRACE" store ls soft:conf/s.img >/dev/null 2>&1; then
        grep 's\.img' trace | grep RDONLY >/dev/null || { cat trace; return 1; }
    fi
    chmod 644 conf/s.img
}
check "store ls opens an image for reading only" reads_only
# A lock for reading: other processes may read meanwhile, but not write.
readers() {
    local code
    exec 5<conf/s.img
    flock -s 5
    for verb in ls df "verify --quiet"; do
        # shellcheck disable=SC2086
        ends 0 "" "$HEADRACE" store $verb soft:conf/s.img || return 1
    done
    ends 0 "in" "$HEADRACE" store get --force soft:conf/s.img in back 2>/dev/null || cmp in back || return 1
    ends 3 "in use" "$HEADRACE" store rm soft:conf/s.img in
    code=$?
    exec 5<&-
    return $code
}
check "several readers share an image, a writer is refused" readers

# ---- FIFOs and devices in place of files

# at_once CODE TEXT ARGUMENTS...: headrace ends within seconds, with that text
at_once() {
    local said code
    said=$(timeout -k 1 60 "$HEADRACE" "${@:3}" 2>&1)
    code=$?
    [ "$code" -eq "$1" ] && grep -qF -e "$2" <<<"$said" && return 0
    echo "${*:3}: exit code $code: $said"
    return 1
}
mkfifo silent
no_image() {
    local file=$1 kind=$2 verb
    for verb in ls df verify; do
        at_once 2 "$file: is a $kind, expected a file" store $verb "soft:$file" || return 1
    done
    at_once 2 "$file: is a $kind, expected a file" store format "soft:$file,size=64M" || return 1
    write "soft:$file" odd.conf
    at_once 2 "is a $kind, expected a file" check odd.conf && at_once 2 "is a $kind, expected a file" run odd.conf
}
check "an image that is a FIFO is refused at once" no_image silent FIFO
check "an image that is a device is refused at once" no_image /dev/tty device
no_script() {
    write "soft:conf/s.img,faults=$1" odd.conf
    at_once 2 "is a $2, expected a file" check odd.conf &&
        at_once 2 "is a $2, expected a file" store ls "soft:conf/s.img,faults=$1"
}
check "a fault script that is a FIFO is refused at once" no_script silent FIFO
check "a fault script that is a device is refused at once" no_script /dev/zero device
no_operator() {
    { echo 'operators = ( { name = "x"; file = "silent"; } );' && cat pipe.conf; } >odd.conf
    at_once 2 "operators[0].file: './silent' is a FIFO, expected a file" check odd.conf
}
check "an operator file that is a FIFO is refused at once" no_operator
check "a configuration that is a device is refused" at_once 2 "/dev/tty: is a device, expected a file" check /dev/tty
check "a configuration from a FIFO without a writer is not waited for" \
    at_once 2 "silent: is a FIFO that no process has opened" check silent
capture() {
    at_once 65 "silent: is a FIFO that no process has opened" topo --from silent &&
        at_once 65 "/dev/tty: is a device, expected a file" topo --from /dev/tty
}
check "a capture that is a FIFO without a writer, or a device" capture
unknown_length() {
    at_once 2 "silent: its length is unknown" store put soft:conf/s.img x silent &&
        at_once 2 "/dev/zero: its length is unknown" store put soft:conf/s.img x /dev/zero
}
check "put needs the length of a FIFO or device, and does not open it before" unknown_length
rm silent
own_image() {
    (umask 022 && "$HEADRACE" store format soft:own.img,size=16M >/dev/null) && [ "$(stat -c %a own.img)" = 600 ]
}
check "a new image belongs to its owner alone" own_image

# ---- suggestions

check "a subcommand of store in place of a command" ends 2 "did you mean 'store verify'?" "$HEADRACE" verify
check "the error of a misspelt command suggests a command" ends 2 "did you mean 'check'?" "$HEADRACE" chek
check "an image without soft:" ends 2 "did you mean 'soft:conf/s.img'?" "$HEADRACE" store ls conf/s.img
check "a function without pci:" ends 2 "did you mean 'pci:0000:01:00.0'?" "$HEADRACE" store ls 0000:01:00.0

# ---- limits and odd machines

small() { # small MDTS ENTRIES: the tile that is chosen fits commands and queues
    cat >conf/small.conf <<CONF
ssds = ( { name = "a"; device = "soft:s.img,mdts=$1"; queue_entries = $2; } );
gpus = ( { name = "g"; device = "host:1"; } );
pipelines = ( { name = "p"; source = { object = "in"; }; operator = "crc32c"; } );
CONF
    ends 0 "p" "$HEADRACE" run conf/small.conf || return 1
    "$HEADRACE" run --json conf/small.conf | python3 -c 'import json, sys
r = json.load(sys.stdin); print(r["pipelines"][0]["result"]["crc32c"])' >small.crc && cmp small.crc whole.crc
}
"$HEADRACE" run --json conf/x.conf | python3 -c 'import json, sys
r = json.load(sys.stdin); print(r["pipelines"][0]["result"]["crc32c"])' >whole.crc
check "the default tile fits small commands" small 1 64
check "the default tile fits small queues" small 1 4
check "the default tile fits the smallest commands and queues" small 1 2

cat >huge.conf <<CONF
ssds = ( { name = "a"; device = "soft:memory,size=1T";
           objects = ( { name = "in"; bytes = "800G"; } ); } );
gpus = ( { name = "g"; device = "host:1"; } );
CONF
check "objects in memory that the machine does not have are refused at once" \
    ends 2 "huge.conf:2: ssds[0].objects[0]: with object 'in' of 858993459200 bytes" \
    "$HEADRACE" check huge.conf
file_limit() {
    ends 1 "File too large" bash -c 'ulimit -f 16; "$0" store get soft:conf/s.img in limited' "$HEADRACE" &&
        [ ! -e limited ]
}
check "a write beyond the file size limit is an error, not SIGXFSZ" file_limit

done_testing
