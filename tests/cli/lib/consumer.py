# SPDX-License-Identifier: Apache-2.0
"""A consumer of a tap for tests: prints the number of each tile that it has checked.

Usage: consumer.py TAP [WHAT]     WHAT: one word below, with =N for a number
"""

import ctypes
import mmap
import os
import select
import signal
import sys
import time

import headrace
import tap_socket

TILE = 65536
protocol = tap_socket.Protocol("tap", 1, 2, 3)


def attach(name, **options):
    """Attach as soon as the engine has opened the socket."""
    end = time.monotonic() + 120
    while True:
        try:
            return headrace.tap(name, **options)
        except headrace.Error as e:
            waits = "no pipeline with this tap runs" in str(e) or "are in use" in str(e)
            if not waits or time.monotonic() > end:
                raise
            time.sleep(0.01)


def check(tile):
    """The counting pattern: word i of the object is i."""
    first = tile.tile * TILE // 8
    words = tile.memory().cast("Q")
    assert len(words) == TILE // 8 and words[0] == first and words[-1] == first + TILE // 8 - 1


def hold(tap, count):
    tiles = [tap.next(timeout=120) for _ in range(count)]
    for tile in tiles:
        check(tile)
    return tiles


def die(name, count):
    """Attach, take a tile, and be killed, again and again."""
    for _ in range(count):
        child = os.fork()
        if child == 0:
            held = hold(attach(name), 1)
            os.kill(os.getpid(), signal.SIGKILL)
            held.clear()
        assert os.waitpid(child, 0)[1] == signal.SIGKILL


def write(name):
    """A tile that cannot be written in any way."""
    with protocol.connect(name) as s:
        fds = protocol.greet(s, b"writer")
        for fd in fds[:2]:
            for attempt in (lambda fd=fd: mmap.mmap(fd, 4096), lambda fd=fd: os.write(fd, b"x"),
                            lambda fd=fd: mmap.mmap(os.open(f"/proc/self/fd/{fd}", os.O_RDWR), 4096)):
                try:
                    attempt()
                    print("allowed")
                except PermissionError:
                    print("refused")


def wait_for_end(tap):
    tiles = hold(tap, 2)
    print("holding", flush=True)
    while True:
        try:
            tile = tap.next()
            if tile is None:
                break
            tiles.append(tile)
        except headrace.Restarted as e:
            print(e)
        except headrace.Error as e:
            print(e)
            break
    for tile in tiles:
        check(tile)
    print("still readable")


def restart(tap, count):
    """Hold tiles while the engine is replaced; then consume all tiles of the next run."""
    tiles, epoch = hold(tap, count), tap.epoch
    print("holding", flush=True)
    while True:
        came = []
        try:
            for tile in tap:
                check(tile)
                came.append(tile.tile)
                if tap.epoch == epoch and count:
                    tiles.append(tile)
                    continue
                tile.done()
            break
        except headrace.Restarted as e:
            print("restarted:", e, flush=True)
        except headrace.Error as e:
            print("ended:", e)
            return
    for tile in tiles:
        check(tile)
        tile.done()
    print("still readable")
    if tap.epoch != epoch:
        print("another epoch")
    for number in came:
        print(number)


def poll(tap):
    """As the loop of a program that waits for other descriptors, too; it holds no tile while it waits."""
    loop, waits, restarts = select.epoll(), 0, 0
    loop.register(tap.fileno(), select.EPOLLIN)
    while True:
        try:
            while (tile := tap.next(timeout=0)) is not None:
                check(tile)
                print(tile.tile, flush=True)
                tile.done()
            break
        except headrace.Timeout:
            waits += 1
            assert loop.poll(120), "the descriptor is not readable within 120 s"
        except headrace.Restarted:
            print("restarted", flush=True)
            restarts += 1
    print("waited", flush=True)
    assert waits and (restarts or waits <= 64 * 3), waits


def fail(tap, number):
    """Give that tile back as failed each time, and consume the others."""
    for tile in tap:
        check(tile)
        if tile.tile == number:
            print("failed", flush=True)
            tile.fail()
            continue
        print(tile.tile, flush=True)
        try:
            with tile:
                if tile.redelivered:
                    print("redelivered")
        finally:
            assert tile._record is None


def collect(tap, count):
    """Hold that many tiles together before any is given back, beside consumers that are faster."""
    tiles = hold(tap, count)
    print("collected", flush=True)
    for tile in tiles:
        print(tile.tile)
        tile.done()
    consume(tap, 0)


def runs(name, count):
    """Consume some runs, one after the other."""
    for _ in range(count):
        with attach(name) as tap:
            print("run of epoch", tap.epoch)
            for tile in tap:
                check(tile)
                print(tile.tile)
                tile.done()


def waits(name):
    """There is no run, or the last one is about to end: a short wait ends, and a long one gets the next run."""
    text, end = "has lent all its tiles", time.monotonic() + 120
    while "has lent all its tiles" in text and time.monotonic() < end:
        try:
            headrace.tap(name, wait=0.2)
            raise AssertionError("there is a run")
        except headrace.Error as e:
            text = str(e)
    assert "does not run now" in text or "no engine that answers" in text, text
    print("waits", flush=True)
    with headrace.tap(name, wait=None) as tap:
        consume(tap, 0)


def hold_over_restart(tap):
    """Tiles of a run that has failed stay as they are while the next run fills its tiles."""
    tiles, count = hold(tap, 4), 0
    try:
        for tile in tap:
            tile.done()
    except headrace.Restarted:
        pass
    while count < 12:
        check(tap.next(timeout=120))
        count += 1
    for tile in tiles:
        check(tile)
    print("still readable")


def dlpack(tap):
    tile = tap.next(timeout=120)
    assert tile.shape == (TILE // 64, 8) and tile.__dlpack_device__() == (1, 0)
    for version, name in ((None, b"dltensor"), ((1, 0), b"dltensor_versioned")):
        capsule = tile.__dlpack__(max_version=version)
        ctypes.pythonapi.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
        assert ctypes.pythonapi.PyCapsule_IsValid(capsule, name)
        assert len(headrace._dlpack._kept) == 1
        del capsule
        assert not headrace._dlpack._kept
    assert tile.__array_interface__["typestr"] == "<u8"
    try:
        import numpy
        assert (numpy.asarray(tile).ravel() == range(tile.tile * 8192, (tile.tile + 1) * 8192)).all()
    except ImportError:
        pass
    check(tile)
    tile.done()
    tap.close()


def consume(tap, most):
    for count, tile in enumerate(tap, 1):
        check(tile)
        print(tile.tile, flush=True)
        tile.done()
        if count == most:
            return


def main():
    name, what = sys.argv[1], (sys.argv[2] if len(sys.argv) > 2 else "all")
    what, _, number = what.partition("=")
    if what == "hostile":
        attach(name).close()
        return protocol.hostile(name, (4,))
    if what == "write":
        attach(name).close()
        return write(name)
    if what == "runs":
        return runs(name, int(number))
    if what == "waits":
        return waits(name)
    if what == "die":
        return die(name, int(number))
    tap = attach(name)
    if what == "kill-holding":
        held = hold(tap, int(number))
        os.kill(os.getpid(), signal.SIGKILL)
        held.clear()
    if what == "detach-holding":
        tiles = hold(tap, int(number))
        tap.close()
        return tiles.clear()
    if what == "stop-holding":
        held = hold(tap, int(number))
        print("stopped", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        held.clear()
    if what == "hold-to-end":
        tiles = hold(tap, 1)
        while (tile := tap.next()) is not None:
            tiles.append(tile)
        return tap.close()
    if what == "wait-for-end":
        return wait_for_end(tap)
    if what == "dlpack":
        return dlpack(tap)
    if what == "collect":
        return collect(tap, int(number))
    if what == "poll":
        return poll(tap)
    if what == "fail":
        return fail(tap, int(number))
    if what == "restart":
        return restart(tap, int(number))
    if what == "hold-over-restart":
        return hold_over_restart(tap)
    consume(tap, int(number) if what == "finish-after" else 0)
    tap.close()


if __name__ == "__main__":
    main()
