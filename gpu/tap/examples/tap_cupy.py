# SPDX-License-Identifier: Apache-2.0
"""A consumer with CuPy: counts each token of a tap on the GPU, without a copy of its tiles, and compares
the counts with those of a file that has the same tokens.

Usage: tap_cupy.py TAP FILE      FILE: tokens, u16, in rows as the tap delivers them. Exit code 0: the
                                 counts are equal; 1: they are not; 2: usage; 3: CuPy, a GPU, the tap
                                 or the file is missing
"""

import errno
import sys
import time

import headrace

try:
    import cupy
    import numpy
    cupy.cuda.runtime.getDeviceCount()
except Exception as e:  # without a driver CuPy has an error of its own
    print(f"tap_cupy.py: needs CuPy and a GPU: {e}", file=sys.stderr)
    sys.exit(3)

WAIT_S = 120


def attach(name):
    """Attach as soon as the pipeline has opened its tap."""
    end = time.monotonic() + WAIT_S
    while True:
        try:
            return headrace.tap(name)
        except headrace.Error as e:
            if e.errno not in (errno.ENOENT, errno.ECONNREFUSED) or time.monotonic() > end:
                raise
        time.sleep(0.01)


def count(tap):
    """Occurrences of each token, and the number of rows."""
    counts, rows, seen = cupy.zeros(1 << 16, dtype=cupy.int64), 0, set()
    for tile in tap:
        tokens = cupy.asarray(tile)
        if tokens.data.ptr != tile.__cuda_array_interface__["data"][0]:
            raise ValueError(f"tile {tile.tile} is not the memory of the pipeline")
        if tile.tile in seen:
            raise ValueError(f"tile {tile.tile} came twice")
        seen.add(tile.tile)
        counts += cupy.bincount(tokens.ravel(), minlength=1 << 16)
        rows += len(tokens)
        # given back when the stream has counted it; this process does not wait for that
        del tokens
        tile.done(cupy.cuda.get_current_stream())
    return cupy.asnumpy(counts), rows


def main():
    if len(sys.argv) != 3:
        print("Usage: tap_cupy.py TAP FILE", file=sys.stderr)
        return 2
    try:
        expected = numpy.bincount(numpy.fromfile(sys.argv[2], dtype="<u2"), minlength=1 << 16)
        tap = attach(sys.argv[1])
    except OSError as e:
        print(e.strerror or e, file=sys.stderr)
        return 3
    with tap:
        if tap.gpu is None:
            print("the tiles are in host memory: use tap_numpy.py", file=sys.stderr)
            return 3
        with cupy.cuda.Device(tap.gpu):
            try:
                counts, rows = count(tap)
            except (ValueError, headrace.Error) as e:
                print(e, file=sys.stderr)
                return 1
    if (counts != expected).any():
        token = int((counts != expected).argmax())
        print(f"token {token}: {counts[token]} came, expected {expected[token]}", file=sys.stderr)
        return 1
    print(f"{rows} rows, {counts.sum()} tokens: all counts equal the file's")
    return 0


sys.exit(main())
