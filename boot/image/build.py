#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a bootable image of headrace: kernel, initramfs, and an ISO that boots them by BIOS or EFI.

usage: build.py --binary FILE --config FILE --out FOLDER [--kernel VMLINUZ] [--cache FOLDER]
                [--extra FOLDER] [--append PARAMETERS]    --cache: folder for Debian's kernel
"""
import argparse
import os
import shutil
import stat
import subprocess
import sys

import cpio
import kernel

# quiet: the console is for headrace's output. panic: an unattended appliance restarts.
PARAMETERS = "rdinit=/init quiet panic=30 console=tty0 console=ttyS0"
GRUB = """set timeout=0
insmod all_video
menuentry headrace {{
    linux /boot/vmlinuz {parameters}
    initrd /boot/initrd
}}
"""


def modules_of(binary, config):
    """Modules and files that the configuration needs. headrace lists them, and checks the file."""
    done = subprocess.run([binary, "boot", "--modules", config], stdout=subprocess.PIPE, text=True,
                          check=False, timeout=60)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout.split()


def add_tree(archive, folder):
    """Add all files of the user's folder; they replace existing files of the same path."""
    if not os.path.isdir(folder):
        raise NotADirectoryError(f"{folder}: is not a folder")
    for at, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(at, name)
            inside = os.path.relpath(path, folder)
            if os.path.islink(path):
                archive.link(inside, os.readlink(path))
            elif os.path.isdir(path):
                archive.folder(inside)
            elif stat.S_ISREG(os.stat(path).st_mode):
                archive.file(inside, path)
            else:
                raise OSError(f"{path}: is neither file, folder nor link")


def initramfs(arguments, linux):
    archive = cpio.Archive()
    for folder in ("dev", "proc", "sys", "run", "tmp"):
        archive.folder(folder)
    archive.console()
    archive.file("init", arguments.binary)
    archive.file("etc/headrace.conf", arguments.config)
    names = modules_of(arguments.binary, arguments.config)
    paths = [name for name in names if name.startswith("/")]
    for path in paths:
        archive.file(path[1:], path)
    if len(names) > len(paths):
        for path, source in linux.modules([n for n in names if n not in paths]).items():
            archive.file(path, source)
    if arguments.extra:
        add_tree(archive, arguments.extra)
    return archive.finish()


def write_iso(out, parameters):
    """Make one file with grub-mkrescue that BIOS and EFI boot, from a CD or a USB stick."""
    tree = os.path.join(out, "iso")
    shutil.rmtree(tree, ignore_errors=True)
    os.makedirs(os.path.join(tree, "boot/grub"))
    shutil.copy(os.path.join(out, "vmlinuz"), os.path.join(tree, "boot/vmlinuz"))
    shutil.copy(os.path.join(out, "initrd"), os.path.join(tree, "boot/initrd"))
    with open(os.path.join(tree, "boot/grub/grub.cfg"), "w", encoding="ascii") as f:
        f.write(GRUB.format(parameters=parameters))
    done = subprocess.run(["grub-mkrescue", "-o", os.path.join(out, "headrace.iso"), tree],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          timeout=300)
    shutil.rmtree(tree)
    if done.returncode:
        sys.exit("image: grub-mkrescue: " + done.stdout)


def main():
    parser = argparse.ArgumentParser(add_help=False)
    for name in ("binary", "config", "out"):
        parser.add_argument("--" + name, required=True)
    for name in ("kernel", "cache", "extra", "append"):
        parser.add_argument("--" + name, default="")
    arguments = parser.parse_args()
    parameters = (PARAMETERS + " " + arguments.append).strip()
    try:
        linux = (kernel.installed(arguments.kernel) if arguments.kernel
                 else kernel.prepare(arguments.cache or arguments.out))
        initrd = initramfs(arguments, linux)
        with open(os.path.join(arguments.out, "initrd"), "wb") as f:
            f.write(initrd)
        shutil.copy(linux.vmlinuz, os.path.join(arguments.out, "vmlinuz"))
        write_iso(arguments.out, parameters)
    except subprocess.CalledProcessError as why:
        said = (why.stderr or "").strip().splitlines()
        sys.exit(f"image: {why}" + (f": {said[-1]}" if said else ""))
    except (kernel.Unavailable, OSError, subprocess.SubprocessError) as why:
        sys.exit(f"image: {why}")
    print(f"{arguments.out}/headrace.iso: Linux {linux.version}, initramfs of "
          f"{len(initrd) / 1e6:.1f} MB")
    print(f"kernel parameters: {parameters}")


if __name__ == "__main__":
    main()
