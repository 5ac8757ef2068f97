# SPDX-License-Identifier: Apache-2.0
"""A life before this boot: the pipelines have run on the same disk, and the power was cut. Also the files
of the guest: its first process, and the configuration."""
import json
import os
import subprocess
import time

HEADRACE = os.environ["HEADRACE"]
CONFIG = """
appliance = {{ name = "life"; parallel = 2; }};
ssds = ( {{ name = "ssd0"; device = "{device}"; }} );
gpus = ( {{ name = "gpu0"; device = "host:1"; }} );
boot = {{ post = "off"; backoff = "20ms"; {boot} }};
pipelines = (
  {{ name = "sum"; source = {{ object = "in"; }}; operator = "crc32c"; tile = "16K"; slots = 4; every = "200ms"; }},
  {{ name = "copy"; source = {{ object = "in"; }}; operator = "copy"; tile = "16K"; slots = 4; every = "500ms";
     sink = {{ object = "out"; keep = 2; }}; }},
  {{ name = "nightly"; source = {{ object = "in"; }}; operator = "crc32c"; tile = "16K"; slots = 4; at = "03:00"; }},
  {{ name = "ask"; source = {{ object = "in"; }}; operator = "crc32c"; tile = "16K"; slots = 4; on = "request"; }} );
"""
# The first process starts the scenario, which sends requests to the appliance, and then executes
# headrace. The clock is that of a machine without a battery.
FIRST = """#!/bin/sh
export PATH=/bin:/lab HOME=/
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
date -s '1970-01-02 00:00:00'
stty -F /dev/ttyS1 raw -echo
( exec 3<>/dev/ttyS1 </dev/null
  sh -c '. /lab/lib.sh; . /lab/runs/0/scenario.sh'
  echo "end $?" >&3 ) &
exec /lab/headrace
"""


def write(path, text):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def check(name):
    for _ in range(600):  # the engine ends a little after its supervisor, and has the image open until then
        done = subprocess.run([HEADRACE, "check", "--json", "host.conf"], capture_output=True, check=False)
        if done.returncode == 0:
            break
        time.sleep(0.1)
    done.check_returncode()
    return {each["name"]: each for each in json.loads(done.stdout)["starts"]}[name]


write("host.conf", CONFIG.format(device="soft:nv0.img", boot=""))
write("guest/lab/life.conf", CONFIG.format(device="pci:" + os.environ["nv0"], boot='hugepages = "16M";'))
write("guest/lab/first", FIRST)
os.chmod("guest/lab/first", 0o755)
write("numbers", "".join(f"{i}\n" for i in range(40000)))
subprocess.run([HEADRACE, "store", "format", "soft:nv0.img", "--force"], check=True, stdout=subprocess.DEVNULL)
subprocess.run([HEADRACE, "store", "put", "soft:nv0.img", "in", "numbers"], check=True, stdout=subprocess.DEVNULL)
os.makedirs("runtime", exist_ok=True)
env = dict(os.environ, RUNTIME_DIRECTORY=os.path.abspath("runtime"))
with open("host.log", "wb") as log:
    boot = subprocess.Popen([HEADRACE, "boot", "host.conf"], stdout=log, stderr=log, env=env)
    for _ in range(600):
        time.sleep(0.1)
        with open("host.log", "rb") as f:
            if f.read().count(b"\nsum ") >= 3:
                break
    boot.kill()
    boot.wait()
before = check("sum")["done_count"]
write("guest/lab/before", f"{before}\n")
print(f"{'ok' if before >= 2 else 'not ok'} - the pipelines have run before this boot")
