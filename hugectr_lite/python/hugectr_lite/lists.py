"""Columns of lists of keys as a model's key columns."""
import numpy as np

from ._native import DataError


def matrix(columns, slots):
    """[rows, key columns] of (name, values, lengths) of each slot: the values of all rows one after another, and how many
    each row has. slots: (key columns, number of a history or -1) of each."""
    if len(columns) != len(slots):
        raise DataError(f"keys: expected {len(slots)} columns, one for each slot, found {len(columns)}")
    firsts = {}  # of each history, its first column
    for column, (_, history) in zip(columns, slots):
        name, _, lengths = column
        first, _, expected = firsts.setdefault(history, column) if history >= 0 else column
        uneven = np.flatnonzero(lengths != expected)
        if uneven.size:
            row = int(uneven[0])
            raise DataError(f"keys: sample {row}, column {first} and column {name}: expected equally many keys, as they are "
                            f"one history, found {expected[row]} and {lengths[row]}")
    return np.concatenate([_padded(*column, width, history >= 0) for column, (width, history) in zip(columns, slots)], 1)


def _padded(name, values, lengths, width, latest):
    if not latest and lengths.size and lengths.max() > width:
        row = int(np.argmax(lengths > width))
        raise DataError(f"keys: sample {row}, column {name}: expected at most {width} keys, found {lengths[row]}")
    kept = np.minimum(lengths, width)
    rows = np.repeat(np.arange(len(lengths)), kept)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(kept) - kept, kept)
    padded = np.full((len(lengths), width), -1, np.int64)
    chosen = values[np.repeat(np.cumsum(lengths) - kept, kept) + places]
    if chosen.dtype.kind not in "iu":
        raise DataError(f"keys: column {name}: expected integers, found {chosen.dtype}")
    padded[rows, places] = chosen
    return padded
