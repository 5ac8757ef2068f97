# SPDX-License-Identifier: Apache-2.0
"""Fill the tiles of a headrace pipeline from this process. Users call headrace.feed().

    import headrace, numpy

    with headrace.feed("camera") as feed:
        for tile in feed:                   # waits for a free tile
            rows = numpy.asarray(tile)      # writable, no copy; shape (rows, columns) when configured
            if not fill(rows):
                break
            tile.commit()

Tiles of a pipeline on a GPU lie in its memory: cupy.asarray(tile), torch.from_dlpack(tile). A tile is
committed in the order of a stream, after all work that the stream was given before: that is the
stream that DLPack named, or that commit() names, or the legacy default stream.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from typing import Any, Iterator

import headrace

_REASON = 256


class _Options(ctypes.Structure):
    _fields_ = [("credits", ctypes.c_uint32), ("name", ctypes.c_char_p),
                ("directory", ctypes.c_char_p), ("gpu", ctypes.c_int)]


class _Info(ctypes.Structure):
    _fields_ = [("epoch", ctypes.c_uint64), ("tiles", ctypes.c_uint64), ("first", ctypes.c_uint64),
                ("durable", ctypes.c_uint64), ("tile_bytes", ctypes.c_uint32),
                ("credits", ctypes.c_uint32), ("columns", ctypes.c_uint32),
                ("dtype", ctypes.c_char_p), ("pipeline", ctypes.c_char_p),
                ("memory", ctypes.c_void_p), ("memory_bytes", ctypes.c_size_t), ("gpu", ctypes.c_int)]


class _Tile(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("tile", ctypes.c_uint64), ("room", ctypes.c_uint32),
                ("slot", ctypes.c_uint32), ("gen", ctypes.c_uint32)]


def _load(path: str | None) -> ctypes.CDLL:
    library = ctypes.CDLL(path or headrace._find())
    handle = ctypes.c_void_p
    library.hr_feed_open.argtypes = [ctypes.c_char_p, ctypes.POINTER(_Options),
                                     ctypes.POINTER(handle), ctypes.c_char_p, ctypes.c_size_t]
    library.hr_feed_info.argtypes = [handle]
    library.hr_feed_info.restype = ctypes.POINTER(_Info)
    library.hr_feed_next.argtypes = [handle, ctypes.POINTER(_Tile), ctypes.c_uint32, ctypes.c_int]
    library.hr_feed_commit.argtypes = [handle, ctypes.POINTER(_Tile), ctypes.c_uint32]
    library.hr_feed_commit_stream.argtypes = [handle, ctypes.POINTER(_Tile), ctypes.c_uint32,
                                              ctypes.c_void_p]
    library.hr_feed_fd.argtypes = [handle]
    library.hr_feed_end.argtypes = [handle, ctypes.c_int]
    library.hr_feed_durable.argtypes = [handle]
    library.hr_feed_durable.restype = ctypes.c_uint64
    library.hr_feed_reason.argtypes = [handle]
    library.hr_feed_reason.restype = ctypes.c_char_p
    library.hr_feed_close.argtypes = [handle]
    library.hr_feed_close.restype = None
    return library


def _milliseconds(timeout: float | None) -> int:
    return -1 if timeout is None else int(timeout * 1000)


class FeedTile:
    """A tile to fill: memory that can be written until commit().

    tile: its number in the feed; its data begin at byte `offset` of the whole. nbytes, shape, dtype:
    of a full tile. gpu: number of the GPU that fills it; None: host memory. Arrays over the memory must
    not be written any more after commit().
    """

    def __init__(self, owner: Feed, record: _Tile) -> None:
        self._owner, self._record = owner, record
        self._stream: int | None = None
        self.gpu = owner.gpu
        self.tile, self.nbytes = int(record.tile), int(record.room)
        self.offset = self.tile * owner.tile_bytes
        self.dtype = owner.dtype
        elements = self.nbytes // headrace._DTYPES[owner.dtype][0]
        columns = owner.columns
        self.shape = (elements // columns, columns) if columns else (elements,)

    def commit(self, nbytes: int | None = None, *, rows: int | None = None,
               stream: Any = None) -> None:
        """Hand the tile to the pipeline: all of it, its first `nbytes` bytes, or its first `rows`
        rows. With fewer than all it is the last tile of the feed.

        stream, for a tile on a GPU: it is committed after the work that this stream has now; None:
        the stream that DLPack has named, or the legacy default stream."""
        if rows is not None:
            nbytes = rows * (self.nbytes // self.shape[0])
        nbytes = self.nbytes if nbytes is None else nbytes
        self._address()
        if self.gpu is None:
            if stream is not None:
                raise ValueError("the tile is in host memory, which has no streams")
            self._owner._commit(self._record, nbytes)
        else:
            named = self._stream if stream is None else headrace._stream_number(stream)
            self._owner._commit(self._record, nbytes, named or headrace._LEGACY_STREAM)
        self._record = None

    def _address(self) -> int:
        if self._record is None:
            raise ValueError("the tile was committed")
        if self._owner._handle is None:
            raise ValueError("the feed is closed")
        return self._record.data

    def memory(self) -> memoryview:
        """A writable memoryview of the bytes, without a copy. Host memory only."""
        if self.gpu is not None:
            raise BufferError("the tile is in the memory of a GPU")
        view = (ctypes.c_ubyte * self.nbytes).from_address(self._address())
        view._tile = self
        return memoryview(view).cast("B")

    def _interface(self) -> dict[str, Any]:
        return {"version": 3, "shape": self.shape, "typestr": headrace._DTYPES[self.dtype][1],
                "data": (self._address(), False)}

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if self.gpu is not None:
            raise AttributeError("the tile is in the memory of a GPU")
        return self._interface()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.gpu is None:
            raise AttributeError("the tile is in host memory")
        return dict(self._interface(), strides=None, stream=None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0) if self.gpu is None else (2, self.gpu)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
                   copy: Any = None) -> Any:
        if self.gpu is None and stream is not None:
            raise BufferError("the tile is in host memory, which has no streams")
        if dl_device not in (None, self.__dlpack_device__()) or copy:
            raise BufferError("the tile is not copied, neither to another device nor on its own")
        if self.gpu is not None:
            named = headrace._LEGACY_STREAM if stream in (None, -1) else \
                headrace._stream_number(stream)
            if self._stream not in (None, named):
                raise BufferError("the tile is in use by another stream; use it on one stream, or "
                                  "commit it by commit(stream=...)")
            self._stream = named
        return headrace._dlpack.export(self, bool(max_version and max_version[0] >= 1), False)

    def __enter__(self) -> FeedTile:
        return self

    def __exit__(self, kind: Any, *unused: Any) -> None:
        if kind is None and self._record is not None:
            self.commit()


class Feed:
    """An attached feed; iterate over it to get tiles to fill. See headrace.feed().

    first: the first tile that is not committed; position: the byte of the data at which it begins.
    tiles, tile_bytes, credits, columns, dtype: as configured. gpu: number of the GPU that fills the
    tiles; None: they lie in host memory. As a context manager it ends the feed,
    and waits for the end of the run, unless an exception leaves the block.
    """

    def __init__(self, name: str, credits: int = 0, producer: str | None = None,
                 directory: str | None = None, library: str | None = None,
                 gpu: int | None = None) -> None:
        self._handle: ctypes.c_void_p | None = None
        self._library = _load(library)
        self._partial: FeedTile | None = None
        self._filled = 0
        producer = producer or os.path.basename(sys.argv[0]) or "python3"
        options = _Options(credits, producer.encode(), directory and os.fsencode(directory),
                           0 if gpu is None else gpu + 1)
        handle = ctypes.c_void_p()
        why = ctypes.create_string_buffer(_REASON)
        err = self._library.hr_feed_open(name.encode(), options, ctypes.byref(handle), why, _REASON)
        if err:
            raise headrace.Error(-err, why.value.decode(errors="replace"))
        self._handle = handle
        info = self._library.hr_feed_info(handle).contents
        self.name, self.pipeline = name, info.pipeline.decode()
        self.epoch, self.tiles, self.first = info.epoch, info.tiles, info.first
        self.tile_bytes, self.credits, self.columns = info.tile_bytes, info.credits, info.columns
        self.position = self.first * self.tile_bytes
        self.dtype = info.dtype.decode()
        self.gpu = info.gpu if info.gpu >= 0 else None
        if self.dtype not in headrace._DTYPES:
            self.close()
            raise headrace.Error(0, f"feed '{name}': the element type '{self.dtype}' is not known")

    def _open(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise ValueError("the feed is closed")
        return self._handle

    def _fail(self, err: int, timeout: float | None) -> None:
        if err == -headrace._ETIMEDOUT:
            raise headrace.Timeout(-err, f"feed '{self.name}': not within {timeout} s")
        reason = self._library.hr_feed_reason(self._open()).decode(errors="replace")
        raise headrace.Error(-err, f"feed '{self.name}': {reason or os.strerror(-err)}")

    def next(self, timeout: float | None = None) -> FeedTile | None:
        """A tile to fill; None: the feed wants no further tile. Timeout after that many seconds; Error
        when the pipeline stopped before its end."""
        record = _Tile()
        count = self._library.hr_feed_next(self._open(), ctypes.byref(record), 1,
                                           _milliseconds(timeout))
        if count < 0:
            self._fail(count, timeout)
        return FeedTile(self, record) if count == 1 else None

    def fileno(self) -> int:
        """A descriptor for select, selectors or asyncio. When it is readable, call next(timeout=0) until
        Timeout, which also arms it again; do the same before the first wait. It may be readable
        without a tile, and is readable at the end of the run."""
        fd = self._library.hr_feed_fd(self._open())
        if fd < 0:
            raise headrace.Error(-fd, os.strerror(-fd))
        return int(fd)

    def _commit(self, record: _Tile, nbytes: int, stream: int | None = None) -> None:
        if stream is None:
            err = self._library.hr_feed_commit(self._open(), ctypes.byref(record), nbytes)
        else:
            err = self._library.hr_feed_commit_stream(self._open(), ctypes.byref(record), nbytes,
                                                      stream)
        if err in (-errno.EPIPE, -errno.EIO):
            self._fail(err, None)
        if err:
            raise ValueError(f"a tile of {record.room} bytes cannot be committed with {nbytes}")

    def write(self, data: Any) -> int:
        """Append the bytes of any buffer (an array, bytes) to the feed, in the order of tiles; returns
        their number. A tile is committed when it is full; end() commits the last one. The first
        byte is that at `position` of the data. ValueError: the feed wants no more bytes. Host memory
        only."""
        rest = memoryview(data).cast("B") if memoryview(data).contiguous else \
            memoryview(memoryview(data).tobytes())
        length = len(rest)
        while rest:
            if self._partial is None:
                self._partial, self._filled = self.next(), 0
                if self._partial is None:
                    raise ValueError(f"feed '{self.name}' wants no more bytes: {len(rest)} are left")
                if self._partial.offset != self.position:
                    raise ValueError("later tiles are committed already: fill them by their number")
            count = min(len(rest), self._partial.nbytes - self._filled)
            self._partial.memory()[self._filled:self._filled + count] = rest[:count]
            self._filled += count
            self.position += count
            rest = rest[count:]
            if self._filled == self._partial.nbytes:
                self._partial.commit()
                self._partial = None
        return length

    def end(self, timeout: float | None = None) -> None:
        """The feed has no further tile. Waits until the run has ended: then its sink object is whole and
        durable. Timeout after that many seconds: call it again; Error when the run has failed."""
        if self._partial is not None:
            if self._filled:
                self._partial.commit(self._filled)
            self._partial = None
        err = self._library.hr_feed_end(self._open(), _milliseconds(timeout))
        if err:
            self._fail(err, timeout)

    @property
    def durable(self) -> int:
        """Number of tiles, from the first on, that are durable in the sink object; 0 without one."""
        return int(self._library.hr_feed_durable(self._open()))

    def close(self) -> None:
        """Detach. Tiles that were not committed go to the next producer, for which the run waits unless
        the feed has ended. Arrays over tiles must not be used any more."""
        if self._handle is not None:
            self._library.hr_feed_close(self._handle)
            self._handle = None

    def __iter__(self) -> Iterator[FeedTile]:
        return self

    def __next__(self) -> FeedTile:
        tile = self.next()
        if tile is None:
            raise StopIteration
        return tile

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, kind: Any, *unused: Any) -> None:
        try:
            if kind is None and self._handle is not None:
                self.end()
        finally:
            self.close()

    def __del__(self) -> None:
        self.close()
