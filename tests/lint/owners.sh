#!/bin/bash
# One header per module: a header declares only functions that .c files of its own folder define, no
# function is declared in two headers, and the functions of a .c file are declared in at most two headers
# (one for other folders, one for its own). NAME.c and its variant NAME_static.c are one. Exceptions are
# headers whose head says why: config/base/seam.h is linked in two ways, gpu/worker/role.h and
# gpu/ops/operator.h declare what each backend and each operator defines.
# Before the tree is checked, the rule is tried on trees that break it and on one that keeps it.
# Usage: tests/lint/owners.sh [TREE]
set -euo pipefail

check() {
    (cd "$1" && find . \( -name '*.[ch]' -o -name '*.cu' \) ! -path './build*' ! -path './tests/*' | sort |
        ctags --sort=no -f - --languages=C --langmap=C:.c.h.cu --kinds-C=fp --fields=Kf -L -) |
        awk -F '\t' -v max=2 '
        function folder(name) { sub(/\/[^\/]*$/, "", name); return name }
        {
            sub(/^\.\//, "", $2)
            own = 0
            for (i = 4; i <= NF; i++) own = own || $i == "file:"
        }
        $4 == "function" && $2 ~ /\.cu?$/ && !own {
            sub(/_static\.c$/, ".c", $2)
            defined[$1] = defined[$1] " " $2
        }
        $4 == "prototype" && $2 ~ /\.h$/ { declared[$1] = declared[$1] " " $2 }
        END {
            for (name in declared) {
                n = split(declared[name], at, " ")
                for (i = 2; i <= n; i++)
                    if (at[i] != at[1]) {
                        printf "%s: declared in %s and %s\n", name, at[1], at[i]; bad = 1
                    }
                header = at[1]
                if (header ~ /^(gpu\/worker\/role|gpu\/ops\/operator|nvme\/worker_cuda|cache\/object|gpu\/cuda\/cuda)\.h$/)
                    continue
                m = split(defined[name], of, " ")
                for (k = 1; k <= m; k++) {
                    if (folder(of[k]) != folder(header)) {
                        printf "%s: declares %s of %s, a file of another folder\n", header, name, of[k]; bad = 1
                    }
                    if (!((of[k], header) in seen)) {
                        seen[of[k], header] = 1
                        heads[of[k]]++; list[of[k]] = list[of[k]] " " header
                    }
                }
            }
            for (file in heads)
                if (heads[file] > max) {
                    printf "%s: its functions are declared in %d headers, at most %d:%s\n", file, heads[file], max, list[file]
                    bad = 1
                }
            exit bad
        }' | sort
    return "${PIPESTATUS[1]}"
}

planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir "$planted/a" "$planted/b"
# All forms in which the tree declares and defines; static functions belong to no header.
printf 'int one(int a);\nint two(\n\tint a,\n\tint b);\nstruct s *three(void);\n' >"$planted/a/a.h"
printf '#include "a/a.h"\nint one(int a)\n{\n\treturn a;\n}\n' >"$planted/a/one.c"
printf 'int two(int a,\n\tint b)\n{\n\treturn a + b;\n}\nstatic struct s *three(void)\n{\n\treturn 0;\n}\n' \
    >"$planted/a/two.c"
printf 'int two(int a, int b)\n{\n\treturn 0;\n}\n' >"$planted/a/two_static.c"
check "$planted" || { echo "owners.sh: rule is too strict" >&2; exit 1; }
printf 'struct s *three(void)\n{\n\treturn 0;\n}\n' >"$planted/b/three.c"
! check "$planted" >/dev/null || { echo "owners.sh: rule is blind to another folder" >&2; exit 1; }
mv "$planted/b/three.c" "$planted/a/three.c"
check "$planted" || { echo "owners.sh: rule is too strict" >&2; exit 1; }
printf 'int one(int a);\n' >"$planted/a/b.h"
! check "$planted" >/dev/null || { echo "owners.sh: rule is blind to two headers" >&2; exit 1; }

check "${1:-.}"
