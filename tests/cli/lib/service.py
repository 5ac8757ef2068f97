#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `headrace boot CONFIG` as a service manager does, step by step.

service.py HEADRACE CONFIG STEP...    output of boot is in $SCRATCH/boot.out and $SCRATCH/boot.err

until=PHASE    wait for the notification STATUS=PHASE; phases are searched in the order sent
told=LINE      the service has sent that line so far
silent=LINE    the service has not sent that line
sh=COMMAND     a shell command succeeds; $PID is the process
signal=NAME    send the signal to the process
exit=CODE      wait until the process ends with that exit code
Each wait ends after two minutes, and the process with it.
"""

import os
import signal
import socket
import subprocess
import sys

TIMEOUT_S = 120
LOOK_S = 1  # between two checks whether the process has ended
scratch = os.environ["SCRATCH"]


class Service:
    def __init__(self, headrace, config):
        path = scratch + "/notify"
        if os.path.exists(path):
            os.unlink(path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.told, self.looked = [], 0
        with open(scratch + "/boot.out", "w") as out, open(scratch + "/boot.err", "w") as err:
            self.process = subprocess.Popen(
                [headrace, "boot", config],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=dict(os.environ, NOTIFY_SOCKET=path),
            )

    def hear(self):
        """Receive one message. Once the process has ended, no further message can arrive."""
        for _ in range(TIMEOUT_S // LOOK_S):
            ended = self.process.poll() is not None
            try:
                self.socket.settimeout(0 if ended else LOOK_S)
                self.told += self.socket.recv(4096).decode().splitlines()
                return
            except BlockingIOError:
                raise EOFError(f"it has ended with {self.process.returncode}")
            except TimeoutError:
                pass
        raise TimeoutError

    def until(self, phase):
        while f"STATUS={phase}" not in self.told[self.looked :]:
            self.hear()
        self.looked = self.told.index(f"STATUS={phase}", self.looked) + 1

    def hear_out(self):
        """Receive all messages until the process ends: a full socket loses messages."""
        try:
            while True:
                self.hear()
        except EOFError:
            pass

    def drain(self):
        self.socket.setblocking(False)
        try:
            while True:
                self.told += self.socket.recv(4096).decode().splitlines()
        except BlockingIOError:
            pass

    def step(self, name, value):
        if name == "until":
            self.until(value)
        elif name in ("told", "silent"):
            self.drain()
            assert (value in self.told) == (name == "told"), self.told
        elif name == "sh":
            env = dict(os.environ, PID=str(self.process.pid))
            subprocess.run(value, shell=True, check=True, env=env, timeout=TIMEOUT_S)
        elif name == "signal":
            self.process.send_signal(getattr(signal, "SIG" + value))
        elif name == "exit":
            self.hear_out()
            code = self.process.wait(TIMEOUT_S)
            assert code == int(value), f"exit code {code}"
        else:
            raise ValueError(name)


def main():
    service = Service(sys.argv[1], sys.argv[2])
    try:
        for step in sys.argv[3:]:
            try:
                service.step(*step.split("=", 1))
            except Exception as error:
                sys.exit(f"{step}: {error!r}; told: {service.told}")
    finally:
        service.process.kill()
        service.process.wait()


main()
