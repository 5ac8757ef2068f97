# SPDX-License-Identifier: Apache-2.0
"""Medians of all rounds: headrace divided by the fastest engine of fio, and the goal."""
import glob
import json
import os
import statistics

WORK = {"random32": "4 KiB random reads, depth 32", "random1": "4 KiB random reads, depth 1",
        "sequential32": "128 KiB sequential reads, depth 32"}
GOAL = {"random32": 1.3}


def rate(path):
    """Commands per second."""
    with open(path, encoding="utf-8") as f:
        said = json.load(f)
    if "jobs" in said:
        return said["jobs"][0]["read"]["iops"]
    return said["ssds"][0]["measurements"][0]["commands_per_s"]


found = {}
for path in glob.glob("headrace.*.*") + glob.glob("fio_*.*.*"):
    by, work, turn = path.split(".")
    found.setdefault(work, {}).setdefault(by, []).append(rate(path))
report = []
for work, name in WORK.items():
    rates = {by: statistics.median(each) for by, each in found.get(work, {}).items()}
    ours = rates.pop("headrace", 0)
    best = max(rates, key=rates.get, default=None)
    ratio = ours / rates[best] if best else 0
    report.append({"work": name, "turns": len(found.get(work, {}).get("headrace", [])),
                   "commands_per_s": {"headrace": ours, **rates}, "ratio_to_best_of_fio": ratio})
    good = ours > 0 and len(rates) == 3 and ratio >= GOAL.get(work, 0)
    goal = f", at least {GOAL[work]}" if work in GOAL else ""
    print(f"{'ok' if good else 'not ok'} - {name}: {ratio:.2f} times {best}{goal}")
    for by, value in {"headrace": ours, **rates}.items():
        each = found.get(work, {}).get(by, [0])
        print(f"# {by:<16} {value:9.0f} commands a second ({min(each):.0f} to {max(each):.0f})")
with open(os.path.join(os.environ["BUILD"], "bench-lab.json"), "w", encoding="utf-8") as f:
    json.dump(report, f, indent=1)
