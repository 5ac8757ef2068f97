# SPDX-License-Identifier: Apache-2.0
"""Figures of consumers on a GPU: a kernel reads each tile where it lies, and the tile is given back in the order
of its stream. Beside it what a program would do without a tap: pread and a copy for each tile, and tensors
from another process by torch.multiprocessing.

Usage: tap_gpu.py tap TAP | copy FILE TILE | torch FILE TILE      prints GB/s, and CPU time per tile
"""

import errno
import os
import sys
import time

import cupy

from headrace import Timeout

KERNEL = cupy.RawKernel(r"""
extern "C" __global__ void add(const unsigned long long *data, unsigned long long words, unsigned long long *to)
{
    unsigned long long sum = 0;
    for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x)
        sum += data[i];
    for (int lanes = 16; lanes; lanes /= 2)             /* additions to one word take their turns */
        sum += __shfl_xor_sync(~0u, sum, lanes);
    if (threadIdx.x % 32 == 0)
        atomicAdd(to, sum);
}""", "add")


def work(array, total):
    KERNEL((64,), (256,), (array, cupy.uint64(array.nbytes // 8), total))


def report(what, began, cpu, tiles, size, total):
    cupy.cuda.get_current_stream().synchronize()
    seconds = time.perf_counter() - began
    print(f"{what}: {tiles} tiles, {size / seconds / 1e9:.2f} GB/s, "
          f"{(time.thread_time() - cpu) / max(tiles, 1) * 1e6:.1f} us of CPU time a tile, "
          f"sum {int(total.get()[0]):x}", flush=True)


def attach(name):
    """As soon as the pipeline has opened its tap."""
    import headrace
    end = time.monotonic() + 60
    while True:
        try:
            return headrace.tap(name)
        except headrace.Error as e:
            if e.errno not in (errno.ENOENT, errno.ECONNREFUSED) or time.monotonic() > end:
                raise
        time.sleep(0.01)


def by_tap(name):
    total = cupy.zeros(1, dtype=cupy.uint64)
    work(cupy.zeros(1024, dtype=cupy.uint64), total)
    stream, tiles, size, now = cupy.cuda.get_current_stream(), 0, 0, time.perf_counter_ns
    spent = {"next of a tile that is there": [], "asarray": [], "launch": [], "done": []}
    with attach(name) as tap:
        began = cpu = None
        while True:
            first = now()
            try:
                tile = tap.next(timeout=0)
                there = True
            except Timeout:
                tile, there = tap.next(), False
            if tile is None:
                break
            taken = now()
            began = began or taken / 1e9
            cpu = cpu or time.thread_time()
            array = cupy.asarray(tile)
            made = now()
            work(array, total)
            launched = now()
            tile.done(stream)
            done = now()
            tiles, size = tiles + 1, size + tile.nbytes
            for part, ns in zip(spent, (taken - first, made - taken, launched - made, done - launched)):
                if there or ns != taken - first:
                    spent[part].append(ns)
        ready = (tap.credits + 2) * tap.tile_bytes  # of the slots: they were filled when it came
        report("tap", began, cpu, tiles, max(size - ready, 0), total)
    medians = {part: sorted(ns)[len(ns) // 2] / 1e3 if ns else 0 for part, ns in spent.items()}
    print("p50 of a tile: " + ", ".join(f"{part} {us:.1f} us" for part, us in medians.items()) +
          f"; without the launch {sum(medians.values()) - medians['launch']:.1f} us")


def by_copy(path, tile):
    total = cupy.zeros(1, dtype=cupy.uint64)
    work(cupy.zeros(1024, dtype=cupy.uint64), total)
    slots = 4
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(slots)]
    pinned = [cupy.cuda.alloc_pinned_memory(tile) for _ in range(slots)]
    device = [cupy.empty(tile // 8, dtype=cupy.uint64) for _ in range(slots)]
    fd, tiles, size = os.open(path, os.O_RDONLY), 0, 0
    began, cpu = time.perf_counter(), time.thread_time()
    while True:
        i = tiles % slots
        streams[i].synchronize()
        count = os.preadv(fd, [memoryview(pinned[i])[:tile]], size)
        if count < tile:
            break
        device[i].data.copy_from_host_async(pinned[i].ptr, tile, streams[i])
        with streams[i]:
            work(device[i], total)
        tiles, size = tiles + 1, size + count
    for stream in streams:
        stream.synchronize()
    report("pread and copy", began, cpu, tiles, size, total)


def produce(path, tile, tensors, back):
    import torch
    ring = [torch.empty(tile, dtype=torch.uint8, device="cuda") for _ in range(8)]
    pinned = torch.empty(tile, dtype=torch.uint8).pin_memory()
    fd, n, size = os.open(path, os.O_RDONLY), 0, 0
    while os.preadv(fd, [memoryview(pinned.numpy())], size) == tile:
        if n >= len(ring):
            back.get()
        ring[n % len(ring)].copy_(pinned, non_blocking=True)
        torch.cuda.synchronize()
        tensors.put(ring[n % len(ring)])
        n, size = n + 1, size + tile
    tensors.put(None)
    while n > 0 and back.get() is not None:
        pass


def by_torch(path, tile):
    import torch.multiprocessing as mp
    mp.set_start_method("spawn")
    tensors, back = mp.Queue(), mp.Queue()
    other = mp.Process(target=produce, args=(path, tile, tensors, back))
    other.start()
    total, tiles, size, began = cupy.zeros(1, dtype=cupy.uint64), 0, 0, None
    work(cupy.zeros(1024, dtype=cupy.uint64), total)
    while (tensor := tensors.get()) is not None:
        began, cpu = (began, cpu) if began else (time.perf_counter(), time.thread_time())
        work(cupy.asarray(tensor).view(cupy.uint64), total)
        cupy.cuda.get_current_stream().synchronize()
        tiles, size = tiles + 1, size + tensor.nbytes
        del tensor
        back.put(1)
    report("torch.multiprocessing", began, cpu, tiles, size, total)
    back.put(None)
    other.join()


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "tap":
        by_tap(sys.argv[2])
    elif len(sys.argv) == 4 and sys.argv[1] in ("copy", "torch"):
        (by_copy if sys.argv[1] == "copy" else by_torch)(sys.argv[2], int(sys.argv[3]))
    else:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
