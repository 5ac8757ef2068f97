#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command on a terminal of 120 columns, which gets 50 columns at the first progress line.

resize.py COMMAND...    exit status 0: the first line is wider than 50 columns, and a later one is not
The command gets SIGINT then, or after a minute.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

WIDE, NARROW = 120, 50
TIMEOUT_S = 60


def set_columns(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))


def lines(terminal):
    """Progress lines, each as drawn; a line that is split between two reads is joined."""
    end, text = time.monotonic() + TIMEOUT_S, ""
    while select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
        try:
            data = os.read(terminal, 4096)
        except OSError:  # the command has ended
            return
        if not data:
            return
        text += data.decode()
        *whole, text = re.split(r"\r\x1b\[K|\r\n", text)
        yield from (line for line in whole if "ETA" in line)
    raise TimeoutError


def main():
    pid, terminal = pty.fork()
    if pid == 0:
        set_columns(0, WIDE)
        os.execv(sys.argv[1], sys.argv[1:])
    widths = []
    try:
        for line in lines(terminal):
            widths.append(len(line))
            set_columns(terminal, NARROW)
            if widths[-1] < NARROW:
                break
    except TimeoutError:
        pass
    os.kill(pid, signal.SIGINT)
    for _ in lines(terminal):
        pass
    os.waitpid(pid, 0)
    if not widths or widths[0] <= NARROW or widths[-1] >= NARROW:
        sys.exit(f"a terminal of {WIDE}, then {NARROW} columns; widths of the lines: {widths}")


main()
