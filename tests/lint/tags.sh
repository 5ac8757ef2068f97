#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One name has one meaning: the tag of a struct, union or enum of the product's headers is defined in
# one header, and so is a macro with a number. Before the tree is checked, the rule is tried on a tree
# that breaks it and on one that keeps it.
# Usage: tests/lint/tags.sh [TREE]
set -euo pipefail

form='^(struct|union|enum) hr_[a-z0-9_]+ \{|^#define HR_[A-Z0-9_]+[[:blank:]]+[(]?-?[0-9]'

# Prints each name of a tree that two headers define, with its places.
check() {
    (cd "$1" && find . -name '*.h' ! -path './build*' ! -path './tests/*' ! -path './nvme/queue/worker_*.h' |
        sort | while read -r file; do grep -nHE "$form" "$file" || true; done) |
        awk -F: '
        {
            split($3, word, /[ \t]+/)
            name = word[1] == "#define" ? word[2] : word[1] " " word[2]
            if (name in where && where[name] != $1) {
                printf "%s:%s: %s is also defined in %s\n", $1, $2, name, where[name]
                bad = 1
            }
            where[name] = $1
        }
        END { exit bad }'
}

planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir "$planted/a"
printf '#define HR_A_MAX 1u\nstruct hr_a {\n\tint a;\n};\nenum hr_b { HR_B };\n' >"$planted/a/a.h"
printf '#define HR_C_MAX 1u\nstruct hr_a;\nstruct hr_b {\n\tenum hr_b b;\n};\n' >"$planted/a/b.h"
check "$planted" || { echo "tags.sh: rule is too strict" >&2; exit 1; }
for twice in 'struct hr_a {' '#define HR_A_MAX 2u' 'enum hr_b { HR_C };'; do
    printf '%s\n' "$twice" >"$planted/a/c.h"
    ! check "$planted" >/dev/null || { echo "tags.sh: rule is blind to $twice" >&2; exit 1; }
done

check "${1:-.}"
