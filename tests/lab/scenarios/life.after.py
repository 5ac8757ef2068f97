# SPDX-License-Identifier: Apache-2.0
"""The power was cut: what the guest has seen is durable, and the next boot goes on."""
import json
import os
import signal
import subprocess
import time

HEADRACE = os.environ["HEADRACE"]


def point(good, name, *notes):
    print(f"{'ok' if good else 'not ok'} - {name}")
    for note in notes if not good else ():
        print(f"# {note}")


def starts():
    done = subprocess.run([HEADRACE, "check", "--json", "host.conf"], capture_output=True, check=False, text=True)
    if done.returncode:
        point(False, "the disk can be read", done.stderr)
        raise SystemExit
    return {each["name"]: each["done_count"] for each in json.loads(done.stdout)["starts"]}


with open("counts", encoding="utf-8") as f:
    seen = {name: int(count) for name, count in (line.split() for line in f)}
found = starts()
point(all(found[name] >= seen[name] for name in seen), "starts that the guest has seen are durable",
      f"seen {seen}, found {found}")
verify = subprocess.run([HEADRACE, "store", "verify", "soft:nv0.img"], capture_output=True, check=False, text=True)
point(verify.returncode == 0, "the store is whole", verify.stderr)

env = dict(os.environ, RUNTIME_DIRECTORY=os.path.abspath("runtime"))
with open("next.log", "wb") as log:
    boot = subprocess.Popen([HEADRACE, "boot", "host.conf"], stdout=log, stderr=log, env=env)
    for _ in range(600):
        time.sleep(0.1)
        with open("next.log", "rb") as f:
            if f.read().count(b"\ncopy ") >= 2:
                break
    boot.send_signal(signal.SIGTERM)
    code = boot.wait(60)
after = starts()
point(code == 0 and after["sum"] > found["sum"] and after["copy"] > found["copy"], "the next boot goes on",
      f"exit code {code}, before {found}, after {after}")
