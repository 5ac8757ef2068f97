#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The software controller writes the object; in the guest only the pipelines read and write.
set -euo pipefail
head -c 9000000 /dev/urandom >in
"$HEADRACE" store format soft:nv0.img --force >/dev/null
"$HEADRACE" store put soft:nv0.img in in >/dev/null
