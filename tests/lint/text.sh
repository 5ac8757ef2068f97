#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the rules of .editorconfig for every text file: no blanks at line ends, a newline at the
# end of the file, at most 100 columns (clang-format breaks code there; a comment may exceed it by
# 4); no marks of unfinished work; a line with the licence in each source.
set -euo pipefail
export LC_ALL=C.UTF-8
bad=0

mapfile -t files < <(find -- * .ci .clang-tidy .clang-format .editorconfig -type f ! -path 'build*' \
    \( -name '*.[chS]' -o -name '*.cu' -o -name '*.sh' -o -name '*.py' -o -name '*.md' \
    -o -name '*.conf' -o -name '*.mk' -o -name Makefile -o -path '.ci/*' -o -name '.*' \) | sort)

refuse() {
    if grep -nHE "$1" "${@:3}"; then
        echo "text.sh: $2"
        bad=1
    fi
}

refuse '[[:blank:]]+$' "blanks at the end of a line" "${files[@]}"
refuse $'\r' "carriage return" "${files[@]}"
refuse '\b(TO''DO|FIX''ME|XX''X|HA''CK)\b' "unfinished work" "${files[@]}"

for file in "${files[@]}"; do
    [ -z "$(tail -c 1 "$file")" ] || { echo "$file: no newline at the end"; bad=1; }
    case $file in
    *.[chS] | *.cu | *.sh | *.py | *.mk | Makefile)
        head -n 60 "$file" | grep -F "SPDX-License-Identifier: Apache-2.0" >/dev/null ||
            { echo "$file: no SPDX line"; bad=1; }
        ;;
    esac
    case $file in
    *.[ch] | *.cu | *.mk | Makefile)
        expand "$file" | awk -v file="$file" 'length > 104 {
            printf "%s:%d: %d columns, at most 100\n", file, NR, length; bad = 1 } END { exit bad }' ||
            bad=1
        ;;
    esac
done
exit $bad
