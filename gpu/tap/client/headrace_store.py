# SPDX-License-Identifier: Apache-2.0
"""Objects in the store of an ssd, from Python. Users call headrace.store().

    import headrace, numpy

    disk = headrace.store("soft:disk.img")
    disk.put("weights", numpy.arange(10, dtype="<f4"))
    disk.get("weights")                     # the same array of NumPy
    disk.get("scores", dtype="<f4")         # an object of a pipeline as an array
    disk.put("table", pyarrow_table)        # an Arrow file; also of a path: a file as it is
    disk.get("table")                       # a pyarrow.Table
    disk.put("model", {"w": w, "b": b})     # a safetensors file
    [o.name for o in disk.ls()]

It runs the command `headrace store`. So the ssd may be an image or a disk that no process uses, or one
that a running appliance drives: then its engine carries out the request. NumPy and pyarrow are used
when data of theirs are given or wanted; nothing needs the safetensors library.
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
import os
import shutil
import struct
import subprocess
import tempfile
from typing import Any, Mapping

import headrace

# type in a safetensors file: type of NumPy. BF16 has none: its words are u16.
_SAFETENSORS = {
    "BOOL": "|b1", "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2", "F16": "<f2", "BF16": "<u2",
    "U32": "<u4", "I32": "<i4", "F32": "<f4", "U64": "<u8", "I64": "<i8", "F64": "<f8",
}
_ARRAY = ".array"  # added to the name of an array, for the object with its type and shape
_NAME_MAX = 63  # characters of the name of an object
_HEADER_MAX = 100_000_000  # bytes, as the safetensors library limits it


class StoreError(headrace.Error):
    """A request that the store has refused. exit_code: of `headrace store` (2: usage; 3: a disk, or
    program, is missing; 4: the disk has failed, or data differ from their checksum)."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(0, text)
        self.exit_code = code

    def __str__(self) -> str:
        return self.strerror


@dataclasses.dataclass(frozen=True)
class Object:
    """One object. nbytes: its length; durable: of an incomplete one, the bytes that are valid;
    crc32c: of its data, eight digits, or None; created: in UTC, "2026-01-31T12:00:00Z" or "?"."""

    name: str
    id: int
    nbytes: int
    durable: int
    complete: bool
    crc32c: str | None
    created: str


def _find() -> str:
    """The program: as the environment says, of the same installation, or the one in PATH."""
    installed = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../bin/headrace")
    program = os.environ.get("HEADRACE") or shutil.which(installed) or shutil.which("headrace")
    if not program:
        raise StoreError(3, "there is no program 'headrace' in PATH; HEADRACE can name it")
    return program


class Store:
    """The objects of one ssd. See headrace.store()."""

    def __init__(self, ssd: str, config: str | os.PathLike[str] | None = None,
                 program: str | None = None, options: tuple[str, ...] = ()) -> None:
        self.ssd = ssd
        self._options = [*options, *(["--config", os.fspath(config)] if config else [])]
        self._program = program or _find()

    def _start(self, verb: str, *arguments: str, **streams: Any) -> subprocess.Popen[bytes]:
        command = [self._program, "store", verb, *self._options, *arguments]
        try:
            return subprocess.Popen(command, **{"stdin": subprocess.DEVNULL, **streams})
        except OSError as e:
            raise StoreError(3, f"{self._program}: {e.strerror}") from None

    @staticmethod
    def _finish(process: subprocess.Popen[bytes], messages: Any) -> None:
        """Wait for the command; StoreError with its last line."""
        code = process.wait()
        messages.seek(0)
        lines = messages.read().decode(errors="replace").strip().splitlines()
        if code:
            text = lines[-1].removeprefix("headrace: error: ") if lines else "no message"
            raise StoreError(code, text)

    def ls(self) -> list[Object]:
        """All objects, also incomplete ones."""
        with tempfile.TemporaryFile() as messages:
            with self._start("ls", "--json", self.ssd, stdout=subprocess.PIPE,
                             stderr=messages) as process:
                text = process.stdout.read()
            self._finish(process, messages)
        return [Object(o["name"], o["id"], o["bytes"], o["durable_bytes"], not o["pending"],
                       o.get("crc32c"), o["created"]) for o in json.loads(text)["objects"]]

    def stat(self, name: str) -> Object:
        """The complete object of that name; KeyError: there is none."""
        for each in self.ls():
            if each.name == name and each.complete:
                return each
        raise KeyError(name)

    # ---- put

    def put(self, name: str, data: Any, *, replace: bool = False, format: str | None = None) -> None:
        """Store data as an object. It appears when all of it is durable.

        data: an array of NumPy (its numbers, in C order, as operators read them; the object NAME.array
        keeps its type and shape for get()); another buffer (its bytes); a table or record batch of pyarrow (an
        Arrow file); a mapping of names to arrays (a safetensors file); or a path, whose file is stored
        as it is. format: "raw" (also of an array: without NAME.array), "npy" (a file of NumPy), "arrow", "safetensors", in
        place of the one that follows from the type. replace: replace an object of that name.
        """
        flags = ["--quiet", *(["--replace"] if replace else [])]
        if isinstance(data, (str, os.PathLike)):
            if format not in (None, "raw"):
                raise ValueError("a file is stored as it is")
            with tempfile.TemporaryFile() as messages:
                with self._start("put", *flags, self.ssd, name, os.fspath(data),
                                 stdout=subprocess.DEVNULL, stderr=messages) as process:
                    pass
                self._finish(process, messages)
            return
        keeps = format is None and _is_array(data)
        if keeps and len(name) + len(_ARRAY) > _NAME_MAX:
            raise ValueError(f"'{name}': {_NAME_MAX - len(_ARRAY)} characters at most, so that "
                             f"'{name}{_ARRAY}' keeps type and shape; format=\"raw\" keeps neither")
        self._put_parts(name, _encode(data, format), flags)
        if keeps:
            kept = {"descr": _numpy().lib.format.dtype_to_descr(data.dtype),
                    "shape": list(data.shape), "crc32c": self.stat(name).crc32c}
            self._put_parts(name + _ARRAY, [json.dumps(kept).encode()], ["--quiet", "--replace"])

    def _put_parts(self, name: str, parts: list[Any], flags: list[str]) -> None:
        size = sum(len(part) for part in parts)
        with tempfile.TemporaryFile() as messages:
            with self._start("put", *flags, "--size", str(size), self.ssd, name, "-",
                             stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                             stderr=messages) as process:
                try:
                    for part in parts:
                        process.stdin.write(part)
                    process.stdin.close()
                except BrokenPipeError:  # its exit code and message say why
                    pass
            self._finish(process, messages)

    # ---- get

    def get_bytes(self, name: str) -> bytearray:
        """The bytes of an object, compared with its checksum."""
        return self._read(self.stat(name))

    def _read(self, of: Object) -> bytearray:
        name, size = of.name, of.nbytes
        data = bytearray(size)
        with tempfile.TemporaryFile() as messages:
            with self._start("get", "--quiet", self.ssd, name, "-", stdout=subprocess.PIPE,
                             stderr=messages) as process:
                count = _read_into(process.stdout, data)
            self._finish(process, messages)
        if count != size:
            raise StoreError(1, f"object '{name}' has changed while it was read")
        return data

    def get(self, name: str, *, dtype: Any = None, shape: Any = None,
            format: str | None = None) -> Any:
        """An object in the form in which put() stored it.

        With dtype or shape: an array of NumPy over its bytes. Otherwise an array that put() has stored is
        that array again, with its type and shape; an Arrow file gives a pyarrow.Table, a file of NumPy an array, a
        safetensors file a dict of arrays, and other bytes a bytearray. format: "raw", "npy", "arrow", "safetensors": no other one is tried.
        """
        if dtype is None and shape is None and format is None:
            array = self._get_array(name)
            if array is not None:
                return array
        data = self.get_bytes(name)
        if dtype is not None or shape is not None:
            array = _numpy().frombuffer(data, dtype=dtype or "u1")
            return array if shape is None else array.reshape(shape)
        return _decode(data, format or _recognize(data))


    def _get_array(self, name: str) -> Any:
        """The array that put() has stored; None: the object is another one."""
        whole = {each.name: each for each in self.ls() if each.complete}
        of, kept = whole.get(name), whole.get(name + _ARRAY)
        if of is None or kept is None or kept.nbytes > _HEADER_MAX:
            return None
        try:
            head = json.loads(self._read(kept))
            if head["crc32c"] != of.crc32c:  # another object has the name now
                return None
            dtype = _numpy().lib.format.descr_to_dtype(_descr(head["descr"]))
            shape = [int(n) for n in head["shape"]]
        except (KeyError, TypeError, ValueError):
            return None
        if math.prod(shape) * dtype.itemsize != of.nbytes or dtype.hasobject:
            return None
        data = self._read(of)
        return _numpy().frombuffer(data, dtype).reshape(shape) if data else _numpy().empty(shape, dtype)


def _read_into(stream: io.BufferedIOBase, data: bytearray) -> int:
    """Fill data; the number of bytes that came, one more than its length when more came."""
    view, count = memoryview(data), 0
    while count < len(data):
        got = stream.readinto(view[count:])
        if not got:
            return count
        count += got
    return count + len(stream.read(1))


# ---- formats


def _numpy() -> Any:
    import numpy
    return numpy


def _is_array(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "numpy" and hasattr(data, "shape")


def _descr(of: Any) -> Any:
    """The description of a type, whose tuples are lists in JSON."""
    if not isinstance(of, list):
        return of
    return [tuple(_descr(part) if i == 1 else tuple(part) if isinstance(part, list) else part
                  for i, part in enumerate(field)) for field in of]


def _bytes_of(data: Any) -> memoryview:
    """The bytes of a buffer, or of an object with the array interface of NumPy, in C order."""
    try:
        view = memoryview(data)
    except TypeError:
        view = memoryview(_numpy().ascontiguousarray(data))
    except ValueError:  # a type of NumPy that buffers do not have, such as datetime64
        return memoryview(data.tobytes())
    return view.cast("B") if view.c_contiguous and view.nbytes else memoryview(view.tobytes())


def _is_arrow(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "pyarrow" and hasattr(data, "schema")


def _encode(data: Any, format: str | None) -> list[Any]:
    """The parts of the object."""
    if format is None:
        format = ("safetensors" if isinstance(data, Mapping) else
                  "arrow" if _is_arrow(data) else "raw")
    if format == "raw":
        return [_bytes_of(data)]
    if format == "npy":
        out = io.BytesIO()
        _numpy().save(out, data, allow_pickle=False)
        return [out.getbuffer()]
    if format == "arrow":
        return [_encode_arrow(data)]
    if format == "safetensors":
        return _encode_safetensors(data)
    raise ValueError(f"format is '{format}', expected raw, npy, arrow or safetensors")


def _encode_arrow(data: Any) -> memoryview:
    import pyarrow
    out = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_file(out, data.schema) as writer:
        writer.write(data)
    return memoryview(out.getvalue())


def _encode_safetensors(tensors: Mapping[str, Any]) -> list[Any]:
    """8 bytes with the length of the header, the header in JSON, then the arrays."""
    types = {value: key for key, value in _SAFETENSORS.items() if key != "BF16"}
    header, parts, at = {}, [], 0
    for name, tensor in tensors.items():
        array = _numpy().ascontiguousarray(tensor)
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        if array.dtype.str not in types:
            raise ValueError(f"tensor '{name}': safetensors has no type '{array.dtype}'")
        part = _bytes_of(array)
        # ascontiguousarray() makes a scalar an array of one element
        header[name] = {"dtype": types[array.dtype.str], "shape": list(_numpy().shape(tensor)),
                        "data_offsets": [at, at + len(part)]}
        parts.append(part)
        at += len(part)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return [struct.pack("<Q", len(text)) + text, *parts]


def _safetensors_header(data: bytearray) -> dict[str, Any] | None:
    """The header; None: it is no safetensors file."""
    if len(data) < 10:
        return None
    length, = struct.unpack_from("<Q", data)
    if length > min(len(data) - 8, _HEADER_MAX) or data[8:9] != b"{":
        return None
    try:
        header = json.loads(data[8:8 + length])
    except ValueError:
        return None
    return header if isinstance(header, dict) else None


def _decode_safetensors(data: bytearray) -> dict[str, Any]:
    header = _safetensors_header(data)
    if header is None:
        raise ValueError("the object is no safetensors file")
    first, tensors = 8 + struct.unpack_from("<Q", data)[0], {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        try:
            start, end = (first + int(at) for at in entry["data_offsets"])
            shape, dtype = [int(n) for n in entry["shape"]], _SAFETENSORS[entry["dtype"]]
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"tensor '{name}': its entry in the header is wrong") from None
        size = math.prod(shape) * int(dtype[2:])
        if not first <= start <= end <= len(data) or end - start != size or min(shape, default=0) < 0:
            raise ValueError(f"tensor '{name}': its place in the file is wrong")
        tensors[name] = _numpy().frombuffer(data, dtype, math.prod(shape), start).reshape(shape)
    return tensors


def _recognize(data: bytearray) -> str:
    if data[:6] == b"ARROW1" and data[-6:] == b"ARROW1":
        return "arrow"
    if data[:6] == b"\x93NUMPY":
        return "npy"
    return "raw" if _safetensors_header(data) is None else "safetensors"


def _decode(data: bytearray, format: str) -> Any:
    if format == "raw":
        return data
    if format == "npy":
        return _numpy().load(io.BytesIO(data), allow_pickle=False)
    if format == "safetensors":
        return _decode_safetensors(data)
    if format == "arrow":
        import pyarrow
        return pyarrow.ipc.open_file(pyarrow.py_buffer(data)).read_all()
    raise ValueError(f"format is '{format}', expected raw, npy, arrow or safetensors")
