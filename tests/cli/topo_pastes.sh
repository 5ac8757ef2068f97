#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# headrace topo on text as users paste it. tests/cli/pastes has a folder for each cause, with small
# machines and the file `expect`; tests/cli/pastes/README.md describes its lines.
# Environment: HEADRACE, the binary under test; SCRATCH, an empty folder.
set -uo pipefail

exec python3 -B "$(dirname "$0")/lib/topo_pastes.py" "$(dirname "$0")/pastes"
