# SPDX-License-Identifier: Apache-2.0
"""A producer on a GPU for tests/gpu/feed.sh: fills tiles in GPU memory with the counting pattern, by copies
on a stream, through the driver and headrace.py only.

Usage: feed_producer.py FEED WHAT[=N]
"""

import ctypes
import errno
import os
import random
import signal
import struct
import sys
import time

import headrace

cu = ctypes.CDLL("libcuda.so.1")


def ask(call, *arguments):
    err = getattr(cu, call)(*arguments)
    if err:
        raise OSError(f"{call}: error {err}")


def attach(name, **options):
    """Attach as soon as the engine has opened the socket, and another producer has gone."""
    end = time.monotonic() + 60
    while True:
        try:
            return headrace.feed(name, **options)
        except headrace.Error as e:
            waits = e.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.EBUSY, errno.EPIPE)
            if not waits or time.monotonic() > end:
                raise
            time.sleep(0.005)


class Gpu:
    """A stream, and pinned memory for a tile on its way."""

    def __init__(self, feed):
        device, context = ctypes.c_int(), ctypes.c_void_p()
        ask("cuInit", 0)
        ask("cuDeviceGet", ctypes.byref(device), feed.gpu)
        ask("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        ask("cuCtxSetCurrent", context)
        self.stream, self.at, self.bytes = ctypes.c_void_p(), ctypes.c_void_p(), feed.tile_bytes
        ask("cuStreamCreate", ctypes.byref(self.stream), 1)
        ask("cuMemAllocHost_v2", ctypes.byref(self.at), ctypes.c_size_t(self.bytes))

    def fill(self, tile, count=None):
        """Queue a copy of the pattern; the memory on its way is used again at the next call."""
        count = tile.nbytes if count is None else count
        ask("cuStreamSynchronize", self.stream)
        words = range(tile.offset // 8, (tile.offset + count + 7) // 8)
        ctypes.memmove(self.at, struct.pack(f"<{len(words)}Q", *words), count)
        address = tile.__cuda_array_interface__["data"][0]
        ask("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(address), self.at, ctypes.c_size_t(count),
            self.stream)
        return tile

    def commit(self, tile, count=None):
        tile.commit(count, stream=self.stream.value)

    def block(self):
        """The stream waits for a word that nothing writes."""
        word = ctypes.c_void_p()
        ask("cuMemAllocHost_v2", ctypes.byref(word), ctypes.c_size_t(4096))
        ctypes.memset(word, 0, 4096)
        ask("cuStreamWaitValue32_v2", self.stream, ctypes.c_uint64(word.value), ctypes.c_uint32(1),
            ctypes.c_uint(0))


def produce(feed, gpu, tiles=None, last=None):
    """Fill tiles up to number `tiles`; the last one has `last` bytes."""
    for tile in feed:
        if tiles is not None and tile.tile >= tiles:
            return
        count = last if tiles is not None and tile.tile + 1 == tiles and last else tile.nbytes
        gpu.commit(gpu.fill(tile, count), count)
        if count < tile.nbytes:
            return


def kill_in(state, name):
    """Attach, fill some tiles, and be killed in that state."""
    feed = attach(name)
    gpu = Gpu(feed)
    for _ in range(random.randrange(3)):
        tile = feed.next(timeout=60)
        gpu.commit(gpu.fill(tile))
    if state == "committed":  # work that the stream has not done
        gpu.block()
        tile = feed.next(timeout=60)
        address = tile.__cuda_array_interface__["data"][0]
        ask("cuMemsetD8Async", ctypes.c_uint64(address), ctypes.c_ubyte(0xee),
            ctypes.c_size_t(tile.nbytes), gpu.stream)
        gpu.commit(tile)
    elif state == "half":  # half a tile of other bytes
        tile = feed.next(timeout=60)
        address = tile.__cuda_array_interface__["data"][0]
        ask("cuMemsetD8Async", ctypes.c_uint64(address), ctypes.c_ubyte(0xee),
            ctypes.c_size_t(tile.nbytes // 2), gpu.stream)
        ask("cuStreamSynchronize", gpu.stream)
    elif state == "holding":
        held = []
        while len(held) < feed.credits:
            held.append(feed.next(timeout=60))
        try:
            feed.next(timeout=0.05)
        except headrace.Timeout:
            pass
    os.kill(os.getpid(), signal.SIGKILL)


def rate(feed, gpu):
    """Commit all tiles as they are, or after a copy of a tile in GPU memory."""
    source = ctypes.c_uint64()
    ask("cuMemAlloc_v2", ctypes.byref(source), ctypes.c_size_t(feed.tile_bytes))
    began, count = time.monotonic(), 0
    for tile in feed:
        address = tile.__cuda_array_interface__["data"][0]
        ask("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(address), source, ctypes.c_size_t(tile.nbytes),
            gpu.stream)
        gpu.commit(tile)
        count += 1
    ask("cuStreamSynchronize", gpu.stream)
    took = time.monotonic() - began
    feed.end()
    print(f"{count * feed.tile_bytes / took / 1e9:.1f} GB/s, {took / count * 1e6:.1f} us a tile")


def main():
    name, what = sys.argv[1:3]
    what, _, number = what.partition("=")
    if what.startswith("kill-"):
        return kill_in(what[5:], name)
    if what == "die":
        for _ in range(int(number)):
            child = os.fork()
            if child == 0:
                kill_in(random.choice(("committed", "half", "holding", "attached")), name)
            assert os.waitpid(child, 0)[1] == signal.SIGKILL
        return None
    if what == "refused":
        try:
            headrace.feed(name)
            return "attached"
        except headrace.Error as e:
            print(e)
            return 0
    feed = attach(name)
    if feed.gpu is None:
        return "the tiles are in host memory"
    gpu = Gpu(feed)
    if what == "rate":
        rate(feed, gpu)
        return feed.close()
    if what == "linger":  # fills some tiles, detaches, and lives until its input ends
        produce(feed, gpu, int(number))
        feed.close()
        print("detached", flush=True)
        sys.stdin.read()
        return 0
    if what == "lost":  # until the engine has died
        try:
            produce(feed, gpu, int(number))
            print("filled", flush=True)
            held = []
            while True:
                held.append(feed.next())
        except headrace.Error as e:
            print(e)
            return 0
    tiles, _, last = number.partition(",")
    produce(feed, gpu, int(tiles) if tiles else None, int(last) if last else None)
    feed.end()
    print(f"from {feed.first}, durable {feed.durable}")
    return feed.close()


sys.exit(main())
