#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All figures of taps in one run: each way of sharing the GPU, beside the same work in process, and beside
programs without a tap.

tap.py [BUILD] [OPTION]...       BUILD: folder with headrace and libheadrace-tap.so.0 (default: build)
  --gpu DEVICE       device of the pipeline (default: cuda:0). host:N: without the parts that need a GPU
  --share A,B,...    of slice, park, mps (default: all; mps starts nvidia-cuda-mps-control for its part)
  --only A,B,...     of process, rounds, steps, kernel, python, inherit, attach, leak, soak, copies (default: all)
  --bytes N          of the object (default: 1G)
  --kills N          consumers that are killed in the part `leak` (default: 1000), in at most --limit seconds
  --limit S          (default: 120)
  --tiles N          of 512 bytes that the part `soak` gives to four consumers (default: 2097152)
  --threads N        of the software controller (default: 8), bound to the last CPUs
  --repeat N         of the parts rounds, steps, kernel and python (default: 1)
  --blocks N         that compute (default: as many as the engine chooses)

Prints one line a figure. Exits with 1 when a part has failed; the others are measured all the same. Needs a
folder in memory (/dev/shm) with twice the bytes, and CuPy for the parts python and copies.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENT = os.path.join(HERE, "..", "..", "gpu", "tap", "client")
PARTS = ["process", "rounds", "steps", "kernel", "python", "inherit", "attach", "leak", "soak", "copies"]
SHAPES = [("1M", 16), ("4M", 32), ("8M", 32)]
CONF = """
appliance = {{ name = "bench-tap"; }};
ssds = ( {{ name = "s"; device = "soft:{folder}/ssd.img,size={size},threads={threads},populate=1{cpus}"; }} );
gpus = ( {{ name = "g"; device = "{gpu}"; }} );
pipelines = ( {{ name = "p"; source = {{ object = "data"; }}; operator = "{operator}"; tile = "{tile}";
    slots = {slots};{blocks}{sink} }} );
"""


class Failed(Exception):
    pass


def number(text):
    units = {"K": 10, "M": 20, "G": 30}
    return int(text[:-1]) << units[text[-1]] if text[-1] in units else int(text)


class Bench:
    def __init__(self, options):
        self.o, self.failed, self.engine, self.expected = options, 0, None, 0
        self.build = os.path.abspath(options.build)
        self.folder = tempfile.mkdtemp(prefix="tap.", dir="/dev/shm")
        self.environment = dict(os.environ, RUNTIME_DIRECTORY=self.folder, PYTHONPATH=CLIENT,
                                PYTHONDONTWRITEBYTECODE="1",
                                HEADRACE_TAP_LIBRARY=os.path.join(self.build, "libheadrace-tap.so.0"))
        self.on_gpu = options.gpu.startswith("cuda")
        self.size = number(options.bytes)

    def tool(self, name):
        return os.path.join(self.build, "tests", "bench", name)

    def headrace(self, *arguments):
        subprocess.run([os.path.join(self.build, "headrace"), *arguments], check=True,
                       env=self.environment, stdout=subprocess.DEVNULL)

    def make_object(self):
        self.data = os.path.join(self.folder, "data")
        with open(self.data, "wb") as file:
            for _ in range(self.size >> 20):
                file.write(os.urandom(1 << 20))
        self.image_size = f"{(self.size >> 20) + 128}M"
        disk = f"soft:{self.folder}/ssd.img,size={self.image_size}"
        self.headrace("store", "format", "--force", disk)
        self.headrace("store", "put", disk, "data", self.data)

    def configuration(self, operator="copy", tile="1M", slots=16, sink=""):
        blocks = f" blocks = {{ compute = {self.o.blocks}; }};" if self.o.blocks else ""
        count = os.cpu_count()
        cpus = f",cpus={count - self.o.threads}-{count - 1}" if count > 2 * self.o.threads - 1 else ""
        path = os.path.join(self.folder, "bench.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(CONF.format(folder=self.folder, size=self.image_size, threads=self.o.threads,
                                   cpus=cpus, gpu=self.o.gpu, operator=operator, tile=tile, slots=slots,
                                   blocks=blocks, sink=sink))
        return path

    def consumer(self, command):
        return subprocess.Popen(command, env=self.environment, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)

    @contextlib.contextmanager
    def pipeline(self, share, tile, slots, **options):
        """A pipeline with a tap, which ends with its consumers."""
        more = "".join(f" {key} = {value};" for key, value in options.items())
        sink = f' sink = {{ tap = "t"; share = "{share}";{more} }};'
        with self.run_of(self.configuration(tile=tile, slots=slots, sink=sink)) as engine:
            yield engine

    @contextlib.contextmanager
    def run_of(self, conf):
        """A run of the configuration, which ends by itself."""
        self.expected = 0
        log = open(os.path.join(self.folder, "engine.log"), "w+", encoding="utf-8")
        self.engine = subprocess.Popen([os.path.join(self.build, "headrace"), "run", conf],
                                       env=self.environment, stdout=log, stderr=log)
        try:
            yield self.engine
            if self.engine.wait(timeout=60) != self.expected:
                log.seek(0)
                raise Failed(f"headrace ends with {self.engine.returncode}: {log.read()[-500:]}")
        finally:
            if self.engine.poll() is None:
                self.engine.kill()
                self.engine.wait()
            log.close()

    def finish(self, consumer):
        try:
            text = consumer.communicate(timeout=120)[0]
        finally:
            if consumer.poll() is None:
                consumer.kill()
                consumer.wait()
        if consumer.returncode:
            raise Failed(f"the consumer ends with {consumer.returncode}: {text[-500:]}")
        return text.strip()

    def one(self, what, share, tile, slots, command):
        with self.pipeline(share, tile, slots):
            text = self.finish(self.consumer(command))
        for line in text.splitlines():
            print(f"{share:7} {what:8} {slots:2} x {tile:4} {line.strip()}", flush=True)

    # ---- parts

    def process(self):
        """The work in process: a checksum of each tile."""
        for tile, slots in SHAPES:
            conf = self.configuration(operator="crc32c", tile=tile, slots=slots)
            out = subprocess.run([os.path.join(self.build, "headrace"), "run", "--json", conf], text=True,
                                 env=self.environment, stdout=subprocess.PIPE, check=True, timeout=120)
            rate = json.loads(out.stdout)["pipelines"][0]["read_bytes_per_s"] / 1e9
            print(f"process crc32c   {slots:2} x {tile:4} {rate:.2f} GB/s", flush=True)

    def rounds(self, share):
        for tile in ("64K", "1M"):
            self.one("rounds", share, tile, 16, [self.tool("tap_consumer"), "t", "rounds"])

    def steps(self, share):
        for tile in ("1M", "64K"):
            self.one("steps", share, tile, 16, [self.tool("tap_times"), "t", "steps"])

    def kernel(self, share):
        if not self.on_gpu:
            return
        for tile, slots in SHAPES:
            self.one("kernel", share, tile, slots, [self.tool("tap_times"), "t", "kernel"])

    def python(self, share):
        if not self.on_gpu:
            return
        for tile, slots in SHAPES:
            self.one("python", share, tile, slots,
                     [sys.executable, os.path.join(HERE, "tap_gpu.py"), "tap", "t"])

    def inherit(self, share):
        """A consumer that holds tiles is killed; another one gets them."""
        with self.pipeline(share, "1M", 16, credits=4):
            holder = self.consumer([self.tool("tap_consumer"), "t", "hold"])
            if not (line := holder.stdout.readline()).startswith("holds"):
                raise Failed(f"the first consumer gets no tile: {line}")
            heir = self.consumer([self.tool("tap_times"), "t", "inherit"])
            heir.stdout.readline()
            time.sleep(0.5)
            killed = time.monotonic_ns()
            holder.kill()
            os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
            ended = time.monotonic_ns()
            holder.communicate()
            text = self.finish(heir)
        count, first, last = map(int, re.search(r"redelivered: (\d+) tiles from (\d+) to (\d+)", text).groups())
        if not count:
            raise Failed("no tile was redelivered")
        print(f"{share:7} inherit  16 x 1M   {count} tiles of a killed process: SIGKILL -> its end "
              f"{(ended - killed) / 1e6:.1f} ms, its end -> the first tile {(first - ended) / 1e6:.2f} ms, the "
              f"last {(last - ended) / 1e6:.2f} ms", flush=True)

    def attach(self, share):
        self.one("attach", share, "1M", 16, [self.tool("tap_consumer"), "t", "attach", "20"])

    def resources(self):
        """Of the engine: descriptors, memory; of the GPU: memory in use; files."""
        folder = f"/proc/{self.engine.pid}"
        with open(f"{folder}/statm", encoding="ascii") as file:
            resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 10
        gpu = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                             text=True, stdout=subprocess.PIPE, check=True).stdout if self.on_gpu else "0"
        return {"descriptors": len(os.listdir(f"{folder}/fd")), "resident KiB": resident,
                "GPU MiB": int(gpu.split()[0]), "files": len(os.listdir(self.folder)),
                "in /dev/shm": len(os.listdir("/dev/shm"))}

    def leak(self, share):
        """Consumers attach, take a tile, and are killed; 12 live at a time."""
        killed, failed, before, end, alive = 0, 0, None, time.monotonic() + self.o.limit, []
        with self.pipeline(share, "64K", 16, credits=1):
            while True:
                wanted = min(12, self.o.kills - killed) if time.monotonic() < end else 0
                while len(alive) < wanted and (before or killed + len(alive) < 12):
                    alive.append(self.consumer([self.tool("tap_consumer"), "t", "hold"]))
                if not alive:
                    break
                # the ends of several processes take no longer than that of one
                dying, alive = alive[:4], alive[4:]
                for consumer in dying:
                    failed += not consumer.stdout.readline().startswith("holds")
                for consumer in dying:
                    consumer.kill()
                for consumer in dying:
                    consumer.communicate()
                killed += len(dying)
                if killed == 12:
                    time.sleep(1)
                    before = self.resources()
            time.sleep(1)
            after = self.resources()
            self.engine.send_signal(signal.SIGINT)
            self.expected = 1  # interrupted
        grown = ", ".join(f"{name} {before[name]} -> {after[name]}" for name in before)
        print(f"{share:7} leak     {killed} consumers attached and were killed ({failed} got no tile); "
              f"after the first 12 -> after all: {grown}", flush=True)
        if failed:
            raise Failed(f"{failed} consumers got no tile")

    def soak(self, share):
        """Many small tiles: consumers give each back at once."""
        bytes_, disk = self.o.tiles * 512, os.path.join(self.folder, "small.img")
        conf = os.path.join(self.folder, "soak.conf")
        device = f"soft:{disk},size={(bytes_ >> 20) + 64}M,lba=512"
        data = os.path.join(self.folder, "zeros")
        with open(data, "wb") as file:
            file.truncate(bytes_)
        self.headrace("store", "format", "--force", device)
        self.headrace("store", "put", device, "data", data)
        with open(conf, "w", encoding="utf-8") as file:
            file.write(CONF.format(folder=self.folder, size="", threads=self.o.threads, cpus="", gpu=self.o.gpu,
                                   operator="copy", tile="512", slots=32, blocks="",
                                   sink=f' sink = {{ tap = "t"; share = "{share}"; }};')
                       .replace(f"{self.folder}/ssd.img,size=", device.removeprefix("soft:")))
        began = time.monotonic()
        with self.run_of(conf):
            consumers = [self.consumer([self.tool("tap_consumer"), "t", "drain"]) for _ in range(4)]
            texts = [self.finish(consumer) for consumer in consumers]
        took = time.monotonic() - began
        taken = sum(int(re.search(r"(\d+) tiles in", text)[1]) for text in texts)
        print(f"{share:7} soak     {taken} of {self.o.tiles} tiles of 512 bytes by four consumers in {took:.1f} s",
              flush=True)
        os.unlink(disk)
        if taken != self.o.tiles:
            raise Failed("not each tile was taken once")

    def copies(self):
        if not self.on_gpu:
            return
        for how in ("copy", "torch"):
            for tile in (1 << 20, 4 << 20):
                text = self.finish(self.consumer([sys.executable, os.path.join(HERE, "tap_gpu.py"), how,
                                                  self.data, str(tile)]))
                print(f"none    {how:8} tile {tile >> 20}M  {text}", flush=True)

    # ---- all

    def attempt(self, name, *arguments):
        if name not in self.o.only:
            return
        try:
            getattr(self, name)(*arguments)
        except (Failed, subprocess.SubprocessError, OSError) as e:
            self.failed = 1
            print(f"{' '.join(arguments):7} {name}: {e}", flush=True)

    @contextlib.contextmanager
    def sharing(self, share):
        """With mps, a server of this run alone."""
        if share != "mps":
            yield
            return
        pipe = os.path.join(self.folder, "mps")
        os.mkdir(pipe)
        self.environment.update(CUDA_MPS_PIPE_DIRECTORY=pipe, CUDA_MPS_LOG_DIRECTORY=pipe)
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=self.environment, check=True)
        try:
            yield
        finally:
            subprocess.run(["nvidia-cuda-mps-control"], env=self.environment, input="quit\n", text=True,
                           check=False)
            del self.environment["CUDA_MPS_PIPE_DIRECTORY"], self.environment["CUDA_MPS_LOG_DIRECTORY"]

    def run(self):
        try:
            self.make_object()
            self.attempt("process")
            self.attempt("copies")
            for share in self.o.share:
                with self.sharing(share):
                    for _ in range(self.o.repeat):
                        for part in ("rounds", "steps", "kernel", "python"):
                            self.attempt(part, share)
                    for part in ("inherit", "attach", "leak", "soak"):
                        self.attempt(part, share)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        return self.failed


def words_of(allowed):
    def parse(text):
        words = text.split(",")
        if not set(words) <= set(allowed):
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(allowed)}")
        return words
    return parse


def main():
    shares = ["slice", "park", "mps"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--gpu", default="cuda:0")
    parser.add_argument("--share", type=words_of(shares), default=shares)
    parser.add_argument("--only", type=words_of(PARTS), default=PARTS)
    parser.add_argument("--bytes", default="1G")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--tiles", type=int, default=2 << 20)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--blocks", type=int, default=0)
    sys.exit(Bench(parser.parse_args()).run())


if __name__ == "__main__":
    main()
