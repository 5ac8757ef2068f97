# SPDX-License-Identifier: Apache-2.0
"""Medians of all turns: the link divided by perftest, packets for a tile, and the time to recover."""
import glob
import json
import os
import re
import statistics

GOAL = 0.9  # of perftest's rate
RECOVERY_MAX = 2.0  # seconds


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def rate(path):
    """Bytes per second."""
    text = read(path)
    if path.startswith("link."):
        found = re.search(r"bytes=(\d+) ms=(\d+)", text)
        return int(found[1]) / max(int(found[2]), 1) * 1000
    # The columns of perftest: bytes, iterations, peak, average in MiB/s.
    found = re.search(r"^ *\d+ +\d+ +[\d.]+ +([\d.]+) ", text, re.MULTILINE)
    return float(found[1]) * (1 << 20)


def packets(path, size):
    """Packets in both directions for a tile."""
    text = read(path)
    if path.startswith("link."):
        tiles = int(re.search(r"bytes=(\d+) ms=", text)[1]) / size
    else:
        tiles = int(re.search(r"^ *\d+ +(\d+) +[\d.]+ +[\d.]+ ", text, re.MULTILINE)[1])
    return int(re.search(r"^packets=(\d+)", text, re.MULTILINE)[1]) / tiles


def recovery(path):
    """Seconds from the return of the network to the next connection; 0: the first one did not break."""
    back = float(read(path.replace("recovery.", "back.")))
    up = [int(ms) / 1000 for ms in re.findall(r"^\d+ up at (\d+) ms", read(path), re.MULTILINE)]
    return max(up[-1] - back, 0.0) if len(up) > 1 else 0.0


def median(pattern, value, *more):
    values = [value(path, *more) for path in glob.glob(pattern)]
    return statistics.median(values) if values else 0.0


report = {"tiles": {}}
for size in (65536, 1048576):
    link, plain = median(f"link.{size}.*", rate), median(f"perftest.{size}.*", rate)
    counts = [median(f"{name}.{size}.*", packets, size) for name in ("link", "perftest")]
    ratio = link / plain if plain else 0.0
    report["tiles"][size] = {"link": link, "perftest": plain, "ratio": ratio,
                             "link_packets": counts[0], "perftest_packets": counts[1]}
    print(f"{'ok' if ratio >= GOAL else 'not ok'} - tiles of {size} bytes: {ratio:.2f} times "
          f"ib_write_bw, at least {GOAL}")
    print(f"# link {link / 1e6:.1f} MB/s, ib_write_bw {plain / 1e6:.1f} MB/s; packets for a tile: "
          f"{counts[0]:.1f}, {counts[1]:.1f}")
times = [recovery(path) for path in sorted(glob.glob("recovery.*"))]
report["recovery_s"] = times
good = bool(times) and all(t <= RECOVERY_MAX for t in times)
print(f"{'ok' if good else 'not ok'} - after a loss of 1 s the next connection is up within "
      f"{RECOVERY_MAX:.0f} s")
print("#", " ".join(f"{t:.2f}" for t in times), "s")
with open(os.path.join(os.environ["BUILD"], "bench-lab-link.json"), "w", encoding="utf-8") as f:
    json.dump(report, f, indent=1)
