# SPDX-License-Identifier: Apache-2.0
"""Run tests of a mistake without linking them again: they take the product from shared libraries.

The tests of a tree are linked once with libproduct.so, all objects of the product, and in front of
it with libmutant.so, which is empty. A mistake is compiled into a libmutant.so of its own: the
loader takes the functions of that file from there. Functions of a fake, which are in the test
itself, come before both, as they do before an archive. A test that includes the changed file is
compiled and linked for each mistake.
"""
import os
import re
import shlex
import subprocess

from trees import run

STUB, PRODUCT = "libmutant.so", "libproduct.so"


class Quick:
    """The tests of one tree and variant (`variant` is the one of trees.py that it replaces)."""

    def __init__(self, tree, variant):
        self.tree, self.variant = tree, variant
        self.folder = "build-quick" + variant.folder()[len("build"):]
        self.place = os.path.join(tree.place, self.folder)
        self.sanitizer = [s for s in variant.sanitizer if s]
        self.commands, self.including, self.ready = {}, None, set()

    def make(self, targets, go_on=False, jobs=1, limit=1800, dry=False):
        libraries = "%s/%s %s/%s" % (self.folder, STUB, self.folder, PRODUCT)
        # The seam is in the library, where a test's own function comes before it, too.
        switches = ["O=build-quick", "seam=", "ldflags=-pthread %s -Wl,--no-as-needed %s" %
                    (" ".join(self.sanitizer), libraries)]
        switches += [s + " -fPIC" if s.startswith("CFLAGS=") else s for s in self.variant.switches
                     if not s.startswith("O=")]
        command = [self.tree.make, "--no-print-directory", "-j%d" % jobs, "NVCC=", "MPICC="] + \
            ["-k"] * go_on
        return run(command + switches + ["-nB", "V=1"] * dry +
                   ["%s/%s" % (self.folder, t) for t in targets], self.tree.place, limit)

    def link(self, output, objects):
        """(exit status, output) of the linker for a shared library of that name."""
        command = ["gcc", "-shared", "-fuse-ld=gold"] + self.sanitizer + \
            ["-Wl,-soname," + os.path.basename(output), "-o", output + ".new"] + objects
        status, text = run(command, self.tree.place, 600)
        if status == 0:
            os.replace(output + ".new", output)
        return status, text

    def prepare(self, jobs):
        """Builds the libraries; returns whether it could."""
        os.makedirs(self.place, exist_ok=True)
        status, text = self.make(["libheadrace.a", "tests/harness/runner.o"] + self.loaded(),
                                 jobs=jobs)
        archive = os.path.join(self.folder, "libheadrace.a")
        if status == 0:
            status, text = self.link(os.path.join(self.place, PRODUCT), [
                "-Wl,--whole-archive", archive, "-Wl,--no-whole-archive"])
        if status == 0:
            status, text = self.reset()
        return status == 0, text

    def loaded(self):
        """Returns the libraries that tests load themselves."""
        found = []
        for folder, old, new in (("op", ".c", ".op"), ("plugins", ".c", ".so")):
            for name in sorted(os.listdir(os.path.join(self.tree.place, "tests", folder))):
                if name.endswith(old):
                    found.append("tests/%s/%s%s" % (folder, name[:-len(old)], new))
        return found + ["tests/fakes/ibverbs/libibverbs.so.1"]

    def reset(self):
        """Takes the mistake out."""
        return self.link(os.path.join(self.place, STUB), [])

    def build(self, tests, jobs=1):
        """Links tests. A test that does not link is not used."""
        missing = [t for t in tests if t not in self.ready and t.startswith("tests/unit/")]
        if missing:
            self.make(missing, go_on=True, jobs=jobs)
            self.ready |= {t for t in missing if os.path.exists(os.path.join(self.place, t))}

    def objects_of(self, file):
        """Returns the sources of the product that include a header; for a source, itself."""
        if self.including is None:
            self.including = {}
            objects = subprocess.run(["ar", "t", self.folder + "/libheadrace.a"], check=True,
                                     cwd=self.tree.place, stdout=subprocess.PIPE,
                                     text=True).stdout.split()
            for folder, _, names in os.walk(self.place):
                for name in names:
                    if name.endswith(".d") and name[:-1] + "o" in objects:
                        self.add(os.path.join(folder, name))
        return self.including.get(file, [])

    def add(self, path):
        source = os.path.relpath(path, self.place)[:-1] + "c"
        if source.startswith("tests/"):
            return
        for name in self.dependencies(path):
            self.including.setdefault(name, []).append(source)

    @staticmethod
    def dependencies(path):
        with open(path, encoding="utf-8") as file:
            text = file.read().split("\n\n")[0].replace("\\\n", " ")
        return set(re.sub(r"^[^:]*:", "", text.split("\n")[0]).split())

    def parts(self, test, file):
        """Returns the sources that a test is linked with and that include the file; None: the test
        is not linked."""
        notes = os.path.join(self.place, test + ".d")
        if test not in self.ready or not os.path.exists(notes):
            return None
        parts = [test + ".c"] + [
            name[:-1] + "c" for name in self.dependencies(notes)
            if name.startswith(("tests/fakes/", "tests/harness/")) and name.endswith(".h")]
        found = []
        for part in parts:
            notes = os.path.join(self.place, part[:-1] + "d")
            if os.path.exists(notes) and file in self.dependencies(notes):
                found.append(part)
        return found

    def link_again(self, test, file, text, limit):
        """Compiles the parts of a test that include the changed file, and links a test of its own.
        Returns its name in the build folder, or None."""
        changed, path = self.write(file, text)
        _, line = self.make([test], dry=True)
        line = next((l for l in line.replace("\\\n", " ").split("\n")
                     if " -o %s/%s " % (self.folder, test) in l), "")
        command = shlex.split(line[line.find("gcc"):])
        for number, part in enumerate(self.parts(test, file)):
            output = "%s/part%d.o" % (changed, number)
            if run(self.command(part) + ["-fmacro-prefix-map=%s/=" % changed, "-w", "-c", "-o",
                                         output, part], self.tree.place, limit)[0] != 0:
                return None
            command = [output if c == "%s/%s.o" % (self.folder, part[:-2]) else c for c in command]
        os.remove(path)
        name = "mutant%d/test" % os.getpid()
        command[command.index("-o") + 1] = self.folder + "/" + name
        return name if run(command, self.tree.place, limit)[0] == 0 else None

    def write(self, file, text):
        """Writes the changed file. Returns (folder of changed files, path)."""
        changed = os.path.join(self.folder, "mutant%d" % os.getpid())
        path = os.path.join(self.tree.place, changed, file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(text)
        return changed, path

    def command(self, source):
        """Returns the command of make that compiles a source, without its name and output."""
        if source not in self.commands:
            _, text = self.make([source[:-2] + ".o"], dry=True)
            line = next(l for l in text.split("\n") if " -c -o " in l and l.rstrip("; }\\")
                        .find(" %s " % source) > 0)
            line = line[line.index("gcc"):line.index(" -MMD")]
            words = shlex.split(line)
            at = words.index("-iquote")
            words[at:at] = ["-iquote", "%s/mutant%d" % (self.folder, os.getpid())]
            self.commands[source] = words
        return self.commands[source]

    def plant(self, file, text):
        """Puts a mistake in: `text` replaces the file. Returns False when it does not compile, None
        when too many sources include the file."""
        sources = self.objects_of(file)
        if len(sources) > 150:
            return None
        changed, path = self.write(file, text)
        objects = []
        for source in sources:
            objects.append("%s/%d.o" % (changed, len(objects)))
            place = os.path.join(changed, source) if source == file else source
            if run(self.command(source) + ["-fmacro-prefix-map=%s/=" % changed, "-w", "-c", "-o",
                                           objects[-1], place], self.tree.place, 300)[0] != 0:
                os.remove(path)
                return False
        os.remove(path)
        return self.link(os.path.join(self.place, STUB), objects)[0] == 0

    def test(self, test, limit):
        """As Tree.test()."""
        log = os.path.join(self.place, test + ".log")
        env = dict(os.environ, LD_LIBRARY_PATH=self.place,
                   ASAN_OPTIONS="detect_stack_use_after_return=1:strict_string_checks=1:"
                   "detect_odr_violation=0:handle_sigill=1")
        status, output = run([os.path.join(self.folder, test), "--verbose"], self.tree.place, limit,
                             env)
        with open(log, "w", encoding="utf-8") as file:
            file.write(output)
        return None if status is None else status == 0, output
