#!/bin/bash
# The include arrows. Who may include whom:
#
#   boot > config > gpu > cache > nvme > pci     a folder includes itself and what is to its right
#   floor                                        four headers that everyone may include
#
# Third-party headers appear only in their folder, tests may include everything. Our own headers are
# named from the root of the tree. Before the tree is judged, the rules are tried on a tree that
# breaks each of them.
# Usage: tests/lint/arrows.sh [TREE]
set -euo pipefail

# Reads "FILE:LINE:#include ..." and prints one line for each include that is not allowed.
judge() {
    awk '
    BEGIN {
        n = split("pci nvme cache gpu config boot", order, " ")
        for (i = 1; i <= n; i++)
            level[order[i]] = i
        n = split("config/limits.h config/log.h config/clock.h nvme/worker.h", list, " ")
        for (i = 1; i <= n; i++)
            floor[list[i]] = 1
        # what nvme/worker.h is made of
        base["nvme/worker_host.h"] = base["nvme/worker_cuda.h"] = 1
    }
    function complain(why) {
        printf "%s:%s: includes %s: %s\n", file, line, target, why
        bad = 1
    }
    function third_party(header) {
        if (header ~ /^libconfig/) return "^config/"
        if (header ~ /^(libnvme|nvme\/)/) return "^nvme/"
        if (header ~ /^(pciaccess|expat)/) return "^pci/"
        if (header ~ /^(json-c\/|json\.h)/) return "^(boot/|gpu/ops/[^/]*_desc\\.c$)"
        if (header ~ /^(cuda|nvml)/) return "^gpu/"
        if (header ~ /^(blkid)/) return "^boot/"
        return ""
    }
    {
        split($0, part, ":")
        file = part[1]; line = part[2]
        sub(/^\.\//, "", file)
        folder = file; sub(/\/.*/, "", folder)
        target = $0; sub(/^[^:]*:[^:]*:[ \t]*#[ \t]*include[ \t]*/, "", target)
        quoted = target ~ /^"/
        sub(/^["<]/, "", target); sub(/[">].*/, "", target)
        owner = target; sub(/\/.*/, "", owner)
    }
    !(folder in level) { print file ": no folder of the design"; bad = 1; next }
    !quoted {
        where = third_party(target)
        if (where != "" && file !~ where)
            complain("third-party header, allowed in " where)
        next
    }
    !(owner in level) { complain("not a header of ours, named from the root"); next }
    target ~ /\.\./ { complain("not named from the root"); next }
    floor[file] || base[file] {
        if (!floor[target] && !base[target])
            complain("a floor header includes floor headers only")
        next
    }
    !floor[target] && level[owner] > level[folder] { complain("against the arrow") }
    END { exit bad }'
}

includes() {
    (cd "$1" && find . \( -name '*.[ch]' -o -name '*.cu' \) ! -path './build*' ! -path './tests/*' |
        sort | xargs grep -HnE '^[[:space:]]*#[[:space:]]*include')
}

# Each of these must be refused; the first word is the file.
must_fail() {
    cat <<'EOF'
pci/a.c "nvme/queue.h"
nvme/a.c "cache/store/objmap.h"
nvme/soft/a.c "gpu/worker/pipeline.h"
cache/a.h "gpu/arena.h"
gpu/a.c "config/config.h"
config/a.c "boot/engine/stages.h"
cache/b.c <libconfig.h>
boot/a.c <libnvme.h>
gpu/b.c <nvme/types.h>
nvme/b.c <pciaccess.h>
nvme/f.c <expat.h>
gpu/worker/pipeline.c <json-c/json.h>
cache/c.c <cuda.h>
nvme/e.c <blkid/blkid.h>
nvme/worker.h "nvme/queue.h"
config/log.h "boot/engine/stages.h"
nvme/c.c "../pci/bits.h"
nvme/d.c "queue.h"
util/a.c "config/log.h"
EOF
}

must_pass() {
    cat <<'EOF'
pci/a.c "config/log.h"
nvme/a.c "nvme/worker.h"
gpu/a.c "cache/store/objmap.h"
config/a.c "gpu/worker/op.h"
boot/a.c "config/config.h"
gpu/ops/copy_desc.c <json-c/json.h>
nvme/soft/a.c <nvme/types.h>
nvme/worker.h "nvme/worker_host.h"
EOF
}

while read -r file header; do
    ! echo "$file:1:#include $header" | judge >/dev/null ||
        { echo "arrows.sh: rule is blind: $file may include $header" >&2; exit 1; }
done < <(must_fail)
while read -r file header; do
    echo "$file:1:#include $header" | judge ||
        { echo "arrows.sh: rule is too strict" >&2; exit 1; }
done < <(must_pass)

includes "${1:-.}" | judge
