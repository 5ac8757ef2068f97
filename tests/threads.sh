#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Print the unit tests with threads: tests/threads.sh BUILD TEST...   TEST: a path without suffix.
# The last line of BUILD/TEST.log says how many of its cases had threads. A test without that line counts as one with threads.
set -euo pipefail

build=$1
shift
for name in "$@"; do
    grep -aqxF '[====] Threads: in 0 tests' "$build/$name.log" 2>/dev/null || echo "$name"
done
