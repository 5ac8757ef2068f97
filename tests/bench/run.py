#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the figures of merit of headrace, and print each beside its goal.

Usage: run.py BUILD_FOLDER [FIGURE...]     FIGURE: driver soft start memory size crc sums flat; default all

Images are in /dev/shm when 8 GiB are free there, otherwise in the build folder, and are removed at
the end. Compared runs alternate. A ratio is the ratio of medians. The cost per byte is that of the
fastest run, because other processes disturb it least. Exit status 1: a goal is missed.
"""

import json
import os
import pathlib
import random
import re
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

# A pipeline with a sink, with all checksums (the default) or without checksums.
WITH_SINK = """\
appliance = {{ name = "bench"; checkpoint = 0; }};
ssds = ( {{ name = "ssd0"; device = "{device}"; }} );
gpus = ( {{ name = "gpu0"; device = "host:2"; }} );
pipelines = (
    {{
        name = "p";
        source = {{ object = "data"; }};
        operator = "{operator}";
        sink = {{ object = "sink"; replace = true; checksum = {checksum}; }};
        verify = "{verify}";
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
        parent = "/dev/shm" if free >= 8 << 30 else self.build
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=parent))
        self.missed = 0

    def row(self, figure, goal, value, good):
        self.missed += not good
        print(f"{figure:<58} {goal:>12} {value:>12}  {'ok' if good else 'MISSED'}", flush=True)

    def call(self, *command):
        words = [str(word) for word in command]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)}: exit status {done.returncode}")
        return done.stdout

    def measured(self, *command):
        """Returns the JSON that the command printed, and its largest resident set in bytes."""
        usage = self.dir / "usage"
        said = self.call(self.build / "tests/bench/measure", usage, *command)
        return json.loads(said), int(usage.read_text().split()[3]) * 1024

    def store(self, size):
        """Make an image with one object, `data`. Returns image, offset of the object, configuration."""
        image, config = self.dir / f"{size}.img", self.dir / f"{size}.conf"
        device = f"soft:{image},size={size // MIB + 64}M"
        if not image.exists():
            self.call(self.headrace, "store", "format", device)
            self.fill(device, size)
            config.write_text(CONFIG.format(device=device))
        listed = json.loads(self.call(self.headrace, "store", "ls", "--json", device))
        return image, listed["objects"][0]["offset_bytes"], config

    def fill(self, device, size):
        block = random.Random(1).randbytes(MIB)
        put = [self.headrace, "store", "put", "--size", str(size), device, "data", "-"]
        with subprocess.Popen(put, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
            for _ in range(size // MIB):
                process.stdin.write(block)
        if process.returncode != 0:
            sys.exit(f"store put: exit status {process.returncode}")

    def loop(self, image, offset, size):
        """Returns CRC and nanoseconds of the plain loop."""
        crc, taken = self.call(self.build / "tests/bench/crc_loop", image, offset, size).split()
        return crc, int(taken)

    def pipeline(self, config):
        """Returns CRC and nanoseconds of the pipeline, which must succeed."""
        run = json.loads(self.call(self.headrace, "run", config, "--json"))["pipelines"][0]
        return run["result"]["crc32c"], run["duration_ms"] * 1e6

    def compare(self, sizes, rounds):
        """Returns for each size the nanoseconds of plain loop and pipeline. Their runs alternate."""
        stores = {size: self.store(size) for size in sizes}
        taken = {size: ([], []) for size in sizes}
        for _ in range(rounds):
            for size, (image, offset, config) in stores.items():
                crc, loop = self.loop(image, offset, size)
                same, pipeline = self.pipeline(config)
                if same != crc:
                    sys.exit(f"crc32c of {size} bytes: the pipeline says {same}, the loop {crc}")
                taken[size][0].append(loop)
                taken[size][1].append(pipeline)
        return taken

    # ---- the figures

    def driver(self):
        command = ["tests/bench/driver_cost.sh", self.build]
        said = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout
        costs = [float(line.split()[3]) for line in said.splitlines()]
        for line in said.splitlines():
            print(f"  {line}")
        value = max(costs, default=float("inf"))
        name = "instructions per 4 KiB read, submit + reap (callgrind)"
        self.row(name, "<= 200", f"{value:.1f}", value <= 200)

    def soft(self):
        command = ["tests/bench/soft_cost.sh", self.build]
        said = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout
        costs = []
        for line in said.splitlines():
            print(f"  {line}")
            number = [float(word) for word in re.findall(r"\d+\.\d+", line)]
            costs.append(number[0] - number[1])
        value = costs[0] if costs else float("inf")
        name = "soft controller, instructions per command (soft:null)"
        self.row(name, "<= 80", f"{value:.1f}", value <= 80)
        value = max(costs[2:4], default=float("inf"))
        name = "soft controller, instructions per 4 KiB command less the copy"
        self.row(name, "<= 180", f"{value:.1f}", value <= 180)
        rate = [self.build / "tests/bench/soft_rate", "--queues", 8, "--seconds", 1]
        said = [self.call(*rate) for _ in range(3)]
        value = max(float(re.search(r"([0-9.]+) a thread", line)[1]) for line in said)
        name = "soft controller, commands a second and thread (soft:null)"
        self.row(name, ">= 14.3 M", f"{value:.1f} M", value >= 14.3)

    def start(self):
        """Start and end with the built-in configuration, whose soft SSD is in memory."""
        runs = [json.loads(self.call(self.headrace, "run", "--json")) for _ in range(11)]
        value = statistics.median(run["first_tile_ms"] for run in runs)
        name = "exec to first tile submitted, memory-backed soft SSD"
        self.row(name, "< 50 ms", f"{value:.1f} ms", value < 50)

    def memory(self):
        _, _, config = self.store(256 * MIB)
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
        name = "size of the binary (with debugging information)"
        self.row(name, "< 8 MiB", f"{value:.2f} MiB", value < 8)

    def crc(self):
        loop, pipeline = map(statistics.median, self.compare([1024 * MIB], 9)[1024 * MIB])
        rate = [1024 * MIB / taken for taken in (loop, pipeline)]
        ratio = loop / pipeline
        name = f"crc32c over 1 GiB: {rate[1]:.2f} GB/s against a loop's {rate[0]:.2f} GB/s"
        self.row(name, ">= 0.70", f"{ratio:.2f}", ratio >= 0.7)

    def sums(self):
        """Compare pipelines with a sink: with and without checksums, in alternation."""
        size, rounds = 256 * MIB, 15
        device = f"soft:{self.dir / 'sums.img'},size={3 * size // MIB + 64}M"
        self.call(self.headrace, "store", "format", device)
        self.fill(device, size)
        for operator in ("copy", "cast_f32_bf16"):
            taken = {"on": [], "off": []}
            for _ in range(rounds):
                for verify, times in taken.items():
                    config = self.dir / f"{operator}-{verify}.conf"
                    checksum = "true" if verify == "on" else "false"
                    config.write_text(WITH_SINK.format(
                        device=device, operator=operator, verify=verify, checksum=checksum))
                    run = json.loads(self.call(self.headrace, "run", config, "--json"))
                    times.append(run["pipelines"][0]["duration_ms"])
            on, off = (size / 1e6 / statistics.median(taken[verify]) for verify in ("on", "off"))
            name = f"{operator}: {on:.2f} GB/s with all checksums, {off:.2f} without"
            self.row(name, ">= 0.75", f"{on / off:.2f}", on / off >= 0.75)

    def flat(self):
        sizes = [size * MIB for size in (64, 256, 1024, 4096)]
        costs = []
        for size, (_, pipeline) in self.compare(sizes, 11).items():
            costs.append(min(pipeline) / size)
            print(f"  crc32c over {size // MIB:5} MiB: {costs[-1]:.3f} ns a byte", flush=True)
        growth = max(costs) / costs[0]
        name = "cost per byte up to 4 GiB over that of 64 MiB, at most"
        self.row(name, "<= 1.25", f"{growth:.2f}", growth <= 1.25)


def main():
    bench = Bench(sys.argv[1])
    try:
        print(f"{'figure':<58} {'goal':>12} {'measured':>12}")
        all_of_them = ["driver", "soft", "start", "memory", "size", "crc", "sums", "flat"]
        for figure in sys.argv[2:] or all_of_them:
            getattr(bench, figure)()
    finally:
        shutil.rmtree(bench.dir)
    sys.exit(1 if bench.missed else 0)


main()
