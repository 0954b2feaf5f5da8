"""Columns in memory as Arrow's C data interface has them, made by hand, so that tests need no Arrow."""
import ctypes

import numpy as np
from hugectr_lite import arrow

FORMATS = {np.dtype(t): f for f, t in arrow._TYPES.items()}
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype, _capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
PAD = 7  # rows before an array's own are this, so that an ignored offset shows


class ArrowColumn:
    """A column, or with children a struct or fixed-size lists: a producer for __arrow_c_array__."""

    def __init__(self, kind, buffers, child, length=0, offset=0, nulls=0, name=b"c"):
        children = child if isinstance(child, list) else [child] if child is not None else []
        self.buffers, self.children = buffers, children
        self._schemas = (ctypes.POINTER(arrow._Schema) * max(1, len(children)))(
            *[ctypes.pointer(c.schema) for c in children])
        self._arrays = (ctypes.POINTER(arrow._Array) * max(1, len(children)))(
            *[ctypes.pointer(c.array) for c in children])
        self._pointers = (ctypes.c_void_p * max(1, len(buffers)))(
            *[None if b is None else b.ctypes.data for b in buffers])
        self._kind, self._name = kind.encode(), name
        self.schema = arrow._Schema(format=self._kind, name=name, n_children=len(children), children=self._schemas)
        self.array = arrow._Array(length=length, null_count=nulls, offset=offset, n_buffers=len(buffers),
                                  n_children=len(children), buffers=self._pointers, children=self._arrays)

    @classmethod
    def of(cls, values, dtype, offset=0, name=b"c"):
        dtype, missing = np.dtype(dtype), [v is None for v in values]
        data = np.array([PAD] * offset + [PAD if v is None else v for v in values], dtype)
        valid = np.packbits(np.array([0] * offset + [not m for m in missing], np.uint8), bitorder="little")
        return cls(FORMATS[dtype], [valid if any(missing) else None, data], None, len(values), offset,
                   sum(missing), name)

    def __arrow_c_array__(self, requested_schema=None):
        return (_capsule(ctypes.addressof(self.schema), b"arrow_schema", None),
                _capsule(ctypes.addressof(self.array), b"arrow_array", None))


def arrow_columns(*columns, types=None, offset=0):
    """A record batch."""
    types = types or [getattr(c, "dtype", np.dtype(np.float64)) for c in columns]
    made = [ArrowColumn.of(list(c), t, offset, f"c{i}".encode()) for i, (c, t) in enumerate(zip(columns, types))]
    return ArrowColumn("+s", [None], made, len(columns[0]))


class arrow_stream:
    """A table of several record batches, for __arrow_c_stream__."""

    def __init__(self, batches):
        self.batches = [arrow_columns(*batch) for batch in batches]
        self.released, left = [], iter(self.batches)
        release_schema = type(self.batches[0].schema.release)(lambda schema: None)
        release_array = type(self.batches[0].array.release)(lambda array: self.released.append(1))

        def get_schema(_, out):
            ctypes.memmove(out, ctypes.addressof(self.batches[0].schema), ctypes.sizeof(arrow._Schema))
            out.contents.release = release_schema
            return 0

        def get_next(_, out):
            batch = next(left, None)
            if batch is None:
                ctypes.memset(out, 0, ctypes.sizeof(arrow._Array))
                return 0
            ctypes.memmove(out, ctypes.addressof(batch.array), ctypes.sizeof(arrow._Array))
            out.contents.release = release_array
            return 0

        fields = dict(arrow._Stream._fields_)
        self._kept = (release_schema, release_array, fields["get_schema"](get_schema), fields["get_next"](get_next))
        self.stream = arrow._Stream(get_schema=self._kept[2], get_next=self._kept[3])

    def __arrow_c_stream__(self, requested_schema=None):
        return _capsule(ctypes.addressof(self.stream), b"arrow_array_stream", None)


class BrokenStream:
    """Fails at its first batch."""

    def __init__(self):
        fields = dict(arrow._Stream._fields_)
        why = ctypes.create_string_buffer(b"no more")
        self._kept = (fields["get_schema"](lambda stream, out: 5),
                      fields["get_last_error"](lambda stream: ctypes.addressof(why)), why)
        self.stream = arrow._Stream(get_schema=self._kept[0], get_last_error=self._kept[1])

    def __arrow_c_stream__(self, requested_schema=None):
        return _capsule(ctypes.addressof(self.stream), b"arrow_array_stream", None)
