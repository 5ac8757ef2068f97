# SPDX-License-Identifier: Apache-2.0
"""Initramfs archives (cpio "newc"), made in memory, so that device nodes need no root."""
import os
import stat

BYTES_MAX = 0xffffffff  # maximum size of an entry: eight hexadecimal digits
DIRECTORY, FILE, LINK, NODE = stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK, stat.S_IFCHR


class Archive:
    def __init__(self):
        self._parts = []
        self._folders = {""}
        self._inode = 0

    def _entry(self, name, mode, data=b"", device=(0, 0)):
        if len(data) > BYTES_MAX:
            raise OSError(f"{name}: {len(data)} bytes; an initramfs takes files of up to {BYTES_MAX}")
        self._inode += 1
        name = os.fsencode(name) + b"\0"
        fields = (self._inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
        self._parts += [head, bytes(-len(head) % 4), data, bytes(-len(data) % 4)]

    def folder(self, path):
        if path not in self._folders:
            self._folders.add(path)
            self.folder(os.path.dirname(path))
            self._entry(path, DIRECTORY | 0o755)

    def data(self, path, data, mode=0o644):
        self.folder(os.path.dirname(path))
        self._entry(path, FILE | mode, data)

    def file(self, path, source):
        """Add the file SOURCE of this machine as PATH; an executable file stays executable."""
        with open(source, "rb") as f:
            self.data(path, f.read(), 0o755 if os.access(source, os.X_OK) else 0o644)

    def link(self, path, target):
        self.folder(os.path.dirname(path))
        self._entry(path, LINK | 0o777, os.fsencode(target))

    def console(self):
        self.folder("dev")
        self._entry("dev/console", NODE | 0o600, device=(5, 1))

    def finish(self):
        self._entry("TRAILER!!!", 0)
        return b"".join(self._parts)
