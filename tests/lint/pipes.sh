#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# No script with `pipefail` ends a pipe in `grep -q`, which ends at the first match: the command
# before it may then die of SIGPIPE, and the pipe fails, depending on which of them is faster.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# wrong FILE...: prints the lines that break the rule; true when there is such a line
wrong() {
    local file found=1
    for file; do
        grep -q '^set .*pipefail' "$file" || continue
        grep -nHE '(^|[^|])\| *grep +-[a-zA-Z]*q' "$file" | grep -vE ':[0-9]+: *(#|.*sh=)' && found=0
    done
    return $found
}

printf 'set -o pipefail\nls | grep -qE x\n' >"$scratch/planted.sh"
printf 'set -o pipefail\nls | grep x >/dev/null\ngrep -q x y || grep -q x z\n' >"$scratch/sound.sh"
wrong "$scratch/planted.sh" >/dev/null || { echo "a planted pipe is not found"; exit 1; }
! wrong "$scratch/sound.sh" || { echo "a sound script is refused"; exit 1; }

mapfile -t scripts < <(find tests .ci -name '*.sh' ! -name pipes.sh; echo .ci/run)
! wrong "${scripts[@]}" || { echo "use grep ... >/dev/null, which reads to the end"; exit 1; }
