#!/usr/bin/env python3
"""Measure the figures that headrace is held to, and print them beside their goals.

Usage: run.py BUILD_FOLDER [FIGURE...]     FIGURE: driver start memory size crc flat; default all

Images lie in /dev/shm when 6 GiB are free there, else in the build folder, and are removed at the
end. Rates are medians of several runs, compared runs alternate. Exit status 1 when a goal is missed.
"""

import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

MIB = 1 << 20
CONFIG = """\
appliance = {{ name = "bench"; checkpoint = 0; }};
ssds = ( {{ name = "ssd0"; device = "{device}"; }} );
gpus = ( {{ name = "gpu0"; device = "host:2"; }} );
pipelines = (
    {{
        name = "checksum";
        source = {{ object = "data"; }};
        operator = "crc32c";
        tile = "1M";
        slots = 8;
    }}
);
"""


class Bench:
    def __init__(self, build):
        self.build = pathlib.Path(build).resolve()
        self.headrace = self.build / "headrace"
        free = shutil.disk_usage("/dev/shm").free
        parent = "/dev/shm" if free >= 6 << 30 else self.build
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=parent))
        self.missed = 0

    def row(self, figure, goal, value, good):
        self.missed += not good
        print(f"{figure:<58} {goal:>12} {value:>12}  {'ok' if good else 'MISSED'}", flush=True)

    def call(self, *command):
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}")
        return done.stdout

    def measured(self, *command):
        """JSON that the command printed, and its largest resident set in bytes."""
        usage = self.dir / "usage"
        said = self.call(self.build / "tests/bench/measure", usage, *command)
        return json.loads(said), int(usage.read_text().split()[3]) * 1024

    def store(self, size):
        """An image with one object, `data`, of pseudo-random bytes. Its path and configuration."""
        image, config = self.dir / "ssd.img", self.dir / "bench.conf"
        image.unlink(missing_ok=True)
        device = f"soft:{image},size={size // MIB + 64}M"
        self.call(self.headrace, "store", "format", device)
        block = random.Random(1).randbytes(MIB)
        put = [self.headrace, "store", "put", "--size", str(size), device, "data", "-"]
        with subprocess.Popen(put, stdin=subprocess.PIPE) as process:
            for _ in range(size // MIB):
                process.stdin.write(block)
        if process.returncode != 0:
            sys.exit(f"store put: exit status {process.returncode}")
        config.write_text(CONFIG.format(device=device))
        return image, config

    def loop(self, image, offset, size):
        """CRC and nanoseconds of the plain loop."""
        crc, taken = self.call(self.build / "tests/bench/crc_loop", image, offset, size).split()
        return crc, int(taken)

    def pipeline(self, config):
        """The report of the one pipeline, which must have succeeded."""
        report = json.loads(self.call(self.headrace, "run", config, "--json"))
        return report["pipelines"][0]

    def compare(self, size, rounds):
        """Median nanoseconds of the plain loop and of the pipeline over an object of `size`."""
        image, config = self.store(size)
        device = f"soft:{image}"
        listed = json.loads(self.call(self.headrace, "store", "ls", device, "--json"))
        offset = listed["objects"][0]["offset_bytes"]
        loops, pipelines = [], []
        for _ in range(rounds):
            crc, taken = self.loop(image, offset, size)
            loops.append(taken)
            run = self.pipeline(config)
            pipelines.append(run["duration_ms"] * 1e6)
            if run["result"]["crc32c"] != crc:
                sys.exit(f"crc32c of {size} bytes: pipeline says {run['result']['crc32c']}, loop {crc}")
        return statistics.median(loops), statistics.median(pipelines)

    # ---- the figures

    def driver(self):
        command = ["tests/bench/driver_cost.sh", self.build]
        said = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout
        costs = [float(line.split()[3]) for line in said.splitlines()]
        for line in said.splitlines():
            print(f"  {line}")
        value = max(costs, default=float("inf"))
        self.row("instructions per 4 KiB read, submit + reap (callgrind)", "<= 200", f"{value:.1f}", value <= 200)

    def start(self):
        """The built-in configuration has a memory-backed soft SSD."""
        times = [json.loads(self.call(self.headrace, "run", "--json"))["first_tile_ms"] for _ in range(11)]
        value = statistics.median(times)
        self.row("exec to first tile submitted, memory-backed soft SSD", "< 50 ms", f"{value:.1f} ms", value < 50)

    def memory(self):
        _, config = self.store(256 * MIB)
        plan = json.loads(self.call(self.headrace, "check", config, "--json"))
        places = [place["used_bytes"] for part in plan["partitions"] for place in part["places"]]
        disks = [ssd["queue_memory_bytes"] + ssd["map_memory_bytes"] for ssd in plan["ssds"]]
        configured = sum(places) + sum(disks)
        _, resident = self.measured(self.headrace, "run", config, "--json")
        over = (resident - configured) / MIB
        name = f"resident memory over the {configured / MIB:.1f} MiB configured"
        self.row(name, "<= 16 MiB", f"{over:.1f} MiB", over <= 16)

    def size(self):
        value = os.stat(self.headrace).st_size / MIB
        self.row("size of the binary (with debugging information)", "< 8 MiB", f"{value:.2f} MiB", value < 8)

    def crc(self):
        loop, pipeline = self.compare(1024 * MIB, 7)
        rate = [1024 * MIB / taken for taken in (loop, pipeline)]
        name = f"crc32c over 1 GiB: {rate[1]:.2f} GB/s against a loop's {rate[0]:.2f} GB/s"
        self.row(name, ">= 0.70", f"{loop / pipeline:.2f}", loop / pipeline >= 0.7)

    def flat(self):
        costs = []
        for size in (64, 256, 1024, 4096):
            _, taken = self.compare(size * MIB, 5)
            costs.append(taken / (size * MIB))
            print(f"  crc32c over {size:5} MiB: {costs[-1]:.4f} ns a byte", flush=True)
        spread = max(costs) / min(costs)
        self.row("cost per byte, 64 MiB to 4 GiB: largest over smallest", "<= 1.25", f"{spread:.2f}", spread <= 1.25)


def main():
    bench = Bench(sys.argv[1])
    try:
        print(f"{'figure':<58} {'goal':>12} {'measured':>12}")
        for figure in sys.argv[2:] or ["driver", "start", "memory", "size", "crc", "flat"]:
            getattr(bench, figure)()
    finally:
        shutil.rmtree(bench.dir)
    sys.exit(1 if bench.missed else 0)


main()
