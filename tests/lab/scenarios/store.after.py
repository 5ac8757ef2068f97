# SPDX-License-Identifier: Apache-2.0
"""Read the disk images with the software controller, and compare them with results computed here."""
import json
import os
import struct
import subprocess

RUN, HEADRACE = os.environ["INSTANCE"], os.environ["HEADRACE"]
IN = "soft:nv0.img"
OUT = {"pci": "soft:nv1.img,lba=4096", "pci_small": IN, "pci_cmb": IN}.get(RUN, "soft:nv1.img")


def check(name, ok, why=""):
    print(("ok - " if ok else "not ok - ") + name)
    if not ok and why:
        print("# " + str(why)[:300])


def store(*words):
    """Returns exit code, standard output and messages, which are separate."""
    done = subprocess.run([HEADRACE, "store", *words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


def get(device, name):
    code, data, said = store("get", device, name, "-")
    return data if code == 0 else f"exit code {code}: {said!r}"


def crc32c(data):
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
        table.append(byte)
    crc = 0xffffffff
    for byte in data:
        crc = table[(crc ^ byte) & 0xff] ^ crc >> 8
    return crc ^ 0xffffffff


def bf16(bits):
    """Round to nearest even; a NaN becomes a quiet NaN."""
    if bits & 0x7fffffff > 0x7f800000:
        return bits >> 16 | 0x40
    return bits + 0x7fff + (bits >> 16 & 1) >> 16


with open("guest/data/numbers", "rb") as f:
    numbers = f.read()
with open("guest/data/other", "rb") as f:
    other = f.read()
words = struct.unpack(f"<{len(other) // 4}I", other)

check("the object on the host is exact", get(IN, "numbers") == numbers)
check("the copy on the other ssd is exact", get(OUT, "numbers.copy") == numbers)
check("the bf16 object is exact", get(OUT, "other.bf16") == struct.pack(f"<{len(words)}H", *map(bf16, words)))
check("the removed object is missing", "exit code" in get(IN, "third"))
for device in {IN, OUT}:
    code, told, said = store("verify", device)
    check(f"{device} verifies", code == 0, told + said)
with open("run.json", encoding="utf-8") as f:
    run = {p["name"]: p for p in json.load(f)["pipelines"]}
check("all pipelines are done", [p["outcome"] for p in run.values()] == ["done"] * 3)
check("the crc32c of the run is exact", run["sum"]["result"]["crc32c"] == f"{crc32c(numbers):08x}")
check("the crc32c covers all bytes", run["sum"]["read_bytes"] == len(numbers))
