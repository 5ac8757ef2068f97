# SPDX-License-Identifier: Apache-2.0
"""The sockets of taps and feeds without the client library, and clients that break their protocols."""

import mmap
import os
import socket
import struct
import sys

REFUSED, READY, REVOKED = 3, 4, 7


class Protocol:
    """Of taps or of feeds: the ending of their sockets, the kinds of HELLO and WELCOME, the version."""

    def __init__(self, what, hello, welcome, version):
        self.what, self.hello, self.welcome, self.version = what, hello, welcome, version

    def message(self, kind, text=b"", versions=None):
        versions = versions or (self.version, self.version)
        return (b"HTAP" + struct.pack("<HHHH", kind, *versions, 0) + bytes(124) + text).ljust(256, b"\0")

    def connect(self, name):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.connect(os.path.join(os.environ["RUNTIME_DIRECTORY"], f"{name}.{self.what}"))
        s.settimeout(120)
        return s

    def answer(self, name, data):
        """The kind and text of the answer; None: the connection ended without one."""
        with self.connect(name) as s:
            s.send(data)
            try:
                reply = s.recv(256)
            except ConnectionResetError:
                return None
        return (struct.unpack_from("<H", reply, 4)[0], reply[136:].rstrip(b"\0").decode()) if reply else None

    def greet(self, s, name):
        """The three descriptors of WELCOME."""
        s.send(self.message(self.hello, name))
        data, fds, _, _ = socket.recv_fds(s, 256, 3)
        assert struct.unpack_from("<H", data, 4)[0] == self.welcome and len(fds) == 3, data[:8]
        return fds

    def attack_page(self, name):
        """Attach, fill the page with random words while tiles move, then break the protocol."""
        with self.connect(name) as s:
            fds = self.greet(s, b"hostile")
            page = mmap.mmap(fds[2], 4096)
            for fd in fds:
                refused(os.ftruncate, fd, 0)
            refused(mmap.mmap, fds[1], 4096)
            s.send(self.message(READY))
            for _ in range(200):
                page[:] = os.urandom(4096)
            s.send(self.message(self.welcome))  # only the appliance sends it
            while s.recv(256):
                pass

    def hostile(self, name, kinds):
        """Greetings that are none, among them messages of these kinds; many connections; attack_page()."""
        answers = [self.answer(name, self.message(self.hello, versions=(7, 9))),
                   *(self.answer(name, self.message(kind)) for kind in kinds),
                   self.answer(name, os.urandom(256)), self.answer(name, b"x" * 40)]
        assert all(r is None or r[0] == REFUSED for r in answers), answers
        assert "versions 7 to 9" in answers[0][1], answers
        for _ in range(40):
            self.connect(name).close()
        self.attack_page(name)

    def halves(self, name):
        """Messages that are too short, too long, or empty, instead of a greeting and after it."""
        hello = self.message(self.hello, b"half")
        for data in (hello[:128], hello[:255], hello[:1], hello + hello, hello + b"x"):
            kind, text = self.answer(name, data)
            assert kind == REFUSED and "not a greeting" in text, (len(data), kind, text)
        with self.connect(name) as s:
            self.greet(s, b"half")
            s.send(self.message(READY))
            s.send(self.message(5)[:100])
            data = s.recv(256)
            assert struct.unpack_from("<H", data, 4)[0] == REVOKED, data
            assert s.recv(256) == b""

    def versions(self, name):
        """Only a range of versions that has the present one is welcome."""
        v = self.version
        for least, most in ((0, 0), (v - 1, v - 1), (v + 1, v + 1), (v + 1, 65535), (65535, 0)):
            kind, text = self.answer(name, self.message(self.hello, b"v", versions=(least, most)))
            assert kind == REFUSED, (least, most)
            assert text == f"it speaks versions {least} to {most}, and the {self.what} has version {v}", text
        assert self.answer(name, self.message(self.hello, b"v", versions=(0, 9)))[0] == self.welcome

    def silent(self, name, count):
        """Connect without a greeting, again and again; then wait for the end of the input."""
        clients = [self.connect(name) for _ in range(int(count))]
        print("connected", flush=True)
        sys.stdin.read()
        for client in clients:
            client.close()


def refused(call, *arguments):
    try:
        call(*arguments)
    except PermissionError:
        return
    raise AssertionError(f"{call.__name__} is allowed")


def keep_library():
    """Open the client library, for a user that may not enter its folder."""
    library = os.environ["HEADRACE_TAP_LIBRARY"]
    os.environ["HEADRACE_TAP_LIBRARY"] = f"/proc/self/fd/{os.open(library, os.O_RDONLY)}"


def become(user, groups, load):
    """Another user, with these groups: the first one is its own. Sockets are named from their folder,
    because the user may not enter the folders above. load: of the module, called before."""
    os.chdir(os.environ["RUNTIME_DIRECTORY"])
    os.environ["RUNTIME_DIRECTORY"] = "."
    load(None)
    os.setgroups(groups[1:])
    os.setgid(groups[0])
    os.setuid(user)
