# SPDX-License-Identifier: Apache-2.0
"""Take the tiles of a headrace pipeline in this process, where they lie.

    import headrace, numpy

    with headrace.tap("train") as tap:
        for tile in tap:
            rows = numpy.asarray(tile)      # no copy; shape (rows, columns) when configured
            ...

A tile is given back by tile.done(), or when neither the tile nor an array over its memory is
referenced any more. Then its memory is used for another tile. A consumer that gives nothing back
gets no further tiles. tile.fail() gives it back for another consumer.

An engine that dies, or whose run fails, is replaced by another one when the appliance runs under
`headrace boot`: the loop then raises Restarted once, and can be entered again for the new run,
which begins with the first tile:

    while True:
        try:
            for tile in tap: ...
            break
        except headrace.Restarted:
            ...                             # drop what came from the broken run

tap.fileno() is for select, selectors and asyncio: see Tap.fileno().

The module needs the library libheadrace-tap.so.0 and the standard library only. NumPy (through
__array_interface__ or DLPack) and other users of DLPack see tiles as read-only arrays in host memory.

Tiles of a pipeline on a GPU lie in its memory, and are arrays of CuPy (cupy.asarray(tile), through
__cuda_array_interface__) and tensors of PyTorch (torch.from_dlpack(tile)) there. A tile is complete
when it comes, so no stream has to wait. It is given back in the order of a stream: after all work that
the stream was given before. That is the stream that DLPack named, or that done() names, or the legacy
default stream. Work on another stream needs done(stream).
"""

import atexit
import ctypes
import os
import struct
import sys
import weakref
from typing import Any, Optional

__all__ = ["Error", "Restarted", "Tap", "Tile", "Timeout", "feed", "store", "tap"]

_REASON = 256
_EIO, _ECONNRESET, _ETIMEDOUT = 5, 104, 110

# dtype: bytes of an element, type of NumPy, code of DLPack
_DTYPES = {
    "": (1, "|u1", 1), "u8": (1, "|u1", 1), "i8": (1, "|i1", 0), "u16": (2, "<u2", 1),
    "i16": (2, "<i2", 0), "f16": (2, "<f2", 2), "bf16": (2, "<u2", 4), "u32": (4, "<u4", 1),
    "i32": (4, "<i4", 0), "f32": (4, "<f4", 2), "u64": (8, "<u8", 1), "i64": (8, "<i8", 0),
    "f64": (8, "<f8", 2),
}


class Error(OSError):
    """The tap or feed refuses this process, or its pipeline stopped before the end."""


class Timeout(Error):
    """No tile came in time."""


class Restarted(Error):
    """The run ended before its last tile, and the appliance makes another one: next() attaches to it."""


class _Options(ctypes.Structure):
    _fields_ = [("credits", ctypes.c_uint32), ("name", ctypes.c_char_p),
                ("directory", ctypes.c_char_p), ("wait_ms", ctypes.c_int), ("gpu", ctypes.c_int)]


class _Info(ctypes.Structure):
    _fields_ = [("epoch", ctypes.c_uint64), ("tiles", ctypes.c_uint64),
                ("tile_bytes", ctypes.c_uint32), ("credits", ctypes.c_uint32),
                ("columns", ctypes.c_uint32), ("each", ctypes.c_int), ("dtype", ctypes.c_char_p),
                ("pipeline", ctypes.c_char_p), ("memory", ctypes.c_void_p),
                ("memory_bytes", ctypes.c_size_t), ("gpu", ctypes.c_int)]


class _Tile(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("tile", ctypes.c_uint64), ("bytes", ctypes.c_uint32),
                ("redelivered", ctypes.c_uint32), ("lent_ns", ctypes.c_uint64),
                ("ready_ns", ctypes.c_uint64), ("freed_ns", ctypes.c_uint64), ("epoch", ctypes.c_uint64), ("slot", ctypes.c_uint32), ("gen", ctypes.c_uint32)]


class _Record:
    """Memory for what the library says of a tile, used for one tile after another."""
    __slots__ = ("memory", "pointer")
    fields = struct.Struct("=QQIIQQQQII").unpack_from  # of _Tile, in its order, in one step

    def __init__(self):
        self.memory = _Tile()
        self.pointer = ctypes.byref(self.memory)


class _Format:
    """What all tiles of a run have in common."""
    __slots__ = ("gpu", "dtype", "size", "kind", "columns", "bytes", "shape", "device")

    def __init__(self, info):
        self.gpu = info.gpu if info.gpu >= 0 else None
        self.dtype = info.dtype.decode()
        self.size, self.kind, _ = _DTYPES.get(self.dtype, (1, "", 0))
        self.columns, self.bytes = info.columns, info.tile_bytes
        self.shape = self.shape_of(info.tile_bytes)
        self.device = (1, 0) if self.gpu is None else (2, self.gpu)

    def shape_of(self, nbytes):
        elements = nbytes // self.size
        return (elements // self.columns, self.columns) if self.columns else (elements,)


def _find() -> str:
    """The library: as the environment says, of the same installation, or where the loader looks."""
    name = "libheadrace-tap.so.0"
    installed = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", name)
    return os.environ.get("HEADRACE_TAP_LIBRARY", installed if os.path.exists(installed) else name)


def _load(path: Optional[str]) -> ctypes.CDLL:
    library = ctypes.CDLL(path or _find())
    handle = ctypes.c_void_p
    library.hr_tap_open.argtypes = [ctypes.c_char_p, ctypes.POINTER(_Options),
                                    ctypes.POINTER(handle), ctypes.c_char_p, ctypes.c_size_t]
    library.hr_tap_info.argtypes = [handle]
    library.hr_tap_info.restype = ctypes.POINTER(_Info)
    library.hr_tap_next.argtypes = [handle, ctypes.POINTER(_Tile), ctypes.c_uint32, ctypes.c_int]
    library.hr_tap_done.argtypes = [handle, ctypes.POINTER(_Tile)]
    library.hr_tap_done_stream.argtypes = [handle, ctypes.POINTER(_Tile), ctypes.c_void_p]
    library.hr_tap_fail.argtypes = [handle, ctypes.POINTER(_Tile)]
    library.hr_tap_fd.argtypes = [handle]
    library.hr_tap_reason.argtypes = [handle]
    library.hr_tap_reason.restype = ctypes.c_char_p
    library.hr_tap_code.argtypes = [handle]
    library.hr_tap_close.argtypes = [handle]
    library.hr_tap_close.restype = None
    return library


_LEGACY_STREAM = 1  # as DLPack and the driver number it


def _stream_number(stream):
    """The handle of a stream: a number, or an object of CuPy, PyTorch or cuda.core."""
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        stream = (protocol() if callable(protocol) else protocol)[1]
    for name in ("cuda_stream", "ptr"):
        stream = getattr(stream, name, stream)
    return int(stream) or _LEGACY_STREAM


class Tile:
    """One tile of a pipeline: memory that can be read until done().

    tile: its number in the pipeline. nbytes, shape, dtype: of the data. redelivered: another
    consumer had it and did not give it back. lent_ns: when it was handed out, by time.monotonic_ns()
    in host memory, by the clock of the GPU on a GPU. gpu: number of the GPU that reads it; None: host
    memory.
    """

    # a process takes a tile every few microseconds, so this class does without a dictionary
    __slots__ = ("_owner", "_record", "_stream", "_format", "_data", "tile", "nbytes", "redelivered",
                 "lent_ns", "__weakref__")

    def __init__(self, owner, record, fields):
        self._data, self.tile, self.nbytes, redelivered, self.lent_ns = fields[:5]
        self._owner, self._record, self._stream = owner, record, None
        self._format = owner._format
        self.redelivered = redelivered != 0

    @property
    def gpu(self):
        return self._format.gpu

    @property
    def dtype(self):
        return self._format.dtype

    @property
    def shape(self):
        of = self._format
        return of.shape if self.nbytes == of.bytes else of.shape_of(self.nbytes)

    def done(self, stream=None) -> None:
        """Give the tile back. Arrays over its memory must not be used any more.

        stream, for a tile on a GPU: it is given back after the work that this stream has now; None:
        the stream that DLPack has named, or the legacy default stream."""
        if self._format.gpu is None:
            if stream is not None:
                raise ValueError("the tile is in host memory, which has no streams")
            if self._record is not None:
                self._give(self._owner._done)
        elif self._record is not None:
            stream = self._stream if stream is None else self._owner._number_of(stream)
            self._owner._give_stream(self._record, self.tile, stream or _LEGACY_STREAM)
            self._record = None

    def fail(self) -> None:
        """Give the tile back because its work has failed: another consumer gets it, or this one when
        there is no other; after as many times as the tap permits (key `tries`) it is dropped."""
        if self._record is not None:
            self._give(self._owner._library.hr_tap_fail)

    def _give(self, call) -> None:
        self._owner._give(call, self._record)
        self._record = None

    def _address(self):
        if self._record is None:
            raise ValueError("the tile was given back")
        return self._data

    def memory(self):
        """A read-only memoryview of the bytes, without a copy. It keeps the tile. Host memory only."""
        if self.gpu is not None:
            raise BufferError("the tile is in the memory of a GPU")
        view = (ctypes.c_ubyte * self.nbytes).from_address(self._address())
        view._tile = self
        return memoryview(view).toreadonly().cast("B")

    def _interface(self):
        return {"version": 3, "shape": self.shape, "typestr": self._format.kind,
                "data": (self._address(), True)}

    @property
    def __array_interface__(self):
        if self.gpu is not None:
            raise AttributeError("the tile is in the memory of a GPU")
        return self._interface()

    @property
    def __cuda_array_interface__(self):
        if self.gpu is None:
            raise AttributeError("the tile is in host memory")
        return {"version": 3, "shape": self.shape, "typestr": self._format.kind,
                "data": (self._address(), True), "strides": None, "stream": None}

    def __dlpack_device__(self):
        return self._format.device

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        of = self._format
        if of.gpu is None and stream is not None:
            raise BufferError("the tile is in host memory, which has no streams")
        if copy or dl_device is not None and dl_device != of.device:
            raise BufferError("the tile is not copied, neither to another device nor on its own")
        if of.gpu is not None:
            self._name_stream(stream)
        return _dlpack.export(self, bool(max_version and max_version[0] >= 1))

    def _name_stream(self, stream):
        """The stream of an array over the tile, after whose work the tile is given back."""
        named = _LEGACY_STREAM if stream in (None, -1) else self._owner._number_of(stream)
        if self._stream not in (None, named):
            raise BufferError("the tile is in use by another stream; use it on one stream, or "
                              "give it back by done(stream)")
        self._stream = named

    def __enter__(self):
        return self

    def __exit__(self, kind, *unused):
        self.done() if kind is None else self.fail()

    def __del__(self):
        try:
            if self._record is not None:
                self.done()
        except Exception:  # at the exit of the interpreter the owner may be gone
            pass


class Tap:
    """An attached tap; iterate over it to get its tiles. See headrace.tap()."""

    def __init__(self, name: str, credits: int = 0, consumer: Optional[str] = None,
                 directory: Optional[str] = None, library: Optional[str] = None,
                 wait: Optional[float] = 60, gpu: Optional[int] = None) -> None:
        self._handle, self._ended = None, False
        self._tiles = {}  # slot: its newest tile, by a weak reference
        self._spare = []  # records that no tile uses
        self._stream, self._stream_number = None, 0  # the one that was named last
        self._library = _load(library)
        self._next, self._done = self._library.hr_tap_next, self._library.hr_tap_done
        self._done_stream = self._library.hr_tap_done_stream
        consumer = consumer or os.path.basename(sys.argv[0]) or "python3"
        wait_ms = -1 if wait is None else max(1, int(wait * 1000))
        options = _Options(credits, consumer.encode(), directory and os.fsencode(directory), wait_ms,
                           0 if gpu is None else gpu + 1)
        handle = ctypes.c_void_p()
        why = ctypes.create_string_buffer(_REASON)
        err = self._library.hr_tap_open(name.encode(), options, ctypes.byref(handle), why, _REASON)
        if err:
            raise Error(-err, why.value.decode(errors="replace"))
        self._handle = handle
        _open.add(self)
        self.name = name
        self._describe()
        if self.dtype not in _DTYPES:
            self.close()
            raise Error(0, f"tap '{name}': the element type '{self.dtype}' is not known")

    def _describe(self) -> None:
        info = self._library.hr_tap_info(self._handle).contents
        self.pipeline = info.pipeline.decode()
        self.epoch, self.tiles, self.tile_bytes = info.epoch, info.tiles, info.tile_bytes
        self.credits, self.columns, self.each = info.credits, info.columns, bool(info.each)
        self._format = _Format(info)
        self.gpu, self.dtype = self._format.gpu, self._format.dtype

    def next(self, timeout: Optional[float] = None) -> Optional[Tile]:
        """The next tile; None: no further tile comes. Timeout after that many seconds; Restarted when
        the run was broken off, and another one follows; Error when none follows."""
        if self._handle is None:
            raise ValueError("the tap is closed")
        record = self._spare.pop() if self._spare else _Record()
        wait = -1 if timeout is None else int(timeout * 1000)
        count = self._next(self._handle, record.pointer, 1, wait)
        if count == 1:
            fields = _Record.fields(record.memory)
            if fields[7] != self.epoch:
                self._describe()
            tile = Tile(self, record, fields)
            self._tiles[fields[8]] = weakref.ref(tile)
            return tile
        self._spare.append(record)
        self._ended = count == 0
        if count == 0:
            return None
        if count == -_ETIMEDOUT:
            raise Timeout(_ETIMEDOUT, f"tap '{self.name}': no tile within {timeout} s")
        reason = self._library.hr_tap_reason(self._handle).decode(errors="replace")
        kind = Restarted if count == -_ECONNRESET else Error
        raise kind(-count, f"tap '{self.name}': {reason}")

    def fileno(self) -> int:
        """A descriptor for select, selectors or asyncio. When it is readable, call next(timeout=0) until
        Timeout, which also arms it again; do the same before the first wait. It may be readable
        without a tile, and tells of a tile about a millisecond later than next() would."""
        if self._handle is None:
            raise ValueError("the tap is closed")
        fd = self._library.hr_tap_fd(self._handle)
        if fd < 0:
            raise Error(-fd, os.strerror(-fd))
        return fd

    def _give(self, call, record) -> None:
        if self._handle is not None:
            call(self._handle, record.pointer)
            self._spare.append(record)

    def _give_stream(self, record, number: int, stream: int) -> None:
        if self._handle is None:
            return
        err = self._done_stream(self._handle, record.pointer, stream)
        if err == -_EIO:
            raise Error(_EIO, f"tap '{self.name}': the driver does not give tile {number} back")
        self._spare.append(record)

    def _number_of(self, stream) -> int:
        """The handle of a stream, which is mostly the one of the last call."""
        if stream is not self._stream:
            self._stream_number = _stream_number(stream)
            self._stream = stream
        return self._stream_number

    def close(self) -> None:
        """Detach; arrays over tiles must not be used any more. After the last tile, tiles that
        are still referenced are given back; before it, they go to another consumer."""
        if self._handle is not None:
            for reference in self._tiles.values() if self._ended else ():
                if (tile := reference()) is not None:
                    tile.done()
            self._library.hr_tap_close(self._handle)
            self._handle = self._stream = None

    def __iter__(self) -> "Tap":
        return self

    def __next__(self) -> Tile:
        tile = self.next()
        if tile is None:
            raise StopIteration
        return tile

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def __del__(self):
        self.close()


_open = weakref.WeakSet()


@atexit.register
def _close_all():
    for each in list(_open):
        each.close()


def tap(name: str, **options: Any) -> Tap:
    """Attach to the tap of that name; wait for its next run when there is none now.

    credits: tiles to hold at a time (0: as many as the tap allows). consumer: name of this process
    for messages. directory: of the socket. library: path of libheadrace-tap.so.0. wait: seconds for
    a run to begin (None: no limit). gpu: number of the GPU that reads tiles in GPU memory (None: the
    one that has them). Raises Error.
    """
    return Tap(name, **options)


def feed(name, **options):
    """Attach to the feed of that name, to fill tiles of a pipeline: a headrace_feed.Feed.

    credits: tiles to hold at a time (0: as many as the feed allows). producer: name of this process
    for messages. directory: of the socket. library: path of libheadrace-tap.so.0. gpu: number of the
    GPU that fills tiles in GPU memory (None: the one that has them). Raises Error.
    """
    import headrace_feed
    return headrace_feed.Feed(name, **options)


def store(ssd, config=None, **options):
    """The object store of an ssd, with put(), get() and ls(): a headrace_store.Store.

    ssd: a device string such as "soft:disk.img", or with `config`, the path of a configuration, the name
    of an ssd in it. program: path of the program headrace (else HEADRACE, or the one in PATH).
    options: further options of `headrace store`, such as ("--wait",).
    """
    import headrace_store
    return headrace_store.Store(ssd, config, **options)


class _Dlpack:
    """Makes capsules of DLPack, unversioned and 1.0."""

    class _Tensor(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                    ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                    ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                    ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                    ("byte_offset", ctypes.c_uint64)]

    _DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

    class _Managed(ctypes.Structure):
        pass

    class _Versioned(ctypes.Structure):
        pass

    _CAPSULE = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
    _READ_ONLY = 1

    def __init__(self):
        self._Managed._fields_ = [("tensor", self._Tensor), ("context", ctypes.c_void_p),
                                  ("deleter", ctypes.c_void_p)]
        self._Versioned._fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                                    ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                                    ("flags", ctypes.c_uint64), ("tensor", self._Tensor)]
        self._kept = {}  # address of a struct in use: whether it has a version, and its tile
        self._made = {}  # address of a struct: the struct, its tensor and its shape
        self._spare = [], []  # addresses without and with a version that are not in use
        self._delete = self._DELETER(self._delete_managed)
        self._drop = self._CAPSULE(self._drop_capsule)
        self._deleter = ctypes.cast(self._delete, ctypes.c_void_p)
        self._destructor = ctypes.cast(self._drop, ctypes.c_void_p)
        self._api = api = ctypes.PyDLL(None)  # of its own: others declare other arguments
        api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        api.PyCapsule_New.restype = ctypes.py_object
        api.PyCapsule_IsValid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        api.PyCapsule_GetPointer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        api.PyCapsule_GetPointer.restype = ctypes.c_void_p

    def _delete_managed(self, address):
        kept = self._kept.pop(address, None)
        if kept:
            self._spare[kept[0]].append(address)

    def _drop_capsule(self, capsule):
        """A capsule that was not taken still owns its tensor."""
        for name in (b"dltensor", b"dltensor_versioned"):
            if self._api.PyCapsule_IsValid(capsule, name):
                self._delete_managed(self._api.PyCapsule_GetPointer(capsule, name))

    def _make(self, versioned):
        """A tensor with room for the shape, whose fields that depend on the tile are not set."""
        tensor = self._Tensor(lanes=1)
        managed = self._Versioned(1, 0, None, self._deleter, 0, tensor) if versioned \
            else self._Managed(tensor, None, self._deleter)
        shape = (ctypes.c_int64 * 2)()
        managed.tensor.shape = ctypes.addressof(shape)
        address = ctypes.addressof(managed)
        self._made[address] = (managed, managed.tensor, shape)
        return address

    def export(self, tile, versioned, read_only=True):
        (size, _, code), dimensions = _DTYPES[tile.dtype], tile.shape
        spare = self._spare[versioned]
        address = spare.pop() if spare else self._make(versioned)
        managed, tensor, shape = self._made[address]
        tensor.data = tile._address()
        tensor.device_type, tensor.device_id = tile.__dlpack_device__()
        tensor.ndim, tensor.code, tensor.bits = len(dimensions), code, 8 * size
        shape[:len(dimensions)] = dimensions
        if versioned:
            managed.flags = self._READ_ONLY if read_only else 0
        self._kept[address] = (versioned, tile)
        return self._api.PyCapsule_New(address, b"dltensor_versioned" if versioned else b"dltensor",
                                       self._destructor)


_dlpack = _Dlpack()
