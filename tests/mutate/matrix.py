#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kill matrix: put one mistake at a time into the sources, and note every unit test that fails.

mutate.py ends at the first failure; the matrix shows which tests find a mistake that no other test
finds. A mistake is shown to the unit tests that execute its line (the nearest MOST_UNIT), to the
scripts of the command line that do (the quickest MOST_CLI, until one fails), and to the first --seeds
of the simulation. Output: a JSON object in a line for each mistake: {"name", "file", "unit": [test, ...],
"cli": script or "", "sim": message or "", "shown": number of unit tests, "seconds"}. Ends after
--seconds. `matrix.py --read FILE` prints a summary.
"""
import argparse
import collections
import json
import os
import queue
import shlex
import shutil
import sys
import threading

import mutate
from trees import PLAIN, Tree, clock, first_failure, run

MOST_UNIT, MOST_CLI = 25, 6
# Nothing of these runs in the simulation.
NOT_SIMULATED = ["pci/topo/*", "boot/cmd/topo*", "boot/ranks/*", "boot/remote/*", "boot/cmd/bench*"]


def link_command(tree, target):
    """Returns make's command that links a program of the plain build."""
    _, text = tree.build(PLAIN, ["-nB", "V=1", target])
    line = next(l for l in text.replace("\\\n", " ").replace("\t", " ").split("\n")
                if " -o build/%s " % target in l and ".a " in l)
    return shlex.split(line[line.index("gcc"):])


def link(tree, target, objects, replaced=()):
    """Links a program in which `objects` take the places of the archive's, and of `replaced`."""
    if target not in tree.links:
        tree.links[target] = link_command(tree, target)
    command = [c for c in tree.links[target] if c not in replaced]
    output = command.index("-o") + 1
    path = command[output]
    command[output] = path + ".new"
    archive = command.index("build/libheadrace.a")
    status, text = run(command[:archive] + objects + command[archive:], tree.place, 300)
    if status != 0:
        raise RuntimeError("%s: %s" % (target, text))
    os.replace(os.path.join(tree.place, path + ".new"), os.path.join(tree.place, path))


def mutant_objects(tree, quick, file):
    """Returns the objects that plant() has left in the folder of the mutant."""
    sources = quick.objects_of(file)
    folder = os.path.join(quick.folder, "mutant%d" % os.getpid())
    return [os.path.join(folder, "%d.o" % n) for n in range(len(sources))]


def unit_kills(quick, candidate, text, bench):
    """Returns ([unit test that fails, ...], how many were run)."""
    killed, shown = [], 0
    tests = [t for t in candidate.tests if t.startswith("tests/unit/")]
    tests.sort(key=lambda t: (mutate.nearness(t, candidate.file), bench.seconds.get(t, 0)))
    for test in tests[:MOST_UNIT]:
        parts = quick.parts(test, candidate.file)
        if parts is None or test in bench.failing[quick.folder]:
            continue
        name = quick.link_again(test, candidate.file, text, 300) if parts else test
        if not name:
            continue
        shown += 1
        passed, _ = quick.test(name, 20 + 5 * bench.seconds.get(test, 10))
        if not passed:
            killed.append(test)
    return killed, shown


def cli_kill(tree, objects, candidate, bench, is_main):
    """Returns the first script that fails, with its message, or ""."""
    scripts = [t for t in candidate.tests if t.startswith("tests/cli/") and t in bench.scripts]
    scripts.sort(key=lambda t: bench.seconds.get(t, 0))
    if not scripts:
        return ""
    link(tree, "headrace", objects, ["build/boot/main.o"] if is_main else [])
    for script in scripts[:MOST_CLI]:
        limit = 30 + 5 * bench.seconds.get(script, 10)
        status, output = run(["env", "HEADRACE=" + os.path.join(tree.place, "build/headrace"),
                              "tests/scratch.sh", os.path.join(tree.place, "build", script + ".tmp"),
                              "bash", script + ".sh"], tree.place, limit)
        if status != 0:
            return "%s: %s" % (script, first_failure(output) if status is not None else "no end")
    return ""


def sim_kill(tree, objects, candidate, bench, is_main):
    """Returns the message of the first seed that fails, or ""."""
    if is_main or mutate.matches(candidate.file, NOT_SIMULATED):
        return ""
    link(tree, "tests/sim/sim", objects)
    status, output = run(["build/tests/sim/sim", "--seeds", str(bench.seeds), "--jobs", "1", "--stop",
                          "--folder", "/dev/shm/matrix-" + os.path.basename(tree.place)],
                         tree.place, 60 + 5 * bench.seeds)
    if status == 0:
        return ""
    return next((l.strip() for l in output.split("\n") if l.startswith("  ")), "failed")


def row(tree, candidate, bench):
    """What the mistake kills; None when it does not compile."""
    quick = mutate.quick_of(tree, PLAIN)
    text = mutate.mistakes.plant(candidate.source, candidate.mistake)
    if not quick.plant(candidate.file, text):
        return None
    killed, shown = unit_kills(quick, candidate, text, bench)
    is_main = candidate.file == "boot/main.c"
    objects = mutant_objects(tree, quick, candidate.file)
    return {"name": candidate.name(), "file": candidate.file, "unit": killed, "shown": shown,
            "cli": cli_kill(tree, objects, candidate, bench, is_main),
            "sim": sim_kill(tree, objects, candidate, bench, is_main)}


def work(tree, waiting, bench, end, out):
    while clock() < end:
        try:
            candidate = waiting.get_nowait()
        except queue.Empty:
            return
        begin = clock()
        found = row(tree, candidate, bench)
        if found:
            found["seconds"] = round(clock() - begin, 1)
            with mutate.printing:
                out.write(json.dumps(found) + "\n")
                out.flush()


def read(path):
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    of_test, alone, folders = collections.Counter(), collections.defaultdict(list), {}
    for r in rows:
        kinds = (bool(r["unit"]), bool(r["cli"]), bool(r["sim"]))
        folder = folders.setdefault(os.path.dirname(r["file"]), collections.Counter())
        folder["all"] += 1
        for name, is_set in zip(("unit", "cli", "sim"), kinds):
            folder[name] += is_set
        folder["unit only"] += kinds == (True, False, False)
        folder["none"] += not any(kinds)
        of_test.update(r["unit"])
        if kinds == (True, False, False) and len(r["unit"]) == 1:
            alone[r["unit"][0]].append(r["name"])
    print("%-24s %6s %6s %6s %6s %9s %6s" % ("folder", "all", "unit", "cli", "sim", "unit only", "none"))
    for name, f in sorted(folders.items()):
        print("%-24s %6d %6d %6d %6d %9d %6d" % (name, f["all"], f["unit"], f["cli"], f["sim"],
                                                 f["unit only"], f["none"]))
    print("\nunit tests: kills, and mistakes that no other test has found")
    for test, number in of_test.most_common():
        print("%-60s %4d %4d" % (test, number, len(alone[test])))
        for name in alone[test]:
            print("        " + name)
    print("\nmistakes that no test has found")
    for r in rows:
        if not (r["unit"] or r["cli"] or r["sim"]):
            print("        %s (%d unit tests run it)" % (r["name"], r["shown"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--build", default="build")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=8, help="of the simulation")
    parser.add_argument("-n", type=int, default=0, help="how many mistakes; 0: until the time ends")
    parser.add_argument("--seconds", type=float, default=3600, help="of all work")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--out", default="matrix.json")
    parser.add_argument("--read", default="")
    args = parser.parse_args()
    if args.read:
        return read(args.read)
    end = clock() + args.seconds
    top = os.path.dirname(os.path.dirname(mutate.HERE))
    place = os.path.abspath(os.path.join(args.build, "mutate"))
    os.makedirs(place, exist_ok=True)
    table = mutate.coverage_table(place, top, args.jobs, [], args.keep)
    found = [c for c in mutate.candidates(top, mutate.sources(top, args.files), table)
             if not c.is_listed]
    chosen = mutate.sample(found, 0, args.seed)[args.skip:]
    chosen = chosen[:args.n or None]
    say = mutate.say
    say("%d mistakes possible; measured after %.0f s" % (len(chosen), args.seconds - end + clock()))
    bench = mutate.Bench(table["tests"], 0)
    bench.seeds = args.seeds
    trees = prepare(top, place, sorted(table["tests"]), args.jobs, bench)
    say("trees are ready after %.0f s" % (args.seconds - end + clock()))
    waiting = queue.Queue()
    for candidate in chosen:
        waiting.put(candidate)
    with open(args.out, "a", encoding="utf-8") as out:
        go([threading.Thread(target=work, args=(tree, waiting, bench, end, out)) for tree in trees])
    return 0


def prepare(top, place, tests, jobs, bench):
    """Builds a tree without a mistake, notes what fails in it, and returns `jobs` copies of it."""
    trees = [Tree(top, os.path.join(place, "tree%d" % i), "make") for i in range(jobs)]
    first = trees[0]
    first.update()
    mutate.prepare(first, tests, jobs)
    first.build(PLAIN, ["headrace", "tests/sim/sim"] + [t + ".ok" for t in tests if "/cli/" in t],
                jobs=jobs, go_on=True)
    bench.scripts = {t for t in tests if "/cli/" in t and
                     os.path.exists(os.path.join(first.place, "build", t + ".ok"))}
    quick = mutate.quick_of(first, PLAIN)
    quick.build(tests, jobs)
    waiting = queue.Queue()
    for test in quick.ready:
        waiting.put(test)
    go([threading.Thread(target=check, args=(quick, waiting, bench)) for _ in trees])
    for tree in trees[1:]:  # nothing writes to a file that is there: links are enough
        shutil.rmtree(tree.place, ignore_errors=True)
        run(["cp", "-al", first.place, tree.place], top, 600)
    for tree in trees:
        mutate.quick_of(tree, PLAIN).ready = set(quick.ready)
        tree.links = {}
    return trees


def check(quick, waiting, bench):
    """Notes the tests that fail with shared libraries without a mistake: they are not used."""
    while True:
        try:
            test = waiting.get_nowait()
        except queue.Empty:
            return
        if not quick.test(test, 60)[0]:
            bench.failing[quick.folder].add(test)


def go(threads):
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
