#!/usr/bin/env python3
"""Mutation test: plant one mistake at a time and see whether a test fails.

Each test runs once in a build that counts lines, so a mistake is shown only to the tests that run
its line, the quickest first. A mistake that no test run by `make check` outside the lab reaches
survives at once ("no test runs this line"). Tests run in the address+undefined build; what
survives there in worker code, queues and the software controller is also shown to the thread build.

Output: one line per mistake, "killed" or "SURVIVED", with file, line, change and the test that
failed; then the totals. Mistakes of equivalent.txt are not planted. The seed is printed; the same
seed, files and sources give the same sample. Exit status: 0 when at least GOAL percent are killed.
"""
import argparse
import fnmatch
import glob
import json
import os
import queue
import random
import re
import subprocess
import sys
import threading

import cover
import mistakes
from trees import ADDRESS, COVERAGE, THREAD, Tree, clock, first_failure

PRODUCT = ["config", "pci", "nvme", "cache", "gpu", "boot"]
# Text for people, and programs that measure: their tests compare samples of the text only.
COMMANDS = ["bench", "boot", "check", "cmd", "post", "run", "status", "store", "topo"]
LEFT_OUT = ["boot/cmd/%s.[ch]" % name for name in COMMANDS] + [
    "boot/cmd/bench/*", "boot/cmd/report/*", "gpu/cuda/*", "gpu/nocuda/*", "gpu/ops/template/*",
    "*_static.c"]
THREADED = ["gpu/*", "nvme/queue*", "nvme/soft/*", "cache/object*", "boot/engine/runner*",
            "boot/engine/watch*"]
HERE = os.path.dirname(os.path.abspath(__file__))

printing = threading.Lock()


def say(text):
    with printing:
        print(text, flush=True)


def matches(name, patterns):
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def sources(top, wanted):
    """Product sources that `wanted` (files, folders or patterns; none: all) names."""
    names = subprocess.run(["git", "ls-files", "--"] + PRODUCT, cwd=top, check=True,
                           stdout=subprocess.PIPE, text=True).stdout.split()
    names = [n for n in names if n.endswith((".c", ".h"))]
    if not wanted:
        return [n for n in names if not matches(n, LEFT_OUT)]
    found = [n for n in names if matches(n, wanted) or n.startswith(tuple(w.rstrip("/") + "/"
                                                                          for w in wanted))]
    if not found:
        sys.exit("mutate: no product source matches " + " ".join(wanted))
    return found


def equivalents():
    """[(file pattern, regular expression of the line's text, of the change)] of equivalent.txt."""
    rows = []
    with open(os.path.join(HERE, "equivalent.txt"), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip() or line.startswith("#"):
                continue
            parts = [part.strip() for part in line.rstrip("\n").split(" ;; ")]
            if len(parts) != 4 or not parts[3]:
                sys.exit("equivalent.txt:%d: FILE ;; LINE ;; CHANGE ;; REASON expected" % number)
            rows.append((parts[0], re.compile(parts[1]), re.compile(parts[2])))
    return rows


class Candidate:
    """A mistake that may be planted, with the tests that run its line."""

    def __init__(self, file, source, mistake, tests):
        self.file, self.source, self.mistake, self.tests = file, source, mistake, tests

    def name(self):
        return "%s:%d %s" % (self.file, self.mistake.line,
                             mistakes.describe(self.source, self.mistake))

    def is_listed(self, rows):
        text = self.source.split("\n")[self.mistake.line - 1].strip()
        change = mistakes.describe(self.source, self.mistake)
        return any(fnmatch.fnmatch(self.file, pattern) and line.search(text) and how.search(change)
                   for pattern, line, how in rows)


def tests_at(lines, line):
    """Tests that run a line; a line of a longer statement counts as the one it begins with."""
    for at in range(line, max(line - 12, 0), -1):
        if at in lines:
            return lines[at]
    return None


def candidates(top, files, table):
    for file in files:
        lines = {int(n): tests for n, tests in table["lines"].get(file, {}).items()}
        with open(os.path.join(top, file), encoding="utf-8") as handle:
            source = handle.read()
        for mistake in mistakes.find(source):
            tests = tests_at(lines, mistake.line)
            if tests is not None:
                yield Candidate(file, source, mistake, tests)


def sample(found, number, seed):
    """`number` mistakes, each file with a share by its size, no two on one place of a file."""
    dice = random.Random(seed)
    found = sorted(found, key=Candidate.name)
    dice.shuffle(found)
    seen, chosen = set(), []
    for candidate in found:
        place = (candidate.file, candidate.mistake.start, candidate.mistake.end)
        if place not in seen:
            seen.add(place)
            chosen.append(candidate)
    return chosen if number == 0 else chosen[:number]


def survivors(found, log):
    """Those that the output of an earlier run calls survivors; lines must not have moved since."""
    with open(log, encoding="utf-8") as file:
        lines = [line[len("SURVIVED "):] for line in file if line.startswith("SURVIVED ")]
    return [c for c in found if any(line.startswith(c.name() + "; ") for line in lines)]


def objects(candidate, tests):
    """What has to compile before a test can say anything."""
    return ["libheadrace.a"] + [t + ".o" for t in tests if t.startswith("tests/unit/")]


def stem(path):
    return os.path.splitext(os.path.basename(path))[0]


def nearness(test, file):
    """0: a test of that file by its name; 1: of a part of it, or of its folder; 2: of something else."""
    name, own = stem(test), stem(file)
    if name == own:
        return 0
    words = {own, own.split("_")[0], os.path.basename(os.path.dirname(file))}
    return 1 if name.split("_")[0] in words or name.startswith(own) else 2


def show(tree, candidate, variant, bench, begin):
    """The test that kills it (with its first words), "" when none does, None: does not compile."""
    tests = [t for t in candidate.tests if t not in bench.failing[variant.name] and
             (variant is ADDRESS or t.startswith("tests/unit/"))]
    tests.sort(key=lambda t: (t.startswith("tests/cli/"), nearness(t, candidate.file),
                              bench.seconds[t]))
    status, _ = tree.build(variant, objects(candidate, tests))
    if status != 0:
        return None
    for test in tests:
        if bench.is_late(begin):
            break
        limit = 60 + 20 * bench.seconds[test]
        status, output = tree.build(variant, [test + ".ok"], limit=limit)
        if status == 0 or fails_anyway(tree, candidate, variant, test, bench):
            continue
        if status is None:
            return "%s (no end within %.0f s)" % (test, limit)
        return "%s (%s)" % (test, first_failure(output))
    return ""


class Bench:
    """What is known of tests: seconds they take; by variant, those that pass or fail without a mistake."""

    def __init__(self, seconds, patience):
        self.seconds, self.patience = seconds, patience
        self.failing = {ADDRESS.name: set(), THREAD.name: set()}
        self.passing = {ADDRESS.name: set(), THREAD.name: set()}

    def is_late(self, begin):
        return self.patience and clock() > begin + self.patience


def fails_anyway(tree, candidate, variant, test, bench):
    """Whether a test fails without the mistake, too; found out at its first failure."""
    if test in bench.passing[variant.name]:
        return False
    tree.write(candidate.file, None)
    status, _ = tree.build(variant, [test + ".ok"], limit=900)
    tree.write(candidate.file, mistakes.plant(candidate.source, candidate.mistake))
    (bench.failing if status != 0 else bench.passing)[variant.name].add(test)
    if status != 0:
        say("%s: %s fails without a mistake: not used" % (variant.name, test))
    return status != 0


def judge(tree, candidate, bench):
    """("killed" | "SURVIVED" | "invalid", why)"""
    if not candidate.tests:
        return "SURVIVED", "no test runs this line"
    begin = clock()
    tree.write(candidate.file, mistakes.plant(candidate.source, candidate.mistake))
    try:
        killer = show(tree, candidate, ADDRESS, bench, begin)
        if killer == "" and matches(candidate.file, THREADED) and not bench.is_late(begin):
            killer = show(tree, candidate, THREAD, bench, begin)
    finally:
        tree.write(candidate.file, None)
    if killer is None:
        return "invalid", "does not compile"
    if killer:
        return "killed", killer
    return "SURVIVED", "%d tests run this line" % len(candidate.tests)


def prepare(tree, tests, jobs):
    """Build everything without a mistake. The thread build is made as far as survivors need it."""
    say("%s: building %d tests" % (ADDRESS.name, len(tests)))
    tree.build(ADDRESS, ["headrace"] + [t for t in tests if "/unit/" in t], jobs=jobs, go_on=True)


def coverage_table(place, top, jobs):
    """The table of the present sources, measured when there is none."""
    tree = Tree(top, os.path.join(place, "coverage"), "make")
    path = os.path.join(place, "coverage.json")
    word = cover.fingerprint(tree)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            table = json.load(file)
        if table["sources"] == word:
            return table
    tree.update()
    table = cover.table(tree, jobs, say)
    table["sources"] = word
    with open(path, "w", encoding="utf-8") as file:
        json.dump(table, file)
    return table


def work(tree, chosen, number, counts, bench):
    """One thread: take mistakes until there are enough verdicts."""
    while True:
        try:
            candidate = chosen.get_nowait()
        except queue.Empty:
            return
        if number and sum(counts.values()) - counts["invalid"] >= number:
            return
        begin = clock()
        verdict, why = judge(tree, candidate, bench)
        counts[verdict] += 1
        if verdict != "invalid":
            say("%-8s %s; %s; %.0f s" % (verdict, candidate.name(), why, clock() - begin))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="*", help="files, folders or patterns (default: all)")
    parser.add_argument("--build", default="build", help="folder for copies and builds")
    parser.add_argument("-n", type=int, default=60, help="how many mistakes; 0: all")
    parser.add_argument("--seed", default="", help="repeats a sample")
    parser.add_argument("--goal", type=float, default=90, help="percent to be killed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--list", action="store_true", help="print the sample and end")
    parser.add_argument("--skip", type=int, default=0, help="leave out so many of the sample")
    parser.add_argument("--seconds", type=float, default=0,
                        help="what no test has seen by then survives; 0: all tests are run")
    parser.add_argument("--again", default="", metavar="LOG",
                        help="only what survived in that output of an earlier run")
    parser.add_argument("--tests", default="", help="only these tests (patterns, with commas)")
    return parser.parse_args()


def main():
    args = arguments()
    top = os.path.dirname(os.path.dirname(HERE))
    place = os.path.abspath(os.path.join(args.build, "mutate"))
    os.makedirs(place, exist_ok=True)
    seed = args.seed or str(random.SystemRandom().randrange(1 << 32))
    table = coverage_table(place, top, args.jobs)
    rows = equivalents()
    found = list(candidates(top, sources(top, args.files), table))
    listed = [c for c in found if c.is_listed(rows)]
    chosen = sample([c for c in found if not c.is_listed(rows)], 0, seed)
    if args.again:
        chosen = survivors(chosen, args.again)
    chosen = chosen[args.skip:]
    say("seed %s: %d of %d mistakes; %d are listed as equivalent" %
        (seed, min(args.n or len(chosen), len(chosen)), len(found), len(listed)))
    if args.list:
        for candidate in chosen[:args.n or None]:
            say(candidate.name())
        return 0
    return plant_all(args, top, place, chosen, table)


def plant_all(args, top, place, chosen, table):
    if args.tests:
        for candidate in chosen:
            candidate.tests = [t for t in candidate.tests if matches(t, args.tests.split(","))]
    trees = [Tree(top, os.path.join(place, "tree%d" % i), "make") for i in range(args.jobs)]
    used = sorted({test for c in chosen[:2 * args.n or None] for test in c.tests})
    trees[0].update()
    prepare(trees[0], used, args.jobs)
    for tree in trees[1:]:
        trees[0].copy_to(tree)
    for candidate in chosen:
        candidate.tests = [t for t in candidate.tests if t in used]
    bench = Bench(table["tests"], args.seconds)
    waiting, counts = queue.Queue(), {"killed": 0, "SURVIVED": 0, "invalid": 0}
    for candidate in chosen:
        waiting.put(candidate)
    threads = [threading.Thread(target=work, args=(tree, waiting, args.n, counts, bench))
               for tree in trees]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    planted = counts["killed"] + counts["SURVIVED"]
    share = 100 * counts["killed"] / planted if planted else 0
    say("%d planted: %d killed, %d survived: %.1f %% (goal %.0f %%); %d more did not compile" %
        (planted, counts["killed"], counts["SURVIVED"], share, args.goal, counts["invalid"]))
    return 0 if share >= args.goal else 1


if __name__ == "__main__":
    sys.exit(main())
