#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients of a control socket that no command makes.

clients.py SOCKET garbage      bytes that are no request, and requests with mistakes: each is refused
clients.py SOCKET half         half a request: the connection ends by itself
clients.py SOCKET old          a request of another version is refused with the own version
clients.py SOCKET store_hostile IMAGE   requests of the store with mistakes: each ends, and changes nothing
clients.py SOCKET store_flood IMAGE COUNT COMMAND...   COUNT stopped readers stay while COMMAND runs
clients.py SOCKET hold COUNT COMMAND...   COUNT silent clients stay connected while COMMAND runs
"""

import json
import os
import resource
import socket
import struct
import subprocess
import sys

TIMEOUT_S = 120
HEAD = "<4sHHII"
STATUS, TRIGGER, REPLY = 1, 2, 0x8000


def connect(path):
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)  # waits while the backlog is full, which it does not with a timeout
    client.settimeout(TIMEOUT_S)
    return client


STORE_MAP, STORE_GET, STORE_PUT, ITEM = 7, 8, 10, 0x4000
ALIVE, GO, OBJECT, DATA, END = 0, 1, 3, 4, 7


def disk_body(image, name=b"", size=0):
    st = os.stat(image)
    disk = b"image:%x:%x/1" % (st.st_dev, st.st_ino)
    return struct.pack("<Q96s64s", size, disk, name)


def put(path, image, name, size):
    """Begin a put, up to the permission to send data."""
    client = connect(path)
    client.sendall(message(STORE_PUT, disk_body(image, name, size)))
    head = client.recv(16, socket.MSG_WAITALL)
    assert struct.unpack(HEAD, head)[2:] == (STORE_PUT | ITEM, 0, GO), head
    return client


def reply_code(client):
    """The exit code of the reply, the last message of the answer."""
    answer = receive(client)
    while answer:
        magic, version, kind, length, word = struct.unpack(HEAD, answer[:16])
        if kind & REPLY:
            return word
        answer = answer[16 + length:]
    return None


def store_hostile(path, image):
    item = STORE_PUT | ITEM
    # data behind the request, half a request, and a request that nothing follows
    client = connect(path)
    client.sendall(message(STORE_PUT, disk_body(image, b"bad", 10)) + b"x" * 10)
    assert reply_code(client) == 2
    client = connect(path)
    client.sendall(message(STORE_GET, disk_body(image, b"in"))[:100])
    client.close()
    # items of each wrong length and kind
    for head, body in (
        ((DATA, 11), b"x" * 11), ((DATA, 0), b""), ((END, 4), b"abcd"), ((END, 3), b"abc"),
        ((GO, 0), b""), ((99, 0), b""), ((DATA, 0xffffffff), b"x" * 100), ((ALIVE, 1), b"x"),
    ):
        client = put(path, image, b"bad", 10)
        client.sendall(struct.pack(HEAD, b"HRCT", 1, item, head[1], head[0]) + body)
        assert reply_code(client) == 2, head
    client = put(path, image, b"bad", 10)
    client.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert reply_code(client) == 2
    # the right data with a wrong checksum
    client = put(path, image, b"bad", 4)
    client.sendall(message(item, b"abcd", DATA) + message(item, b"\0\0\0\0", END))
    assert reply_code(client) == 1
    # half of the data, then the end of the connection
    client = put(path, image, b"bad", 4 << 20)
    client.sendall(message(item, b"x" * (1 << 20), DATA) + b"HRC")
    client.close()
    # a reader that sends data
    client = connect(path)
    client.sendall(message(STORE_GET, disk_body(image, b"in")))
    head = client.recv(16, socket.MSG_WAITALL)
    client.recv(struct.unpack(HEAD, head)[3], socket.MSG_WAITALL)
    client.sendall(b"x" * 16)
    assert reply_code(client) in (None, 0)


def store_flood(path, image, count, command):
    """COUNT clients that take nothing; the server refuses those above its limit, or drops others for them."""
    clients = []
    for _ in range(int(count)):
        client = connect(path)
        client.sendall(message(STORE_GET, disk_body(image, b"in")))
        clients.append(client)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=TIMEOUT_S)
    del clients


def receive(client):
    items = []
    try:
        while item := client.recv(1 << 16):
            items.append(item)
    except ConnectionResetError:  # it was closed before it had taken all that was sent
        pass
    return b"".join(items)


def message(kind, body=b"", word=0, version=1):
    return struct.pack(HEAD, b"HRCT", version, kind, len(body), word) + body


def refused(path, data, reason):
    client = connect(path)
    client.sendall(data)
    answer = receive(client)
    magic, version, kind, length, code = struct.unpack(HEAD, answer[:16])
    assert (magic, version, kind, code) == (b"HRCT", 1, REPLY, 2), answer
    document = json.loads(answer[16:])
    assert length == len(answer) - 16 and document["code"] == 2, answer
    assert reason in document["message"], (reason, document)


def garbage(path):
    refused(path, b"GET / HTTP/1.1\r\n\r\n", "not a request of headrace")
    refused(path, b"{}", "not a request of headrace")
    refused(path, message(99), "does not know this kind")
    refused(path, message(STATUS, b"x"), "longer than")
    refused(path, message(STATUS, word=1 << 31), "does not know this kind")
    refused(path, message(TRIGGER, b"x" * 64), "longer than")
    refused(path, message(TRIGGER, b"a/b"), "no configuration can have")
    refused(path, message(TRIGGER, b"a\0b"), "no configuration can have")
    for _ in range(100):
        client = connect(path)
        try:
            client.sendall(os.urandom(1000))
            receive(client)
        except (BrokenPipeError, ConnectionResetError):
            pass


def half(path):
    client = connect(path)
    client.sendall(message(STATUS)[:15])
    assert receive(client) == b""


def old(path):
    refused(path, message(STATUS, version=0), "another version")
    refused(path, message(STATUS, version=2), "another version")


def hold(path, count, *command):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 64), hard))
    clients = [connect(path) for _ in range(count)]
    subprocess.run(command, check=True, timeout=TIMEOUT_S)
    del clients


def main():
    path, what = sys.argv[1:3]
    if what == "hold":
        hold(path, int(sys.argv[3]), *sys.argv[4:])
    elif what == "store_hostile":
        store_hostile(path, sys.argv[3])
    elif what == "store_flood":
        store_flood(path, sys.argv[3], sys.argv[4], sys.argv[5:])
    else:
        {"garbage": garbage, "half": half, "old": old}[what](path)


main()
