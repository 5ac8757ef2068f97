# SPDX-License-Identifier: Apache-2.0
"""The store from Python, for tests.

Usage: store_python.py SSD WHAT     WHAT: a function of this file
"""

import array
import io
import json
import os
import struct
import sys

import headrace
from headrace_store import StoreError, _decode_safetensors


def raises(kind, text, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except kind as e:
        assert text in str(e), (text, str(e))
        return e
    raise AssertionError(f"{call} did not raise {kind}")


def plain(disk):
    """Bytes, buffers and files, without NumPy."""
    assert "numpy" not in sys.modules and "pyarrow" not in sys.modules
    numbers = array.array("q", range(100000))
    disk.put("bytes", b"some bytes")
    disk.put("empty", b"")
    disk.put("array", numbers)
    disk.put("file", __file__)
    assert disk.get("bytes") == b"some bytes" and disk.get("empty") == b""
    assert array.array("q", bytes(disk.get("array"))) == numbers
    with open(__file__, "rb") as f:
        assert disk.get("file", format="raw") == f.read()
    listed = {o.name: o for o in disk.ls()}
    assert sorted(listed) == ["array", "bytes", "empty", "file"], listed
    assert listed["array"].nbytes == 800000 and listed["array"].complete and listed["array"].durable == 800000
    assert listed["bytes"].crc32c and len(listed["bytes"].crc32c) == 8 and listed["bytes"].created[4] == "-"
    assert disk.stat("bytes") == listed["bytes"]
    assert "numpy" not in sys.modules and "pyarrow" not in sys.modules
    assert raises(StoreError, "exists already", disk.put, "bytes", b"x").exit_code == 1
    disk.put("bytes", b"others", replace=True)
    assert disk.get("bytes") == b"others"
    raises(KeyError, "none", disk.get, "none")
    raises(ValueError, "format is 'csv'", disk.put, "x", b"", format="csv")
    raises(ValueError, "stored as it is", disk.put, "x", __file__, format="npy")
    assert raises(StoreError, "printable", disk.put, "a/b", b"x").exit_code in (1, 2)
    assert raises(StoreError, "No such file", disk.put, "x", "/nonexistent").exit_code in (1, 2, 3)


def mistakes(disk):
    """Disks and programs that are missing."""
    assert raises(StoreError, "none.img", headrace.store("soft:none.img").ls).exit_code == 3
    assert raises(StoreError, "/no/such", headrace.store(disk.ssd, program="/no/such").ls).exit_code == 3


def safetensors_header(header, data=b""):
    text = json.dumps(header).encode()
    return bytearray(struct.pack("<Q", len(text)) + text + data)


def hostile_files(disk):
    """Files that look like those of safetensors."""
    for data in (b"", b"12345678{", struct.pack("<Q", 1 << 60) + b"{}", struct.pack("<Q", 2) + b"[]",
                 struct.pack("<Q", 4) + b"{{{{", struct.pack("<Q", 9) + b"{}"):
        disk.put("x", data, replace=True)
        assert disk.get("x") == data
    for entry in ({}, {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}, [], 7,
                  {"dtype": "F32", "shape": [1], "data_offsets": [0]},
                  {"dtype": "F32", "shape": ["x"], "data_offsets": [0, 4]},
                  {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
                  {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]},
                  {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]},
                  {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}):
        raises(ValueError, "wrong", _decode_safetensors, safetensors_header({"t": entry}, bytes(4)))


def numpy(disk):
    import numpy as np
    rows = np.arange(60000, dtype="<f4").reshape(-1, 6)
    disk.put("rows", rows)
    got = disk.get("rows", dtype="<f4", shape=(-1, 6))
    assert (got == rows).all() and got.shape == rows.shape
    disk.put("columns", rows.T)  # C order, whatever the order in memory
    assert (disk.get("columns", dtype="<f4", shape=(6, -1)) == rows.T).all()
    disk.put("npy", rows.T, format="npy")
    got = disk.get("npy")
    assert (got == rows.T).all() and got.dtype == rows.dtype
    assert bytes(disk.get("npy", format="raw")[:6]) == b"\x93NUMPY"
    disk.put("dates", np.array(["2026-01-31", "2026-02-01"], dtype="datetime64[D]"))
    assert disk.get("dates", dtype="datetime64[D]")[1] == np.datetime64("2026-02-01")
    raises(ValueError, "allow_pickle", disk.put, "objects", np.array([{}]), format="npy")
    model = {"w": rows, "b": np.array([1, -2], dtype=">i2"), "scalar": np.float64(2.5),
             "flags": np.array([True, False]), "none": np.zeros((0, 3), "<u8")}
    disk.put("model", model)
    got = disk.get("model")
    assert list(got) == list(model)
    for name, tensor in model.items():
        assert got[name].shape == np.shape(tensor) and (got[name] == tensor).all(), name
    head = bytes(disk.get("model", format="raw"))
    length, = struct.unpack_from("<Q", head)
    assert length % 8 == 0 and json.loads(head[8:8 + length])["b"]["dtype"] == "I16"
    raises(ValueError, "no type", disk.put, "x", {"c": np.zeros(1, "c16")})


def arrays(disk):
    """get() gives back the array that put() took."""
    import numpy as np
    for name, array in {
        "f4": np.arange(24, dtype="<f4").reshape(2, 3, 4), "f2": np.ones((5, 1), "<f2"),
        "big": np.arange(4, dtype=">i8"), "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "scalar": np.float64(2.5), "empty": np.zeros((0, 3), "<u2"), "bool": np.array([True, False]),
        "dates": np.array(["2026-01-01", "2026-02-01"], "datetime64[D]"),
        "rows": np.array([(1, 2.5), (3, 4.5)], dtype=[("a", "<i4"), ("b", "<f8", (1,))]),
    }.items():
        disk.put(name, array)
        got = disk.get(name)
        assert got.dtype == array.dtype and got.shape == array.shape, (name, got)
        assert (got == array).all(), (name, got)
    assert disk.get_bytes("f4") == np.arange(24, dtype="<f4").tobytes(), "operators read its numbers"
    disk.put("f4", b"other bytes", replace=True)
    assert disk.get("f4") == b"other bytes", "the type and shape are those of another object"
    disk.put("plain", np.arange(3), format="raw")
    assert isinstance(disk.get("plain"), bytearray) and "plain.array" not in [o.name for o in disk.ls()]
    raises(ValueError, "57 characters at most", disk.put, "n" * 58, np.arange(3))


def arrow(disk):
    import pyarrow
    table = pyarrow.table({"a": [1, 2, None], "b": ["x", "y", "z"]})
    disk.put("table", table)
    assert disk.get("table").equals(table)
    disk.put("batch", table.to_batches()[0])
    assert disk.get("batch").equals(table)
    disk.put("copy", io.BytesIO(disk.get("table", format="raw")).getbuffer())
    assert disk.get("copy").equals(table)


def live(disk):
    """Beside a pipeline: the engine carries it out."""
    disk.put("more", b"x" * 100000)
    assert disk.get("more") == b"x" * 100000
    assert "more" in [o.name for o in disk.ls()]


globals()[sys.argv[2]](headrace.store(sys.argv[1], config=os.environ.get("CONF")))
