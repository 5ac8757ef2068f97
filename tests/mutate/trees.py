# SPDX-License-Identifier: Apache-2.0
"""Copies of the working tree for mistakes, and the results of their builds and tests."""
import itertools
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time


# Each command has a value of its own in this variable, and the processes that it starts inherit it.
MARK = "HEADRACE_MUTATE_RUN"
runs = itertools.count()


def run(command, cwd, limit, env=None, watched=None):
    """(exit status or None after `limit` seconds, output). All processes of the command are ended.

    A failure in the file `watched` ends them, too, with the exit status 1.
    """
    mark = "%d.%d" % (os.getpid(), next(runs))
    with tempfile.TemporaryFile() as file, \
            subprocess.Popen(command, cwd=cwd, env=dict(env or os.environ, **{MARK: mark}),
                             stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                             start_new_session=True) as child:
        end, status = clock() + limit, None
        while status is None and clock() < end:
            try:
                status = child.wait(0.2 if watched else limit)
            except subprocess.TimeoutExpired:
                if watched and first_failure_in(watched):
                    status = 1
        end_group(child.pid)
        while end_marked(mark):
            pass
        child.wait()
        file.seek(0)
        return status, file.read().decode(errors="replace")


def end_group(leader):
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        pass


def end_marked(mark):
    """Ends the processes with that mark: a test can leave one in a session of its own, which a mistake
    keeps in an endless loop. Returns whether there was one, because it can have started another."""
    entry, found = ("%s=%s" % (MARK, mark)).encode(), False
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % name, "rb") as file:
                marked = entry in file.read().split(b"\0")
            if marked:  # The environment of a process that has ended is empty.
                os.kill(int(name), signal.SIGKILL)
                found = True
        except OSError:
            continue
    return found


class Tree:
    """A copy of the working tree, with a build folder for each variant."""

    def __init__(self, source, place, make):
        self.source, self.place, self.make = source, place, make
        self.quick = {}  # {name of a variant: Quick, or None when it cannot be built}

    def update(self):
        """Make the copy equal to the working tree. An equal file keeps its modification time."""
        listing = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"],
                                 cwd=self.source, check=True, stdout=subprocess.PIPE).stdout
        names = {name for name in listing.decode().split("\0")
                 if name and os.path.isfile(os.path.join(self.source, name))}
        for name in names:
            self.write(name, None)
        for folder, folders, files in os.walk(self.place):
            folders[:] = [f for f in folders
                          if not (folder == self.place and f.startswith("build"))]
            for file in files:
                path = os.path.join(folder, file)
                if os.path.relpath(path, self.place) not in names:
                    os.remove(path)

    def copy_to(self, other):
        """Returns another copy with the same sources and builds, and the same modification times, so that
        nothing is built again."""
        shutil.rmtree(other.place, ignore_errors=True)
        subprocess.run(["cp", "-a", self.place, other.place], check=True)

    def write(self, name, text):
        """Write text to a file; None: the text of the working tree."""
        path, original = os.path.join(self.place, name), os.path.join(self.source, name)
        with open(original, "rb") as file:
            data = file.read() if text is None else text.encode()
        if os.path.exists(path):
            with open(path, "rb") as file:
                if file.read() == data:
                    return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        shutil.copymode(original, path)

    def log(self, variant, test):
        return os.path.join(self.place, variant.folder(), test + ".log")

    def test(self, variant, test, limit):
        """(True when it passed, None after `limit` seconds; output). Ends at the first failure."""
        log = self.log(variant, test)
        if os.path.exists(log):
            os.remove(log)
        # A script ends the processes that it started, so it runs to its end.
        watched = log if test.startswith("tests/unit/") else None
        status, output = self.build(variant, [test + ".ok"], limit=limit, watched=watched)
        if status == 0:
            return True, ""
        if os.path.exists(log):
            with open(log, encoding="utf-8", errors="replace") as file:
                output = file.read()
        return None if status is None else False, output

    def build(self, variant, targets, limit=1800, jobs=1, go_on=False, env=None, watched=None):
        """(status, output) of make for targets, named without the build folder; env is added. A target
        that begins with lint- is no file, and VARIABLE=VALUE and -OPTION are for make."""
        folder = variant.folder()
        names = [target if target.startswith(("lint-", "-")) or "=" in target else folder + "/" + target
                 for target in targets]
        runner = folder + "/tests/harness/runner.o"
        return run([self.make, "--no-print-directory", "-j%d" % jobs, "O=build", "NVCC=",
                    "driver=" + runner] + ["-k"] * go_on + variant.switches + names,
                   self.place, limit, dict(os.environ, **env) if env else None, watched)


class Variant:
    """A build: its name, its suffix of the build folder, and the switches of make for it."""

    def __init__(self, name, suffix, *switches):
        self.name, self.suffix, self.switches = name, suffix, list(switches)
        self.sanitizer = ["-fsanitize=" + s[len("SAN="):] for s in switches
                          if s.startswith("SAN=") and s != "SAN="]

    def folder(self):
        return "build" + self.suffix


COVERAGE = Variant("coverage", "", "SAN=", "CFLAGS=-O0 -g0 --coverage")
PLAIN = Variant("plain", "", "SAN=", "CFLAGS=-O0 -g0")
# As make does it, so that a compiler cache has most of the objects.
ADDRESS = Variant("address", "-address-undefined", "SAN=address,undefined", "CFLAGS=-O1 -g1")
THREAD = Variant("thread", "-thread", "SAN=thread", "CFLAGS=-O1 -g1")
FUZZ = Variant("fuzz", "-fuzz", "FUZZ=1", "FUZZ_SECONDS=5", "CFLAGS=-O1 -g1")
# Warnings about the form of a mistake, which the same mistake of a person may not have, do not count.
LINT = Variant("lint", "-lint", "O=build-lint", "SAN=", "WERROR=1",
               "CFLAGS=-O2 -g -Wno-parentheses -Wno-missing-field-initializers -Wno-empty-body")

FAILURES = (r"^\[FAIL\] (\S+)", r"^not ok \d+ - (.*)", r"(AddressSanitizer: \S+)",
            r"(runtime error: .*)", r"(ThreadSanitizer: .*)", r"libFuzzer: (.*)",
            r"(?:error|warning): (.*)", r"^FAILED \((\d+)\)")


def first_failure(output):
    """The message of a failed make or test, in one line."""
    for pattern in FAILURES:
        found = re.search(pattern, output, re.M)
        if found:
            return found.group(1)
    return "failed"


def first_failure_in(path):
    """Whether the output of a test, which still runs, has a line that tells of a failure."""
    if not os.path.exists(path):
        return False
    with open(path, encoding="utf-8", errors="replace") as file:
        return re.search(FAILURES[0], file.read(), re.M) is not None


def clock():
    return time.monotonic()
