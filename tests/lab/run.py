#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The lab: scenarios in emulated machines. Prints TAP; README.md describes the parts.

usage: run.py [OPTIONS] [NAME...]     NAME: a scenario, one of its runs (topo/switch), or a pattern
"""
import argparse
import contextlib
import fnmatch
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
sys.path.append(os.path.join(TREE, "boot/image"))

# pylint: disable=wrong-import-position  # two modules are in boot/image
import cpio
import cuts
import guest
import host
import kernel
import machine
import scenario

# Kernel modules that scenarios may load, with their dependencies, and the folders of the package that
# contain them.
MODULES = ["nvme", "vfio-pci", "vfio_iommu_type1", "ext4", "crc32c_generic"]
# A pair has the modules of its network cards too; with `#: rdma` those of an RDMA device over one, and
# those that lose and reorder packets. rxe loads crc32 by name.
NET_MODULES = ["virtio_pci", "virtio_net"]
RDMA_MODULES = ["rdma_rxe", "ib_uverbs", "crc32_generic", "sch_netem"]
UNPACKED = ["./boot/vmlinuz-*", "./lib/modules/*/modules.*"] + [
    f"./lib/modules/*/kernel/{folder}/*"
    for folder in ("block", "crypto", "lib", "virt", "arch/x86/crypto", "fs/ext4", "fs/jbd2",
                   "drivers/nvme", "drivers/vfio", "drivers/virtio", "drivers/infiniband",
                   "net/core", "net/ipv4", "net/ipv6", "net/sched")
] + [f"./lib/modules/*/kernel/{module}.ko" for module in (
    "fs/mbcache", "drivers/net/virtio_net", "drivers/net/net_failover")]


class Tap:
    """Points of all runs, numbered in the order of their arrival."""

    def __init__(self):
        self._lock = threading.Lock()
        self.count = self.failed = 0

    def report(self, result):
        with self._lock:
            for ok, name, notes in result.points:
                self.count += 1
                self.failed += not ok
                print(f"{'ok' if ok else 'not ok'} {self.count} - {result.name}: {name}")
                for note in notes:
                    print("#", note)
            if result.stuck:
                print(f"# {result.name}: had no point within its time limit at first")
                for line in result.stuck:
                    print("#", line)
            print(f"# {result.name}: {result.seconds:.1f} s, {result.cpu_seconds:.1f} s of CPU time",
                  flush=True)


class Result:
    """Points of one run: (passed, name, lines of explanation). `stuck`: the guest has ended at the time
    limit without a point; lines that describe its state."""

    def __init__(self, name):
        self.name, self.points, self.stuck = name, [], []
        self.seconds = self.cpu_seconds = 0.0

    def take(self, line):
        """Take a line of TAP, which has no number. Returns False for any other line."""
        if line.startswith("ok - "):
            self.points.append((True, line[5:], []))
        elif line.startswith("not ok - "):
            self.points.append((False, line[9:], []))
        elif line.startswith("# ") and self.points:
            self.points[-1][2].append(line[2:])
        else:
            return False
        return True

    def fail(self, name, notes=()):
        self.points.append((False, name, list(notes)))

    @property
    def passed(self):
        return all(ok for ok, _, _ in self.points)


def libraries(program):
    """Shared libraries of a program, including its loader."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [word for word in listed.split() if word.startswith("/")]


def stripped(file, folder):
    """Copy a module or program without debugging information, and a module without its signature. A guest
    takes longer to check the signature than to load the module, and copies the rest twice at its start."""
    copy = os.path.join(folder, os.path.basename(file))
    subprocess.run(["strip", "--strip-debug", "-o", copy, file], check=True)
    return copy


class Lab:
    def __init__(self, options):
        self.options = options
        self.build = os.path.join(TREE, options.build)
        self.cache = os.path.join(TREE, options.cache)
        self.headrace = os.path.join(self.build, "headrace")
        self.dynamic = os.path.join(TREE, options.dynamic, "headrace")
        self.link_drive = os.path.join(TREE, options.dynamic, "tests/lab/link_drive")
        self.kernel = kernel.prepare(self.cache, UNPACKED)
        self.machines = machine.read_machines()
        self.tsc_khz = subprocess.run([os.path.join(self.build, "tests/lab/tsc")], check=True,
                                      capture_output=True, text=True).stdout.strip()
        self.base = self._base()

    def _base(self):
        a = cpio.Archive()
        for folder in ("proc", "sys", "tmp", "mnt", "root", "run"):
            a.folder(folder)
        a.console()
        a.file("init", os.path.join(HERE, "guest", "init"))
        for name in ("lib.sh", "peer", "rdma.sh"):
            a.file("lab/" + name, os.path.join(HERE, "guest", name))
        a.data("etc/passwd", b"root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
        a.data("etc/group", b"root:x:0:\nnobody:x:65534:\n")
        busybox = shutil.which("busybox")
        a.file("bin/busybox", busybox)
        said = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
        for applet in set(said.stdout.split()) - {"busybox"}:
            a.link("bin/" + applet, "busybox")
        self._modules(a, MODULES)
        return a.finish()

    def _modules(self, a, names):
        with tempfile.TemporaryDirectory(dir=self.cache) as work:
            for path, source in self.kernel.modules(names).items():
                a.file(path, stripped(source, work) if path.endswith(".ko") else source)

    def _programs(self, a, runs, m):
        """headrace and other programs, with their libraries, and modules that only some guests have."""
        s = runs[-1].scenario
        headrace = self.dynamic if s.dynamic else self.headrace
        tools = [shutil.which(tool)
                 for tool in sorted({tool for run in runs for tool in run.scenario.tools})]
        files = {path for pattern in scenario.RDMA_FILES for path in glob.glob(pattern)
                 if s.rdma}
        libs = [path for path in files if ".so" in path]
        files.update(tools)
        for program in tools + libs + ([headrace] if s.dynamic else []):
            files.update(libraries(program))
        for path in sorted(files):
            a.file(path.lstrip("/"), path)
        for tool in tools:
            if not tool.startswith("/bin/"):
                a.link("lab/" + os.path.basename(tool), tool)
        programs = [headrace] + ([self.link_drive] if s.rdma else []) + [
            os.path.join(self.build, "tests/unit", test)
            for test in sorted({test for run in runs for test in run.scenario.tests})]
        with tempfile.TemporaryDirectory(dir=self.cache) as work:
            for program in programs:
                a.file("lab/" + os.path.basename(program), stripped(program, work))
        modules = (NET_MODULES if m.of_kind("net") else []) + (RDMA_MODULES if s.rdma else [])
        if modules:
            self._modules(a, modules)

    def initramfs(self, runs, m, to):
        a = cpio.Archive()
        values = m.environment()
        a.data("lab/env", "".join(f"{k}='{v}'\n" for k, v in values.items()).encode())
        if m.number:
            a.data("lab/is_peer", b"")
        for number, run in enumerate(runs):
            a.data(f"lab/runs/{number}/env", f"INSTANCE='{run.instance}'\n".encode())
            a.file(f"lab/runs/{number}/scenario.sh", run.scenario.path)
        if runs[-1].scenario.appliance:
            config = runs[-1].scenario.config(runs[-1].instance, m.environment())
            a.data("lab/appliance.conf", config.encode())
        self._programs(a, runs, m)
        extra = os.path.join(os.path.dirname(m.folder) if m.number else m.folder, "guest")
        for folder, _, names in os.walk(extra):
            for name in names:
                path = os.path.join(folder, name)
                a.file(os.path.relpath(path, extra), path)
        if self.options.shell:
            a.data("lab/interactive", b"")
        with open(to, "wb") as f:
            f.write(self.base + a.finish())

    def folder(self, run):
        folder = os.path.join(self.cache, "runs", run.name.replace("/", "-"))
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        return folder

    def steps(self, when, run, m, result):
        """Run the steps of the scenario on the host. Their TAP counts as that of the guest does."""
        for path in run.scenario.steps(when):
            values = {**os.environ, **m.environment(), "HEADRACE": self.headrace, "LAB": HERE,
                      "INSTANCE": run.instance, "MACHINE": run.machine, "BUILD": self.build}
            program = [sys.executable] if path.endswith(".py") else ["bash"]
            done = subprocess.run(program + [path], cwd=m.folder, env=values, timeout=300,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)
            stray = [line for line in done.stdout.splitlines() if not result.take(line)]
            if done.returncode:
                result.fail(f"{os.path.basename(path)} ended with {done.returncode}", stray[-20:])

    @staticmethod
    def follow(g, verbs, notes, result):
        """Read the lines of the guest until it ends."""
        while True:
            line = g.line()
            if line.startswith("do "):
                g.answer(verbs.serve(line.split()[1:]))
            elif line.startswith("file "):
                g.take_file(line[5:])
            elif line.startswith("note "):
                notes.append(line[5:])
            elif line.startswith("end "):
                if line != "end 0":
                    result.fail(f"the scenario's script ended with {line[4:]}")
                return
            elif not result.take(line):
                result.fail(f"no line of TAP: {line[:200]}")

    def boot_parameters(self, run):
        # With icount the counter follows QEMU's clock, and the kernel measures it.
        clock = "" if run.icount else f"tsc_early_khz={self.tsc_khz} "
        return clock + run.boot

    def from_kernel(self, runs, m):
        initrd = os.path.join(m.folder, "initrd")
        self.initramfs(runs, m, initrd)
        return ["-kernel", self.kernel.vmlinux, "-initrd", initrd,
                "-append", f"{guest.BOOT} {self.boot_parameters(runs[-1])}"]

    def from_image(self, run, m):
        """Build the boot image for the configuration of the appliance, as `make image` does. On a busy
        machine the kernel's test of its timer finds too few ticks, and the kernel stops."""
        config = os.path.join(m.folder, "appliance.conf")
        with open(config, "w", encoding="utf-8") as f:
            f.write(run.scenario.config(run.instance, m.environment()))
        done = subprocess.run([os.path.join(TREE, "boot/image/build.py"), "--binary", self.headrace,
                               "--config", config, "--out", m.folder, "--cache", self.cache,
                               "--append", "no_timer_check " + self.boot_parameters(run)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False, timeout=300)
        if done.returncode:
            raise OSError("no image: " + done.stdout.strip())
        return ["-cdrom", os.path.join(m.folder, "headrace.iso")]

    def second(self, runs, m, stack):
        """Returns a function that starts the other guest of a pair: at its first call, or before it
        when that guest was started already."""
        def start():
            return stack.enter_context(contextlib.closing(
                guest.Guest(runs[-1], m.peer, self.from_kernel(runs, m.peer))))

        waiting = [start()]

        def ready():
            g = waiting.pop() if waiting else start()
            g.limit(runs[-1].scenario.limit)
            if g.line() != "ready":
                raise guest.Lost("the other guest did not say that it is ready")
            return g

        return ready

    def boot(self, runs, m, results):
        """Boot a guest for the runs. Returns the number of scripts that were started."""
        run = runs[-1]
        start = self.from_image(run, m) if run.start == "image" else self.from_kernel(runs, m)
        notes = []
        with contextlib.ExitStack() as stack:
            sockets = stack.enter_context(tempfile.TemporaryDirectory(prefix="lab."))
            for each in m.machines():
                each.sockets = sockets
            disks = {d.name: stack.enter_context(contextlib.closing(
                guest.PowerFailDisk(os.path.join(self.build, "tests/lab/pfdisk"), m, d)))
                for d in m.of_kind("ssd") if d.option.get("disk") == "powerfail"}
            if run.scenario.cuts:  # opened before the guest, so that they are closed after it
                name, writes = run.scenario.cuts
                stack.enter_context(contextlib.closing(
                    cuts.Cuts(disks[name], m.folder, writes, notes)))
            g = stack.enter_context(contextlib.closing(
                guest.Guest(run, m, start)))
            second = self.second(runs, m, stack) if m.peer else None
            verbs, spent = None, 0.0
            for number, result in enumerate(results, 1):
                each, began, before = runs[number - 1], time.monotonic(), len(result.points)
                g.limit(each.scenario.limit)
                try:
                    if each.scenario.appliance:
                        g.until_off()
                    else:
                        verbs = verbs or host.Host(g, m, second)
                        self.follow(g, verbs, notes, result)
                        result.cpu_seconds = verbs.cpu_seconds() - spent
                        spent += result.cpu_seconds
                        if number == len(runs) or not result.passed:
                            g.quit()
                    if each.scenario.lost:
                        result.fail(f"the guest was to be lost: {each.scenario.lost}")
                except guest.Lost as why:
                    if str(why) == each.scenario.lost:
                        result.take(f"ok - the guest ended early: {why}")
                    else:
                        words = [line for each in m.machines() for line in
                                 self.last_words(each.folder)]
                        words = g.where() + words
                        if str(why) == guest.TIME_LIMIT and len(result.points) == before:
                            result.stuck = words
                        result.fail(f"the guest ended early: {why}", words)
                finally:
                    result.seconds = time.monotonic() - began
                if not result.passed or each.scenario.lost:
                    return number
        return len(runs)

    @staticmethod
    def last_words(folder):
        notes = []
        for name in ("qemu.err", "console.log"):
            try:
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as f:
                    notes += [f"{name}: {line.rstrip()}" for line in f.readlines()[-15:]]
            except OSError:
                notes.append(f"no {name}")
        return notes

    def run(self, runs):
        """Run a guest, and once more when it got stuck before its first point: the kernel of an emulated
        machine stops during its start once in some hundred starts. Programs of a scenario cannot
        cause that, because each has a limit of its own, shorter than that of the guest. After a
        script that fails or ends the guest, the other runs get another one."""
        results = self.run_once(runs)
        if results[0].stuck and not runs[0].scenario.appliance:
            first, results = results[0], self.run_once(runs)
            results[0].stuck = first.stuck
        return results + (self.run(runs[len(results):]) if len(results) < len(runs) else [])

    def run_once(self, runs):
        """Returns the results of the runs that were started: the first ones of `runs`."""
        results = [Result(run.name) for run in runs]
        missing = runs[-1].missing()
        if missing:
            for result in results:
                result.take(f"ok - all of it # SKIP {missing}")
            return results
        folder = self.folder(runs[0])
        try:
            m = machine.Machine(runs[-1].machine, self.machines[runs[-1].machine], folder)
            for each in m.machines():
                each.make_files()
            for run, result in zip(runs, results):
                self.steps("before", run, m, result)
            results = results[:self.boot(runs, m, results)]
            for run, result in zip(runs, results):
                self.steps("after", run, m, result)
        except (OSError, subprocess.SubprocessError, machine.Mistake) as error:
            results[0].fail("the lab itself failed", [f"{type(error).__name__}: {error}"])
        for result in results:
            if not result.points:
                result.fail("nothing was checked")
        if all(result.passed for result in results) and not self.options.keep:
            shutil.rmtree(folder)
        for result in results:
            if not result.passed:
                result.points[-1][2].append("kept: " + os.path.relpath(folder, TREE))
        return results

    def shell(self, name):
        """Start a machine, of a pair the first one, with a shell on this terminal. poweroff -f or C-a x ends it."""
        run = scenario.Run("--shell", scenario.Scenario(os.path.join(HERE, "scenarios", "topo.sh")),
                           ["machine=" + name])
        m = machine.Machine(name, self.machines[name], self.folder(run))
        m.sockets = m.folder
        m.make_files()
        initrd = os.path.join(m.folder, "initrd")
        self.initramfs([run], m, initrd)
        subprocess.run(["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-machine", "q35",
                        "-cpu", run.cpu, "-m", run.memory, "-nodefaults", "-no-user-config",
                        "-nographic", "-no-reboot", "-serial", "mon:stdio", "-serial", "null",
                        "-kernel", self.kernel.vmlinux, "-initrd", initrd, "-append",
                        guest.BOOT + " " + self.options.boot] + m.arguments(), check=False)


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("name", nargs="*", help="scenarios or runs; patterns like 'topo/*'; all")
    p.add_argument("--build", default="build-static", help="folder of the static build")
    p.add_argument("--dynamic", default="build", help="folder of the dynamic build")
    p.add_argument("--cache", default="build/lab", help="folder of the kernel and of runs")
    p.add_argument("--jobs", type=int, default=2, help="guests, or pairs, at a time (2)")
    p.add_argument("--keep", action="store_true", help="keep folders of runs that passed")
    p.add_argument("--figures", dest="folder", action="store_const", const="figures",
                   default="scenarios", help="what figures/ has, not scenarios/")
    p.add_argument("--list", action="store_true", help="names of all runs")
    p.add_argument("--shell", metavar="MACHINE", help="boot that machine to a shell")
    p.add_argument("--boot", default="", help="kernel parameters for --shell")
    return p.parse_args()


def choose(options):
    names, runs = options.name, scenario.read_scenarios(options.folder)
    if not names:
        return runs
    chosen = [run for run in runs if any(fnmatch.fnmatch(run.name, name) or
                                         run.scenario.name == name for name in names)]
    if not chosen:
        raise machine.Mistake("no run is called " + " or ".join(names))
    return chosen


def main():
    options = parse()
    tap = Tap()
    try:
        runs = choose(options)
        if options.list:
            print("\n".join(run.name for run in runs))
            return 0
        for folder in (options.build, options.dynamic):
            if not os.path.exists(os.path.join(TREE, folder, "headrace")):
                raise machine.Mistake(f"no {folder}/headrace: make; make STATIC=1 lab-tools")
        lab = Lab(options)
    except machine.Mistake as mistake:
        print(f"lab: {mistake}", file=sys.stderr)
        return 2
    except kernel.Unavailable as why:
        print(f"ok 1 - lab # SKIP {why}\n1..1")
        return 0
    if options.shell:
        return lab.shell(options.shell)
    with ThreadPoolExecutor(options.jobs) as pool:
        for results in pool.map(lab.run, scenario.by_guest(runs)):
            for result in results:
                tap.report(result)
    print(f"1..{tap.count}")
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
