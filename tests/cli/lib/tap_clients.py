# SPDX-License-Identifier: Apache-2.0
"""Clients of a tap that are not plain consumers, for tests.

Usage: tap_clients.py TAP WHAT [ARGUMENTS]     WHAT: a function of this file
"""

import errno
import os
import sys

import headrace
from consumer import attach, check, consume, hold, protocol
from tap_socket import become, keep_library


def as_user(name, user, *groups):
    """Attach as that user, and consume all tiles; or print why not."""
    keep_library()
    attach(name).close()
    become(int(user), [int(g) for g in groups], headrace._load)
    try:
        with headrace.tap(name) as tap:
            consume(tap, 0)
    except headrace.Error as e:
        assert e.errno == errno.EACCES, e
        print(e.strerror)


def fork(name):
    """In a child the handle is dead: it gets no tile, gives none back, and detaches nothing."""
    tap = attach(name)
    held = hold(tap, 1)
    child = os.fork()
    if child == 0:
        try:
            tap.next(timeout=120)
            os._exit(1)
        except headrace.Error as e:
            held[0].done()
            tap.close()
            os._exit(0 if e.errno == errno.EPIPE else 2)
    assert os.waitpid(child, 0)[1] == 0, "the child's handle is alive"
    others = [held[0].tile]
    while (tile := tap.next(timeout=120)) is not None:
        check(tile)
        others.append(tile.tile)
        tile.done()
    check(held[0])
    assert sorted(others) == list(range(64)), others
    held[0].done()
    tap.close()


what = sys.argv[2]
if what in ("halves", "versions", "silent"):
    attach(sys.argv[1]).close()
    getattr(protocol, what)(sys.argv[1], *sys.argv[3:])
else:
    globals()[what](sys.argv[1], *sys.argv[3:])
