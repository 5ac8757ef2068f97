"""What a guest can have the host do: `host VERB ARGUMENTS...` in a scenario calls do_VERB here."""
import hashlib


class Host:
    def __init__(self, guest, machine):
        self._guest = guest
        self._machine = machine

    def serve(self, words):
        """Carry out a request; what the guest is answered: `done TEXT` or `failed TEXT`."""
        verb = getattr(self, "do_" + words[0], None)
        if not verb:
            return f"failed no verb {words[0]}"
        try:
            return f"done {verb(*words[1:]) or ''}"
        except (RuntimeError, OSError, ValueError, KeyError, TypeError) as error:
            return f"failed {type(error).__name__}: {error}".replace("\n", " ")

    def do_unplug(self, name):
        """Remove a device while the machine runs; the guest is not asked."""
        self._guest.qmp.command("device_del", id=name)

    def do_throttle(self, name, per_second):
        """Let an ssd carry out so many commands a second; 0: as many as it can."""
        self._guest.qmp.command("block_set_io_throttle", id=name, bps=0, bps_rd=0, bps_wr=0,
                                iops=int(per_second), iops_rd=0, iops_wr=0)

    def do_sum(self, name, offset, size):
        """SHA-256 of a part of an ssd's image or of a gpu's memory, as the host sees it."""
        with open(self._machine.path(name), "rb") as f:
            f.seek(int(offset))
            return hashlib.sha256(f.read(int(size))).hexdigest()
