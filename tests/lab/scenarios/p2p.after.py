# SPDX-License-Identifier: Apache-2.0
"""Count the bytes of objects that the controller moved: to and from the BAR, and other memory."""
import json
import os
import re
import subprocess
import sys

SSD = "soft:nv0.img"
MOVES = re.compile(r"pci_nvme_(read|write) cid .* nsid 1 nlb \d+ count (\d+) lba (0x[0-9a-f]+)")
MAPS = re.compile(r"pci_nvme_map_addr addr (0x[0-9a-f]+) len (\d+)")


def check(name, ok, *why):
    print(f"{'ok' if ok else 'not ok'} - {name}")
    for line in why:
        print("#", line)


def headrace(*words):
    """Returns standard output. Messages are not included, because a warning is not part of the JSON."""
    done = subprocess.run([os.environ["HEADRACE"], *words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    if done.returncode != 0 or done.stderr:
        print(f"# headrace {' '.join(words)}: exit code {done.returncode}")
        for line in done.stderr.splitlines():
            print("#", line)
    if done.returncode != 0:
        check(f"headrace {' '.join(words)}", False)
        sys.exit(1)
    return done.stdout


def count(objects, bar):
    """Returns {(object, "read" or "write", whether with the BAR): bytes} for the blocks of objects."""
    moved, now, left = {}, None, 0
    with open("trace.log", encoding="ascii") as f:
        for line in f:
            if move := MOVES.search(line):
                at = int(move[3], 16) * 512
                inside = [o["name"] for o in objects
                          if o["offset_bytes"] <= at < o["offset_bytes"] + o["bytes"]]
                now, left = (inside[0], move[1]) if inside else None, int(move[2])
            elif (part := MAPS.search(line)) and left:  # later commands are admin commands
                left -= int(part[2])
                if now:
                    key = (*now, bar[0] <= int(part[1], 16) <= bar[1])
                    moved[key] = moved.get(key, 0) + int(part[2])
    return moved


with open("bar", encoding="ascii") as f:
    BAR = [int(word, 16) for word in f.read().split()[:2]]
with open("run.json", encoding="utf-8") as f:
    run = json.load(f)
objects = json.loads(headrace("store", "ls", "--json", SSD))["objects"]
moved = count(objects, BAR)
size = os.path.getsize("in")
blocks = (size + 511) // 512 * 512
direct = os.environ["INSTANCE"] == "direct"
want = {("in", "read", direct): 2 * blocks, ("out", "write", direct): blocks}
said = [f"{name} {way}, {'GPU memory' if there else 'host memory'}: {n} bytes"
        for (name, way, there), n in sorted(moved.items())]
where = "GPU memory" if direct else "host memory"
check(f"every byte moves between the SSD and {where}, and none elsewhere", moved == want, *said)
headrace("store", "get", SSD, "out", "out")
with open("in", "rb") as a, open("out", "rb") as b:
    check("the written bytes equal the bytes read", a.read() == b.read())
with open("sum.conf", "w", encoding="ascii") as f:
    f.write(f'ssds = ( {{ name = "a"; device = "{SSD}"; }} ); gpus = ( {{ name = "g"; '
            'device = "host:1"; } ); pipelines = ( { name = "sum"; source = { object = "in"; }; '
            'operator = "crc32c"; tile = "256K"; slots = 4; } );\n')
here = json.loads(headrace("run", "--json", "sum.conf"))["pipelines"][0]["result"]
check("the checksum equals the checksum on the host", here == run["pipelines"][0]["result"], "crc32c " + here["crc32c"])
