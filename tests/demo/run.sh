#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The demo: one binary, one image file, four pipelines, every result checked by another program.
# Usage: tests/demo/run.sh [BUILD_FOLDER]     all its files are in build/demo
set -euo pipefail
cd "$(dirname "$0")/../.."
headrace=${1:-build}/headrace
dir=build/demo
ssd=soft:$dir/ssd.img,size=512M
began=$SECONDS

step() {
    printf '\n== %s\n' "$*"
}

step "packages and build"
tests/deps.sh build demo
make --no-print-directory "-j$(nproc)" all "${1:-build}/tests/demo/gen"

step "data: 4.2 million rows of lineitem, 65,536 embeddings, 4 million weights"
rm -rf $dir
mkdir -p $dir
"${1:-build}/tests/demo/gen" $dir
ls -l $dir

step "a soft SSD: the image file, an empty object store, the columns as objects"
"$headrace" store format "$ssd"
for object in l_shipdate.i32 l_discount.i32 l_quantity.i32 l_extendedprice.i64 embeddings.f32 weights.f32; do
    "$headrace" store put "$ssd" "${object%.*}" "$dir/$object"
done
"$headrace" store ls "$ssd"

step "the configuration as headrace reads it"
"$headrace" check config/demo.conf

step "run"
"$headrace" run config/demo.conf --json >$dir/run.json
"$headrace" store get --force "$ssd" weights.bf16 $dir/weights.bf16

step "results against sqlite3, python3 and rhash"
python3 -B tests/demo/verify.py $dir config/demo.conf $dir/run.json
echo "demo done in $((SECONDS - began)) s"
