"""What the console of the appliance says, and what it left on the disk."""
import os
import re
import subprocess

# Where the guest's clock counts instructions (icount= in appliance.sh): elsewhere it is wall time.
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
    check("the mistake is readable", "/lab/appliance.conf:2:" in console)
    check("the last resort is told", "does not run (code 2); poweroff in 5 s" in console)
elif instance == "failing":
    check("the absent device is waited for", "0000:7f:00.0 is absent; it is waited for 2 s" in console)
    check("bounded restarts", "given up after 2 restarts" in console)
    check("the missing device is named", "0000:7f:00.0" in console)
    check("the configured last resort", "does not run (code 3); reboot in 5 s" in console)
else:
    said = subprocess.run([os.environ["HEADRACE"], "store", "get", "soft:nv0.img", "numbers.copy",
                           "copied"], capture_output=True, text=True, check=False)
    with open("numbers", "rb") as f:
        numbers = f.read()
    copied = open("copied", "rb").read() if os.path.exists("copied") else b""
    check("the copy is on the disk", copied == numbers, said.stderr, f"{len(copied)} bytes")
    check("stages have lines", all(f"stage {s} up" in console for s in (
        "backends", "controllers", "stores", "objects", "partition", "memory", "sinks", "queues")))
    first = re.search(r"'sum': first tile submitted ([0-9.]+) ms after the start", console)
    check("the first tile has a time", first)
    if instance in COUNTED and first:
        check(f"it is submitted within {FIRST_TILE_MS} ms of the guest's instructions",
              float(first[1]) <= FIRST_TILE_MS)
    print(f"# from the start of the first process to the first tile: {first and first[1]} ms")
    check("the end in order",
          ("headrace: reboot" if instance == "vfio" else "headrace: poweroff") in console)
