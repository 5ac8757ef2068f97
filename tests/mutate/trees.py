"""Copies of the working tree in which mistakes are planted, and what their builds and tests say."""
import os
import re
import shutil
import signal
import subprocess
import time


def run(command, cwd, limit, env=None):
    """(exit status or None after `limit` seconds, output). Nothing that it started is left."""
    with subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          start_new_session=True) as child:
        try:
            output, _ = child.communicate(timeout=limit)
            status = child.returncode
        except subprocess.TimeoutExpired:
            status, output = None, b""
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if status is None:
            child.communicate()
    return status, output.decode(errors="replace")


class Tree:
    """One copy, with a build folder per variant that only it uses."""

    def __init__(self, source, place, make):
        self.source, self.place, self.make = source, place, make

    def update(self):
        """Make the copy equal to the working tree; a file that is equal keeps its time."""
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
        """Another copy with the same sources and builds: times stay, so nothing is built again."""
        shutil.rmtree(other.place, ignore_errors=True)
        subprocess.run(["cp", "-a", self.place, other.place], check=True)

    def write(self, name, text):
        """Give a file that text, or (None) what the working tree has."""
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

    def build(self, variant, targets, limit=1800, jobs=1, go_on=False):
        """(status, output) of make for targets, named without the build folder."""
        folder = variant.folder()
        names = [folder + "/" + target for target in targets]
        runner = folder + "/tests/harness/runner.o"
        return run([self.make, "--no-print-directory", "-j%d" % jobs, "O=build", "NVCC=",
                    "driver=" + runner] + ["-k"] * go_on + variant.switches + names,
                   self.place, limit)


class Variant:
    """A build: its name, the switches of make that give it."""

    def __init__(self, name, sanitizer, flags):
        self.name, self.sanitizer = name, sanitizer
        self.switches = ["SAN=" + sanitizer, "CFLAGS=" + flags]

    def folder(self):
        return "build" + ("-" + self.sanitizer.replace(",", "-") if self.sanitizer else "")


COVERAGE = Variant("coverage", "", "-O0 -g --coverage")
ADDRESS = Variant("address", "address,undefined", "-O1 -g")
THREAD = Variant("thread", "thread", "-O1 -g")


def first_failure(output):
    """What a failed run of make and a test says, in one line."""
    for pattern in (r"^\[FAIL\] (\S+)", r"^not ok \d+ - (.*)", r"(AddressSanitizer: \S+)",
                    r"(runtime error: .*)", r"(ThreadSanitizer: .*)", r"^FAILED \((\d+)\)"):
        found = re.search(pattern, output, re.M)
        if found:
            return found.group(1)
    return "failed"


def clock():
    return time.monotonic()
