#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests hold behaviour, so that the code behind a header can be written anew: no test includes a .c file,
# renames a function of the product, or defines or wraps one in its place. The seam is there to be replaced:
# calls of the kernel, the clock, and where libcuda and libcufile are loaded (`seam`). Worker code and operators are the exception:
# tests compile them again for the lanes of a GPU (`lanes` names these files).
# Before the tree is checked, the rules are tried on a tree that breaks each of them.
# Usage: tests/lint/whitebox.sh [TREE]
set -euo pipefail

seam='^\./(config/base/(seam_linux|clock)|nvme/transport/vfio_calls|gpu/cuda/(driver/library|measure/cufile_library))\.c$'
lanes='^\./tests/(unit/.*lanes(_64)?\.c|unit/gpu/ops/[a-z0-9_]*\.c|fakes/(lanes[a-z_]*|objects)\.h|harness/operators\.h)$'

# Files that break a rule. A file that no longer does is removed here.
exceptions() {
    cat <<'EOF'
tests/cli.mk
EOF
    # tests/lab/link_drive.c ends its process in each state: it calls hr_link_advance() and then looks at the state
}

# Prints "NAME FILE" for each function that other files can call.
functions() {
    find . -name '*.[ch]' ! -path './build*' "$@" | sort |
        ctags --sort=no -f - --languages=C --langmap=C:.c.h --kinds-C=f --fields=Kf -L - |
        awk -F '\t' '!/\tfile:/ { print $1, $2 }'
}

# Prints "FILE: MISTAKE" for each mistake of the tree.
mistakes() {
    local product
    product=$(mktemp)
    functions ! -path './tests/*' ! -path './gpu/tap/examples/*' |
        awk -v seam="$seam" '$2 !~ seam && $1 !~ /^(main|hr_operator_.*)$/ { print $1 }' | # one for each operator
        sort -u >"$product"
    {
        find ./tests -name '*.[ch]' -exec grep -HoE '^[[:blank:]]*#[[:blank:]]*include "[^"]*\.c"' {} + |
            sed -E 's,^([^:]*):.*("[^"]*")$,\1: includes \2,' || true
        functions -path './tests/*' | awk 'NR == FNR { product[$1]; next }
            $1 in product { print $2 ": defines " $1 "()" }' "$product" -
        find ./tests -name '*.[ch]' -exec grep -HoE '^[[:blank:]]*#[[:blank:]]*define hr_[a-z0-9_]+' {} + |
            awk 'NR == FNR { product[$1]; next }
                $NF in product { sub(/:.*/, "", $1); print $1 ": renames " $NF "()" }' "$product" - || true
        grep -HoE -- '--wrap=hr_[a-z0-9_]+' ./tests/*.mk | awk -F '[:=]' 'NR == FNR { product[$1]; next }
            $NF in product { print $1 ": wraps " $NF "()" }' "$product" - || true
    } | sort -u | awk -F : -v lanes="$lanes" '$1 !~ lanes'
    rm "$product"
}

# Complains about each file with a mistake that is not in exceptions(), and about each file there without one.
check() {
    local found bad=0
    found=$(mistakes)
    awk -F : 'FILENAME == ARGV[1] { rest[$1]; next } $1 != "" && !("" $1 in rest) { print substr($0, 3); bad = 1 }
        END { exit bad }' <(exceptions | sed 's,^,./,') <(echo "$found") || bad=1
    while read -r file; do
        grep -q "^./$file: " <<<"$found" || { echo "$file: has no mistake: remove it from exceptions()"; bad=1; }
    done < <(exceptions)
    return $bad
}

planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir -p "$planted"/{config/base,nvme,gpu/worker,tests/unit/nvme,tests/fakes}
(
    cd "$planted"
    exceptions() { :; }
    printf 'int hr_wall_ns(void)\n{\n\treturn 0;\n}\n' >config/base/seam_linux.c
    printf 'int hr_open(int a)\n{\n\treturn a;\n}\n\nstatic int own(void)\n{\n\treturn 0;\n}\n' >nvme/open.c
    printf 'int hr_work(void)\n{\n\treturn 0;\n}\n' >gpu/worker/work.c
    cp config/base/seam_linux.c tests/fakes/seam.c
    printf '#include "gpu/worker/work.c"\n' >tests/unit/nvme/work_lanes.c
    printf '#include "nvme/open.h"\nstatic int hr_open_all(int a)\n{\n\treturn hr_open(a);\n}\nint own(void)\n{\n\treturn 1;\n}\n' \
        >tests/unit/nvme/open.c
    : >tests/unit.mk
    check || { echo "whitebox.sh: refuses a tree in which nothing is wrong" >&2; exit 1; }
    printf '  # include "nvme/open.c"\n' >tests/unit/nvme/includes.c
    printf '#define hr_open test_open\n' >tests/fakes/renames.h
    cp nvme/open.c tests/unit/nvme/defines.c
    printf 'program: ldflags += -Wl,--wrap=hr_open,--wrap=hr_wall_ns\n' >tests/unit.mk
    [ "$(check | cut -d ' ' -f 2 | tr '\n' ' ')" = "renames wraps defines includes " ] || {
        check
        echo "whitebox.sh: is blind" >&2
        exit 1
    }
)

cd "${1:-.}"
check
