"""Reads a column of bytes from an Arrow stream, without a library: the structs of Arrow's C data
and C stream interfaces (arrow.apache.org/docs/format/CDataInterface.html).
"""

import ctypes
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_void_p


class Schema(ctypes.Structure):
    """`ArrowSchema`."""


class Array(ctypes.Structure):
    """`ArrowArray`."""


class Stream(ctypes.Structure):
    """`ArrowArrayStream`."""


Schema._fields_ = [
    ("format", c_char_p), ("name", c_char_p), ("metadata", c_char_p), ("flags", c_int64), ("n_children", c_int64),
    ("children", POINTER(POINTER(Schema))), ("dictionary", c_void_p), ("release", c_void_p), ("private_data", c_void_p),
]  # fmt: skip
Array._fields_ = [
    ("length", c_int64), ("null_count", c_int64), ("offset", c_int64), ("n_buffers", c_int64), ("n_children", c_int64),
    ("buffers", POINTER(c_void_p)), ("children", POINTER(POINTER(Array))), ("dictionary", c_void_p), ("release", c_void_p), ("private_data", c_void_p),
]  # fmt: skip
Stream._fields_ = [
    ("get_schema", CFUNCTYPE(c_int, c_void_p, POINTER(Schema))), ("get_next", CFUNCTYPE(c_int, c_void_p, POINTER(Array))),
    ("get_last_error", c_void_p), ("release", c_void_p), ("private_data", c_void_p),
]  # fmt: skip
# Types of a column, each with the type of its offsets.
OFFSETS = {b"u": c_int32, b"z": c_int32, b"U": c_int64, b"Z": c_int64}


def first_column(source: object) -> list[bytes]:
    """Returns all values of the first column. Releases nothing, because the program ends soon."""
    capsule = source.__arrow_c_stream__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = c_void_p, [ctypes.py_object, c_char_p]
    address = pointer(capsule, b"arrow_array_stream")
    stream, schema, values = Stream.from_address(address), Schema(), []
    if stream.get_schema(address, byref(schema)):
        raise OSError("get_schema failed")
    kind = OFFSETS[schema.children[0].contents.format]
    while True:
        batch = Array()
        if stream.get_next(address, byref(batch)):
            raise OSError("get_next failed")
        if not batch.release:
            return values
        column = batch.children[0].contents
        if column.length == 0:
            continue
        ends = (kind * (column.offset + column.length + 1)).from_address(column.buffers[1])
        data = ctypes.string_at(column.buffers[2], ends[column.offset + column.length])
        values += [data[ends[at] : ends[at + 1]] for at in range(column.offset, column.offset + column.length)]
