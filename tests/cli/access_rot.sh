#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One bit of an object of an access operator changes on the disk: which objects are verified before the run, what
# results, JSON and `check` say of them, and the checksums of the objects that the operator writes.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/rot.sh
. "$(dirname "$0")/lib/rot.sh"

image=$SCRATCH/a.img

# conf [KEYS [OBJECTS [LATER [SSD_OPTIONS]]]]: 64 lookups in a table of 4096 rows
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
ssds = ( { name = "a"; device = "soft:$image${4-}"; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = (
  { name = "p"; operator = "gather"; args = { row = 512; lookups = 64; seed = 3; };
    objects = { table = { object = "table"; }; ${2-} }; ${1-} } ${3-}
);
CONF
}

make_image() {
    rm -f "$image"
    python3 -c 'import random, struct, sys
r = random.Random(5)
sys.stdout.buffer.write(struct.pack("<524288f", *[r.uniform(-1, 1) for _ in range(524288)]))' >"$SCRATCH/table"
    exits 0 store format "soft:$image,size=64M" && exits 0 store put "soft:$image" table "$SCRATCH/table"
}

verified() {
    make_image && conf && exits 0 run "$SCRATCH/x.conf" && silent &&
        says "a:table as table, 2097152 bytes, read, verified, CRC-32C $(crc table)" &&
        exits 0 run "$SCRATCH/x.conf" --json &&
        json "r['pipelines'][0]['objects'][0]['verified'] is True" &&
        json "r['pipelines'][0]['objects'][0]['crc32c'] == '$(crc table)'" &&
        exits 0 check "$SCRATCH/x.conf" && says "a:table as table, 2097152 bytes; compared with its checksum before the run"
}

# rotten AT [KEYS]: a row that no lookup reads counts as well
rotten() {
    make_image && want=$(crc table) && flip table "$1" && conf "${2-}" || return 1
    exits 4 run "$SCRATCH/x.conf" && warns "pipeline 'p': object 'table' on ssd 'a' differs from the stored data: CRC-32C" &&
        warns ", expected $want" && says "a:table as table, 2097152 bytes, read, WRONG: CRC-32C " &&
        ! says "sum" >/dev/null || return 1
    exits 4 run "$SCRATCH/x.conf" --json && json 'r["exit_code"] == 4 and "result" not in r["pipelines"][0]' &&
        json 'r["pipelines"][0]["outcome"] == "failed" and r["pipelines"][0]["read_bytes"] == 0' &&
        json "r['pipelines'][0]['failure']['crc32c_expected'] == '$want'" &&
        json 'r["pipelines"][0]["failure"]["object"] == "table" and r["pipelines"][0]["failure"]["ssd"] == "a"' &&
        json 'r["pipelines"][0]["objects"][0]["check"] == "wrong"'
}

# The new object is not left behind.
rotten_with_output() {
    make_image && flip table 9 && conf '' 'rows = { object = "rows"; bytes = 32768; };' &&
        exits 4 run "$SCRATCH/x.conf" && exits 0 store ls "soft:$image" && ! says rows >/dev/null &&
        flip table 9 && exits 0 run "$SCRATCH/x.conf" && says "a:rows as rows"
}

# An operator that reads tiles: the source is read before the first tile, and an earlier part does not matter.
stream_before() {
    make_image && flip table 77 || return 1
    cat >"$SCRATCH/s.conf" <<CONF
ssds = ( { name = "a"; device = "soft:$image"; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "c"; operator = "copy"; source = { object = "table"; }; sink = { object = "copy"; }; tile = "64K";
                verify = "before"; } );
CONF
    exits 0 check "$SCRATCH/s.conf" && says "65536 a tile; compared with its checksum before the run" &&
        exits 4 run "$SCRATCH/s.conf" --json && warns "differs from the stored data" &&
        warns "object 'copy' on ssd 'a' has no data yet; it is removed" &&
        json 'r["pipelines"][0]["tiles"] == 32 and r["pipelines"][0]["read_bytes"] == 0' &&
        exits 0 store ls "soft:$image" && ! says copy >/dev/null && flip table 77 &&
        exits 0 run "$SCRATCH/s.conf" && says "a:table, verified, CRC-32C $(crc table)" && [ "$(crc copy)" = "$(crc table)" ]
}

off() {
    make_image && flip table 5 && conf 'verify = "off";' && exits 0 run "$SCRATCH/x.conf" && silent &&
        says "a:table as table, 2097152 bytes, read, not verified: verify is off" &&
        exits 0 check "$SCRATCH/x.conf" && says "; not verified: verify is off"
}

without_checksum() {
    make_image && cat >"$SCRATCH/s.conf" <<CONF
ssds = ( { name = "a"; device = "soft:$image"; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "c"; operator = "copy"; source = { object = "table"; };
                sink = { object = "copy"; checksum = false; }; tile = "64K"; } );
CONF
    exits 0 run "$SCRATCH/s.conf" && conf 'verify = "on";' && sed -i 's/object = "table"/object = "copy"/' "$SCRATCH/x.conf" &&
        exits 2 check "$SCRATCH/x.conf" && warns "x.conf:5: object 'copy' on ssd 'a' has no checksum, but pipeline 'p' has verify = \"on\"" &&
        sed -i 's/verify = "on"/verify = "before"/' "$SCRATCH/x.conf" && exits 0 check "$SCRATCH/x.conf" &&
        says "; not verified: it has no checksum" && exits 0 run "$SCRATCH/x.conf" --json &&
        json 'r["pipelines"][0]["objects"][0]["check"] == "no checksum" and not r["pipelines"][0]["objects"][0]["verified"]'
}

# An object of more than 256 MiB is read only when the pipeline asks for it.
large() {
    exits 0 store format "soft:$SCRATCH/large.img,size=320M" || return 1
    truncate -s 257M "$SCRATCH/large"
    exits 0 store put "soft:$SCRATCH/large.img" table "$SCRATCH/large" && rm "$SCRATCH/large" || return 1
    conf && sed -i "s|soft:[^\"]*|soft:$SCRATCH/large.img|" "$SCRATCH/x.conf" &&
        exits 0 check "$SCRATCH/x.conf" && says '; not verified: it has more than 256 MiB, and verify is "auto"' &&
        exits 0 run "$SCRATCH/x.conf" && says 'read, not verified: it has more than 256 MiB, and verify is "auto"' &&
        sed -i 's/name = "p";/name = "p"; verify = "before";/' "$SCRATCH/x.conf" && exits 0 run "$SCRATCH/x.conf" &&
        says 'read, verified, CRC-32C' && rm "$SCRATCH/large.img"
}

# New objects have checksums, of the data that the disk has; the next pipeline compares them.
new_objects() {
    make_image && conf '' 'rows = { object = "rows"; bytes = 32768; };' \
        ', { name = "s"; operator = "crc32c"; source = { object = "rows"; }; }' || return 1
    exits 0 check "$SCRATCH/x.conf" && says "; gets a checksum" && exits 0 run "$SCRATCH/x.conf" && silent &&
        says "a:rows as rows, 32768 bytes, written, new, CRC-32C $(crc rows)" && [ "$(crc rows)" != none ] &&
        says "a:rows, verified, CRC-32C $(crc rows)" && says "crc32c $(crc rows) of 32768 bytes" &&
        exits 0 store verify "soft:$image" && says "0 faults" || return 1
    exits 0 store rm "soft:$image" rows && sed -i 's/bytes = 32768;/bytes = 32768; checksum = false;/' "$SCRATCH/x.conf" &&
        exits 0 run "$SCRATCH/x.conf" --json && json 'r["pipelines"][0]["objects"][1]["checksum"] is False' &&
        json '"written_crc32c" not in r["pipelines"][0]["objects"][1]' && [ "$(crc rows)" = none ]
}

# An object that a run changes is verified before, and has the checksum of its new data afterwards.
changed_object() {
    make_image && head -c 32768 /dev/zero >"$SCRATCH/rows" && exits 0 store put "soft:$image" rows "$SCRATCH/rows" &&
        conf '' 'rows = { object = "rows"; };' && was=$(crc rows) && flip rows 3 || return 1
    exits 4 run "$SCRATCH/x.conf" && warns "object 'rows' on ssd 'a' differs" && [ "$(crc rows)" = "$was" ] &&
        flip rows 3 && exits 0 run "$SCRATCH/x.conf" && silent &&
        says "a:rows as rows, 32768 bytes, written, verified, CRC-32C $was; now CRC-32C $(crc rows)" &&
        [ "$(crc rows)" != "$was" ] && exits 0 store verify "soft:$image" && says "0 faults"
}

# The disk refuses to read an object before the run, or what the run has written: the new object lies behind the table.
unreadable() {
    make_image && echo 'on read lba 600 count 1000000: status 0x281' >"$SCRATCH/faults.txt"
    conf '' 'rows = { object = "rows"; bytes = 32768; };' '' ",faults=$SCRATCH/faults.txt"
    exits 4 run "$SCRATCH/x.conf" && warns "object 'table' on ssd 'a' cannot be read to compare it with its checksum" &&
        warns "Unrecovered Read Error" || return 1
    # the object has one page, which the run reads once
    echo 'on read lba 1024-1031 nth 2 count 1000000: status 0x281' >"$SCRATCH/faults.txt"
    sed -i 's/operator = /cache = { page = "32K"; }; operator = /' "$SCRATCH/x.conf"
    exits 4 run "$SCRATCH/x.conf" && warns "object 'rows' on ssd 'a' cannot be read to compute its checksum" &&
        exits 0 store ls "soft:$image" && ! says rows >/dev/null
}

wrong_keys() {
    make_image && conf 'verify = "befor";' && exits 2 check "$SCRATCH/x.conf" && warns 'pipelines[0].verify: is "befor", expected "auto" or "on" or "off" or "before"' || return 1
    conf && sed -i 's/object = "table";/object = "table"; checksum = true;/' "$SCRATCH/x.conf" &&
        exits 2 check "$SCRATCH/x.conf" && warns "operator gather only reads this object"
}

check "objects are verified before the run, and results, JSON and check say so" verified
check "one bit of an object, first byte: exit 4, the message and JSON" rotten 0
check "one bit of an object, last byte" rotten 2097151
check 'one bit with verify = "before"' rotten 1000 'verify = "before";'
check "one bit of an object: no new object is left" rotten_with_output
check 'verify = "before" of an operator that reads tiles' stream_before
check 'verify = "off": not verified, and said' off
check 'an object without checksum: a mistake with "on", said with "before"' without_checksum
check 'an object of more than 256 MiB: only with verify = "before"' large
check "new objects have checksums" new_objects
check "changed objects are verified, and get new checksums" changed_object
check "data that cannot be read before the run, or read back after it" unreadable
check "wrong keys" wrong_keys
done_testing
