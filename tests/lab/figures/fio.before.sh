#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Write data to all blocks: the device would answer reads of unwritten blocks without reading.
set -euo pipefail
head -c 512M /dev/urandom >nv0.img
