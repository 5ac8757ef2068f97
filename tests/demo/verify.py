#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check the results of the demo with programs that share nothing with headrace.

Usage: verify.py DIR CONFIG RUN.json

  q6        sqlite3 over lineitem.csv
  nearest   python3, the query taken from the text of the configuration
  bf16      python3, rounding by its definition: nearest, ties to even
  checksum  rhash

Prints a table; exit status 1 when a result differs.
"""

import array
import json
import operator
import re
import struct
import subprocess
import sys

DIMENSIONS = 128
NEAREST = 10

Q6 = """\
CREATE TABLE lineitem (l_shipdate TEXT, l_discount INT, l_quantity INT, l_extendedprice INT);
.mode csv
.import --skip 1 {csv} lineitem
SELECT SUM(l_extendedprice * l_discount), COUNT(*) FROM lineitem
  WHERE l_shipdate >= '1994-01-01' AND l_shipdate < '1995-01-01'
    AND l_discount BETWEEN 5 AND 7 AND l_quantity < 24;
"""


def load(path, typecode):
    values = array.array(typecode)
    with open(path, "rb") as file:
        values.frombytes(file.read())
    return values


def output(command, text=None):
    """Standard output of a command."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def q6(directory):
    """Revenue in cents with two decimals (cents times hundredths), and the rows that qualify."""
    script = Q6.format(csv=f"{directory}/lineitem.csv")
    revenue, rows = output(["sqlite3", ":memory:"], script).split(",")
    return f"{int(revenue) // 100}.{int(revenue) % 100:02d}", int(rows)


def nearest(directory, config):
    """(row, score) of the best rows, best first; of equal scores the lower row."""
    with open(config, encoding="utf-8") as file:
        numbers = re.search(r"query\s*=\s*\[([^]]*)\]", file.read())[1]
    query = [float(number) for number in numbers.split(",")]
    matrix = load(f"{directory}/embeddings.f32", "f")
    scores = []
    for start in range(0, len(matrix), DIMENSIONS):
        score = sum(map(operator.mul, query, matrix[start : start + DIMENSIONS]))
        scores.append((-score, start // DIMENSIONS))
    return [(row, -score) for score, row in sorted(scores)[:NEAREST]]


def bf16(directory):
    """The expected contents of the whole converted object."""
    halves = load(f"{directory}/weights.f32", "H")
    low, high = halves[0::2], halves[1::2]
    result = array.array("H", high)
    for i, (rest, number) in enumerate(zip(low, high)):
        if number & 0x7F80 == 0x7F80 and (number & 0x7F or rest):
            result[i] = number | 0x40  # NaN: made quiet, the rest of the payload is cut
        elif rest > 0x8000 or (rest == 0x8000 and number & 1):
            result[i] = number + 1
    return result.tobytes()


def f32(number):
    """The 32-bit number that was printed with nine digits."""
    return struct.unpack("f", struct.pack("f", number))[0]


def crc32c(path):
    return output(["rhash", "--crc32c", "--printf=%{crc32c}", path]).lower()


def results(directory, config, run):
    """For each pipeline: its name, the result of headrace, and the result of the other program."""
    said = {pipeline["name"]: pipeline.get("result", {}) for pipeline in run["pipelines"]}
    with open(f"{directory}/weights.bf16", "rb") as file:
        converted = file.read()
    expected = bf16(directory)
    pairs = zip(memoryview(converted).cast("H"), memoryview(expected).cast("H"))
    differ = sum(ours != theirs for ours, theirs in pairs)
    best = [(one["row"], f32(one["score"])) for one in said["nearest"]["best"]]
    return [
        (
            "q6",
            f"{said['q6']['revenue_cents']} cents from {said['q6']['rows']} rows",
            "{} cents from {} rows".format(*q6(directory)),
        ),
        ("nearest", best, nearest(directory, config)),
        ("bf16", f"{len(converted)} bytes, {differ} differ", f"{len(expected)} bytes, 0 differ"),
        ("checksum", said["checksum"]["crc32c"], crc32c(f"{directory}/l_extendedprice.i64")),
    ]


def brief(result):
    if isinstance(result, str):
        return result
    return f"{len(result)} rows, first {result[0][0]}: {result[0][1]:.6f}" if result else "no rows"


def main():
    directory, config, report = sys.argv[1:]
    with open(report, encoding="utf-8") as file:
        run = json.load(file)
    rates = {one["name"]: one["read_bytes_per_s"] / 1e9 for one in run["pipelines"]}
    good = True
    print(f"{'pipeline':<10} {'headrace':<34} {'other program':<34} {'ok':<4} {'rate':>10}")
    for name, ours, theirs in results(directory, config, run):
        same = ours == theirs
        good = good and same
        answer = "yes" if same else "NO"
        answers = f"{brief(ours):<34} {brief(theirs):<34} {answer:<4}"
        print(f"{name:<10} {answers} {rates[name]:>5.2f} GB/s")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
