# SPDX-License-Identifier: Apache-2.0
"""A consumer with PyTorch: an iterable data set over a tap, whose items are tensors in GPU memory without a
copy. It compares each row of each tile with a file that has the same tokens.

Usage: tap_torch.py TAP FILE     FILE: tokens, i16, in rows as the tap delivers them. Exit code 0: all
                                 rows are equal; 1: they are not; 2: usage; 3: PyTorch, a GPU, the tap
                                 or the file is missing
"""

import errno
import sys
import time

import headrace

try:
    import numpy
    import torch
    if not torch.cuda.is_available():
        raise RuntimeError("PyTorch sees no GPU")
except Exception as e:
    print(f"tap_torch.py: needs PyTorch and a GPU: {e}", file=sys.stderr)
    sys.exit(3)

WAIT_S = 120


class Tiles(torch.utils.data.IterableDataset):
    """The tiles of a tap as (number, tensor). A tensor that is not referenced any more gives its tile
    back, after the work that the current stream has then."""

    def __init__(self, tap):
        super().__init__()
        self.tap = tap

    def __iter__(self):
        for tile in self.tap:
            yield tile.tile, torch.from_dlpack(tile)


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


def compare(tap, expected):
    """The number of rows, which are all equal to the expected ones; ValueError: they are not."""
    rows_a_tile = tap.tile_bytes // (2 * tap.columns)
    wrong = torch.zeros((), dtype=torch.int64, device=expected.device)
    rows, seen = 0, set()
    # batch_size None: a tile is a batch
    for number, tokens in torch.utils.data.DataLoader(Tiles(tap), batch_size=None):
        if number in seen:
            raise ValueError(f"tile {number} came twice")
        seen.add(number)
        first = number * rows_a_tile
        wrong += (tokens != expected[first:first + len(tokens)]).sum()
        rows += len(tokens)
        del tokens
    if wrong.item():
        raise ValueError(f"{wrong.item()} tokens differ from the file")
    return rows


def main():
    if len(sys.argv) != 3:
        print("Usage: tap_torch.py TAP FILE", file=sys.stderr)
        return 2
    try:
        data = numpy.fromfile(sys.argv[2], dtype="<i2")
        tap = attach(sys.argv[1])
    except OSError as e:
        print(e.strerror or e, file=sys.stderr)
        return 3
    with tap:
        if tap.gpu is None:
            print("the tiles are in host memory: use tap_numpy.py", file=sys.stderr)
            return 3
        expected = torch.from_numpy(data).reshape(-1, tap.columns).to(f"cuda:{tap.gpu}")
        try:
            with torch.cuda.device(tap.gpu):
                rows = compare(tap, expected)
        except (ValueError, headrace.Error) as e:
            print(e, file=sys.stderr)
            return 1
    if rows != len(expected):
        print(f"{rows} rows came, expected {len(expected)}", file=sys.stderr)
        return 1
    print(f"{rows} rows: all equal the file's")
    return 0


sys.exit(main())
