#!/bin/bash
# The include arrows: a folder is a layer, and a file includes headers of its own folder and of
# lower layers. No header is exempt. LAYERS has the order; a folder reaches the folders it names,
# and those that they reach. A folder and the folder that contains it are two layers. Third-party
# headers appear only in their folder, tests may include everything. Headers of headrace are named
# from the root of the tree. The rules are first tried on a tree that breaks each of them.
# Usage: tests/lint/arrows.sh [TREE]
set -euo pipefail

layers() {
    cat <<'EOF'
config
pci/topo        config
pci             pci/topo
nvme            pci
nvme/soft       nvme
cache           nvme
cache/store     cache
gpu             cache
gpu/worker      gpu
gpu/ops         gpu/worker
gpu/tap         gpu/worker
gpu/ops/template gpu/ops
gpu/tap/client  gpu/tap
gpu/tap/examples gpu/tap/client
gpu/remote      gpu
gpu/host        gpu/ops gpu/tap
gpu/cuda        gpu/ops gpu/tap
gpu/nocuda      gpu/cuda
boot/engine     cache/store nvme/soft gpu/host gpu/cuda gpu/remote
boot/ranks      boot/engine
boot/ranks/mpi  boot/ranks
boot/cmd/report boot/engine
boot/cmd/post   boot/cmd/report
boot/cmd/store  boot/cmd/report
boot/cmd/bench  boot/cmd/report
boot/cmd/topo   boot/cmd/report
boot/appliance  boot/cmd/post
boot/cmd        boot/appliance boot/ranks boot/cmd/store boot/cmd/bench boot/cmd/topo
boot            boot/cmd
EOF
}

# Reads "FILE:LINE:#include ..." and prints one line for each include that is not allowed.
check() {
    awk '
    FNR == NR {
        layer[$1] = 1
        reach[$1, $1] = 1
        for (i = 2; i <= NF; i++)
            for (other in layer)
                if (other == $i || reach[$i, other])
                    reach[$1, other] = 1
        next
    }
    function complain(why) {
        printf "%s:%s: includes %s: %s\n", file, line, target, why
        bad = 1
    }
    function folder_of(name) {
        sub(/\/[^\/]*$/, "", name)
        return name
    }
    function third_party(header) {
        if (header ~ /^libconfig/) return "^config/"
        if (header ~ /^(libnvme|nvme\/)/) return "^nvme/"
        if (header ~ /^pciaccess/) return "^pci/[^/]*$"
        if (header ~ /^expat/) return "^pci/topo/"
        if (header ~ /^(json-c\/|json\.h)/) return "^boot/cmd/[^/]*$"
        if (header ~ /^(cuda|nvml)/) return "^gpu/cuda/"
        if (header ~ /^(blkid)/) return "^boot/engine/"
        if (header ~ /^(infiniband|sodium)/) return "^gpu/remote/"
        if (header ~ /^mpi/) return "^boot/ranks/mpi/"
        return ""
    }
    {
        split($0, part, ":")
        file = part[1]; line = part[2]
        sub(/^\.\//, "", file)
        target = $0; sub(/^[^:]*:[^:]*:[ \t]*#[ \t]*include[ \t]*/, "", target)
        quoted = target ~ /^"/
        sub(/^["<]/, "", target); sub(/[">].*/, "", target)
    }
    !(folder_of(file) in layer) { print file ": no folder of the design"; bad = 1; next }
    !quoted {
        where = third_party(target)
        if (where != "" && file !~ where)
            complain("third-party header, allowed in " where)
        next
    }
    target ~ /\.\./ { complain("not named from the root"); next }
    !(folder_of(target) in layer) { complain("not a header of ours, named from the root"); next }
    !reach[folder_of(file), folder_of(target)] { complain("against the arrow") }
    END { exit bad }' <(layers) -
}

includes() {
    (cd "$1" && find . \( -name '*.[ch]' -o -name '*.cu' \) ! -path './build*' ! -path './tests/*' |
        sort | xargs grep -HnE '^[[:space:]]*#[[:space:]]*include')
}

# Each of these must be refused; the first word is the file.
must_fail() {
    cat <<'EOF'
config/log.h "nvme/worker.h"
config/a.c "gpu/ops/operator.h"
config/config.h "pci/function.h"
pci/topo/a.c "pci/live.h"
pci/a.c "nvme/queue.h"
nvme/a.c "nvme/soft/soft.h"
nvme/a.c "cache/object.h"
nvme/worker.h "gpu/worker/role.h"
nvme/soft/a.c "gpu/worker/pipeline.h"
cache/a.h "cache/store/objmap.h"
cache/a.h "gpu/arena.h"
gpu/a.c "gpu/worker/pipeline.h"
gpu/tap/a.c "gpu/tap/client/tap.h"
gpu/backend.h "gpu/cuda/cuda.h"
gpu/worker/a.c "gpu/ops/operator.h"
gpu/a.c "config/log.c/log.h"
boot/engine/a.c "boot/cmd/report/json.h"
boot/engine/a.c "boot/appliance/init.h"
boot/appliance/a.c "boot/cmd/cmd.h"
boot/engine/a.c "boot/ranks/ranks.h"
boot/ranks/a.c "boot/cmd/cmd.h"
boot/ranks/a.c <mpi.h>
boot/engine/a.c <infiniband/verbs.h>
gpu/a.c <sodium/utils.h>
gpu/remote/a.c "gpu/worker/pipeline.h"
boot/cmd/store/a.c "boot/cmd/topo/topo.h"
cache/b.c <libconfig.h>
boot/a.c <libnvme.h>
gpu/b.c <nvme/types.h>
nvme/b.c <pciaccess.h>
pci/topo/b.c <pciaccess.h>
nvme/f.c <expat.h>
gpu/worker/b.c <json-c/json.h>
gpu/ops/b.c <json-c/json.h>
boot/cmd/report/a.c <json-c/json.h>
cache/c.c <cuda.h>
gpu/c.c <cuda.h>
nvme/e.c <blkid/blkid.h>
nvme/c.c "../pci/bits.h"
nvme/d.c "queue.h"
util/a.c "config/log.h"
EOF
}

must_pass() {
    cat <<'EOF'
pci/a.c "config/log.h"
pci/a.c "pci/topo/model.h"
nvme/a.c "nvme/worker.h"
nvme/soft/a.c "nvme/wire.h"
gpu/a.c "cache/object.h"
gpu/ops/a.c "nvme/worker.h"
boot/engine/a.c "config/config.h"
boot/main.c "config/clock.h"
boot/cmd/a.c <json-c/json.h>
nvme/soft/a.c <nvme/types.h>
gpu/cuda/a.c <cuda.h>
nvme/worker.h "nvme/worker_host.h"
EOF
}

while read -r file header; do
    ! echo "$file:1:#include $header" | check >/dev/null ||
        { echo "arrows.sh: rule is blind: $file may include $header" >&2; exit 1; }
done < <(must_fail)
while read -r file header; do
    echo "$file:1:#include $header" | check ||
        { echo "arrows.sh: rule is too strict" >&2; exit 1; }
done < <(must_pass)

includes "${1:-.}" | check
