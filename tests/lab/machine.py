# SPDX-License-Identifier: Apache-2.0
"""Machines of machines.conf: arguments of QEMU for a machine, PCI addresses of its devices."""
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
BRIDGES = {"root", "bus", "up", "down", "acsdown"}
NO_FUNCTION = {"iommu", "subsys", "ns"}
SECOND_ROOT_BUS = 0x40
BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Mistake(Exception):
    """An error in machines.conf or a scenario; the text names the place."""


class Device:
    def __init__(self, text):
        match = re.fullmatch(r"(\w+):(\w+)(?:@(\w+))?((?:,\w+=[\w.]+)*)", text)
        if not match:
            raise Mistake(f"not NAME:KIND[@PARENT][,OPTION=VALUE...]: {text}")
        self.name, self.kind, self.parent = match[1], match[2], match[3]
        self.option = dict(item.split("=") for item in match[4].split(",") if item)
        self.slot = 0
        self.address = None

    def size(self, default):
        number, unit = re.fullmatch(r"(\d+)([KMG]?)", self.option.get("size", default)).groups()
        return int(number) * BYTES[unit]


class Machine:
    """One machine. Its files are in `folder`: NAME.img for an ssd, NAME.bar for a gpu. `peer`: the other
    machine of a pair, with its files in the folder `peer` there; of the first one only."""

    def __init__(self, name, line, folder, number=0):
        self.name = name
        self.folder = folder
        self.number = number  # of the machine in a pair
        self.sockets = None
        self.device = {}
        line, _, rest = line.partition("|")
        self.peer = Machine(name, rest, os.path.join(folder, "peer"), 1) if rest else None
        for text in line.split():
            device = Device(text)
            if device.parent and device.parent not in self.device:
                raise Mistake(f"machine {name}: {device.name} names {device.parent} too early")
            self.device[device.name] = device
        self._place()

    def of_kind(self, *kinds):
        return [d for d in self.device.values() if d.kind in kinds]

    def children(self, parent):
        return [d for d in self.device.values() if d.parent == parent and d.kind not in NO_FUNCTION]

    def _place(self):
        """Assign slots in the order of the file, and bus numbers like firmware: depth first by slot."""
        roots = self.children(None)
        next_bus = self._walk([d for d in roots if d.kind != "bus"], 0, 1, 1)
        for device in roots:
            if device.kind == "bus":
                device.slot = 0x10
                next_bus = self._walk(self.children(device.name), SECOND_ROOT_BUS,
                                      SECOND_ROOT_BUS + 1, 0)

    def _walk(self, devices, bus, next_bus, first_slot):
        for slot, device in enumerate(devices, first_slot):
            device.slot = slot
            device.address = f"0000:{bus:02x}:{slot:02x}.0"
            if device.kind in BRIDGES:
                next_bus = self._walk(self.children(device.name), next_bus, next_bus + 1, 0)
        return next_bus

    def path(self, name):
        device = self.device[name]
        return os.path.join(self.folder, name + (".bar" if device.kind == "gpu" else ".img"))

    def socket(self, name):
        """Socket of a power-fail disk. It is not in `folder`, because the path of a socket is limited to
        107 bytes."""
        return os.path.join(self.sockets, name)

    def machines(self):
        return [self] + ([self.peer] if self.peer else [])

    def make_files(self):
        os.makedirs(self.folder, exist_ok=True)
        for device in self.of_kind("ssd", "ns", "gpu"):
            if device.option.get("disk") == "none":
                continue
            with open(self.path(device.name), "wb") as f:
                f.truncate(device.size("64M"))

    def environment(self):
        return {d.name: d.address for d in self.device.values() if d.address}

    def arguments(self):
        """Arguments of QEMU. Subsystems and bridges come first, because QEMU requires a bus before its
        devices, and a subsystem before its controllers."""
        words = []
        for device in self.of_kind("subsys"):
            words += ["-device", f"nvme-subsys,id={device.name},nqn={device.name}"]
        for device in self.of_kind("iommu"):
            words += ["-device", "intel-iommu,intremap=on"]
        for device in sorted(self.device.values(), key=lambda d: d.kind not in BRIDGES):
            if device.kind in _BUILD:
                words += _BUILD[device.kind](self, device)
        return words

    def where(self, device):
        return f"id={device.name},bus={device.parent or 'pcie.0'},addr={device.slot:x}"

    def chassis(self, device):
        number = list(self.device).index(device.name) + 1
        return f"chassis={number},slot={number}"


def _root(m, d):
    acs = ",disable-acs=on" if d.option.get("acs") == "off" else ""
    return ["-device", f"pcie-root-port,{m.where(d)},{m.chassis(d)}{acs}"]


def _bus(m, d):
    return ["-device", f"pxb-pcie,{m.where(d)},bus_nr={SECOND_ROOT_BUS}"]


def _up(m, d):
    return ["-device", f"x3130-upstream,{m.where(d)}"]


def _down(m, d):
    return ["-device", f"xio3130-downstream,{m.where(d)},{m.chassis(d)}"]


def _bad_sectors(d):
    rules = [(kind, d.option[kind]) for kind in ("read", "write", "flush") if kind in d.option]
    text = ""
    for number, (kind, sector) in enumerate(rules):
        rule = f",inject-error.{number}."
        text += f"{rule}event=none{rule}iotype={kind}{rule}errno=5"
        text += f"{rule}sector={sector}" if kind != "flush" else f"{rule}once=on"
    return text


def _disk(m, d):
    """Block nodes of an ssd; the uppermost is NAME-disk."""
    kind, top, path = d.option.get("disk", "file"), d.name + "-disk", m.path(d.name)
    file = f"driver=file,filename={path},node-name={d.name}-file"
    if kind == "null":
        return ["-blockdev", f"driver=null-co,size={d.size('64M')},read-zeroes=on,node-name={top}"]
    if kind == "fault":
        return ["-blockdev", file, "-blockdev",
                f"driver=blkdebug,image={d.name}-file,node-name={d.name}-fault" + _bad_sectors(d),
                "-blockdev", f"driver=raw,file={d.name}-fault,node-name={top}"]
    if kind == "powerfail":
        file = f"driver=nbd,server.type=unix,server.path={m.socket(d.name)},node-name={d.name}-file"
    elif kind != "file":
        raise Mistake(f"machine {m.name}: {d.name} has no disk of kind {kind}")
    return ["-blockdev", file, "-blockdev", f"driver=raw,file={d.name}-file,node-name={top}"]


def _blocks(d):
    block = d.option.get("lba", "512")
    return f"logical_block_size={block},physical_block_size={block}"


VF_QUEUES = 8  # queue pairs of each virtual function, including the admin queue pair


def _functions(d):
    """Queues and vectors: those for virtual functions, and those that the ssd keeps."""
    vfs = int(d.option.get("vfs", "0"))
    if not vfs:
        return ""
    return (f",sriov_max_vfs={vfs},sriov_vq_flexible={VF_QUEUES * vfs},sriov_vi_flexible={vfs},"
            f"max_ioqpairs={VF_QUEUES * vfs + 8},msix_qsize={vfs + 9}")


def _ssd(m, d):
    more = f",mdts={d.option['mdts']}" if "mdts" in d.option else ""
    more += f",cmb_size_mb={d.option['cmb']}" if "cmb" in d.option else ""
    more += f",subsys={d.option['subsys']}" if "subsys" in d.option else ""
    # All controllers of a subsystem have one serial number (NVMe Base 5.17.2.1).
    serial = d.option.get("subsys", d.name)
    controller = ["-device", f"nvme,{m.where(d)},serial={serial}"]
    if d.option.get("disk") == "none":
        controller[1] += more + _functions(d)
        return controller
    controller[1] += f",drive={d.name}-disk,{_blocks(d)}{more}"
    return _disk(m, d) + controller


def _ns(m, d):
    more = f",nsid={d.option.get('nsid', '1')}"
    more += ",zoned=on,zoned.zone_size=1M" if d.option.get("zoned") == "1" else ""
    more += f",eui64={d.option['eui64']}" if "eui64" in d.option else ""
    shared = "on" if d.option.get("shared") == "1" else "off"
    return _disk(m, d) + ["-device", f"nvme-ns,id={d.name},bus={d.parent},drive={d.name}-disk,"
                          f"shared={shared},{_blocks(d)}{more}"]


def _gpu(m, d):
    return ["-object", f"memory-backend-file,id={d.name}-bar,share=on,size={d.size('64M')},"
            f"mem-path={m.path(d.name)}",
            "-device", f"ivshmem-plain,{m.where(d)},memdev={d.name}-bar"]


def _net(m, d):
    """A wire of datagrams: each end can go away and come back without the other one."""
    ends = [m.socket(f"{d.name}.{number}") for number in (m.number, 1 - m.number)]
    return ["-netdev", f"dgram,id={d.name}-wire,local.type=unix,local.path={ends[0]},"
            f"remote.type=unix,remote.path={ends[1]}",
            "-device", f"virtio-net-pci,{m.where(d)},netdev={d.name}-wire,romfile=,"
            f"mac=52:54:00:00:{d.slot:02x}:{m.number + 1:02x}"]


_BUILD = {"root": _root, "bus": _bus, "up": _up, "down": _down, "acsdown": _root, "ssd": _ssd,
          "ns": _ns, "gpu": _gpu, "net": _net}


def read_machines():
    """Returns {name: line} of machines.conf."""
    lines = {}
    with open(os.path.join(HERE, "machines.conf"), encoding="ascii") as f:
        for number, line in enumerate(f, 1):
            name, _, devices = line.partition("#")[0].strip().partition(" ")
            if name in lines:
                raise Mistake(f"machines.conf:{number}: a second machine {name}")
            if name:
                lines[name] = devices
    return lines
