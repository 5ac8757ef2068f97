#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The contents of an image (boot/image), without the kernel, which would have to be downloaded.
# shellcheck disable=SC2317  # called through check
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
image=$(cd "$(dirname "$0")/../../boot/image" && pwd)

# archive FOLDER: list the archive that build.py makes of it, one "MODE NAME BYTES [TARGET]" per line
archive() {
    PYTHONDONTWRITEBYTECODE=1 python3 - "$image" "$1" <<'PYTHON'
import os, sys
sys.path.insert(0, sys.argv[1])
import build, cpio
archive = cpio.Archive()
try:
    build.add_tree(archive, sys.argv[2])
except OSError as why:
    sys.exit(str(why))
data, at = archive.finish(), 0
while at < len(data):
    field = [int(data[at + 6 + 8 * i:at + 14 + 8 * i], 16) for i in range(13)]
    name = data[at + 110:at + 110 + field[11] - 1]
    body = (at + 110 + field[11] + 3) // 4 * 4
    link = b" " + data[body:body + field[6]] if field[1] & 0o170000 == 0o120000 else b""
    os.write(1, b"%o %s %d%s\n" % (field[1], name, field[6], link))
    at = (body + field[6] + 3) // 4 * 4
PYTHON
}

tree=$SCRATCH/tree
mkdir -p "$tree/usr/lib/empty" "$tree/bin"
echo text >"$tree/usr/lib/file"
echo run >"$tree/bin/run"
chmod 755 "$tree/bin/run"
chmod 644 "$tree/usr/lib/file"
ln -s usr/lib "$tree/lib"
ln -s nowhere "$tree/dangling"
touch "$tree/"$'odd\xff'
has() {
    archive "$tree" >"$SCRATCH/list" || return 1
    grep -qxa -- "$1" "$SCRATCH/list" || { cat "$SCRATCH/list"; return 1; }
}
check "a file" has "100644 usr/lib/file 5"
check "a program" has "100755 bin/run 4"
check "an empty folder" has "40755 usr/lib/empty 0"
check "a link to a folder" has "120777 lib 7 usr/lib"
check "a dangling link" has "120777 dangling 7 nowhere"
LC_ALL=C check "a name that is not UTF-8" has $'100644 odd\xff 0'
refused() { archive "$1" >"$SCRATCH/out" 2>"$SCRATCH/err" && return 1; warns "$2"; }
check "a missing folder" refused "$SCRATCH/absent" "absent: is not a folder"
mkfifo "$tree/pipe"
check "a named pipe is refused" refused "$tree" "pipe: is neither"
no_kernel() {
    "$image/build.py" --binary x --config x --out "$SCRATCH" --kernel "$image/build.py" \
        >"$SCRATCH/out" 2>"$SCRATCH/err" && return 1
    [ "$(wc -l <"$SCRATCH/err")" -eq 1 ] && warns "build.py: not a Linux bzImage"
}
check "a file that is no kernel is refused" no_kernel
done_testing
