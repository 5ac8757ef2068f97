#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Sizes: no function over 80 lines, the median of all at most 20, no file over 600 lines.
# Usage: tests/lint/functions.sh [FILE...]   (default: all sources and headers of the tree)
set -euo pipefail
max_function=80 max_median=20 max_file=600

files=("$@")
[ ${#files[@]} -gt 0 ] || mapfile -t files < <(find -- * ! -path 'build*' \
    \( -name '*.[ch]' -o -name '*.cu' \) | sort)
bad=0

for file in "${files[@]}"; do
    lines=$(wc -l <"$file")
    [ "$lines" -le $max_file ] || { echo "$file: $lines lines, at most $max_file"; bad=1; }
done

# ctags prints NAME, FILE, ..., line:N end:M; the size of a function includes both lines.
ctags -f - --languages=C,C++ --map-C++=+.cu --kinds-C=f --kinds-C++=f --fields=+ne "${files[@]}" |
    awk -F '\t' -v max=$max_function -v median=$max_median '
    {
        line = end = 0
        for (i = 4; i <= NF; i++) {
            if ($i ~ /^line:/) line = substr($i, 6)
            if ($i ~ /^end:/) end = substr($i, 5)
        }
        if (!end) next
        size[n++] = end - line + 1
        if (end - line + 1 > max) {
            printf "%s:%d: %s has %d lines, at most %d\n", $2, line, $1, end - line + 1, max
            bad = 1
        }
    }
    END {
        for (i = 1; i < n; i++) {
            v = size[i]
            for (j = i; j > 0 && size[j - 1] > v; j--) size[j] = size[j - 1]
            size[j] = v
        }
        if (n && size[int(n / 2)] > median) {
            printf "median of %d functions is %d lines, at most %d\n", n, size[int(n / 2)], median
            bad = 1
        }
        exit bad
    }' || bad=1
exit $bad
