#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The captures of pci/topo/examples: each command of pci/topo/README.md that reads one runs, and the
# output that the READMEs print is that of the program.
# Environment: HEADRACE, the binary under test; SCRATCH, an empty folder.
# shellcheck disable=SC2317  # called through check
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/topo.sh
. "$(dirname "$0")/lib/topo.sh"

page=$PWD/pci/topo/README.md
mkdir -p "$SCRATCH/pci/topo" "$SCRATCH/bin"
ln -s "$PWD/pci/topo/examples" "$SCRATCH/pci/topo/examples"
ln -s "$(realpath "$HEADRACE")" "$SCRATCH/bin/headrace"
if ! command -v dot >/dev/null; then
    printf '#!/bin/sh\nexec cat\n' >"$SCRATCH/bin/dot"
    chmod +x "$SCRATCH/bin/dot"
fi
box=pci/topo/examples/box.txt workstation=pci/topo/examples/workstation.txt

# The commands of the first block of the page, without their descriptions.
commands() {
    awk '/^```/ { if (seen++) exit; next } seen' "$page" | sed -E 's/   +.*//' | grep -F "\$box"
}

# runs COMMAND: it prints something, no usage error, and each view of pairs ends as the box does (2)
runs() {
    local code=0
    (cd "$SCRATCH" && PATH="$SCRATCH/bin:$PATH" bash -c "box=$box; $1") >"$SCRATCH/out" 2>"$SCRATCH/err" ||
        code=$?
    case $1 in *'| dot'*) [ "$code" -eq 0 ] && grep -q . "$SCRATCH/topo.svg" ;;
    *--html*) [ "$code" -eq 2 ] && grep -q '</html>' "$SCRATCH/topo.html" ;;
    *--require*) [ "$code" -eq 2 ] && grep -q 'required is DIRECT' "$SCRATCH/err" ;;
    *) [ "$code" -eq 2 ] && grep -q . "$SCRATCH/out" && [ ! -s "$SCRATCH/err" ] ;; esac ||
        { echo "exit $code"; cat "$SCRATCH/out" "$SCRATCH/err"; return 1; }
}

# prints PAGE FIRST: each line of the block that has the line FIRST is in the output, in this order;
# "..." stands for other lines
prints() {
    "$HEADRACE" topo "$box" >"$SCRATCH/out"
    awk -v first="$2" '/^```/ { if (!inside) { inside = 1; text = ""; next }
        if (index(text, first)) { printf "%s", text; exit } inside = 0 }
        inside { text = text $0 "\n" }' "$1" | grep -vx -e '\$ .*' -e '\.\.\.' >"$SCRATCH/printed"
    [ "$(wc -l <"$SCRATCH/printed")" -gt 5 ] || { echo "no block with '$2' in $1"; return 1; }
    diff "$SCRATCH/printed" "$SCRATCH/out" | grep '^<' && return 1
    return 0
}

# Serial numbers, host names and other paths of people do not belong into the files.
anonymous() {
    ! grep -nEi 'serial|hostname|/home/|([0-9a-f]{2}[-:]){7}' pci/topo/examples/*.txt
}

found=0
while IFS= read -r command; do
    found=$((found + 1))
    check "$command" runs "$command"
done < <(commands)
check "the page has commands on the box" test "$found" -ge 14
check "README.md prints the box's answer" prints README.md '48 pairs share a switch'
check "pci/topo/README.md prints the box's answer" prints "$page" '48 pairs share a switch'
check "the workstation's pairs go through a listed root complex" \
    says '^2 pairs do not share a switch: 2 RC_LISTED; 1 degraded' "$workstation"
check "the workstation's chipset is named" says '0000:04:00.0: chipset port' "$workstation"
check "the workstation's SSDs are reached in each view" exits 2 "$workstation" --plan
nodes_known() {
    "$HEADRACE" topo "$box" --peers gpu,nic >"$SCRATCH/peers" || true
    ! grep "may be SYS" "$SCRATCH/peers"
}
check "the NUMA nodes of the box are known" nodes_known
"$HEADRACE" topo "$box" --capture "$SCRATCH/old.txt" >/dev/null
check "a capture of the box is the same machine" exits 0 "$box" --baseline "$SCRATCH/old.txt"
sed 's/ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-/ReqRedir- CmpltRedir- UpstreamFwd+ EgressCtrl- DirectTrans-/' \
    "$box" >"$SCRATCH/clear.txt"
check "SSDs that change alike share a line" \
    says '^GPU3 to NVME6-11: REDIRECTED.RC_LISTED -> DIRECT' "$box" --what-if acs:all=clear
check "the box without redirect has direct pairs" says '^48 pairs share a switch: 48 DIRECT' "$SCRATCH/clear.txt"
check "a cleared redirect differs from the baseline" exits 7 "$SCRATCH/clear.txt" --baseline "$SCRATCH/old.txt"
check "no serial numbers, host names or folders of people" anonymous
done_testing
