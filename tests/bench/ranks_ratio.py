#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time of the pipelines of an MPI job over that of as many processes without MPI, at the same time.

ranks_ratio.py HEADRACE [RANKS [MIB [TURNS]]]

Each rank, and each process, has an ssd with the same bytes: a shard for the job, a whole object for the process.
Both take turns within one run of this script, so that only their ratio counts. The time is that of the slowest
rank or process, from its first command to its last, without MPI_Init(). Exits with 1 when the ratio is over 1.05.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

GOAL = 1.05
TILE = 1 << 20
CONF = """
appliance = {{ name = "ratio{2}"; }};
ssds = ( {{ name = "a"; device = "soft:{0}/{1}.img"; }} );
gpus = ( {{ name = "g"; device = "host:1"; }} );
pipelines = ( {{ name = "sum"; source = {{ object = "in"; }}; operator = "crc32c"; tile = "1M"; shard = "objects"; }},
  {{ name = "copy"; source = {{ object = "in"; }}; operator = "topk_dot"; tile = "1M"; shard = "objects";
     args = {{ k = 8; query = [ 1.0, 2.0, 3.0, 4.0 ]; }}; }} );
"""


def seconds(report):
    return sum(pipeline["duration_ms"] for pipeline in json.loads(report)["pipelines"]) / 1e3


def job(headrace, folder, count):
    """The slowest rank, of each pipeline."""
    done = subprocess.run(["mpirun", "-n", str(count), headrace, "run", "--mpi", "--json", f"{folder}/ranks.conf"],
                          check=True, capture_output=True, env=dict(os.environ, TMPDIR=folder))
    return seconds(done.stdout)


def processes(headrace, folder, count):
    """The slowest process."""
    running = [subprocess.Popen([headrace, "run", "--json", f"{folder}/one{r}.conf"], stdout=subprocess.PIPE)
               for r in range(count)]
    took = []
    for one in running:
        took.append(seconds(one.communicate()[0]))
        if one.returncode:
            sys.exit(f"a process ended with {one.returncode}")
    return max(took)


def make(headrace, folder, count, mib):
    """The data, and an image of each rank and of each process."""
    data = os.path.join(folder, "in")
    with open(data, "wb") as file:
        for _ in range(count * mib):
            file.write(os.urandom(TILE))
    for r in range(count):
        for name, options in ((f"s{r}", ["--shard", f"{r}/{count}", "--row-bytes", "16", "--tile-rows", str(TILE // 16)]),
                              (f"w{r}", [])):
            disk = f"soft:{folder}/{name}.img"
            subprocess.run([headrace, "store", "format", f"{disk},size={mib + 16}M"], check=True, capture_output=True)
            with open(data, "rb") as source:
                if options:
                    put, text = [*options, disk, "in", data], None
                else:
                    source.seek(r * mib * TILE)
                    put, text = ["--size", f"{mib}M", disk, "in", "-"], source.read(mib * TILE)
            subprocess.run([headrace, "store", "put", "-q", *put], check=True, input=text, capture_output=True)
        with open(f"{folder}/one{r}.conf", "w", encoding="ascii") as conf:
            conf.write(CONF.format(folder, f"w{r}", r))
    with open(f"{folder}/ranks.conf", "w", encoding="ascii") as conf:
        conf.write(CONF.format(folder, "s${rank}", "mpi"))
    os.remove(data)


def main():
    headrace = os.path.abspath(sys.argv[1])
    count, mib, turns = (int(sys.argv[i]) if len(sys.argv) > i else default for i, default in ((2, 4), (3, 256), (4, 9)))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.environ["RUNTIME_DIRECTORY"] = folder
        make(headrace, folder, count, mib)
        with_mpi, without = [], []
        for _ in range(turns):
            with_mpi.append(job(headrace, folder, count))
            without.append(processes(headrace, folder, count))
    a, b = statistics.median(with_mpi), statistics.median(without)
    print(f"{count} ranks, {mib} MiB each, {turns} turns: mpirun {a:.3f} s (sum {sum(with_mpi):.1f}), processes {b:.3f} s "
          f"(sum {sum(without):.1f}), ratio of medians {a / b:.3f}, of sums {sum(with_mpi) / sum(without):.3f}")
    return 1 if a / b > GOAL else 0


if __name__ == "__main__":
    sys.exit(main())
