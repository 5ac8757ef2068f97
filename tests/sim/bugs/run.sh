#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Build the simulation with each planted bug, and look for the first seed that finds it.
#
# usage: tests/sim/bugs/run.sh [NAME...]   NAME: part of the name of a patch; default: all patches
# SEEDS=2000: give up after so many. JOBS: worlds at the same time, default: all cores.
# Exit code 1: a bug was not found, or its patch does not apply any more.
set -u
top=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
jobs=${JOBS:-$(nproc)}
seeds=${SEEDS:-2000}
step=$((20 * jobs))
work=$(mktemp -d)
worlds=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$work" "$worlds"' EXIT
failed=0

row() { # NAME SEED SECONDS INVARIANT
	printf '| %s | %s | %s | %s |\n' "$1" "$2" "$3" "$4"
}

# The tree of work/base in work/tree, with times, so that only what a patch changes is compiled.
fresh_tree() {
	rm -rf "$work/tree"
	cp -a "$work/base" "$work/tree"
}

# Seeds in order, until one fails: its line of the output, and the line after it.
first_failure() {
	local first text
	for ((first = 1; first <= seeds; first += step)); do
		text=$("$work/tree/build/tests/sim/sim" --first "$first" --seeds "$step" \
			--jobs "$jobs" --stop --seconds 120 --folder "$worlds/world" 2>&1) && continue
		text=$(grep -A1 '^seed [0-9]*: FAILED' <<<"$text" | grep -v '^--' | paste - - |
			sort -t ' ' -k 2n | head -n 1)
		[ -n "$text" ] && printf '%s\n' "$text" && return 0
	done
	return 1
}

try() { # PATCH
	local name since found seed invariant
	name=$(basename "$1" .patch)
	since=$SECONDS
	fresh_tree
	if ! git -C "$work/tree" apply "$1" 2>"$work/why"; then
		row "$name" - - "the patch does not apply: $(head -n 1 "$work/why")"
		return 1
	fi
	if ! make -C "$work/tree" "-j$jobs" NVCC= build/tests/sim/sim >"$work/why" 2>&1; then
		row "$name" - - "it does not compile: $(grep -m 1 'error:' "$work/why")"
		return 1
	fi
	if ! found=$(first_failure); then
		row "$name" - $((SECONDS - since)) "not found"
		return 1
	fi
	seed=${found#seed }
	invariant=${found#*$'\t'}
	invariant=${invariant#\#}
	invariant=${invariant#"${invariant%%[! ]*}"}
	row "$name" "${seed%%:*}" $((SECONDS - since)) "${invariant:0:100}"
}

make -C "$top" "-j$jobs" NVCC= build/tests/sim/sim >"$work/why" 2>&1 || {
	cat "$work/why"
	exit 1
}
mkdir "$work/base"
(cd "$top" && git ls-files -z --cached --others --exclude-standard |
	tar --null -T - --ignore-failed-read -cf - 2>/dev/null) | tar -C "$work/base" -xf -
(cd "$top" && find build \( -name '*.[oda]' -o -path build/tests/sim/sim \) \
	-not -path 'build/tests/[!s]*' -print0 | tar --null -T - -cf -) | tar -C "$work/base" -xf -
git -C "$work/base" init -q # git apply looks for the root of a tree
row bug seed seconds invariant
row --- --- --- ---
for patch in "$top"/tests/sim/bugs/*.patch; do
	for wanted in "${@:-}"; do
		[[ $(basename "$patch") == *"$wanted"* ]] || continue
		try "$patch" || failed=1
		break
	done
done
exit $failed
