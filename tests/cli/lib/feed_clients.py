"""Clients of a feed that are not plain producers, for tests.

Usage: feed_clients.py FEED WHAT [ARGUMENTS]     WHAT: a function of this file
"""

import errno
import os
import socket
import struct
import sys

import headrace
import headrace_feed
from producer import HELLO, WELCOME, answer, attach, connect, fill, hold, message, produce

REFUSED, REVOKED, READY = 3, 7, 4


def become(user, groups):
    """Another user, with these groups: the first one is its own. Sockets are named from their folder,
    because the user may not enter the folders above."""
    os.chdir(os.environ["RUNTIME_DIRECTORY"])
    os.environ["RUNTIME_DIRECTORY"] = "."
    headrace_feed._load(None)
    os.setgroups(groups[1:])
    os.setgid(groups[0])
    os.setuid(user)


def as_user(name, user, *groups):
    """Attach as that user, and fill all tiles; or print why not."""
    library = os.environ["HEADRACE_TAP_LIBRARY"]
    os.environ["HEADRACE_TAP_LIBRARY"] = f"/proc/self/fd/{os.open(library, os.O_RDONLY)}"
    attach(name).close()
    become(int(user), [int(g) for g in groups])
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


def halves(name):
    """Messages that are too short, too long, or empty, instead of a greeting and after it."""
    attach(name).close()
    hello = message(HELLO, b"half")
    for data in (hello[:128], hello[:255], hello[:1], hello + hello, hello + b"x"):
        kind, text = answer(name, data)
        assert kind == REFUSED and "not a greeting" in text, (len(data), kind, text)
    with connect(name) as s:
        s.send(hello)
        data, fds, _, _ = socket.recv_fds(s, 256, 3)
        assert struct.unpack_from("<H", data, 4)[0] == WELCOME and len(fds) == 3
        s.send(message(READY))
        s.send(message(5)[:100])
        data = s.recv(256)
        assert struct.unpack_from("<H", data, 4)[0] == REVOKED, data
        assert s.recv(256) == b""


def versions(name):
    """Only a range of versions that has the feed's one is welcome."""
    attach(name).close()
    for least, most in ((0, 0), (2, 2), (2, 65535), (65535, 0)):
        kind, text = answer(name, message(HELLO, b"v", versions=(least, most)))
        assert kind == REFUSED, (least, most)
        assert text == f"it speaks versions {least} to {most}, and the feed has version 1", text
    assert answer(name, message(HELLO, b"v", versions=(0, 9)))[0] == WELCOME


def silent(name, count):
    """Connect without a greeting, again and again; then wait for the end of the input."""
    attach(name).close()
    clients = [connect(name) for _ in range(int(count))]
    print("connected", flush=True)
    sys.stdin.read()
    for client in clients:
        client.close()


globals()[sys.argv[2]](sys.argv[1], *sys.argv[3:])
