#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutation test: put one mistake at a time into the sources and check that a test fails.

Each test runs once in a build that counts lines, so a mistake is shown only to the tests that run
its line. A line that no test seems to run is shown to the tests of its folder, because a process
that ends without exit() does not count. Unit tests of the plain build compile and run quickest: all
mistakes go through them first. The survivors are shown to the other kinds of tests, one after the
other, until one fails (STEPS). The first failure ends the run of a test.

Output: one line per mistake, "killed" or "SURVIVED", with file, line, change and the test that
failed; then a row for each kind of tests, and the totals. Mistakes of equivalent.txt are not planted.
The seed is printed; the same seed, files and sources give the same sample. Exit status: 0 when at
least GOAL percent are killed.
"""
import argparse
import collections
import fnmatch
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
from quick import Quick
from trees import ADDRESS, FUZZ, LINT, PLAIN, THREAD, Tree, clock, first_failure

PRODUCT = ["config", "pci", "nvme", "cache", "gpu", "boot"]
# Commands print text for people or measure; the cuda backend needs a GPU or its fake driver.
LEFT_OUT = ["boot/cmd/*", "gpu/cuda/*", "gpu/ops/template/*", "*_static.c"]
# Files with a goal of their own: a mistake there loses or corrupts data, or stops an appliance.
STRICT = ["nvme/*", "cache/*", "gpu/worker/prefetch*", "gpu/worker/compute*",
          "gpu/worker/writeback*", "gpu/worker/role*", "gpu/worker/pipeline*",
          "boot/engine/runner/runner*", "boot/engine/layout/*", "boot/engine/shape/shape*",
          "boot/engine/bringup/partition*", "boot/appliance/supervise*"]
THREADED = ["gpu/*", "boot/remote/*", "nvme/queue/*", "nvme/soft/*", "cache/object*",
            "boot/engine/runner/runner*", "boot/engine/runner/stall*"]
# Fuzz targets, and the files whose functions they call.
FUZZED = {"config": ["config/*"], "soft": ["nvme/soft/*"],
          "objmap": ["cache/store/*", "cache/crc32c*"],
          "tap": ["gpu/tap/*", "boot/appliance/lend/*", "boot/appliance/protocol/tap*"], "feed": ["gpu/tap/*", "boot/appliance/lend/*"],
          "tap_client": ["gpu/tap/client/*", "gpu/tap/protocol.h"],
          "feed_client": ["gpu/tap/client/*", "gpu/tap/protocol.h"],
          "message": ["boot/appliance/protocol/message*"], "opfile": ["gpu/ops/user*"],
          "topo_caps": ["pci/topo/*"], "topo_capture": ["pci/topo/*"]}
HERE = os.path.dirname(os.path.abspath(__file__))

printing = threading.Lock()


def say(text):
    with printing:
        print(text, flush=True)


def matches(name, patterns):
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def is_selected(test, patterns):
    """Whether a test matches a pattern, and none that begins with '!'. No pattern: every test."""
    return not patterns or (matches(test, patterns) and
                            not matches(test, [p[1:] for p in patterns if p[0] == "!"]))


def sources(top, wanted):
    """Returns product sources that match `wanted` (files, folders or patterns; empty: all)."""
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
    """Returns [(file pattern, regular expression of the line, of the change)] of equivalent.txt."""
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
    """A possible mistake, with the tests that execute its line."""

    def __init__(self, file, source, mistake, tests):
        self.file, self.source, self.mistake, self.tests = file, source, mistake, tests
        self.is_run, self.is_listed = bool(tests), False

    def name(self):
        return "%s:%d %s" % (self.file, self.mistake.line,
                             mistakes.describe(self.source, self.mistake))



def tests_at(lines, line):
    """Returns the tests that execute a line. A line of a longer statement counts as its first line."""
    for at in range(line, max(line - 12, 0), -1):
        if at in lines:
            return lines[at]
    return None


def candidates(top, files, table):
    rows = equivalents()
    for file in files:
        lines = table["lines"].get(file, {})
        with open(os.path.join(top, file), encoding="utf-8") as handle:
            source = handle.read()
        of_file = [row[1:] for row in rows if fnmatch.fnmatch(file, row[0])]
        texts = source.split("\n")
        near = [t for t in table["tests"] if nearness(t, file) < 3]
        for mistake in mistakes.find(source):
            tests = tests_at(lines, mistake.line)
            if tests is None:
                continue
            found = Candidate(file, source, mistake, tests)
            found.tests = tests or near
            text, change = texts[mistake.line - 1].strip(), mistakes.describe(source, mistake)
            found.is_listed = any(a.search(text) and b.search(change) for a, b in of_file)
            yield found


def sample(found, number, seed):
    """Returns `number` mistakes, distributed by file size, at most one for each place in a file."""
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
    """Returns survivors of an earlier run from its output. Line numbers must not have changed."""
    with open(log, encoding="utf-8") as file:
        lines = [line[len("SURVIVED "):] for line in file if line.startswith("SURVIVED ")]
    return [c for c in found if any(line.startswith(c.name() + "; ") for line in lines)]


def stem(path):
    return os.path.splitext(os.path.basename(path))[0]


def nearness(test, file):
    """0: a test named after the file; 1: after a part of it; 2: of its folder; 3: another test."""
    name, own = stem(test), stem(file)
    if name == own:
        return 0
    words = {own.split("_")[0], os.path.basename(os.path.dirname(file))}
    if name.split("_")[0] in words or name.startswith(own):
        return 1
    return 2 if os.path.dirname(test) == "tests/unit/" + os.path.dirname(file) else 3


def unit_tests(candidate):
    return [t for t in candidate.tests if t.startswith("tests/unit/")]


def scripts(candidate):
    return [t for t in candidate.tests if t.startswith("tests/cli/")]


def threaded(candidate):
    return unit_tests(candidate) if matches(candidate.file, THREADED) else []


def fuzz_targets(candidate):
    return ["tests/fuzz/" + name for name, files in FUZZED.items() if matches(candidate.file, files)]


Step = collections.namedtuple("Step", "key name variant tests")
# The kinds of tests that a mistake is shown to, one after the other. tests: a function that returns
# the tests for a candidate; None: static analysis of the file.
STEPS = [Step("unit", "unit tests", PLAIN, unit_tests), Step("cli", "command line", PLAIN, scripts),
         Step("lint", "lint", LINT, None),
         Step("address", "unit tests, address build", ADDRESS, unit_tests),
         Step("thread", "unit tests, thread build", THREAD, threaded),
         Step("fuzz", "fuzz targets", FUZZ, fuzz_targets),
         Step("address-cli", "command line, address build", ADDRESS, scripts)]


def includer(tree, file):
    """Returns the .c file that lint compiles for a file, or None: itself, or the first that includes
    a header, with its own name if possible."""
    if file.endswith(".c"):
        return file
    found = subprocess.run(["git", "grep", "-l", "-F", '#include "%s"' % file, "--"] + PRODUCT,
                           cwd=tree.source, check=False, stdout=subprocess.PIPE, text=True).stdout
    found = [name for name in found.split("\n") if name.endswith(".c")]
    return min(found, key=lambda name: (stem(name) != stem(file), name), default=None)


def lint(tree, file):
    """Returns the first message of the compiler's warnings, clang-tidy or cppcheck; "": none."""
    for targets in ([file[:-2] + ".o", file[:-2] + ".tidy"], ["lint-cppcheck", "tidy_files=" + file]):
        status, output = tree.build(LINT, targets)
        if status != 0:
            path = os.path.join(tree.place, LINT.folder(), file[:-2] + ".tidy.log")
            if ".tidy" in output and os.path.exists(path):
                with open(path, encoding="utf-8", errors="replace") as log:
                    output = log.read()
            return first_failure(output)
    return ""


def show_lint(tree, candidate, bench):
    """As show(), for static analysis."""
    file = includer(tree, candidate.file)
    message = lint(tree, file) if file else ""
    if message and file not in bench.clean:
        tree.write(candidate.file, None)
        bench.clean[file] = not lint(tree, file)
        if not bench.clean[file]:
            say("lint: findings in %s without a mistake: not used" % file)
    return "%s (lint, %s)" % (file, message) if message and bench.clean[file] else ""


def show(tree, candidate, step, bench):
    """The test that kills the mistake (with its first message); "": none; None: does not compile."""
    variant, begin = step.variant, clock()
    text = mistakes.plant(candidate.source, candidate.mistake)
    tests = [t for t in step.tests(candidate) if t not in bench.failing[variant.name]]
    tests.sort(key=lambda t: (nearness(t, candidate.file), bench.seconds.get(t, 0)))
    killer, seen = show_quickly(tree, candidate.file, text, tests, (variant, bench, begin))
    if killer != "":
        return killer
    tests = [t for t in tests if t not in seen]
    if not tests:
        return ""
    tree.write(candidate.file, text)
    try:
        return show_built(tree, candidate, tests, (variant, bench, begin))
    finally:
        tree.write(candidate.file, None)


def quick_of(tree, variant, jobs=1):
    """The Quick of a tree; None for sanitizers, whose libraries take longer to compile than they save."""
    if variant.name not in tree.quick:
        quick = Quick(tree, variant)
        fine, text = quick.prepare(jobs) if variant is PLAIN else (False, "")
        tree.quick[variant.name] = quick if fine else None
        if text and not fine:
            say("%s: no shared libraries: %s" % (variant.name, first_failure(text)))
    return tree.quick[variant.name]


def show_quickly(tree, file, text, tests, how):
    """(as show(), tests that need not be shown again), for the tests that need no link."""
    variant, bench, begin = how
    tests, seen = [t for t in tests if t.startswith("tests/unit/")], set()
    quick = quick_of(tree, variant) if tests else None
    planted = quick.plant(file, text) if quick else None
    if planted is False:
        return None, seen
    for test in tests if planted else []:
        if bench.is_late(begin):
            break
        quick.build([test])
        parts = quick.parts(test, file)
        if parts is None or test in bench.failing[quick.folder]:
            continue
        limit = bench.limit(variant, test)
        name = quick.link_again(test, file, text, 300) if parts else test
        if not name:
            continue
        passed, output = quick.test(name, limit)
        if not passed and fails_quickly(quick, test, (file, text), bench):
            continue  # it is linked again
        seen.add(test)
        if passed:
            continue
        return ("%s (no end within %.0f s)" % (test, limit) if passed is None else
                "%s (%s, %s)" % (test, variant.name, first_failure(output))), seen
    return "", seen


def fails_quickly(quick, test, mistake, bench):
    """As fails_anyway()."""
    if test in bench.passing[quick.folder]:
        return False
    quick.reset()
    passed, _ = quick.test(test, 900)
    quick.plant(*mistake)
    (bench.passing if passed else bench.failing)[quick.folder].add(test)
    if not passed:
        say("%s: %s fails without a mistake: linked again for each" % (quick.folder, test))
    return not passed


def show_built(tree, candidate, tests, how):
    """As show(), for tests that make links again; the mistake is in the tree."""
    variant, bench, begin = how
    # A mistake in a header compiles much again, which must not count as a test without an end.
    if tree.build(variant, ["libheadrace.a"] + [t for t in tests[:1] if "/cli/" not in t])[0] != 0:
        return None
    for test in tests:
        if bench.is_late(begin):
            break
        limit = bench.limit(variant, test)
        passed, output = tree.test(variant, test, limit)
        if passed is False and not os.path.exists(tree.log(variant, test)):
            return None
        if passed or fails_anyway(tree, candidate, variant, test, bench):
            continue
        if passed is None:
            return "%s (no end within %.0f s)" % (test, limit)
        return "%s (%s, %s)" % (test, variant.name, first_failure(output))
    return ""


class Bench:
    """Seconds of each test; for each variant, the tests that pass or fail without a mistake."""

    def __init__(self, seconds, timeout):
        self.seconds, self.timeout = seconds, timeout
        self.failing, self.passing = (collections.defaultdict(set) for _ in range(2))
        # The tests that failed in the build that counts lines are not in the table.
        self.passing[PLAIN.name] = set(seconds)
        self.clean = {}  # {file: whether lint has no findings without a mistake}

    def is_late(self, begin):
        return self.timeout and clock() > begin + self.timeout

    def limit(self, variant, test):
        return 60 + (5 if variant is PLAIN else 20) * self.seconds.get(test, 10)


def fails_anyway(tree, candidate, variant, test, bench):
    """Returns whether a test also fails without the mistake; computed at its first failure."""
    if test in bench.passing[variant.name]:
        return False
    tree.write(candidate.file, None)
    passed, _ = tree.test(variant, test, 900)
    tree.write(candidate.file, mistakes.plant(candidate.source, candidate.mistake))
    (bench.passing if passed else bench.failing)[variant.name].add(test)
    if not passed:
        say("%s: %s fails without a mistake: not used" % (variant.name, test))
    return not passed


def try_step(tree, candidate, step, bench):
    """As show()."""
    if step.tests:
        return show(tree, candidate, step, bench)
    tree.write(candidate.file, mistakes.plant(candidate.source, candidate.mistake))
    try:
        return show_lint(tree, candidate, bench)
    finally:
        tree.write(candidate.file, None)


def outcome_of(tree, candidate, steps, bench):
    """("killed" | "SURVIVED" | "invalid", why, name of the step that killed it or "")"""
    for step in steps:
        killer = try_step(tree, candidate, step, bench)
        if killer is None:
            return "invalid", "does not compile", ""
        if killer:
            return "killed", killer, step.name
    if not candidate.is_run:
        return "SURVIVED", "no test runs this line", ""
    return "SURVIVED", "%d tests run this line" % len(candidate.tests), ""


def prepare(tree, tests, jobs):
    """Compile everything without a mistake; for sanitizers only the tests that survivors need."""
    say("%s: building %d tests" % (PLAIN.name, len(tests)))
    quick = quick_of(tree, PLAIN, jobs)
    if quick:
        quick.build([t for t in tests if "/unit/" in t], jobs)
    if not quick or any("/cli/" in t for t in tests):
        tree.build(PLAIN, ["headrace"], jobs=jobs, go_on=True)


def coverage_table(place, top, jobs, patterns, keep):
    """Returns the table of the present sources. Measures tests that have no entry yet, unless `keep`."""
    tree = Tree(top, os.path.join(place, "coverage"), "make")
    path, old = os.path.join(place, "coverage.json"), None

    def save(table):
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(table, file)
        os.replace(path + ".new", path)

    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            old = json.load(file)
    tree.update()
    if keep and old:
        table = cover.kept_table(tree, lambda test: is_selected(test, patterns), old)
    else:
        table = cover.table(tree, jobs, say, lambda test: is_selected(test, patterns), old, save)
        save(table)
    seconds, lines = cover.lines_of_tests(table)
    return {"tests": seconds, "lines": lines}


def work(tree, chosen, number, counts, bench, steps):
    """One thread: the first step, until there are enough mistakes, then the others for its survivors."""
    left = []
    while not number or counts["planted"] < number:
        try:
            candidate = chosen.get_nowait()
        except queue.Empty:
            break
        begin = clock()
        verdict, why, step = outcome_of(tree, candidate, steps[:1], bench)
        counts["planted"] += verdict != "invalid"
        if verdict == "SURVIVED" and steps[1:]:
            left.append((candidate, clock() - begin))
            say("passes the %s: %s; %s" % (steps[0].name, candidate.name(), why))
        else:
            count(counts, candidate, (verdict, why, step), clock() - begin)
    for candidate, seconds in left:
        begin = clock() - seconds
        count(counts, candidate, outcome_of(tree, candidate, steps[1:], bench), clock() - begin)


def count(counts, candidate, outcome, seconds):
    verdict, why, step = outcome
    for group in ["", "strict "] if matches(candidate.file, STRICT) else [""]:
        counts[group + verdict] += 1
        counts[group + "by " + step] += 1
    counts["folder", os.path.dirname(candidate.file), verdict] += 1
    if verdict != "invalid":
        say("%-8s %s; %s; %.0f s" % (verdict, candidate.name(), why, seconds))


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
    parser.add_argument("--keep", action="store_true",
                        help="after a change, use the earlier measurement: more tests than needed")
    parser.add_argument("--again", default="", metavar="LOG",
                        help="only what survived in that output of an earlier run")
    parser.add_argument("--steps", default=",".join(step.key for step in STEPS),
                        help="kinds of tests, with commas (default: %(default)s)")
    parser.add_argument("--tests", default="",
                        help="measure and run only these tests: patterns, with commas; "
                        "!PATTERN: not these")
    return parser.parse_args()


def main():
    args = arguments()
    top = os.path.dirname(os.path.dirname(HERE))
    place = os.path.abspath(os.path.join(args.build, "mutate"))
    os.makedirs(place, exist_ok=True)
    seed = args.seed or str(random.SystemRandom().randrange(1 << 32))
    patterns = args.tests.split(",") if args.tests else []
    table = coverage_table(place, top, args.jobs, patterns, args.keep)
    found = list(candidates(top, sources(top, args.files), table))
    listed = [c for c in found if c.is_listed]
    chosen = sample([c for c in found if not c.is_listed], 0, seed)
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
            candidate.tests = [t for t in candidate.tests
                               if is_selected(t, args.tests.split(","))]
    trees = [Tree(top, os.path.join(place, "tree%d" % i), "make") for i in range(args.jobs)]
    used = sorted({test for c in chosen[:2 * args.n or None] for test in c.tests})
    keys = args.steps.split(",")
    used = [t for t in used if t.startswith("tests/unit/") or any("cli" in key for key in keys)]
    trees[0].update()
    prepare(trees[0], used, args.jobs)
    for tree in trees[1:]:
        trees[0].copy_to(tree)
    for candidate in chosen:
        candidate.tests = [t for t in candidate.tests if t in used]
    bench = Bench(table["tests"], args.seconds)
    waiting, counts = queue.Queue(), collections.Counter()
    for candidate in chosen:
        waiting.put(candidate)
    steps = [step for step in STEPS if step.key in keys]
    threads = [threading.Thread(target=work, args=(tree, waiting, args.n, counts, bench, steps))
               for tree in trees]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print_rows(counts, steps)
    share = print_totals(counts, args.goal)
    return 0 if share >= args.goal else 1


def print_rows(counts, steps):
    """Print how many mistakes each kind of tests and each folder has."""
    say("| killed by | all | nvme, cache, roles, runner, plan, supervisor |\n|---|---|---|")
    for step in steps:
        say("| %s | %d | %d |" % (step.name, counts["by " + step.name],
                                  counts["strict by " + step.name]))
    say("| none | %d | %d |" % (counts["SURVIVED"], counts["strict SURVIVED"]))
    say("| folder | killed | survived |\n|---|---|---|")
    for folder in sorted({key[1] for key in counts if key[0] == "folder"}):
        say("| %s | %d | %d |" % (folder, counts["folder", folder, "killed"],
                                  counts["folder", folder, "SURVIVED"]))


def print_totals(counts, goal):
    """Print the totals; the percentage of all that is killed."""
    share = 0
    for group, name in (("strict ", "of them in nvme, cache, roles, runner, plan and supervisor"),
                        ("", "in all")):
        killed, survived = counts[group + "killed"], counts[group + "SURVIVED"]
        share = 100 * killed / (killed + survived) if killed else 0
        say("%s: %d planted: %d killed, %d survived: %.1f %% (goal %.0f %%)" %
            (name, killed + survived, killed, survived, share,
             (100 + goal) / 2 if group else goal))
    say("%d more did not compile" % counts["invalid"])
    return share


if __name__ == "__main__":
    sys.exit(main())
