# SPDX-License-Identifier: Apache-2.0
"""Consumers of a tap that are killed in each state, one after the other.

Usage: tap_killed.py TAP COUNT
"""

import os
import signal
import socket
import sys

import headrace
from consumer import attach, check, hold, protocol


def connected(name):
    return protocol.connect(name)


def greeted(name):
    s = protocol.connect(name)
    s.send(protocol.message(protocol.hello, b"killed"))
    return s


def welcomed(name):
    s = greeted(name)
    return s, socket.recv_fds(s, 256, 3)


def attached(name):
    return attach(name)


def holds_one(name):
    tap = attach(name)
    return tap, hold(tap, 1)


def holds_all(name):
    tap = attach(name)
    return tap, hold(tap, tap.credits)


def waits(name):
    """It holds all its tiles, and waits in the library: killed by an alarm."""
    tap = attach(name)
    tiles = hold(tap, tap.credits)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, 0.002)
    while True:
        try:
            tap.next(timeout=0.05)
        except headrace.Timeout:
            check(tiles[0])


def fails(name):
    tap = attach(name)
    tile = hold(tap, 1)[0]
    tile._owner._library.hr_tap_fd(tap._handle)
    return tap, tile


STATES = (connected, greeted, welcomed, attached, holds_one, holds_all, waits, fails)


def main():
    name, count = sys.argv[1], int(sys.argv[2])
    attach(name).close()
    for i in range(count):
        child = os.fork()
        if child == 0:
            kept = STATES[i % len(STATES)](name)
            os.kill(os.getpid(), signal.SIGKILL)
            os._exit(len(str(kept)))
        status = os.waitpid(child, 0)[1]
        assert status == signal.SIGKILL, (STATES[i % len(STATES)].__name__, status)


if __name__ == "__main__":
    main()
