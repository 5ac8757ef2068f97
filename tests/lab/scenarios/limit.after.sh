#!/bin/bash
# What is written at the end of power cuts is there.
[ "$(cat cuts.json)" = "[]" ] || echo -n "not "
echo "ok - no cut was due before the end"
[ -e notes.txt ] || echo -n "not "
echo "ok - notes were written"
