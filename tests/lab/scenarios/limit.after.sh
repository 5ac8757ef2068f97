#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The file that is written at the end of power cuts exists.
[ "$(cat cuts.json)" = "[]" ] || echo -n "not "
echo "ok - no cut was due before the end"
[ -e notes.txt ] || echo -n "not "
echo "ok - notes were written"
