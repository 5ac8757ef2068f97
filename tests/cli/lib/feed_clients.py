# SPDX-License-Identifier: Apache-2.0
"""Clients of a feed that are not plain producers, for tests.

Usage: feed_clients.py FEED WHAT [ARGUMENTS]     WHAT: a function of this file
"""

import errno
import os
import sys

import headrace
import headrace_feed
from producer import attach, fill, hold, produce, protocol
from tap_socket import become, keep_library


def as_user(name, user, *groups):
    """Attach as that user, and fill all tiles; or print why not."""
    keep_library()
    attach(name).close()
    become(int(user), [int(g) for g in groups], headrace_feed._load)
    try:
        with headrace.feed(name) as feed:
            produce(feed)
    except headrace.Error as e:
        assert e.errno == errno.EACCES, e
        print(e.strerror)


def fork(name):
    """In a child the handle is dead: it gets no tile, commits none, and detaches nothing."""
    feed = attach(name)
    held = hold(feed, 1)
    child = os.fork()
    if child == 0:
        codes = []
        for use in (lambda: feed.next(timeout=120), held[0].commit, feed.end):
            try:
                use()
            except headrace.Error as e:
                codes.append(e.errno)
        feed.close()
        os._exit(codes != [errno.EPIPE] * 3)
    assert os.waitpid(child, 0)[1] == 0, "the child's handle is alive"
    fill(held[0]).commit()
    produce(feed)
    feed.end()
    feed.close()


what = sys.argv[2]
if what in ("halves", "versions", "silent"):
    attach(sys.argv[1]).close()
    getattr(protocol, what)(sys.argv[1], *sys.argv[3:])
else:
    globals()[what](sys.argv[1], *sys.argv[3:])
