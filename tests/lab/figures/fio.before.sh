#!/bin/bash
# Data in all blocks: what was never written the device would answer without reading.
set -euo pipefail
head -c 512M /dev/urandom >nv0.img
