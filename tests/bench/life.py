#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures an appliance whose pipelines repeat: start delays, answers of `status`, CPU time when idle.

life.py HEADRACE [SECONDS]      each of the first four parts takes SECONDS (default 60)

  idle           CPU time of supervisor and engine while nothing runs, in percent of a core
  start          delay of starts of an idle appliance, every 200 ms: due to launch
  start beside   the same beside a pipeline that runs all the time
  status         answers of the control socket while that pipeline runs at full rate; this client has
                 a real-time priority, so that its own waits for a CPU do not count as the appliance's
  machine        above the row to which it belongs: lateness of processes with real-time priority, one
                 for each CPU, that sleep 2 ms at a time: what the machine, or its hypervisor, adds
  memory         growth of supervisor and engine over 10,000 starts (after the first 500), and of their
                 descriptors and threads

The ssds are software controllers in memory. The report is a table; docs: tests/bench/README.md.
"""

import contextlib
import json
import multiprocessing
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time

CONF = """
appliance = {{ name = "life"; parallel = 2; log = "warn"; }};
ssds = ( {{ name = "a"; device = "soft:memory,size=64M";
           objects = ( {{ name = "in"; bytes = "256K"; }} ); }},
         {{ name = "b"; device = "soft:memory,size=160M";
           objects = ( {{ name = "big"; bytes = "128M"; }} ); }} );
gpus = ( {{ name = "g"; device = "host:2"; }} );
boot = {{ post = "off"; }};
pipelines = (
  {{ name = "short"; source = {{ object = "in"; ssd = "a"; }}; operator = "crc32c"; tile = "64K"; {short} }},
  {{ name = "long"; source = {{ object = "big"; ssd = "b"; }}; operator = "crc32c"; verify = "off"; {long} }} );
"""


class Appliance:
    def __init__(self, headrace, folder, short, long):
        self.path = folder + "/x.conf"
        with open(self.path, "w") as out:
            out.write(CONF.format(short=short, long=long))
        env = dict(os.environ, RUNTIME_DIRECTORY=folder)
        self.socket = folder + "/life.sock"
        self.process = subprocess.Popen(
            [headrace, "boot", self.path], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )

    def __enter__(self):
        for _ in range(600):
            try:
                if "when" in self.status()["pipelines"][0]:
                    return self
            except OSError:
                pass
            time.sleep(0.1)
        raise TimeoutError("the appliance does not come up")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def status(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.socket)
            s.sendall(struct.pack("<4sHHII", b"HRCT", 1, 1, 0, 0))
            head = self.receive(s, 16)
            return json.loads(self.receive(s, struct.unpack("<4sHHII", head)[3]))

    @staticmethod
    def receive(s, count):
        data = b""
        while len(data) < count:
            part = s.recv(count - len(data))
            if not part:
                raise OSError("the socket has closed")
            data += part
        return data

    def cpu_s(self):
        """CPU time of the supervisor and its engine."""
        ticks = 0
        for pid in (self.process.pid, self.status()["engine_pid"]):
            with open(f"/proc/{pid}/stat") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


    def held(self):
        """Resident KiB, descriptors and threads of the supervisor and its engine."""
        sums = [0, 0, 0]
        for pid in (self.process.pid, self.status()["engine_pid"]):
            with open(f"/proc/{pid}/status") as status:
                fields = dict(line.split(":", 1) for line in status)
            sums[0] += int(fields["VmRSS"].split()[0])
            sums[1] += len(os.listdir(f"/proc/{pid}/fd"))
            sums[2] += int(fields["Threads"])
        return sums


def row(name, values, unit):
    values = sorted(values)
    p = [values[min(len(values) - 1, int(len(values) * q))] for q in (0.5, 0.99)]
    print(f"{name:<14} {len(values):>7} {p[0]:>10.3f} {p[1]:>10.3f} {values[-1]:>10.3f}  {unit}")


def idle(headrace, folder, seconds):
    with Appliance(headrace, folder, 'on = "request";', 'on = "request";') as a:
        time.sleep(3)
        before, began = a.cpu_s(), time.monotonic()
        time.sleep(seconds)
        percent = 100 * (a.cpu_s() - before) / (time.monotonic() - began)
        print(f"{'idle':<14} {'':>7} {percent:>10.3f} {'':>10} {'':>10}  % of a core")


def starts(headrace, folder, seconds, name, long):
    with Appliance(headrace, folder, 'every = "200ms";', long) as a:
        seen, delays, end = 0, [], time.monotonic() + seconds
        with beside_machine(seconds):
            while time.monotonic() < end:
                p = a.status()["pipelines"][0]
                if p["starts_count"] != seen and "start_delay_us" in p:
                    seen = p["starts_count"]
                    delays.append(p["start_delay_us"] / 1000)
                time.sleep(0.05)
        row(name, delays[1:], "ms")


def prefer(priority):
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(priority))
    except PermissionError:
        print("no permission for a real-time priority: waits of this program for a CPU count, too")


def lateness(cpu, seconds):
    os.sched_setaffinity(0, {cpu})
    prefer(2)
    late, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        time.sleep(0.002)
        late.append(1000 * (time.monotonic() - began - 0.002))
    return late


@contextlib.contextmanager
def beside_machine(seconds):
    """Print the row "machine" for the time of the block."""
    cpus = os.sched_getaffinity(0)
    with multiprocessing.Pool(len(cpus)) as pool:
        late = pool.starmap_async(lateness, [(cpu, seconds) for cpu in cpus], 1)
        yield
        row("machine", sum(late.get(), []), "ms")


def answers(headrace, folder, seconds):
    with Appliance(headrace, folder, 'on = "request";', "forever = true;") as a:
        times = []
        with beside_machine(seconds):
            prefer(1)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                began = time.monotonic()
                a.status()
                times.append(1000 * (time.monotonic() - began))
                time.sleep(0.01)
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        row("status", times, "ms")


def after_starts(a, count):
    while a.status()["pipelines"][0]["starts_count"] < count:
        time.sleep(0.05)
    return a.held()


def memory(headrace, folder):
    with Appliance(headrace, folder, "forever = true;", 'on = "request";') as a:
        first = after_starts(a, 500)
        growth = [last - before for last, before in zip(after_starts(a, 10500), first)]
        print(f"{'memory':<14} {10000:>7} {growth[0]:>10} KiB of {first[0]}, "
              f"{growth[1]} descriptors, {growth[2]} threads")


def main():
    headrace = os.path.abspath(sys.argv[1])
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60
    print(f"{'':<14} {'number':>7} {'p50':>10} {'p99':>10} {'most':>10}")
    with tempfile.TemporaryDirectory() as folder:
        idle(headrace, folder, seconds)
        starts(headrace, folder, seconds, "start", 'on = "request";')
        starts(headrace, folder, seconds, "start beside", "forever = true;")
        answers(headrace, folder, seconds)
        memory(headrace, folder)


if __name__ == "__main__":
    main()
