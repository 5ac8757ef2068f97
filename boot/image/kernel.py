# SPDX-License-Identifier: Apache-2.0
"""A kernel for images and for the lab: Debian's package, fetched with apt and unpacked but not
installed; or a kernel of this machine."""
import lzma
import os
import re
import shutil
import subprocess
import tempfile

XZ_MAGIC = b"\xfd7zXZ\x00"
ALL = ("./boot/vmlinuz-*", "./lib/modules/*")


class Unavailable(Exception):
    """The kernel is not available; the text has the reason."""


class Kernel:
    """vmlinuz, for a boot loader; vmlinux, the ELF file in it (only for a package); modules
    under root/lib/modules/version."""

    def __init__(self, root, version, vmlinuz, vmlinux=None):
        self.root, self.version, self.vmlinuz, self.vmlinux = root, version, vmlinuz, vmlinux

    def modules(self, names):
        """Files of modules, their dependencies, and files for modprobe, by path in the guest."""
        top = os.path.join("lib/modules", self.version)
        paths = {os.path.join(top, name)
                 for name in ("modules.dep", "modules.alias", "modules.builtin")}
        for name in names:
            try:
                said = _output(["modprobe", "-d", self.root, "-S", self.version, "--show-depends",
                                name])
            except subprocess.CalledProcessError as error:
                raise Unavailable(f"module {name}: {error.stderr.strip()}") from error
            paths.update(os.path.relpath(path, self.root)
                         for path in re.findall(r"^insmod (\S+)", said, re.MULTILINE))
        return {path: os.path.join(self.root, path) for path in sorted(paths)}


def _output(command, **more):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=300, **more).stdout


def _package():
    said = _output(["apt-cache", "depends", "linux-image-amd64"])
    names = re.findall(r"^\s*Depends: (linux-image-\S+)", said, re.MULTILINE)
    if not names:
        raise Unavailable("apt knows no package linux-image-amd64")
    return names[0]


def _download(folder):
    """The package file. Missing or outdated package lists are fetched once, as root."""
    for attempt in range(2):
        try:
            _output(["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", _package()],
                    cwd=folder)
            return os.path.join(folder, os.listdir(folder)[0])
        except FileNotFoundError as error:
            raise Unavailable(f"no {error.filename}: not a Debian machine") from error
        except (subprocess.SubprocessError, Unavailable) as error:
            if attempt or os.geteuid() != 0:
                said = getattr(error, "stderr", None) or str(error)
                raise Unavailable("kernel package: " + said.strip().splitlines()[-1]) from error
            subprocess.run(["apt-get", "-qq", "update"], check=False, timeout=300,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return None


def _extract_elf(vmlinuz, vmlinux):
    """Unpack the ELF file: QEMU boots it by its PVH note, three times as fast as vmlinuz."""
    with open(vmlinuz, "rb") as f:
        image = f.read()
    at = image.find(XZ_MAGIC)
    while at >= 0:
        try:
            elf = lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(image[at:])
        except lzma.LZMAError:
            elf = b""
        if elf.startswith(b"\x7fELF"):
            with open(vmlinux, "wb") as f:
                f.write(elf)
            subprocess.run(["strip", vmlinux], check=True)
            return
        at = image.find(XZ_MAGIC, at + 1)
    raise Unavailable(f"{vmlinuz}: no ELF in it that this script can unpack")


def _unpack(package, folder, unpacked):
    root = os.path.join(folder, "root")
    os.mkdir(root)
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as tar:
        subprocess.run(["tar", "-x", "-C", root, "--wildcards"] + unpacked, stdin=tar.stdout,
                       check=True)
    version = os.listdir(os.path.join(root, "lib/modules"))[0]
    subprocess.run(["depmod", "-b", root, version], check=True)
    _extract_elf(os.path.join(root, "boot", "vmlinuz-" + version), os.path.join(folder, "vmlinux"))
    with open(os.path.join(folder, "version"), "w", encoding="ascii") as f:
        f.write(version + "\n")
    with open(os.path.join(folder, "unpacked"), "w", encoding="ascii") as f:
        f.write("\n".join(unpacked) + "\n")


def _has(folder, unpacked):
    """Whether the folder has a kernel with the files that these patterns name."""
    try:
        with open(os.path.join(folder, "unpacked"), encoding="ascii") as f:
            return set(unpacked) <= set(f.read().split())
    except OSError:
        return os.path.isdir(folder) and not unpacked


def prepare(cache, unpacked=()):
    """Debian's newest kernel, from CACHE when there, with the files of its package that the patterns
    `unpacked` name; (): all of them, or those that CACHE has. Raises Unavailable."""
    folder = os.path.join(cache, "kernel")
    if not _has(folder, unpacked):
        os.makedirs(cache, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as work:
            os.mkdir(os.path.join(work, "deb"))
            os.mkdir(os.path.join(work, "kernel"))
            _unpack(_download(os.path.join(work, "deb")), os.path.join(work, "kernel"),
                    list(unpacked or ALL))
            shutil.rmtree(folder, ignore_errors=True)
            shutil.move(os.path.join(work, "kernel"), folder)
    with open(os.path.join(folder, "version"), encoding="ascii") as f:
        version = f.read().strip()
    root = os.path.join(folder, "root")
    return Kernel(root, version, os.path.join(root, "boot", "vmlinuz-" + version),
                  os.path.join(folder, "vmlinux"))


def installed(vmlinuz):
    """The kernel of a file, with its modules on this machine. Raises Unavailable."""
    try:
        with open(vmlinuz, "rb") as f:
            image = f.read()
    except OSError as error:
        raise Unavailable(f"{vmlinuz}: {error.strerror}") from error
    # The Linux/x86 boot protocol: "HdrS" at 0x202; at 0x20e the offset of the version, minus 0x200.
    if image[0x202:0x206] != b"HdrS":
        raise Unavailable(f"{vmlinuz}: not a Linux bzImage")
    at = int.from_bytes(image[0x20e:0x210], "little") + 0x200
    version = image[at:at + 256].split(b"\0")[0].split(b" ")[0].decode("ascii", "replace")
    return Kernel("/", version, vmlinuz)
