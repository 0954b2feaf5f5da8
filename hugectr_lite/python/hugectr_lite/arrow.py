"""Columns of Arrow as NumPy arrays, by Arrow's C data interface: tables and record batches of pyarrow, polars, nanoarrow
and others, without needing any of them. https://arrow.apache.org/docs/format/CDataInterface.html and its PyCapsules."""
import ctypes

import numpy as np

from . import lists
from ._native import DataError

_TYPES = {"c": np.int8, "C": np.uint8, "s": np.int16, "S": np.uint16, "i": np.int32, "I": np.uint32, "l": np.int64,
          "L": np.uint64, "e": np.float16, "f": np.float32, "g": np.float64}


_OFFSETS = {b"+l": np.int32, b"+L": np.int64}  # of lists


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


_Schema._fields_ = [
    ("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p), ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64), ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.c_void_p), ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Schema))),
    ("private_data", ctypes.c_void_p)]
_Array._fields_ = [
    ("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64), ("n_children", ctypes.c_int64), ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))), ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))), ("private_data", ctypes.c_void_p)]
_Stream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Schema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Array))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Stream))),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Stream))), ("private_data", ctypes.c_void_p)]

_pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_in.restype, _pointer_in.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def is_arrow(value):
    return hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")


def matrix(value, name, null=None, slots=None):
    """A new array [rows, columns] of the columns of `value`: of a table's or record batch's, of fixed-size lists, or
    one of numbers. `null` stands where there is none; without it that is a DataError, as is a column of another type.
    slots: lists.matrix()'s, which makes columns of a table's lists."""
    if hasattr(value, "__arrow_c_stream__"):
        return _of_stream(value.__arrow_c_stream__(), name, null, slots)
    schema, array = value.__arrow_c_array__()
    return _rows(_at(schema, b"arrow_schema", _Schema), _at(array, b"arrow_array", _Array), name, null, slots)


def _at(capsule, kind, structure):
    return structure.from_address(_pointer_in(capsule, kind))


def _of_stream(capsule, name, null, slots):
    stream, schema, parts = _at(capsule, b"arrow_array_stream", _Stream), _Schema(), []

    def call(function, target):
        if function(stream, target) != 0:
            at = stream.get_last_error(stream)
            why = ctypes.string_at(at).decode(errors="replace") if at else "no reason given"
            raise DataError(f"{name}: the Arrow stream ended: {why}")

    call(stream.get_schema, schema)
    try:
        while True:
            array = _Array()
            call(stream.get_next, array)
            if not array.release:
                break
            try:
                parts.append(_rows(schema, array, name, null, slots))
            finally:
                array.release(array)
    finally:
        schema.release(schema)
    if not parts:
        raise DataError(f"{name}: expected a batch of rows, found none")
    return np.concatenate(parts)


def _rows(schema, array, name, null, slots):
    children = [(schema.children[i].contents, array.children[i].contents) for i in range(schema.n_children)]
    if slots is None or schema.format != b"+s" or not any(child.format in _OFFSETS for child, _ in children):
        return _columns(schema, array, name, null)
    _refuse_nulls(array, name, array.offset, array.length)
    return lists.matrix([_lists(child, items, name, array.offset, array.length) for child, items in children], slots)


def _lists(schema, array, name, first, length):
    """(name, values of all rows, lengths) of a column of a table."""
    column = (schema.name or b"").decode()
    place, first = f"{name}: column {column}", first + array.offset
    if schema.format not in _OFFSETS:
        return column, _columns(schema, array, place, None, first - array.offset, length)[:, 0], np.ones(length, np.int64)
    _refuse_nulls(array, place, first, length)
    dtype = np.dtype(_OFFSETS[schema.format])
    raw = (ctypes.c_char * ((length + 1) * dtype.itemsize)).from_address(array.buffers[1] + first * dtype.itemsize)
    ends = np.frombuffer(raw, dtype).astype(np.int64)
    values = _columns(schema.children[0].contents, array.children[0].contents, place, None, int(ends[0]), int(ends[-1] - ends[0]))
    return column, values[:, 0], np.diff(ends)


def _columns(schema, array, name, null, first=0, length=None):
    """[length, columns] of rows `first` and on, which count from the array's own offset."""
    kind = schema.format.decode()
    length = array.length if length is None else length
    first += array.offset
    if kind == "+s":
        _refuse_nulls(array, name, first, length)
        parts = [_columns(schema.children[i].contents, array.children[i].contents,
                          f"{name}: column {(schema.children[i].contents.name or b'').decode()}", null, first, length)
                 for i in range(schema.n_children)]
        return np.concatenate(parts, 1) if parts else np.zeros((length, 0))
    if kind.startswith("+w:"):
        width = int(kind[3:])
        _refuse_nulls(array, name, first, length)
        items = _columns(schema.children[0].contents, array.children[0].contents, name, null, first * width,
                         length * width)
        return items.reshape(length, width)
    if kind not in _TYPES or schema.dictionary:
        raise DataError(f"{name}: expected columns of numbers, or fixed-size lists of them, found Arrow's type "
                        f"{'dictionary' if schema.dictionary else kind}")
    return _numbers(array, _TYPES[kind], name, null, first, length)[:, None]


def _numbers(array, dtype, name, null, first, length):
    if length == 0:
        return np.zeros(0, dtype)
    size = np.dtype(dtype).itemsize
    raw = (ctypes.c_char * (length * size)).from_address(array.buffers[1] + first * size)
    values = np.frombuffer(raw, dtype).copy()
    absent = _nulls(array, first, length)
    if absent.any():
        if null is None:
            raise DataError(f"{name}: expected a number in each row, found null in row {int(absent.argmax())}")
        values = values.astype(np.result_type(dtype, np.int8) if np.dtype(dtype).kind == "u" else dtype)
        values[absent] = null
    return values


def _nulls(array, first, length):
    """[length]: where there is none."""
    if array.null_count == 0 or array.n_buffers == 0 or not array.buffers[0] or length == 0:
        return np.zeros(length, bool)
    begin, end = first // 8, (first + length + 7) // 8
    raw = (ctypes.c_uint8 * (end - begin)).from_address(array.buffers[0] + begin)
    bits = np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little")
    return bits[first - 8 * begin:first - 8 * begin + length] == 0


def _refuse_nulls(array, name, first, length):
    absent = _nulls(array, first, length)
    if absent.any():
        raise DataError(f"{name}: expected a value in each row, found null in row {int(absent.argmax())}")
