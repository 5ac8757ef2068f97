"""One QEMU: its start, its two channels (results on the second serial port, QMP), its end."""
import base64
import contextlib
import gzip
import json
import os
import socket
import subprocess
import time

# Kernel parameters that only make it start faster or fail sooner.
BOOT = ("console=ttyS0 quiet panic=-1 nokaslr mitigations=off nopti tsc=reliable no_timer_check "
        "audit=0 apparmor=0 nowatchdog cryptomgr.notests=1")


# Of a machine that can never have a second CPU QEMU leaves out the guest's memory barriers, which its
# devices' own thread needs: shadow doorbells that Linux writes are lost, and commands hang for 30 s.
CPUS_MAX = 2  # at least


class Lost(Exception):
    """The guest said nothing more before its end or limit; the text says which."""


class Qmp:
    def __init__(self, sock):
        self._file = sock.makefile("rw", encoding="utf-8")
        self._file.readline()
        self.command("qmp_capabilities")

    def command(self, name, **arguments):
        """The answer's `return`; RuntimeError with QEMU's words when it refuses."""
        self._file.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
        self._file.flush()
        for line in self._file:
            said = json.loads(line)
            if "error" in said:
                raise RuntimeError(said["error"]["desc"])
            if "return" in said:
                return said["return"]
        raise RuntimeError("QEMU is gone")


class PowerFailDisk:
    """The server behind an ssd with disk=powerfail."""

    def __init__(self, program, machine, device):
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", program, machine.socket(device.name),
             machine.path(device.name), device.option.get("lba", "512")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._process.stdout.readline()

    def cut(self, path, seed, writes):
        """Write to PATH what a power cut after so many more writes leaves; what became of those that
        were not flushed. Empty: the disk has ended."""
        try:
            self._process.stdin.write(f"cut {path} {seed} {writes}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return ""
        return self._process.stdout.readline().strip()

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Guest:
    """A running guest; close() ends it whatever state it is in. START: the arguments of QEMU that say
    what it boots."""

    def __init__(self, run, machine, start):
        self.folder = machine.folder
        self.deadline = time.monotonic() + run.scenario.limit
        self._channel, channel = socket.socketpair()
        monitor, self._monitor = socket.socketpair()
        self._monitor.settimeout(30)
        self._qmp = None
        self._rest = b""
        cpus = int(run.cpus)
        threads = "single" if run.icount else "multi"
        command = ["setpriv", "--pdeathsig", "KILL",
                   "qemu-system-x86_64", "-accel", "tcg,thread=" + threads, "-machine", "q35",
                   "-cpu", run.cpu, "-m", run.memory,
                   "-smp", f"{cpus},maxcpus={max(CPUS_MAX, cpus)}",
                   "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                   "-serial", "file:" + os.path.join(self.folder, "console.log"),
                   "-chardev", f"socket,id=results,fd={channel.fileno()}",
                   "-serial", "chardev:results",
                   "-chardev", f"socket,id=monitor,fd={monitor.fileno()}",
                   "-mon", "chardev=monitor,mode=control"] + start + machine.arguments()
        if run.icount:
            command += ["-icount", "shift=" + run.icount]
        for event in run.scenario.trace:
            command += ["-trace", event]
        if run.scenario.trace:
            command += ["-D", os.path.join(self.folder, "trace.log")]
        with open(os.path.join(self.folder, "qemu.args"), "w", encoding="utf-8") as f:
            f.write("\n".join(command[3:]) + "\n")
        with open(os.path.join(self.folder, "qemu.err"), "wb") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=errors,
                                            stderr=errors,
                                            pass_fds=(channel.fileno(), monitor.fileno()))
        channel.close()
        monitor.close()

    @property
    def qmp(self):
        if not self._qmp:
            self._qmp = Qmp(self._monitor)
        return self._qmp

    def line(self):
        """The next line of the results channel. Raises Lost."""
        while b"\n" not in self._rest:
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise Lost("time limit")
            self._channel.settimeout(left)
            try:
                more = self._channel.recv(1 << 16)
            except socket.timeout:
                continue
            except ConnectionError:
                more = b""
            if not more:
                raise Lost("QEMU ended")
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode("utf-8", "replace").rstrip("\r")

    def until_off(self):
        """Wait until the machine switches itself off. Raises Lost."""
        try:
            self.process.wait(max(0.0, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired as late:
            raise Lost("time limit") from late

    def answer(self, text):
        self._channel.settimeout(10)
        self._channel.sendall(text.encode() + b"\n")

    def take_file(self, name):
        """The file that follows on the channel, into the folder."""
        lines = []
        while (line := self.line()) != ".":
            lines.append(line)
        with open(os.path.join(self.folder, os.path.basename(name)), "wb") as f:
            f.write(gzip.decompress(base64.b64decode("".join(lines))))

    def quit(self):
        """End it as a machine that is switched off after its disks were written."""
        try:
            self.qmp.command("quit")
            self.process.wait(20)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            pass

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._channel.close()
        self._monitor.close()
