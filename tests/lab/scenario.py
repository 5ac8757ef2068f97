# SPDX-License-Identifier: Apache-2.0
"""Scenarios: the head of scenarios/NAME.sh. Its lines that start with `#: ` have these forms:

#: run [INSTANCE] machine=NAME [boot="KERNEL PARAMETERS"] [cpu=MODEL] [memory=MiB] [cpus=N]
        [start=image] [icount=N]
        one guest. A scenario may have several guests, with the names NAME/INSTANCE. start=image, for
        an appliance: the firmware starts the ISO that boot/image makes from its configuration.
        icount=N: the clock of the guest counts instructions, 2^N ns each, and does not depend on the
        speed of this machine
#: tools PROGRAM...    programs of this machine that the guest gets, with their libraries
#: dynamic             headrace is the dynamic build, with its libraries
#: rdma                the same, with libibverbs, its driver rxe, the modules of an RDMA device over a
        network card, and link_drive; skipped when this machine has no such library
#: tests F/NAME...     static builds of tests/unit/F/NAME.c, as /lab/NAME
#: cuts SSD WRITES     power cuts of that ssd (disk=powerfail) while the guest runs, WRITES writes
        apart on average
#: restores            the script leaves disks, functions and drivers as they were: it shares a guest with
        the first other run that has the same machine and options
#: appliance           headrace is the first process of the guest, with scenarios/NAME.INSTANCE.conf,
        in which $nv0 and other names of devices stand for addresses; only steps on the host check
        results
#: trace EVENT...      write these trace events of QEMU to trace.log in the folder of the run
#: limit SECONDS       time limit for the guest, from start to end (90)
#: lost REASON         the guest must end early for that reason; for scenarios that test the lab itself
"""
import glob
import os
import shlex
import shutil
import string

import machine

HERE = os.path.dirname(os.path.abspath(__file__))
RUN_KEYS = {"machine", "boot", "cpu", "memory", "cpus", "start", "icount"}
# Programs and folders of this machine that boot/image needs for an ISO that a BIOS can start.
IMAGE_NEEDS = ("grub-mkrescue", "xorriso", "mformat", "/usr/lib/grub/i386-pc")
# What libibverbs finds by name: its driver rxe, and the file that says so.
RDMA_FILES = ("/etc/libibverbs.d/rxe.driver", "/usr/lib/*/libibverbs.so.1",
              "/usr/lib/*/libibverbs/librxe-rdmav*.so")
RDMA_TOOLS = ("rdma", "tc", "ib_write_bw")


class Scenario:
    def __init__(self, path):
        self.path = path
        self.name = os.path.basename(path)[:-len(".sh")]
        self.appliance = self.restores = self.dynamic = self.rdma = False
        self.runs, self.tools, self.tests, self.limit, self.cuts = [], [], [], 90, None
        self.trace, self.lost = [], None
        with open(path, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                if line.startswith("#: "):
                    self._head(f"{path}:{number}", shlex.split(line[3:]))
        for run in self.runs if self.appliance else []:
            if run.start == "image":
                continue
            run.boot += " rdinit=/lab/headrace headrace.config=/lab/appliance.conf"
        if not self.runs:
            raise machine.Mistake(f"{path}: no line '#: run'")

    def _head(self, where, words):
        if words[0] == "run":
            self.runs.append(Run(where, self, words[1:]))
        elif words[0] in ("tools", "tests", "trace"):
            getattr(self, words[0]).extend(words[1:])
        elif words[0] == "cuts":
            self.cuts = (words[1], int(words[2]))
        elif words[0] in ("appliance", "restores", "dynamic"):
            setattr(self, words[0], True)
        elif words[0] == "rdma":
            self.rdma = self.dynamic = True
            self.tools.extend(RDMA_TOOLS)
        elif words[0] == "limit":
            self.limit = int(words[1])
        elif words[0] == "lost":
            self.lost = " ".join(words[1:])
        else:
            raise machine.Mistake(f"{where}: unknown line: {words[0]}")

    def config(self, instance, values):
        """The configuration of the appliance, with addresses in place of the names of devices."""
        with open(f"{self.path[:-len('.sh')]}.{instance}.conf", encoding="utf-8") as f:
            return string.Template(f.read()).substitute(values)

    def steps(self, when):
        """Files to run on the host `before` or `after` the guest, as scenarios/NAME.before.sh."""
        return sorted(glob.glob(f"{self.path[:-len('.sh')]}.{when}.*"))


class Run:
    """One guest of a scenario."""

    def __init__(self, where, scenario, words):
        self.scenario = scenario
        plain = [word for word in words if "=" not in word]
        options = dict(word.split("=", 1) for word in words if "=" in word)
        if len(plain) > 1 or "machine" not in options or set(options) - RUN_KEYS:
            raise machine.Mistake(f"{where}: not: run [INSTANCE] machine=NAME ...")
        self.instance = plain[0] if plain else ""
        self.name = scenario.name + ("/" + plain[0] if plain else "")
        self.machine = options["machine"]
        self.boot = options.get("boot", "")
        # Fast copies of bytes, checks of user pointers and deep page tables are slow in emulation.
        self.cpu = options.get("cpu", "max,-hypervisor,-erms,-smap,-la57")
        self.memory = options.get("memory", "512")
        self.cpus = options.get("cpus", "1")
        self.icount = options.get("icount")
        self.start = options.get("start", "kernel")
        if self.start not in ("kernel", "image"):
            raise machine.Mistake(f"{where}: start={self.start}: not kernel or image")

    def guest(self):
        """Equal for two runs whose scripts can share a guest."""
        return (self.machine, self.boot, self.cpu, self.memory, self.cpus, self.icount, self.start,
                self.scenario.appliance, self.scenario.dynamic, self.scenario.rdma,
                self.scenario.cuts, tuple(self.scenario.trace))

    def missing(self):
        """What this run needs and this machine does not have: a line for a message, or ""."""
        needs, packages = (), ""
        if self.start == "image":
            needs, packages = IMAGE_NEEDS, "image"
        elif self.scenario.rdma:
            needs, packages = RDMA_FILES + RDMA_TOOLS, "lab"
        none = [each for each in needs if not shutil.which(each) and not glob.glob(each)]
        return f"no {' and no '.join(none)} here: tests/deps.sh {packages}" if none else ""


def by_guest(runs):
    """Returns lists of runs, one a guest: runs whose scripts restore the machine, before one other run
    or the last of them. Guests that may take long come first, so that none of them is left at the end."""
    last = {}
    for run in runs:
        if run.guest() not in last or last[run.guest()].scenario.restores:
            last[run.guest()] = run
    guests = {run.name: [run] for run in runs
              if not run.scenario.restores or last[run.guest()] is run}
    for run in runs:
        if run.name not in guests:
            guests[last[run.guest()].name].insert(-1, run)
    return sorted(guests.values(), key=lambda each: -sum(run.scenario.limit for run in each))


def _read_folder(folder):
    steps = (".before.sh", ".after.sh")
    paths = [path for path in sorted(glob.glob(os.path.join(HERE, folder, "*.sh")))
             if not path.endswith(steps)]
    return [run for path in paths for run in Scenario(path).runs]


def read_scenarios(folder="scenarios"):
    """Returns all runs of the folder, in the order of their names. Checks the runs of both folders
    against machines.conf: the machine of each run exists, and each machine has a run."""
    runs = {each: _read_folder(each) for each in ("scenarios", "figures")}
    unused = set(machine.read_machines())
    known = frozenset(unused)
    for run in runs["scenarios"] + runs["figures"]:
        if run.machine not in known:
            raise machine.Mistake(f"{run.scenario.path}: no machine {run.machine}")
        unused.discard(run.machine)
    if unused:
        raise machine.Mistake("machines.conf: no run boots " + ", ".join(sorted(unused)))
    names = [run.name for run in runs[folder]]
    for name in names:
        if names.count(name) > 1:
            raise machine.Mistake(f"two runs are called {name}")
    return runs[folder]
