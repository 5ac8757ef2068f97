# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154  # the script sets image
# Data that change on a disk behind the store. After lib/tap.sh; $image is the image file.

# crc OBJECT: the checksum that `ls` prints; the output of the last run is kept
crc() {
    "$HEADRACE" store ls "soft:$image" --json >"$SCRATCH/ls" &&
        json_value "$SCRATCH/ls" d "[o.get('crc32c', 'none') for o in d['objects'] if o['name'] == '$1'][0]"
}

# flip OBJECT BYTE: change one bit of the byte on the disk; a second call restores the bit
flip() {
    "$HEADRACE" store ls "soft:$image" --json >"$SCRATCH/ls" && python3 - "$SCRATCH/ls" "$image" "$1" "$2" <<'PY'
import json, sys
at = [o["offset_bytes"] for o in json.load(open(sys.argv[1]))["objects"] if o["name"] == sys.argv[3]][0]
with open(sys.argv[2], "r+b") as image:
    image.seek(at + int(sys.argv[4]))
    byte = image.read(1)[0]
    image.seek(-1, 1)
    image.write(bytes([byte ^ 16]))
PY
}
