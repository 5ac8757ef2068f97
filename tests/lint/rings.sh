#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Inside a folder of the product, files that call each other in a circle are none, or are named here with the
# reason. A file calls another one when it has the name of a function that the other one defines for
# other files. Before the tree is checked, the rule is tried on a tree with a circle and on one without.
# Usage: tests/lint/rings.sh [TREE]
set -euo pipefail

# Each: FILE FILE... # reason
exceptions() {
    cat <<'EOF'
boot/appliance/store/change.c boot/appliance/store/job.c boot/appliance/store/put.c # a table of steps, and their common parts
boot/cmd/store_client.c boot/cmd/store_client_change.c # one client, in two files of a readable size
boot/engine/devices/ssd.c boot/engine/devices/stand_in.c # a stand-in is an ssd, and goes down with its owner
config/base/clock.c config/base/tick.c # a wait ticks, and a tick reads the clock
gpu/ops/operators.c gpu/ops/user.c # a user operator may not have the name of a built-in one; both are found in one place
gpu/worker/io/commands.c gpu/worker/io/io.c gpu/worker/io/peers.c gpu/worker/io/peers_home.c gpu/worker/io/peers_pages.c gpu/worker/io/requests.c gpu/worker/io/single.c gpu/worker/io/writeback.c # one worker's round, as one program for the GPU
nvme/soft/admin.c nvme/soft/doorbells.c nvme/soft/fast_path.c nvme/soft/features.c nvme/soft/logs.c nvme/soft/queue_admin.c nvme/soft/queues.c nvme/soft/registers.c nvme/soft/threads.c # a device: commands change the queues and threads that run them
nvme/soft/io.c nvme/soft/zoned.c # a zoned read is a read
pci/topo/log/functions.c pci/topo/log/kernel_log.c # one reader: lines, and what they state of functions
EOF
}

# Prints each circle of a tree: the files in alphabetical order.
rings() {
    local names
    names=$(mktemp)
    (
        cd "$1"
        find . -name '*.c' ! -path './build*' ! -path './tests/*' | sed 's,^\./,,' | sort >"$names"
        ctags --sort=no -f - --languages=C --kinds-C=f --fields=Kf -L "$names" |
            awk -F '\t' '!/\tfile:/ { print "D", $2, $1 }'
        while read -r file; do
            sed -E 's,"([^"\\]|\\.)*","",g; s,/\*.*\*/,,; s,/\*.*$,,; s,^[[:blank:]]*\*( .*)?$,,' "$file" |
                grep -oE '\bhr_[a-z0-9_]+|\bsoft_[a-z0-9_]+' | sort -u | sed "s,^,U $file ," || true
        done <"$names"
    ) | awk '
        function folder(name) { sub(/\/[^\/]*$/, "", name); return name }
        $1 == "D" { owner[folder($2), $3] = $2; next }
        {
            other = owner[folder($2), $3]
            if (other != "" && other != $2 && !(($2, other) in edge)) {
                edge[$2, other] = 1
                next_of[$2] = next_of[$2] " " other
                files[$2]; files[other]
            }
        }
        function visit(from, at,    list, n, i) {
            n = split(next_of[at], list, " ")
            for (i = 1; i <= n; i++)
                if (!((from, list[i]) in reach)) { reach[from, list[i]] = 1; visit(from, list[i]) }
        }
        END {
            for (file in files) visit(file, file)
            for (file in files)
                if ((file, file) in reach) {
                    ring = ""
                    for (other in files)
                        if ((file, other) in reach && (other, file) in reach) print file, other
                }
        }' | sort | awk '
        { of[$1] = of[$1] " " $2 }
        END { for (file in of) if (!(of[file] in seen)) { seen[of[file]] = 1; print substr(of[file], 2) } }' | sort
    rm "$names"
}

check() {
    local bad=0 ring found
    found=$(rings "$1")
    while read -r ring; do
        [ -z "$ring" ] || exceptions | sed 's, *#.*,,' | grep -xF "$ring" >/dev/null ||
            { echo "files that call each other in a circle: $ring"; bad=1; }
    done <<<"$found"
    while read -r ring; do
        grep -qxF "$ring" <<<"$found" || { echo "tests/lint/rings.sh: no such circle: $ring"; bad=1; }
    done < <(exceptions | sed 's, *#.*,,')
    return $bad
}

planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir "$planted/a" "$planted/b"
printf 'int hr_single_miss(int a)\n{\n\treturn hr_two(a);\n}\n' >"$planted/a/one.c"
printf 'int hr_two(int a)\n{\n\treturn hr_three(a);\n}\n' >"$planted/a/two.c"
printf '/* hr_single_miss() */\nint hr_three(int a)\n{\n\treturn hr_four(a);\n}\n' >"$planted/a/three.c"
printf 'int hr_four(int a)\n{\n\treturn hr_single_miss(a);\n}\n' >"$planted/b/four.c"
[ -z "$(rings "$planted")" ] || { echo "rings.sh: rule is too strict" >&2; exit 1; }
printf 'int hr_three(int a)\n{\n\treturn hr_single_miss(a);\n}\n' >"$planted/a/three.c"
[ "$(rings "$planted")" = "a/one.c a/three.c a/two.c" ] || { echo "rings.sh: rule is blind" >&2; exit 1; }

check "${1:-.}"
