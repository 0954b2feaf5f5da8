"""Arrays of the caller as _native takes them, C-contiguous float32 or int64, and arrays of _native as NumPy's.

_native knows no NumPy, only Python's buffer protocol: a build works with NumPy 1 and 2 alike."""
import warnings

import numpy as np

from . import arrow, lists
from ._native import DataError

MANY = 10  # samples; with fewer, unknown keys in all of them are no surprise
_MOST = int(np.iinfo(np.int64).max)
_MOST_EXACT = 2 ** 53  # integers up to it are float64


def floats(value, name, kind=np.float32):
    """Numbers as float32, which the network takes, or as float64, which then has each integer as it is."""
    array = _numbers(value, name)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name}: expected an array of numbers, found {_type_of(array)}")
    if kind is np.float64 and array.dtype.kind in "iu" and array.size:
        extreme = max(int(array.max()), int(array.min()), key=abs)
        if abs(extreme) > _MOST_EXACT:
            raise DataError(f"{name}: expected integers from -2^53 to 2^53, found {extreme}")
    with np.errstate(over="ignore"):  # infinity is refused with its place
        return np.ascontiguousarray(array, kind).reshape(array.shape)


def weights(value, name="sample_weight", kind=np.float32):
    """[n], finite and not negative."""
    array = floats(value, name, kind)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"{name}: expected one weight a sample, found the shape {list(array.shape)}")
    wrong = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if wrong.size:
        raise DataError(f"{name}: sample {wrong[0]}: expected a finite value >= 0, found {array[wrong[0]]}")
    return np.ascontiguousarray(array)


def keys(value, native):
    """Integers; -1 for an Arrow null. A frame with columns of lists has a column for each slot of the model, whose lists
    become as many columns as the slot has: of a history the last ones, else all, -1 after them."""
    if _is_pandas(value) and hasattr(value, "iloc") and any(_are_lists(column) for _, column in value.items()):
        value = lists.matrix([_list_column(str(name), column) for name, column in value.items()], native.key_slots)
    elif arrow.is_arrow(value) and not _is_pandas(value):
        value = arrow.matrix(value, "keys", -1, native.key_slots)
    array = _numbers(value, "keys", null=-1)
    if array.dtype.kind not in "iu":
        raise DataError(f"keys: expected integers, found {_type_of(array)}")
    if array.dtype.kind == "u" and array.size and int(array.max()) > _MOST:
        raise DataError(f"keys: expected integers below 2^63, found {array.max()}")
    return np.ascontiguousarray(array, np.int64).reshape(array.shape)


def dense(value, native):
    array = _numbers(value, "dense")
    if array.dtype.kind in "iu" and native.reads_log_features:
        warnings.warn("dense: expected log(x + 1) of the features, which is what the model was trained on; found integers, "
                      "which are taken as they are: pass np.log1p(x), or floats if they are right", stacklevel=3)
    return floats(array, "dense")


def check_columns(known, **frames):
    """Refuses frames whose columns are those of `known`, {array: names}, in another order. A first frame makes them
    known; frames with other names are the caller's own."""
    for array, frame in frames.items():
        names = getattr(frame, "column_names", None)  # pyarrow
        if names is None and hasattr(frame, "shape"):  # of a lazy frame they could take long
            names = getattr(frame, "columns", None)  # pandas, polars
        names = [name for name in ([] if names is None else names) if isinstance(name, str)]
        expected = known[array] = known.get(array) or names
        if names != expected and sorted(names) == sorted(expected):
            raise DataError(f"{array}: expected the columns in the order {', '.join(expected)}, found {', '.join(names)}")


def of_native(array):
    """An array with the memory of a native one."""
    return np.asarray(memoryview(array))


def warn_if_unknown(native, present, replaced):
    """Warns of key columns without a single known key."""
    columns = [c for c, count in enumerate(replaced) if count == present[c] >= MANY]
    if columns:
        names = native.key_columns
        warnings.warn(f"keys: {', '.join(names[c] for c in columns)}: all {present[columns[0]]} are outside of the "
                      "table, and key_policy replaced them; are these the ids of the training data?", stacklevel=3)


def _numbers(value, name, null=None):
    if arrow.is_arrow(value) and not _is_pandas(value):
        value = arrow.matrix(value, name, null)
    if np.ma.is_masked(value):
        raise DataError(f"{name}: expected a number everywhere, found masked ones")
    try:
        array = np.asarray(value)
        # Numbers of several types, as columns of a DataFrame may be; text in them is an error.
        if array.dtype.kind == "O" and not any(isinstance(item, (str, bytes)) for item in array.flat):
            array = np.array(array.tolist())
    except (TypeError, ValueError) as error:
        raise DataError(f"{name}: expected an array of numbers, found something else: {error}") from None
    return array


def _type_of(array):
    if array.dtype.kind != "O":
        return array.dtype
    return f"objects such as {next(iter(array.flat), None)!r:.40}"


def _are_lists(column):
    return column.dtype.kind == "O" and any(hasattr(item, "__len__") and not isinstance(item, (str, bytes)) for item in column)


def _list_column(name, column):
    """lists.matrix()'s, of a pandas column."""
    if not _are_lists(column):
        return name, _numbers(column, f"keys: column {name}"), np.ones(len(column), np.int64)
    for row, item in enumerate(column):
        if isinstance(item, (str, bytes)) or not hasattr(item, "__len__"):
            raise DataError(f"keys: column {name}: expected a list in each row, found {item!r:.40} in row {row}")
    lengths = np.fromiter(map(len, column), np.int64, len(column))
    values = [_numbers(item, f"keys: column {name}") for item, n in zip(column, lengths) if n]
    return name, np.concatenate(values) if values else np.zeros(0, np.int64), lengths


def _is_pandas(value):
    """Its own way to Arrow needs pyarrow; its arrays do not."""
    return type(value).__module__.split(".")[0] == "pandas"
