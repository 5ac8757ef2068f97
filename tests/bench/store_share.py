#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rate of a pipeline while `headrace store get` reads the same ssd without a pause, over its rate alone.

store_share.py HEADRACE [TURNS]

Both take turns within one run of this script, so that only their ratio counts. Exits with 1 when the
ratio is under 0.80, which control.store_percent promises.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

GOAL = 0.80
BYTES = 256 << 20
WINDOW_S = 2
CONF = """
appliance = {{ name = "share"; }};
ssds = ( {{ name = "a"; device = "soft:{0}/x.img,size=1G"; }} );
gpus = ( {{ name = "g"; device = "host:1"; }} );
boot = {{ post = "off"; }};
pipelines = ( {{ name = "sum"; source = {{ object = "in"; }}; operator = "crc32c"; tile = "1M"; forever = true; }} );
"""


def starts(headrace):
    """Starts of the pipeline that have ended."""
    status = subprocess.run([headrace, "status", "--json"], check=True, capture_output=True)
    return json.loads(status.stdout)["pipelines"][0]["done_count"]


def rate(headrace, disk, beside):
    """Starts a second in one window; beside: a client reads meanwhile. Also the bytes that it got."""
    stop = threading.Event()
    got = 0

    def read():
        nonlocal got
        command = [headrace, "store", "get", "-q", disk, "in", "-"]
        while not stop.is_set():
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as get:
                while not stop.is_set() and (data := get.stdout.read1(1 << 20)):
                    got += len(data)
                get.kill()

    client = threading.Thread(target=read)
    if beside:
        client.start()
    began, before = time.monotonic(), starts(headrace)
    time.sleep(WINDOW_S)
    count, took = starts(headrace) - before, time.monotonic() - began
    stop.set()
    if beside:
        client.join()
    return count / took, got / took


def main():
    headrace = os.path.abspath(sys.argv[1])
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.environ["RUNTIME_DIRECTORY"] = f"{folder}/run"
        with open(f"{folder}/x.conf", "w", encoding="ascii") as conf:
            conf.write(CONF.format(folder))
        disk = f"soft:{folder}/x.img"
        subprocess.run([headrace, "store", "format", disk + ",size=1G"], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run([headrace, "store", "put", "-q", "--size", str(BYTES), disk, "in", "-"],
                       input=bytes(BYTES), check=True, stdout=subprocess.DEVNULL)
        with subprocess.Popen([headrace, "boot", f"{folder}/x.conf"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as boot:
            try:
                time.sleep(WINDOW_S)
                alone, beside, moved = [], [], []
                for _ in range(turns):
                    alone.append(rate(headrace, disk, False)[0])
                    some, got = rate(headrace, disk, True)
                    beside.append(some)
                    moved.append(got)
            finally:
                boot.terminate()
    ratio = statistics.median(beside) / statistics.median(alone)
    print(f"pipeline beside store get over alone: {ratio:.2f} (goal {GOAL:.2f}); the client got "
          f"{statistics.median(moved) / 1e6:.0f} MB/s, the pipeline "
          f"{statistics.median(beside) * BYTES / 1e6:.0f} MB/s")
    return 1 if ratio < GOAL else 0


sys.exit(main())
