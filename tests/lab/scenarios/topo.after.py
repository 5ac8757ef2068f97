# SPDX-License-Identifier: Apache-2.0
"""Compare the output of topo in the guest with topo.expect, and with its output for captures."""
import gzip
import json
import os
import shutil
import subprocess

RUN, LAB, HEADRACE = os.environ["INSTANCE"], os.environ["LAB"], os.environ["HEADRACE"]


def expected():
    """Returns IOMMU mode, exit code and {(gpu, ssd): fields} of this run. The environment has the
    addresses."""
    head, pairs, here = None, {}, False
    with open(os.path.join(LAB, "scenarios", "topo.expect"), encoding="ascii") as f:
        for line in f:
            words = line.partition("#")[0].split()
            if words and words[0].startswith("["):
                here = words[0] == f"[{RUN}]"
                head = words[1:] if here else head
            elif words and here:
                pairs[os.environ[words[0]], os.environ[words[1]]] = words[2:]
    return head[0], int(head[1]), pairs


def verdicts(said, *fields):
    return {(p["gpu"], p["nvme"]): [str(p[field]) for field in fields] for p in said["pairs"]}


def check(name, got, want):
    print(("ok - " if got == want else "not ok - ") + name)
    if got != want:
        print(f"# got      {got}\n# expected {want}")


def load(name):
    with open(name, encoding="utf-8") as f:
        return json.load(f)


def topo_of(capture, *options):
    gpus = [word for gpu in sorted({gpu for gpu, _ in PAIRS}) for word in ("--gpu", gpu)]
    hardware = [] if RUN == "switch_vm" else ["--ignore-vm"]
    done = subprocess.run([HEADRACE, "topo", "--from", capture, "--json", *hardware, *gpus, *options],
                          stdout=subprocess.PIPE, check=False, timeout=60)
    return json.loads(done.stdout)


IOMMU, EXIT, PAIRS = expected()
live = load("live.json")
ALL = ("verdict", "kernel_verdict", "kernel_distance", "distance")

check("the IOMMU's mode", live["machine"]["iommu"], IOMMU)
with open("live.code", encoding="ascii") as f:
    check("exit code", int(f.read()), EXIT)
check("exit code in the JSON", live["exit_code"], EXIT)
check("verdicts", verdicts(live, *ALL),
      {pair: [f[0], f[2], f[3], f[4]] for pair, f in PAIRS.items()})
check("verdicts in mode vfio", verdicts(load("vfio.json"), "verdict"),
      {pair: [f[1]] for pair, f in PAIRS.items()})
check("headrace's capture gives the same verdicts", verdicts(topo_of("capture.txt"), *ALL), verdicts(live, *ALL))
# The dump of lspci has neither the CPU (Zen, hypervisor) nor the mode of the IOMMU, which an option
# sets.
if not live["machine"]["zen"] and RUN != "switch_vm":
    option = {"off": "off", "passthrough": "pt", "translating": "on"}[IOMMU]
    check("lspci's dump gives the same verdicts", verdicts(topo_of("lspci.txt", "--iommu", option), *ALL),
          verdicts(live, *ALL))
    if "KEEP_CAPTURES" in os.environ:
        kept = os.path.join(os.environ["KEEP_CAPTURES"], RUN + ".lspci.gz")
        with open("lspci.txt", "rb") as f, open(kept, "wb") as out:
            with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as packed:
                shutil.copyfileobj(f, packed)
