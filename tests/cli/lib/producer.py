# SPDX-License-Identifier: Apache-2.0
"""A producer of a feed for tests: fills tiles with the counting pattern.

Usage: producer.py FEED [WHAT]     WHAT: one word below, with =N for a number
"""

import errno
import os
import random
import select
import signal
import struct
import sys
import time

import headrace
import tap_socket

TILE = 65536
protocol = tap_socket.Protocol("feed", 33, 34, 1)


def attach(name, **options):
    """Attach as soon as the engine has opened the socket."""
    end = time.monotonic() + 120
    while True:
        try:
            return headrace.feed(name, **options)
        except headrace.Error as e:
            # EPIPE: the run before has ended at that moment
            waits = e.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.EBUSY, errno.EPIPE)
            if not waits or time.monotonic() > end:
                raise
            time.sleep(0.01)


def pattern(first, count):
    """`count` bytes of the counting pattern from byte `first` on: word i of the data is i."""
    words = range(first // 8, (first + count + 7) // 8)
    return struct.pack(f"<{len(words)}Q", *words)[:count]


def fill(tile, count=None):
    count = tile.nbytes if count is None else count
    tile.memory()[:count] = pattern(tile.offset, count)
    return tile


def hold(feed, count):
    return [feed.next(timeout=120) for _ in range(count)]


def die(name, count):
    """Attach, commit some tiles, leave half a tile, and be killed, again and again."""
    for _ in range(count):
        child = os.fork()
        if child == 0:
            feed = attach(name)
            tile = feed.next(timeout=120)
            if tile and random.random() < 0.5 and tile.tile < 60:
                fill(tile).commit()
                tile = feed.next(timeout=120)
            tile.memory()[:TILE // 2] = b"\xee" * (TILE // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL


def refused(name):
    try:
        headrace.feed(name)
        print("attached")
    except headrace.Error as e:
        print(e)


def overwrite(feed):
    """Commit all tiles, and write to each of them for a while after its commit."""
    views = []
    for tile in feed:
        views.append(fill(tile).memory())
        tile.commit()
        for view in views[-8:]:
            view[:] = random.randbytes(1) * TILE
    feed.end()


def wait_for_end(feed):
    hold(feed, 1)
    print("holding", flush=True)
    try:
        feed.end()
    except headrace.Error as e:
        print(e)


def produce(feed, tiles=None, last=TILE):
    """Fill the tiles from feed.first on, in all up to `tiles`; the last one has `last` bytes."""
    for tile in feed:
        if tiles is not None and tile.tile >= tiles:
            break
        count = last if tile.tile + 1 == tiles else tile.nbytes
        fill(tile, count).commit(count)
        print(tile.tile, flush=True)
        if count < tile.nbytes:
            break


def slowly(feed):
    """All tiles, with pauses, until killed."""
    for tile in feed:
        fill(tile).commit()
        print(tile.tile, feed.durable, flush=True)
        time.sleep(random.random() / 50)
    feed.end()


def persist(name, runs, pause=0):
    """Fill the feeds of so many runs; after the death of an engine go on at the next one. With `pause`
    the first engine gets so many tiles, and no more before its death: all other slots are held."""
    while runs:
        feed = attach(name)
        try:
            print(f"from {feed.first}", flush=True)
            for tile in feed:
                fill(tile).commit()
                print(tile.tile, flush=True)
                if tile.tile + 1 == pause:
                    held = hold(feed, 64)  # ends by the error
                    held.clear()
                time.sleep(0.005)
            feed.end()
            runs -= 1
        except headrace.Error as e:
            print(f"again: {e}", flush=True)
            pause = 0
        finally:
            feed.close()


def arrays(feed):
    import numpy
    for tile in feed:
        rows = numpy.asarray(tile)
        assert rows.flags.writeable and not rows.flags.owndata and rows.shape == (TILE // 64, 8)
        rows[:] = numpy.arange(tile.offset // 8, (tile.offset + TILE) // 8).reshape(rows.shape)
        with tile:
            del rows
    feed.end()


def write(feed):
    """The data of the object, in pieces of random length."""
    total, random_bytes = 5 * TILE + 1000, random.Random(1)
    while feed.position < total:
        count = min(8 * random_bytes.randrange(1, 20000), total - feed.position)
        assert feed.write(pattern(feed.position, count)) == count
    feed.end()


def poll(feed):
    """Fill all tiles, and end the feed, without a call that waits."""
    loop, waits = select.poll(), 0
    loop.register(feed, select.POLLIN)
    while True:
        try:
            tile = feed.next(timeout=0)
        except headrace.Timeout:
            waits += 1
            assert loop.poll(120000), "the descriptor is not readable within 120 s"
            continue
        if tile is None:
            break
        fill(tile).commit()
    while True:
        try:
            feed.end(timeout=0)
            break
        except headrace.Timeout:
            assert loop.poll(120000), "the descriptor does not tell of the end within 120 s"
    print(f"waits {waits}")


def tensors(feed):
    """Through DLPack, without a copy."""
    import numpy
    for tile in feed:
        rows = numpy.from_dlpack(tile)
        assert rows.shape == (TILE // 64, 8) and rows.dtype == "u8"
        if not rows.flags.writeable:  # of the first versions of NumPy that know DLPack
            rows = numpy.asarray(tile)
        rows[:] = numpy.arange(tile.offset // 8, (tile.offset + TILE) // 8).reshape(rows.shape)
        with tile:
            del rows
    feed.end()


def linger(feed, count):
    """Hold tiles until SIGUSR1, then fill all, and end the feed."""
    signal.signal(signal.SIGUSR1, lambda *unused: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    held = hold(feed, count)
    print("holding", flush=True)
    signal.sigwait([signal.SIGUSR1])
    for tile in held:
        fill(tile).commit()
    produce(feed)
    feed.end()


def main():
    name, what = sys.argv[1], (sys.argv[2] if len(sys.argv) > 2 else "all")
    what, _, number = what.partition("=")
    if what == "hostile":
        attach(name).close()
        return protocol.hostile(name, (4, 1))
    if what == "die":
        return die(name, int(number))
    if what == "refused":
        return refused(name)
    if what == "persist":
        return persist(name, *map(int, number.split(",")))
    feed = attach(name)
    if what == "first":
        print(feed.first, feed.durable)
        return feed.close()
    if what == "linger":
        linger(feed, int(number))
        return feed.close()
    if what in ("overwrite", "slowly", "arrays", "tensors", "write", "wait-for-end", "poll"):
        globals()[what.replace("-", "_")](feed)
        return feed.close()
    if what == "stop-holding":
        held = hold(feed, int(number))
        print("stopped", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        held.clear()
    if what == "kill-holding":
        held = hold(feed, int(number))
        os.kill(os.getpid(), signal.SIGKILL)
        held.clear()
    if what == "length":
        tile = feed.next(timeout=120)
        tile.commit(int(number))
        try:
            feed.end()
        except headrace.Error as e:
            print(e)
        return feed.close()
    if what == "part":  # leaves the rest to another producer
        produce(feed, int(number))
        return feed.close()
    if what == "until":  # tiles, and bytes of the last one
        tiles, _, last = number.partition(",")
        produce(feed, int(tiles), int(last or TILE))
    else:
        produce(feed)
    feed.end()
    print(f"durable {feed.durable}")
    feed.close()


if __name__ == "__main__":
    main()
