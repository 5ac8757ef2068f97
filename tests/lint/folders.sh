#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Sizes of folders: at most 26 files directly in a folder of the product, at least 3, and each folder has
# a layer (layers.txt); a test program does not have the name of a folder beside it, because both would be
# built at one path. Before the tree is checked, the rule is tried on trees that break it.
# Usage: tests/lint/folders.sh [TREE]
set -euo pipefail
most=26 least=3

check() {
    local tree=$1 layers=$2 bad=0 folder count file
    while read -r count folder; do
        [ "$count" -le $most ] || { echo "$folder: $count files, at most $most"; bad=1; }
        [ "$count" -ge $least ] || { echo "$folder: $count files, at least $least"; bad=1; }
        grep -qE "^$folder( |$)" "$layers" || { echo "$folder: not in layers.txt"; bad=1; }
    done < <(cd "$tree" && find boot cache config gpu nvme pci -type f 2>/dev/null |
        grep -vE '^(boot/image|config/examples)/' | sed 's,/[^/]*$,,' | sort | uniq -c)
    while read -r file; do
        ! compgen -G "$tree/${file%.c}/*.c" >/dev/null || { echo "$file: has the name of the folder ${file%.c}/"; bad=1; }
    done < <(cd "$tree" && find tests -name '*.c' 2>/dev/null | sort)
    return $bad
}

planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir -p "$planted/config" "$planted/tests/a"
touch "$planted"/config/{a,b,c}.c "$planted/tests/a/b.c"
echo config >"$planted/layers.txt"
check "$planted" "$planted/layers.txt" || { echo "folders.sh: rule is too strict" >&2; exit 1; }
refused() {
    ! check "$planted" "$planted/layers.txt" >/dev/null || { echo "folders.sh: rule is blind to $1" >&2; exit 1; }
}
rm "$planted/config/c.c" && refused "few files" && touch "$planted/config/c.c"
touch "$planted"/config/{1..24}.c && refused "many files" && rm "$planted"/config/[0-9]*.c
mkdir "$planted/pci" && touch "$planted"/pci/{a,b,c}.c && refused "a folder without a layer" && rm -r "$planted/pci"
touch "$planted/tests/a.c" && refused "a test with the name of a folder"

here=$(dirname "${BASH_SOURCE[0]}")
check "${1:-.}" "$here/layers.txt"
