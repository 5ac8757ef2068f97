"""Actions of the host for a guest: `host VERB ARGUMENTS...` in a scenario calls do_VERB here."""
import hashlib
import os


class Host:
    def __init__(self, guest, machine):
        self._guest = guest
        self._machine = machine

    def serve(self, words):
        """Execute a request. Returns the answer to the guest: `done TEXT` or `failed TEXT`."""
        verb = getattr(self, "do_" + words[0], None)
        if not verb:
            return f"failed no verb {words[0]}"
        try:
            return f"done {verb(*words[1:]) or ''}"
        except (RuntimeError, OSError, ValueError, KeyError, TypeError) as error:
            return f"failed {type(error).__name__}: {error}".replace("\n", " ")

    def do_unplug(self, name):
        """Remove a device while the machine runs, without a request to the guest."""
        self._guest.qmp.command("device_del", id=name)

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
