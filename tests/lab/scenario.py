"""Scenarios: what the head of scenarios/NAME.sh says. Lines of the head that count start with `#: `:

#: run [INSTANCE] machine=NAME [boot="KERNEL PARAMETERS"] [cpu=MODEL] [memory=MiB] [cpus=N]
        [start=image] [icount=N]
        one guest; a scenario may have several, called NAME/INSTANCE. start=image, of an appliance:
        the machine's firmware starts the ISO that boot/image makes of its configuration. icount=N:
        its clock counts instructions, each 2^N ns, whatever time they take here
#: tools PROGRAM...    programs of this machine that the guest needs, with their libraries
#: tests F/NAME...     static builds of tests/unit/F/NAME.c, as /lab/NAME
#: cuts SSD WRITES     power cuts of that ssd (disk=powerfail) while the guest runs, so many writes
        apart on average
#: appliance            headrace is the guest's first process, with scenarios/NAME.INSTANCE.conf, in
                        which $nv0 and the like are addresses; only steps on the host judge
#: trace EVENT...       of QEMU, into trace.log of the run's folder
#: limit SECONDS       for the guest, from start to end (90)
#: lost REASON         the guest must end early, for that reason: of scenarios about the lab itself
"""
import glob
import os
import shlex
import shutil
import string

import machine

HERE = os.path.dirname(os.path.abspath(__file__))
RUN_KEYS = {"machine", "boot", "cpu", "memory", "cpus", "start", "icount"}
# What boot/image needs of this machine for an ISO that a BIOS starts.
IMAGE_NEEDS = ("grub-mkrescue", "xorriso", "mformat", "/usr/lib/grub/i386-pc")


class Scenario:
    def __init__(self, path):
        self.path = path
        self.name = os.path.basename(path)[:-len(".sh")]
        self.appliance = False
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
        elif words[0] == "appliance":
            self.appliance = True
        elif words[0] == "limit":
            self.limit = int(words[1])
        elif words[0] == "lost":
            self.lost = " ".join(words[1:])
        else:
            raise machine.Mistake(f"{where}: no such line: {words[0]}")

    def config(self, instance, values):
        """The appliance's configuration, filled in."""
        with open(f"{self.path[:-len('.sh')]}.{instance}.conf", encoding="utf-8") as f:
            return string.Template(f.read()).substitute(values)

    def steps(self, when):
        """What runs on the host `before` or `after` the guest: scenarios/NAME.before.sh and so on."""
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
        self.cpu = options.get("cpu", "max,-hypervisor")
        self.memory = options.get("memory", "512")
        self.cpus = options.get("cpus", "1")
        self.icount = options.get("icount")
        self.start = options.get("start", "kernel")
        if self.start not in ("kernel", "image"):
            raise machine.Mistake(f"{where}: start={self.start}: not kernel or image")

    def missing(self):
        """What this run needs and this machine lacks."""
        needs = IMAGE_NEEDS if self.start == "image" else ()
        return [each for each in needs if not shutil.which(each) and not os.path.isdir(each)]


def _read_folder(folder):
    steps = (".before.sh", ".after.sh")
    paths = [path for path in sorted(glob.glob(os.path.join(HERE, folder, "*.sh")))
             if not path.endswith(steps)]
    return [run for path in paths for run in Scenario(path).runs]


def read_scenarios(folder="scenarios"):
    """All runs of the folder, in the order of their names. Those of both folders are checked against
    machines.conf: each has its machine, and each machine a run."""
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
