"""Clients of a tap that are not plain consumers, for tests.

Usage: tap_clients.py TAP WHAT [ARGUMENTS]     WHAT: a function of this file
"""

import errno
import os
import socket
import struct
import sys

import headrace
from consumer import answer, attach, check, connect, consume, hold, message

WELCOME, REFUSED, REVOKED, READY = 2, 3, 7, 4


def become(user, groups):
    """Another user, with these groups: the first one is its own. Sockets are named from their folder,
    because the user may not enter the folders above."""
    os.chdir(os.environ["RUNTIME_DIRECTORY"])
    os.environ["RUNTIME_DIRECTORY"] = "."
    headrace._load(None)
    os.setgroups(groups[1:])
    os.setgid(groups[0])
    os.setuid(user)


def as_user(name, user, *groups):
    """Attach as that user, and consume all tiles; or print why not."""
    library = os.environ["HEADRACE_TAP_LIBRARY"]
    os.environ["HEADRACE_TAP_LIBRARY"] = f"/proc/self/fd/{os.open(library, os.O_RDONLY)}"
    attach(name).close()
    become(int(user), [int(g) for g in groups])
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


def silent(name, count):
    """Connect without a greeting, again and again; then wait for the end of the input."""
    attach(name).close()
    clients = [connect(name) for _ in range(int(count))]
    print("connected", flush=True)
    sys.stdin.read()
    for client in clients:
        client.close()


def halves(name):
    """Messages that are too short, too long, or empty, instead of a greeting and after it."""
    attach(name).close()
    hello = message(1, b"half")
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
    """Only a range of versions that has the tap's one is welcome."""
    attach(name).close()
    for least, most in ((0, 0), (1, 1), (3, 65535), (65535, 0)):
        kind, text = answer(name, message(1, b"v", versions=(least, most)))
        assert kind == REFUSED, (least, most)
        assert text == f"it speaks versions {least} to {most}, and the tap has version 2", text
    assert answer(name, message(1, b"v", versions=(0, 9)))[0] == WELCOME


globals()[sys.argv[2]](sys.argv[1], *sys.argv[3:])
