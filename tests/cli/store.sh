#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The store command on a software ssd: round trips, refusals, interruptions, damage.
# Environment: HEADRACE, the binary under test; SCRATCH, an empty folder.
# shellcheck disable=SC2016  # an inner shell expands
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/store.sh
. "$(dirname "$0")/lib/store.sh"
cd "$SCRATCH" || exit 1

listed() { store ls "$1" | awk -v name="$2" '$5 == name { print $4 }'; }
is_listed() { [ "$(listed "$1" "$2")" = "$3" ] || { store ls "$1"; return 1; }; }

ssd=soft:ssd.img
for bytes in 0 1 511 512 4095 4096 4097 1048576 5000011; do
    head -c "$bytes" /dev/urandom >"in.$bytes"
done

# ---- help and usage

every_help() {
    local verb
    for verb in format put get ls rm mv cp verify df; do
        exits 0 "usage: headrace store $verb" store "$verb" --help || return 1
    done
    exits 0 "usage: headrace store SUBCOMMAND" store --help
}
check "each subcommand has help" every_help
check "no subcommand" exits 2 "subcommand is expected" store
check "a misspelt subcommand" exits 2 "did you mean 'verify'" store verfy $ssd
check "an option of another subcommand" exits 2 "unknown option '--force'" store ls --force $ssd
check "too few arguments" exits 2 "wrong number of arguments" store put $ssd name
check "a number out of range" exits 2 "out of range" store format --objects 16385 $ssd
check "a number that wraps" exits 2 "out of range" \
    store ls --nsid ' -18446744073709551615' $ssd
check "no such image" exits 3 "cannot open" store ls soft:none.img
check "an image that is a folder" exits 2 "is a folder, expected" store ls soft:.
check "a malformed device string" exits 2 "" store ls soft:x,lba=77
check "a missing PCI function" exits 3 "no such PCI function" store ls pci:0000:fe:1f.7
check "a character device in place of a block device" exits 3 "is not a block device" store ls kernel:/dev/null
check "an empty serial number" exits 2 "out of range" store ls --allow-serial "" $ssd

# ---- format

truncate -s 8M blank.img
check "the error of a blank disk calls the disk blank" \
    unchanged blank.img exits 1 "the disk is blank" store ls soft:blank.img
(head -c 5M /dev/zero; echo "something else"; head -c 3M /dev/zero) >foreign.img
truncate -s 8M foreign.img
printf 'boot' | dd of=foreign.img bs=1 seek=510 conv=notrunc status=none
check "foreign data is not a store" \
    unchanged foreign.img exits 1 "other than an object store" store ls soft:foreign.img
check "foreign data is not overwritten" \
    unchanged foreign.img exits 1 "not blank" store format soft:foreign.img
check "format --force overwrites foreign data" exits 0 "room for 4096 objects" store format --force soft:foreign.img
check "format of a disk that is too small" exits 1 "too few" store format soft:small.img,size=1M
check "format that fails removes the image that it has made" test ! -e small.img
leaves_none() {
    exits 2 "not whole blocks" store format soft:none.img,size=4097 && [ ! -e none.img ] &&
        exits 3 "" store format soft:none.img,size=16M,faults=no.faults && [ ! -e none.img ] && exits 3 "serial" store format --allow-serial x soft:none.img,size=16M && [ ! -e none.img ] &&
        : >none.img && exits 1 "too few" store format soft:none.img,size=1M && [ -e none.img ] && rm none.img &&
        ln -s far.img none.img && store format soft:none.img,size=16M && [ -s far.img ] && rm none.img far.img
}
check "also when it cannot be opened; another file stays" leaves_none
check "format makes a store" exits 0 "room for 64 objects" \
    store format --objects 64 $ssd,size=64M
check "a store is not formatted again" \
    unchanged ssd.img exits 1 "holds an object store" store format $ssd

# ---- round trips

round_trip() {
    local bytes=$1 said
    said=$(store put $ssd "o.$bytes" "in.$bytes" 2>&1) || { echo "$said"; return 1; }
    store get $ssd "o.$bytes" "out.$bytes" >/dev/null || return 1
    cmp "in.$bytes" "out.$bytes"
}
for bytes in 0 1 511 512 4095 4096 4097 1048576 5000011; do
    check "$bytes bytes come back" round_trip "$bytes"
done
streams() {
    store put --size 5000011 $ssd stream - <in.5000011 >/dev/null &&
        store get $ssd stream - | cmp - in.5000011
}
check "an object passes through standard input and output" streams
small_blocks() {
    store format soft:lba.img,size=16M,lba=512 >/dev/null &&
        store put soft:lba.img,lba=512 a in.4097 >/dev/null &&
        store get soft:lba.img,lba=4096 a out.lba >/dev/null && cmp in.4097 out.lba
}
check "an image of 512-byte blocks opens with 4096-byte blocks" small_blocks
# The image must not get the number of a closed standard descriptor: messages would be written to it.
closed() {
    local code=0
    store get $ssd no.such.object out.none <&- >&- 2>&- || code=$?
    [ "$code" -eq 1 ] || { echo "exit code $code"; return 1; }
    store get $ssd no.such.object out.none 2>&- || code=$?
    code=0
    store ls $ssd >&- 2>said || code=$?
    [ "$code" -eq 1 ] && grep -q "standard output: cannot write" said
}
check "closed standard descriptors are not the image's" unchanged ssd.img closed
# get does not overwrite an existing file, and with no option its own image.
ln -sf ssd.img link.img
ln -f ssd.img hard.img
mkdir -p sub && ln -sf ../link.img sub/far.img
for own in ssd.img ./sub/../ssd.img link.img hard.img sub/far.img "$PWD/ssd.img"; do
    check "get does not overwrite its image, called $own" \
        unchanged ssd.img exits 2 "is or contains the store" store get --force $ssd o.1 "$own"
done
check "get without --force does not overwrite its image" unchanged ssd.img exits 2 "is or contains the store" \
    store get $ssd o.1 ssd.img
append() { store get $ssd o.1 - >>ssd.img; }
check "get through standard output does not overwrite its image" unchanged ssd.img exits 2 "is or contains the store" append
check "put does not read the image that it writes" unchanged ssd.img exits 2 "is or contains" \
    store put $ssd own ssd.img
rm -f link.img hard.img sub/far.img
echo precious >kept
check "get does not overwrite an existing file" exits 1 "exists already; --force" store get $ssd o.4097 kept
check "the existing file stays unchanged" grep -qx precious kept
check "get --force overwrites an existing file" exits 0 "4097 bytes" store get --force $ssd o.4097 kept
check "the overwritten file has the whole object" cmp in.4097 kept
modes() {
    echo old >mode && chmod 640 mode && ln -s mode link.mode || return 1
    store get --force $ssd o.4097 link.mode >/dev/null || return 1
    [ -L link.mode ] && [ "$(stat -c %a mode)" = 640 ] && cmp in.4097 mode || return 1
    (umask 027; store get $ssd o.4097 mode.new >/dev/null) || return 1
    [ "$(stat -c %a mode.new)" = 640 ]
}
check "links and modes stay, new files have the usual mode" modes
check "a dangling link is not followed" exits 1 "is a link to a file that does not exist" \
    bash -c 'ln -s nowhere dangling && "$0" store get "$1" o.1 dangling' "$HEADRACE" $ssd
check "a folder is refused as a file" exits 1 "Is a directory" store get --force $ssd o.1 sub
check "a file name that ends in a slash is refused" exits 1 "Is a directory" store get $ssd o.1 new/
check "a file in a missing folder is refused" exits 1 "No such file" store get $ssd o.1 no/such
check "a device is written in place" exits 0 "4097 bytes" store get $ssd o.4097 /dev/null
# A loop device shows the image under another name; loop devices may need root.
loop_device=$(losetup --find --show ssd.img 2>/dev/null) || loop_device=
if [ -n "$loop_device" ]; then
    trap 'losetup --detach "$loop_device"' EXIT
    check "get does not overwrite its image through a loop device" \
        unchanged ssd.img exits 2 "is or contains the store" store get --force $ssd o.1 "$loop_device"
    check "put does not read its image through a loop device" \
        unchanged ssd.img exits 2 "is or contains" store put --size 4097 $ssd own "$loop_device"
    check "a block device needs --force" unchanged ssd.img exits 1 "is a block device; --force" \
        store get $ssd o.1 "$loop_device"
    losetup --detach "$loop_device"
    trap - EXIT
else
    skip "no loop device can be made" "get does not overwrite its image through a loop device"
fi
full() {
    # shellcheck disable=SC2016  # the inner shell expands
    exits 1 "out.full: cannot write: File too large" bash -c \
        'trap "" XFSZ; ulimit -f 1024; "$0" store get "$1" o.5000011 out.full' "$HEADRACE" $ssd &&
        [ ! -e out.full ]
}
check "get leaves no file after a failed write" full
killed_get() {
    mkfifo gate
    # The reader stops reading: get waits in the middle, and is killed.
    "$HEADRACE" store get $ssd o.5000011 gate >/dev/null 2>&1 &
    exec 4<gate
    head -c 100000 <&4 >/dev/null
    kill -TERM $!
    exec 4<&-
    wait $!
    [ $? -eq 1 ] && rm gate
}
check "get ends at a signal" killed_get
check "get leaves no temporary file after a signal" bash -c '! ls -A | grep -E "^\..*\.[A-Za-z0-9]{6}$"'

# A configuration file names the ssd.
named() {
    cat >one.conf <<END
ssds = ( { name = "fast"; device = "soft:$PWD/ssd.img"; } );
gpus = ( { name = "cpu"; device = "host:1"; } );
pipelines = ( { name = "sum"; gpu = "cpu"; operator = "crc32c";
                source = { ssd = "fast"; object = "o.4097"; }; } );
END
    exits 0 "o.4097" store ls --config one.conf fast &&
        exits 2 "did you mean 'fast'" store ls --config one.conf fsat &&
        exits 2 "none.conf" store ls --config none.conf fast
}
quiet() {
    local said
    said=$(store get $ssd o.1048576 out.quiet 2>&1 >/dev/null)
    [ -z "$said" ] || { echo "said: $said"; return 1; }
}
check "no progress bar is written to a pipe" quiet
check "an ssd by its name in a configuration" named

# ---- reports

report_json() {
    store ls --json $ssd >ls.json || return 1
    json_holds ls.json d 'next(o["bytes"] for o in d["objects"] if o["name"] == "o.4097") == 4097' ||
        { cat ls.json; return 1; }
    store verify --json $ssd >verify.json && json_holds verify.json d 'isinstance(d, dict)' &&
        store df --json $ssd >df.json && json_holds df.json d 'isinstance(d, dict)'
}
check "ls, df and verify speak JSON" report_json
df_adds_up() {
    store df --json $ssd >df.json && json_holds df.json d 'd["used_bytes"] + d["free_bytes"] == d["total_bytes"]'
}
check "used and free bytes add up to the data area" df_adds_up
check "a sound store verifies" exits 0 "0 faults" store verify $ssd

# ---- the required serial number

check "a missing namespace is reported" exits 3 "there is no active namespace 2" store ls --nsid 2 $ssd
check "an image of another serial number is refused" \
    exits 3 "but 'ABC' was requested" store ls --allow-serial ABC $ssd
own_serial() {
    local serial
    serial=$(store ls --allow-serial ABC $ssd 2>&1 | sed "s/.*serial number is '\([^']*\)'.*/\1/")
    store ls --allow-serial "$serial" $ssd >/dev/null
}
check "an image of the required serial number is accepted" own_serial

# ---- names and space

check "the name of an existing object is refused" exits 1 "exists already" store put $ssd o.1 in.511
check "an invalid name is refused" exits 2 "printable" store put $ssd a/b in.1
check "get of a missing object is refused" exits 1 "no such object" store get $ssd nothing out.none
check "get of a missing object creates no file" test ! -e out.none
check "put of a missing file is refused" exits 1 "cannot open" store put $ssd new none.in
check "a folder instead of a file" exits 1 "cannot store" store put $ssd new .
check "a stream of unknown length" exits 2 "--size" store put $ssd new - </dev/null
replaces() {
    store put --replace $ssd o.1 in.4097 >/dev/null && store get $ssd o.1 out.new >/dev/null &&
        cmp in.4097 out.new && is_listed $ssd o.1 whole
}
check "put --replace replaces an existing object" replaces
truncate -s 70M in.70M
check "an object that does not fit" exits 1 "no room" store put $ssd big in.70M
check "a refused put of a large object leaves no object" is_listed $ssd big ""
check "a stream that ends early" exits 1 "ended after 511 of 600" \
    store put --size 600 $ssd short - <in.511
check "a put of a stream that ends early leaves no object" is_listed $ssd short ""
check "a stream longer than --size" exits 1 "longer than 500" store put --size 500 $ssd long - <in.511
check "a put of a stream that is too long leaves no object" is_listed $ssd long ""
put_unreadable() { exits 1 "standard input: cannot read: Bad file descriptor" store put --size 8 $ssd bad - 0>unread; }
check "a stream that cannot be read" put_unreadable
check "a put of an unreadable stream leaves no object" is_listed $ssd bad ""
check "rm removes objects" store rm $ssd o.511 o.512
check "a removed object cannot be read" exits 1 "no such object" store get $ssd o.511 -
check "rm reports a missing object" exits 1 "no such object" store rm $ssd o.511
# The blocks of an image in KiB.
size_of() { du -k "$1" | cut -f 1; }
frees() {
    local before after ssd=soft:holes.img
    head -c 8M /dev/urandom >in.8M
    store format $ssd,size=32M && store put -q $ssd a in.8M && store put -q $ssd b in.8M && store put -q $ssd c in.4097 || return 1
    before=$(size_of holes.img)
    store rm $ssd a && after=$(size_of holes.img)
    echo "$before KiB, then $after KiB"
    [ $((before - after)) -gt 8000 ] && store mv --replace $ssd c b && after=$(size_of holes.img) &&
        [ $((before - after)) -gt 16000 ] && store get $ssd b - | cmp - in.4097 && store verify $ssd
}
check "rm, and mv --replace, give the space of an image back" frees
copies() {
    cp ssd.img copies.img
    local ssd=soft:copies.img
    store cp $ssd o.4097 twin | grep -F "twin: 4097 bytes, CRC-32C" && store get $ssd twin - | cmp - in.4097 &&
        exits 1 "exists already; --replace" store cp $ssd o.1 twin && store cp --replace -q $ssd o.4096 twin &&
        store get $ssd twin - | cmp - in.4096 && store cp $ssd o.0 none && store get $ssd none - | cmp - in.0 &&
        exits 1 "no such object" store cp $ssd nothing x && exits 2 "names are the same" store cp $ssd o.1 o.1 &&
        exits 2 "printable" store cp $ssd o.1 a/b && store verify $ssd
}
check "cp makes a copy of an object" copies
moves() {
    local ssd=soft:copies.img
    store mv $ssd o.4097 moved && store get $ssd moved - | cmp - in.4097 && exits 1 "no such object" store get $ssd o.4097 - &&
        exits 1 "exists already; --replace" store mv $ssd moved o.1 && store mv --replace $ssd moved o.1 &&
        store get $ssd o.1 - | cmp - in.4097 && exits 2 "names are the same" store mv $ssd o.1 o.1 &&
        exits 2 "printable" store mv $ssd o.1 a/b && exits 1 "no such object" store mv $ssd nothing x && store verify $ssd
}
check "mv gives an object another name" moves
rotten_copy() {
    local ssd=soft:copies.img at
    store ls --json $ssd >copies.json && at=$(json_value copies.json d 'next(o["offset_bytes"] for o in d["objects"] if o["name"] == "o.1")') &&
        printf '\x5a\xa5\x5a' | dd of=copies.img bs=1 seek="$at" conv=notrunc status=none &&
        exits 4 "nothing is copied" store cp $ssd o.1 bad && exits 1 "no such object" store rm $ssd bad
}
check "cp of wrong data makes nothing" rotten_copy

full_map() {
    store format --objects 2 soft:two.img,size=8M >/dev/null && store put soft:two.img a in.1 >/dev/null &&
        store put soft:two.img b in.1 >/dev/null || return 1
    exits 1 "'c': the object map is full (2 objects)" store put soft:two.img c in.1 || return 1
    exits 1 "'a': the object map is full (2 objects); the new object needs an entry of its own" \
        store put --replace soft:two.img a in.511 || return 1
    store rm soft:two.img b && store put --replace soft:two.img a in.511 >/dev/null
}
check "the error of a full object map names the map, also with --replace" full_map

# A file that cannot grow stands for a full disk: the kernel's error is reported once, without a
# contradicting message.
truncate -s 40M in.40M
full_disk() {
    # shellcheck disable=SC2016  # the inner shell expands
    local put='trap "" XFSZ; ulimit -f 8192; "$1" store put soft:full.img big in.40M'
    store format soft:full.img,size=64M >/dev/null || return 1
    exits 4 "soft:full.img: cannot write the file: File too large" \
        bash -c "$put 2>said; code=\$?; cat said; exit \$code" _ "$HEADRACE" || return 1
    exits 0 "0 faults" store verify soft:full.img
}
said_once() { [ "$(grep -c 'cannot write the file' said)" = 1 ] && ! grep 'somebody else' said; }
check "a full disk is reported with the kernel's error" full_disk
check "a full disk is reported once, and no other message contradicts it" said_once

# ---- interruptions

# put_until SIGNAL NAME [OPTION]: send the signal when put has read 5 MiB and waits for more
put_until() {
    local code
    mkfifo fifo
    "$HEADRACE" store put "${@:3}" --size 16M $ssd "$2" - <fifo >said 2>&1 &
    exec 3>fifo
    head -c 5M /dev/zero >&3
    kill "-$1" $!
    wait $!
    code=$?
    exec 3>&-
    rm fifo
    return $code
}
interrupt() {
    local code
    put_until INT "$1"
    code=$?
    [ $code -eq 1 ] && grep -q interrupted said && return 0
    echo "exit code $code: $(cat said)"
    return 1
}
check "Ctrl-C ends put" interrupt cut
check "Ctrl-C of put leaves no object" is_listed $ssd cut ""
kill_put() {
    put_until KILL "$1" --replace
    is_listed $ssd "$1" "$2"
}
check "kill -9 of put leaves an incomplete object" kill_put killed incomplete
pending_json() {
    store ls --json $ssd >pending.json && json_holds pending.json d '[o["name"] for o in d["objects"] if o["pending"]] == ["killed"]'
}
check "ls --json marks only the incomplete object as pending" pending_json
check "an incomplete object cannot be read" exits 1 "incomplete" store get $ssd killed -
check "an incomplete object reserves its name" exits 1 "incomplete" store put $ssd killed in.1
check "put --replace replaces an incomplete object" store put --replace $ssd killed in.1
check "the replacing object is whole" is_listed $ssd killed whole
both() {
    put_until KILL killed --replace
    store get $ssd killed out.killed >/dev/null && cmp in.1 out.killed || return 1
    store rm --pending $ssd killed && is_listed $ssd killed whole
}
check "kill -9 of put --replace keeps the object to be replaced" both
check "rm --pending needs an incomplete object" exits 1 "no such object" \
    store rm --pending $ssd killed

# ---- damage

flip() { # flip IMAGE OFFSET
    printf '\x5a\xa5\x5a' | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
at=$(json_value ls.json d 'next(o["offset_bytes"] for o in d["objects"] if o["name"] == "o.5000011")')
flip ssd.img $((at + 5000000))
check "get detects wrong data" exits 4 "CRC-32C" store get $ssd o.5000011 out.bad
check "get of wrong data creates no file" test ! -e out.bad
rescued() {
    local code=0
    store get $ssd o.5000011 - >out.bad 2>/dev/null || code=$?
    [ "$code" -eq 4 ] && [ "$(stat -c %s out.bad)" -eq 5000011 ]
}
check "get of wrong data writes the data to standard output, exit code 4" rescued
echo precious >kept
check "get --force of wrong data does not overwrite a file" exits 4 "no file is made" \
    store get --force $ssd o.5000011 kept
check "the file is unchanged after get --force of wrong data" grep -qx precious kept
check "verify finds wrong data" exits 1 "FAULT  o.5000011" store verify $ssd
check "verify --map does not read data" exits 0 "0 faults" store verify --map $ssd

cp ssd.img cut.img && truncate -s 63M cut.img
check "a truncated image" unchanged cut.img exits 1 "truncated" store ls soft:cut.img
cp ssd.img maps.img && flip maps.img 8200 && flip maps.img $((8200 + 8192))
check "a store with two corrupt map copies is not listed" unchanged maps.img exits 1 "CRC-32C" store ls soft:maps.img
check "a store with two corrupt map copies is not written" unchanged maps.img exits 1 "CRC-32C" store rm soft:maps.img o.1
rotten() { # damage the newer of the two superblocks
    local newer
    cp ssd.img rot.img
    newer=$(python3 -c 'import struct
d = open("rot.img", "rb").read(8192)
print(0 if struct.unpack_from("<Q", d, 32) > struct.unpack_from("<Q", d, 4096 + 32) else 1)')
    flip rot.img $((newer * 4096 + 64))
    exits 1 "FAULT  superblock $newer" store verify --map soft:rot.img
}
check "verify finds a corrupt newest superblock" rotten
cp ssd.img blocks.img && flip blocks.img 100 && flip blocks.img 4196
check "a store with two corrupt superblocks is not listed" unchanged blocks.img exits 1 "superblock 1" store ls soft:blocks.img
check "a corrupt store is not formatted unless forced" \
    unchanged blocks.img exits 1 "holds an object store" store format soft:blocks.img

done_testing
