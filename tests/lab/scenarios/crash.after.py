# SPDX-License-Identifier: Apache-2.0
"""Check the image of each cut: the store opens, verifies, and has all data that were durable by then."""
import json
import os
import subprocess

HEADRACE = os.environ["HEADRACE"]


def contents(number):
    size = number % 60 * 1000 + 1
    line = f"object {number}\n".encode()
    return (line * (size // len(line) + 1))[:size]


def promised(notes, since=None):
    """Returns {object: set of numbers that it may contain}; None means no such object. With `since`, a
    number of notes: later notes do not remove a state that was allowed after these notes."""
    may = {}
    for at, note in enumerate(notes):
        verb, *words = note.split()
        if not words:
            continue
        name, old = words[0], may.get(words[0], {None})
        now = {int(words[1])} if verb in ("putting", "running", "put") else {None}
        done = verb in ("put", "gone") and (since is None or at < since)
        may[name] = now if done else old | now
    return may


def store(image, *words):
    return subprocess.run([HEADRACE, "store", words[0], "soft:" + image, *words[1:]],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=60)


def held(image, name):
    """Returns the bytes of the object; None when it does not exist or is incomplete."""
    done = store(image, "get", name, "-")
    return done.stdout if done.returncode == 0 else None


def check_cut(cut, notes):
    """Returns the defects of an image, one sentence each."""
    told = notes[:cut["before"]]
    if "formatted" not in told:
        return []
    done = store(cut["image"], "verify")
    if done.returncode:
        return ["does not verify: " + done.stderr.decode().strip()]
    # Later actions of the guest, and actions whose note has not arrived, may be in the image.
    may = promised(notes[:cut["until"] + 4], since=cut["before"])
    wrong = []
    for name, numbers in may.items():
        found = held(cut["image"], name)
        if found not in [None if n is None else contents(n) for n in numbers]:
            size = "nothing" if found is None else f"{len(found)} bytes"
            wrong.append(f"{name}: {size}, expected one of {numbers}")
    return wrong


CONFIG = """
ssds = ( {{ name = "ssd0"; device = "soft:{image}"; }} );
gpus = ( {{ name = "gpu0"; device = "host:1"; }} );
pipelines = ( {{ name = "copy"; source = {{ object = "o0"; }}; operator = "copy";
                sink = {{ object = "{sink}"; }}; tile = "16K"; slots = 4; }} );
"""


def interrupted(cut, notes):
    """Returns the sink of the run that the cut interrupted, or None."""
    last = (notes[:cut["until"]] or ["formatted"])[-1].split()
    return last[1] if last[0] == "running" and cut["before"] == cut["until"] else None


def resumed(cut, sink):
    """Run the interrupted pipeline again, with the software controller."""
    with open("resume.conf", "w", encoding="utf-8") as f:
        f.write(CONFIG.format(image=cut["image"], sink=sink))
    done = subprocess.run([HEADRACE, "run", "--json", "resume.conf"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, timeout=60)
    return done.returncode == 0 and held(cut["image"], sink) == contents(59)


with open("cuts.json", encoding="utf-8") as f:
    cuts = json.load(f)
with open("notes.txt", encoding="utf-8") as f:
    notes = f.read().splitlines()

bad = runs = 0
fate = {"kept": 0, "lost": 0, "torn": 0}
for number, cut in enumerate(cuts):
    words = cut["unflushed"].split()
    for key, count in zip(words[::2], words[1::2]):
        fate[key] += int(count)
    wrong = check_cut(cut, notes)
    if not wrong and interrupted(cut, notes):
        runs += 1
        if not resumed(cut, interrupted(cut, notes)):
            wrong = ["the pipeline that was running does not come to its end from there"]
    if wrong:
        bad += 1
        print(f"not ok - cut {number}, after '{(['nothing'] + notes[:cut['until']])[-1]}'")
        for sentence in wrong:
            print("# " + sentence)
    else:
        os.unlink(cut["image"])
print(f"{'not ok' if bad else 'ok'} - {len(cuts) - bad} of {len(cuts)} cuts left what was promised")
print(f"{'ok' if len(cuts) >= 30 else 'not ok'} - there were enough cuts")
print(f"{'ok' if all(fate.values()) else 'not ok'} - unflushed writes were kept, lost and torn")
print("# " + str(fate))
print(f"{'ok' if runs else 'not ok'} - pipelines were cut short and resumed ({runs})")
