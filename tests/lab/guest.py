# SPDX-License-Identifier: Apache-2.0
"""One QEMU process: start, two channels (results on the second serial port, QMP), end."""
import base64
import contextlib
import gzip
import json
import os
import socket
import subprocess
import time

# Kernel parameters that shorten the start of the kernel, or the time until it fails. Without the line of
# init_on_alloc, and with the features that scenario.py takes from the CPU, a start takes a sixth more CPU
# time. highres=off: sleeps end at ticks of 4 ms, so threads that wait wake up together, and no timer is
# set for each of them: runs that move data take up to a third less CPU time. A run that measures
# milliseconds, or each of whose steps waits for the network, has highres=on among its parameters.
BOOT = ("console=ttyS0 quiet panic=-1 nokaslr mitigations=off nopti tsc=reliable no_timer_check "
        "audit=0 apparmor=0 nowatchdog noreplace-smp cryptomgr.notests=1 "
        "init_on_alloc=0 rodata=off initcall_blacklist=init_kprobe_trace,cubictcp_register "
        "highres=off")


# Smallest maxcpus of a machine. With maxcpus=1 QEMU omits the guest's memory barriers, but the thread
# of its devices needs them: shadow doorbells that Linux writes are lost, and commands hang for 30 s.
CPUS_MAX = 2


TIME_LIMIT = "time limit"


class Lost(Exception):
    """The results channel has ended; the text is the reason: QEMU ended, or the time limit."""


class Qmp:
    def __init__(self, sock):
        self._file = sock.makefile("rw", encoding="utf-8")
        self._file.readline()
        self.command("qmp_capabilities")

    def command(self, execute, **arguments):
        """Returns the member `return` of the answer; RuntimeError with QEMU's text when QEMU refuses."""
        self._file.write(json.dumps({"execute": execute, "arguments": arguments}) + "\n")
        self._file.flush()
        for line in self._file:
            answer = json.loads(line)
            if "error" in answer:
                raise RuntimeError(answer["error"]["desc"])
            if "return" in answer:
                return answer["return"]
        raise RuntimeError("QEMU has ended")


class PowerFailDisk:
    """The server behind an ssd with disk=powerfail."""

    def __init__(self, program, machine, device):
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", program, machine.socket(device.name),
             machine.path(device.name), device.option.get("lba", "512")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._process.stdout.readline()

    def cut(self, path, seed, writes):
        """Write to PATH the image that a power cut after `writes` more writes leaves. Returns the
        fate of unflushed writes as text; "" when the disk has ended."""
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
    """A running guest; close() ends it in any state. `start`: the arguments of QEMU that select the
    kernel or image."""

    def __init__(self, run, machine, start):
        self.folder = machine.folder
        self.limit(run.scenario.limit)
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

    def limit(self, seconds):
        """Set the time limit for the next script, from now."""
        self.deadline = time.monotonic() + seconds

    @property
    def qmp(self):
        if not self._qmp:
            self._qmp = Qmp(self._monitor)
        return self._qmp

    def line(self):
        """Returns the next line of the results channel. Raises Lost."""
        while b"\n" not in self._rest:
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise Lost(TIME_LIMIT)
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

    def cpu_seconds(self):
        """CPU time of QEMU until now; 0 after its end."""
        try:
            with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def until_off(self):
        """Wait until the machine switches itself off. Raises Lost."""
        try:
            self.process.wait(max(0.0, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired as late:
            raise Lost(TIME_LIMIT) from late

    def answer(self, text):
        self._channel.settimeout(10)
        self._channel.sendall(text.encode() + b"\n")

    def take_file(self, name):
        """Read a file from the channel and write it into the folder of the run. Raises FileExistsError for
        the name of another file, for example of another script of the guest."""
        lines = []
        while (line := self.line()) != ".":
            lines.append(line)
        with open(os.path.join(self.folder, os.path.basename(name)), "xb") as f:
            f.write(gzip.decompress(base64.b64decode("".join(lines))))

    def where(self):
        """Lines that say where the virtual CPUs are: the instruction pointer and flags of each."""
        try:
            text = self.qmp.command("human-monitor-command",
                                    **{"command-line": "info registers -a"})
        except (OSError, RuntimeError, ValueError) as error:
            return [f"cpus: {error}"]
        return ["cpus: " + line.strip() for line in text.splitlines() if "RIP=" in line]

    def quit(self):
        """End QEMU after it has written its disk images, as when a machine is switched off."""
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
