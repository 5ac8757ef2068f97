"""The kernel that guests run: Debian's own package, fetched with apt and unpacked, never installed."""
import lzma
import os
import re
import shutil
import subprocess
import tempfile

# What scenarios may load, with all that these depend on.
MODULES = ["nvme", "vfio-pci", "vfio_iommu_type1", "ext4", "crc32c_generic"]
UNPACKED = ["./boot/vmlinuz-*", "./lib/modules/*/modules.*"] + [
    f"./lib/modules/*/kernel/{folder}/*"
    for folder in ("block", "crypto", "lib", "virt", "arch/x86/crypto", "fs/ext4", "fs/jbd2",
                   "drivers/nvme", "drivers/vfio")
] + ["./lib/modules/*/kernel/fs/mbcache.ko"]
XZ_MAGIC = b"\xfd7zXZ\x00"


class Unavailable(Exception):
    """The kernel cannot be had here; the text says why."""


class Kernel:
    def __init__(self, folder):
        self.folder = folder
        self.vmlinux = os.path.join(folder, "vmlinux")
        with open(os.path.join(folder, "version"), encoding="ascii") as f:
            self.version = f.read().strip()

    def modules(self):
        """Files of MODULES and their dependencies, plus what modprobe reads, by path in the guest."""
        root = os.path.join(self.folder, "root")
        top = os.path.join("lib/modules", self.version)
        paths = {os.path.join(top, name) for name in ("modules.dep", "modules.alias")}
        for name in MODULES:
            said = _output(["modprobe", "-d", root, "-S", self.version, "--show-depends", name])
            paths.update(os.path.relpath(path, root)
                         for path in re.findall(r"^insmod (\S+)", said, re.MULTILINE))
        return {path: os.path.join(root, path) for path in sorted(paths)}


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
    """The package file. Lists of packages that are missing or stale are fetched once, as root."""
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
    """QEMU starts the ELF inside by its PVH note, three times as fast as the guest unpacks it."""
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


def _unpack(package, folder):
    root = os.path.join(folder, "root")
    os.mkdir(root)
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as tar:
        subprocess.run(["tar", "-x", "-C", root, "--wildcards"] + UNPACKED, stdin=tar.stdout,
                       check=True)
    version = os.listdir(os.path.join(root, "lib/modules"))[0]
    subprocess.run(["depmod", "-b", root, version], check=True)
    _extract_elf(os.path.join(root, "boot", "vmlinuz-" + version), os.path.join(folder, "vmlinux"))
    with open(os.path.join(folder, "version"), "w", encoding="ascii") as f:
        f.write(version + "\n")


def prepare(cache):
    """The kernel, from CACHE when it is there. Raises Unavailable."""
    folder = os.path.join(cache, "kernel")
    if not os.path.isdir(folder):
        os.makedirs(cache, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as work:
            os.mkdir(os.path.join(work, "deb"))
            os.mkdir(os.path.join(work, "kernel"))
            _unpack(_download(os.path.join(work, "deb")), os.path.join(work, "kernel"))
            shutil.move(os.path.join(work, "kernel"), folder)
    return Kernel(folder)
