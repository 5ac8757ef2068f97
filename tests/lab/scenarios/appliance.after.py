# SPDX-License-Identifier: Apache-2.0
"""Check the console of the appliance, and the data that it has written to the disk."""
import os
import re
import subprocess

# The guest's clock counts instructions (icount= in appliance.sh); without icount it is wall time.
COUNTED, FIRST_TILE_MS = {"pci", "vfio"}, 500


def check(name, ok, *why):
    print(f"{'ok' if ok else 'not ok'} - {name}")
    if not ok:
        for line in why or console.splitlines()[-40:]:
            print("#", line)


with open("console.log", encoding="utf-8", errors="replace") as f:
    console = f.read().replace("\r", "")
instance = os.environ["INSTANCE"]
check("headrace is the first process", "headrace is the first process" in console)
check("no panic", "Kernel panic" not in console)
if instance == "broken":
    check("the mistake is printed with its line", "/lab/appliance.conf:2:" in console)
    check("the last resort after a mistake is printed", "does not run (code 2); poweroff in 5 s" in console)
elif instance == "failing":
    check("the appliance waits for the absent device", "0000:7f:00.0 is absent; waiting for it for 2 s" in console)
    check("the number of restarts is limited", "given up after 2 restarts" in console)
    check("the missing device is named", "0000:7f:00.0" in console)
    check("the configured last resort is printed", "does not run (code 3); reboot in 5 s" in console)
else:
    said = subprocess.run([os.environ["HEADRACE"], "store", "get", "soft:nv0.img", "numbers.copy",
                           "copied"], capture_output=True, text=True, check=False)
    with open("numbers", "rb") as f:
        numbers = f.read()
    copied = open("copied", "rb").read() if os.path.exists("copied") else b""
    check("the copy is on the disk", copied == numbers, said.stderr, f"{len(copied)} bytes")
    check("each stage has a line", all(f"stage {s} up" in console for s in (
        "backends", "controllers", "stores", "objects", "partition", "memory", "sinks", "queues")))
    first = re.search(r"'sum': first tile submitted ([0-9.]+) ms after the start", console)
    check("the time of the first tile is printed", first)
    if instance in COUNTED and first:
        check(f"the first tile is submitted within {FIRST_TILE_MS} ms of the guest's instructions",
              float(first[1]) <= FIRST_TILE_MS)
    print(f"# from the start of the first process to the first tile: {first and first[1]} ms")
    check("the appliance ends cleanly",
          ("headrace: reboot" if instance == "vfio" else "headrace: poweroff") in console)
