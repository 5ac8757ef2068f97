#!/bin/bash
# The driver of links is in both guests.
set -euo pipefail
mkdir -p guest/lab
cp "$DYNAMIC/tests/lab/link_drive" guest/lab/
