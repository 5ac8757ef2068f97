#!/bin/bash
# headrace topo: the same machine through every reader, and captures of captures.
# Environment: HEADRACE, the binary under test; SCRATCH, an empty folder.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

captures=$(cd "$(dirname "$0")" && pwd)/captures
cd "$SCRATCH" || exit 1

# again FILE: a capture of it is the same machine, and so is a capture of that
again() {
    "$HEADRACE" topo --from "$1" --capture once && "$HEADRACE" topo --from once --capture twice &&
        cmp once twice && "$HEADRACE" topo --from twice --baseline "$1" &&
        "$HEADRACE" topo --from "$1" --baseline "$1"
}

for dump in "$captures"/*.lspci.gz; do
    zcat "$dump" >machine
    check "a capture of $(basename "$dump" .lspci.gz) is the same machine" again machine
done
done_testing
