"""Find the lines that each test executes: run each test once in a build that counts lines (gcov)."""
import glob
import gzip
import json
import multiprocessing.dummy
import os
import subprocess
import tempfile

from trees import COVERAGE, clock, run


def tests_of(tree):
    """Returns all tests of the Makefile, sorted by name: unit/X and cli/X."""
    unit = glob.glob(os.path.join(tree.place, "tests/unit/**/*.c"), recursive=True)
    cli = glob.glob(os.path.join(tree.place, "tests/cli/*.sh"))
    names = [os.path.relpath(path, tree.place)[:-len(path[path.rindex("."):])]
             for path in unit + cli]
    return sorted(name for name in names
                  if not name.startswith(("tests/unit/gpu/cuda/", "tests/cli/cuda")))


def lines_of(folder, place):
    """Returns executed and executable lines, {file: {line, ...}} each, from the counts in folder."""
    ran, could = {}, {}
    counts = glob.glob(folder + "/**/*.gcda", recursive=True)
    for path in counts:
        notes = "/" + os.path.relpath(path, folder)[:-len("gcda")] + "gcno"
        os.symlink(notes, path[:-len("gcda")] + "gcno")
    with tempfile.TemporaryDirectory() as scratch:
        for at in range(0, len(counts), 64):
            subprocess.run(["gcov", "--json-format", "--preserve-paths"] + counts[at:at + 64],
                           cwd=scratch, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           check=False)
        for path in glob.glob(scratch + "/*.gcov.json.gz"):
            with gzip.open(path) as file:
                report = json.load(file)
            for source in report["files"]:
                name = os.path.normpath(source["file"])
                if name.startswith(("/", "..")):
                    name = os.path.relpath(name, place)
                if name.startswith((".", "tests/", "/")):
                    continue
                for line in source["lines"]:
                    could.setdefault(name, set()).add(line["line_number"])
                    if line["count"]:
                        ran.setdefault(name, set()).add(line["line_number"])
    return ran, could


def measure(tree, test):
    """{"seconds", "passed", "ran", "could"} of one test, whose processes count in its own folder."""
    ok = os.path.join(tree.place, COVERAGE.folder(), test + ".ok")
    if os.path.exists(ok):
        os.remove(ok)
    with tempfile.TemporaryDirectory(dir=tree.place, prefix="build-counts-") as counts:
        begin = clock()
        status, _ = tree.build(COVERAGE, [test + ".ok"], limit=400, env={"GCOV_PREFIX": counts})
        seconds = clock() - begin
        ran, could = lines_of(counts, tree.place)
    return {"seconds": seconds, "passed": status == 0, "ran": ran, "could": could}


def table(tree, jobs, say):
    """Returns {"tests": {name: seconds}, "lines": {file: {line: [test, ...]}}}. A line that no test
    executes has []."""
    tests = tests_of(tree)
    say("coverage: building %d tests" % len(tests))
    unit = [name for name in tests if name.startswith("tests/unit/")]
    tree.build(COVERAGE, ["headrace"] + unit, jobs=jobs, go_on=True)
    seconds, lines = {}, {}
    with multiprocessing.dummy.Pool(jobs) as pool:
        found_all = pool.imap(lambda test: measure(tree, test), tests)
        for number, (test, found) in enumerate(zip(tests, found_all)):
            say("coverage: %d of %d: %s %.1f s%s" %
                (number + 1, len(tests), test, found["seconds"],
                 "" if found["passed"] else ", FAILED: not used"))
            for file, numbers in found["could"].items():
                for line in numbers:
                    lines.setdefault(file, {}).setdefault(line, [])
            if not found["passed"]:
                continue
            seconds[test] = found["seconds"]
            for file, numbers in found["ran"].items():
                for line in numbers:
                    lines[file][line].append(test)
    return {"tests": seconds, "lines": lines}


def fingerprint(tree):
    """Returns a hash of all sources. When the hash changes, the table is measured again."""
    status, output = run(["sh", "-c", "git ls-files -co --exclude-standard -z | grep -zE "
                          r"'\.(c|h|sh)$|Makefile' | xargs -0 sha256sum 2>/dev/null | sha256sum"],
                         tree.source, 60)
    return output.split()[0] if status == 0 else ""
