#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The software controller writes the object that the appliance uses.
set -euo pipefail
seq 1 300000 >numbers
truncate -s 1500007 numbers
"$HEADRACE" store format soft:nv0.img --force >/dev/null
"$HEADRACE" store put soft:nv0.img numbers numbers >/dev/null
