# SPDX-License-Identifier: Apache-2.0
"""Actions of the host for a guest: `host VERB ARGUMENTS...` in a scenario calls do_VERB here."""
import hashlib
import os

import guest as guests

COMMAND_MAX = 3500  # bytes; the terminal of a guest holds 4096 that the guest has not read


class Host:
    """`boot_peer` starts the other guest of a pair, waits until it is ready, and returns it."""

    def __init__(self, guest, machine, boot_peer=None):
        self._guest = guest
        self._machine = machine
        self._boot_peer = boot_peer
        self._peer = boot_peer() if boot_peer else None
        self._spent = 0.0  # by guests that have ended

    def serve(self, words):
        """Execute a request. Returns the answer to the guest: `done TEXT` or `failed TEXT`."""
        verb = getattr(self, "do_" + words[0], None)
        if not verb:
            return f"failed no verb {words[0]}"
        try:
            return f"done {verb(*words[1:]) or ''}"
        except (RuntimeError, OSError, ValueError, KeyError, TypeError, AttributeError,
                guests.Lost) as error:
            return f"failed {type(error).__name__}: {error}".replace("\n", " ")

    def cpu_seconds(self):
        """CPU time of all guests until now."""
        return self._spent + sum(each.cpu_seconds() for each in (self._guest, self._peer) if each)

    def do_unplug(self, name):
        """Remove a device while the machine runs, without a request to the guest."""
        self._guest.qmp.command("device_del", id=name)

    def do_peer(self, command):
        """Execute a script, in base64, in the other guest. The answer: exit code and output, in base64."""
        if len(command) > COMMAND_MAX:
            raise ValueError(f"a command of {len(command)} bytes, at most {COMMAND_MAX}")
        self._peer.deadline = self._guest.deadline
        self._peer.answer(command)
        return self._peer.line()

    def do_peer_kill(self):
        """The other guest ends at once, with all that is in its memory."""
        self._spent += self._peer.cpu_seconds()
        self._peer.close()

    def do_peer_boot(self):
        """Start the other guest again, with its disks."""
        self.do_peer_kill()
        self._peer = self._boot_peer()

    def do_link(self, name, state):
        """Set the link of a network card `up` or `down`; both guests see it."""
        for each in (self._guest, self._peer):
            each.qmp.command("set_link", name=name, up={"up": True, "down": False}[state])

    def do_power_off(self):
        """The machine loses its power: QEMU is killed, and an ssd with disk=powerfail loses its cache. The
        scenario ends with `#: lost QEMU ended`."""
        self._guest.process.kill()

    def do_throttle(self, name, per_second):
        """Limit the commands per second of an ssd; 0: no limit."""
        self._guest.qmp.command("block_set_io_throttle", id=name, bps=0, bps_rd=0, bps_wr=0,
                                iops=int(per_second), iops_rd=0, iops_wr=0)

    def do_blank(self, name):
        """Set all bytes of an ssd's image to zero, while no command is in progress."""
        path = self._machine.path(name)
        size = os.path.getsize(path)
        os.truncate(path, 0)
        os.truncate(path, size)

    def do_sum(self, name, offset, size):
        """SHA-256 of a part of an ssd's image or of a gpu's memory file on the host."""
        with open(self._machine.path(name), "rb") as f:
            f.seek(int(offset))
            return hashlib.sha256(f.read(int(size))).hexdigest()

    def do_find(self, name, digest, size, step, limit):
        """The first offset, of the multiples of `step` up to `limit`, where `size` bytes of an ssd's image or of a
        gpu's memory file have this SHA-256."""
        with open(self._machine.path(name), "rb") as f:
            data = f.read(int(limit) + int(size))
        for offset in range(0, int(limit) + 1, int(step)):
            if hashlib.sha256(data[offset:offset + int(size)]).hexdigest() == digest:
                return offset
        raise ValueError(f"{size} bytes of {name} with this digest are at none of these offsets")
