#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Too little memory for the parts that the program takes at its start. The limit is raised by 1 MiB until
# the program gets as far as the part, which is larger than that.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

cat >"$SCRATCH/x.conf" <<'CONF'
ssds = ( { name = "a"; device = "soft:memory,size=16M"; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "p"; source = { object = "in"; }; operator = "crc32c"; tile = "64K"; } );
CONF

# lacks_memory PART COMMAND: with one of the limits the error names the part, and the exit code is 3
lacks_memory() {
    local mib code
    for mib in $(seq 8 24); do
        code=0
        (ulimit -v $((mib << 10)) && exec timeout 5 "$HEADRACE" "$2" "$SCRATCH/x.conf") \
            >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null || code=$?
        grep -q "error: out of memory for $1" "$SCRATCH/err" || continue
        [ $code = 3 ] && return
        echo "exit code $code, expected 3"
        return 1
    done
    echo "no limit gave that message"
    return 1
}

check "run: no memory for the appliance" lacks_memory "the appliance" run
check "run: no memory for the control socket" lacks_memory "the control socket" run
check "boot: no memory for the supervisor" lacks_memory "the supervisor" boot
done_testing
