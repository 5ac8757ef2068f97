#!/bin/bash
# A header belongs to a file: no header declares functions that more than two .c files define. NAME.c
# and its variant NAME_static.c are one. Exceptions are headers whose head says why: gpu/worker/role.h
# (the roles of a pipeline), gpu/worker/io.h (the I/O worker), nvme/soft/internal.h (one device) and gpu/ops/operator.h (what each operator
# has). Before the tree is checked, the rule is tried on a tree that breaks it and on one that keeps it.
# Usage: tests/lint/owners.sh [TREE]
set -euo pipefail

# Prints each header of a tree that declares functions of too many files, with those files.
check() {
    (cd "$1" && find . -name '*.[ch]' ! -path './build*' ! -path './tests/*' | sort |
        ctags --sort=no -f - --languages=C --langmap=C:.c.h --kinds-C=fp --fields=Kf -L -) |
        awk -F '\t' -v max=2 '
        {
            sub(/^\.\//, "", $2)
            own = 0
            for (i = 4; i <= NF; i++) own = own || $i == "file:"
        }
        $4 == "function" && $2 ~ /\.c$/ && !own {
            sub(/_static\.c$/, ".c", $2)
            defined[$1] = defined[$1] " " $2
        }
        $4 == "prototype" && $2 ~ /\.h$/ { declared[$2] = declared[$2] " " $1 }
        END {
            for (header in declared) {
                if (header ~ /^(gpu\/worker\/(role|io)|nvme\/soft\/internal|gpu\/ops\/operator)\.h$/)
                    continue
                delete seen
                files = 0; list = ""
                n = split(declared[header], name, " ")
                for (i = 1; i <= n; i++) {
                    m = split(defined[name[i]], at, " ")
                    for (k = 1; k <= m; k++)
                        if (!(at[k] in seen)) { seen[at[k]] = 1; files++; list = list " " at[k] }
                }
                if (files > max) {
                    printf "%s: declares functions of %d files, at most %d:%s\n", header, files, max, list
                    bad = 1
                }
            }
            exit bad
        }'
}

planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir "$planted/a"
# All forms in which the tree declares and defines; static functions belong to no header.
printf 'int one(int a);\nint two(\n\tint a,\n\tint b);\nstruct s *three(void);\n' >"$planted/a/a.h"
printf '#include "a/a.h"\nint one(int a)\n{\n\treturn a;\n}\n' >"$planted/a/one.c"
printf 'int two(int a,\n\tint b)\n{\n\treturn a + b;\n}\nstatic struct s *three(void)\n{\n\treturn 0;\n}\n' \
    >"$planted/a/two.c"
printf 'int two(int a, int b)\n{\n\treturn 0;\n}\n' >"$planted/a/two_static.c"
check "$planted" || { echo "owners.sh: rule is too strict" >&2; exit 1; }
printf 'struct s *three(void)\n{\n\treturn 0;\n}\n' >"$planted/a/three.c"
! check "$planted" >/dev/null || { echo "owners.sh: rule is blind" >&2; exit 1; }

check "${1:-.}"
