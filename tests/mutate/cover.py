# SPDX-License-Identifier: Apache-2.0
"""Find the lines that each test executes: run each test once in a build that counts lines (gcov)."""
import glob
import gzip
import hashlib
import json
import multiprocessing.dummy
import os
import re
import subprocess
import tempfile

from trees import COVERAGE, clock

PRODUCT = ("config/", "pci/", "nvme/", "cache/", "gpu/", "boot/")
# Folders from which no unit test and no script of the command line takes anything.
APART = ("tests/bench/", "tests/fuzz/", "tests/lint/", "tests/model/")


def tests_of(tree):
    """Returns all tests of tests/unit.mk and tests/cli.mk, sorted by name: unit/X and cli/X."""
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


def table(tree, jobs, say, wanted, old, save):
    """Returns {"product": {file: HASH}, "could": {file: [line, ...]}, "tests": {name: test}}, where a test
    is {"hash", "seconds", "passed", "ran": {file: [line, ...]}}. Measures the tests of `wanted` that
    `old`, an earlier table or None, does not have in their present state: new and changed tests, and
    those that executed a line of a changed source. save: called with the table now and then."""
    product, hashes = fingerprints(tree)
    stale = changed_sources(tree, old["product"], product) if old else None
    if stale is None:
        old, stale = {"could": {}, "tests": {}}, set()
    old["product"] = product
    old["could"] = {file: lines for file, lines in old["could"].items() if file not in stale}
    tests = old["tests"] = {name: test for name, test in old["tests"].items()
                            if hashes.get(name) == test["hash"] and not stale & set(test["ran"])}
    missing = [name for name in tests_of(tree) if name not in tests and wanted(name)]
    say("coverage: building %d tests" % len(missing))
    unit = [name for name in missing if name.startswith("tests/unit/")]
    if missing:
        tree.build(COVERAGE, ["headrace"] + unit, jobs=jobs, go_on=True)
    with multiprocessing.dummy.Pool(jobs) as pool:
        found_all = pool.imap(lambda test: measure(tree, test), missing)
        for number, (name, found) in enumerate(zip(missing, found_all)):
            say("coverage: %d of %d: %s %.1f s%s" %
                (number + 1, len(missing), name, found["seconds"],
                 "" if found["passed"] else ", FAILED: not used"))
            for file, numbers in found["could"].items():
                old["could"][file] = sorted(numbers | set(old["could"].get(file, [])))
            tests[name] = {"hash": hashes[name], "seconds": found["seconds"],
                           "passed": found["passed"],
                           "ran": {file: sorted(n) for file, n in found["ran"].items()}}
            if number % 16 == 15:
                save(old)
    return old


def changed_sources(tree, old, new):
    """Returns sources whose lines may have moved or may be executed by other tests than before: those
    that changed, and those that include them. None: a fixture or a file of make rules changed, so this
    can be any source. A new file alone changes nothing."""
    changed = {name for name in old if old[name] != new.get(name)}
    if any(not name.startswith(PRODUCT) and not name.startswith(APART) for name in changed):
        return None
    includes = {}
    for name in new:
        with open(os.path.join(tree.source, name), encoding="utf-8", errors="replace") as file:
            includes[name] = set(re.findall(r'#include "([^"]+)"', file.read()))
    size = -1
    while size != len(changed):
        size = len(changed)
        changed |= {name for name, parts in includes.items() if parts & changed}
    return {name for name in changed if name.startswith(PRODUCT)}


def kept_table(tree, wanted, old):
    """Returns an earlier table without a new measurement. A changed source has in each line all tests
    that executed any line of it. A new or changed test executes all lines of its folder."""
    product, hashes = fingerprints(tree)
    tests = {name: test for name, test in old["tests"].items() if name in hashes and wanted(name)}
    for file in old["could"]:
        if old["product"].get(file) == product.get(file):
            continue
        old["could"][file] = list(range(1, 2000))
        for test in tests.values():
            if file in test["ran"]:
                test["ran"][file] = old["could"][file]
    for name in hashes:
        if not wanted(name) or tests.get(name, {"hash": ""})["hash"] == hashes[name]:
            continue
        test = tests.setdefault(name, {"seconds": 1, "passed": True, "ran": {}})
        test["hash"] = hashes[name]
        for file, could in old["could"].items():
            if os.path.dirname(name) == "tests/unit/" + os.path.dirname(file):
                test["ran"][file] = could
    return {"product": product, "could": old["could"], "tests": tests}


def lines_of_tests(old):
    """Returns ({name: seconds}, {file: {line: [test, ...]}}) of a table. A line that no test executes
    has []. A test that failed is left out."""
    lines = {file: {line: [] for line in numbers} for file, numbers in old["could"].items()}
    passed = {name: test for name, test in old["tests"].items() if test["passed"]}
    for name, test in sorted(passed.items()):
        for file, numbers in test["ran"].items():
            for line in numbers:
                lines[file][line].append(name)
    return {name: test["seconds"] for name, test in passed.items()}, lines


def fingerprints(tree):
    """Returns {source: hash} but for the tests themselves, and {test: hash of its file and of the test
    that it includes}. Lines that a test runs depend on both."""
    product, contents = {}, {}
    tests = set(tests_of(tree))
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=tree.source,
                           check=True, stdout=subprocess.PIPE, text=True).stdout.split("\n")
    for name in sorted(n for n in names if re.search(r"\.(c|h|sh)$|^(program|tests/unit|tests/cli)\.mk$", n)):
        path = os.path.join(tree.source, name)
        if not os.path.isfile(path):
            continue
        with open(path, "rb") as file:
            data = file.read()
        stem = name[:name.rindex(".")] if "." in name else name
        if stem in tests:
            contents[stem] = data
        else:
            product[name] = hashlib.sha256(data).hexdigest()
    hashes = {}
    for name, data in contents.items():
        for part in re.findall(rb'#include "(tests/unit/\S+)\.c"', data):
            data += contents.get(part.decode(), b"")
        hashes[name] = hashlib.sha256(data).hexdigest()
    return product, hashes
