"""Tables of a caller as columns of text: DataFrames of pandas and polars, tables of pyarrow, dicts of arrays, arrays of
numbers. Only methods are called that these objects have; none of the packages is imported.

A column is of numbers or of categories. Texts, booleans and Python's None are categories; missing values (NaN, None, null,
pandas' NA) have the empty text, which csv_prep takes for missing as well."""
import csv
import datetime

import numpy as np

NUMBER, CATEGORY, EMPTY = "numbers", "text", "no value"  # kinds of a column; EMPTY fits all
DATE = "date"  # of datetime64 or Python's dates; as a kind of texts() followed by a format, "date %Y-%m-%d"


class Frame:
    """names: of the columns, str, or None if the table has none; columns: list of Column; rows: how many."""

    def __init__(self, table, what="X"):
        if hasattr(table, "tocsr"):
            raise TypeError(f"{what}: expected a dense table, found a sparse matrix: pass X.toarray()")
        if hasattr(table, "collect") and not hasattr(table, "shape"):
            raise TypeError(f"{what}: expected a DataFrame, found a lazy one: pass its collect()")
        names, values = _split(table, what)
        texts = names is not None and all(isinstance(name, str) for name in names)
        if names is not None and not texts and any(isinstance(name, str) for name in names):
            raise TypeError(f"{what}: expected feature names that are all strings, found names of several types: feature "
                            "names are only supported if all input features have string names")
        self.names = [str(name) for name in names] if texts else None
        labels = self.names or [f"x{i}" for i in range(len(values))]
        self.columns = [Column(value, label, what) for label, value in zip(labels, values)]
        lengths = [len(column) for column in self.columns]
        if len(set(lengths)) > 1:
            raise ValueError(f"{what}: expected columns of one length, found {sorted(set(lengths))}")
        self.rows = lengths[0] if lengths else 0

    @property
    def labels(self):
        """Names of the columns for messages and schemas: x0, x1, ... where the table has none."""
        return [column.name for column in self.columns]


def _split(table, what):
    """(names or None, one array a column)"""
    if isinstance(table, dict):
        return list(table), list(table.values())
    if hasattr(table, "iloc") and hasattr(table, "columns"):  # pandas
        return list(table.columns), [table.iloc[:, i] for i in range(table.shape[1])]
    if hasattr(table, "get_columns"):  # polars
        return list(table.columns), table.get_columns()
    if hasattr(table, "column_names"):  # pyarrow
        return list(table.column_names), [table.column(i) for i in range(table.num_columns)]
    array = np.asarray(table)
    if array.dtype.kind in "US" and not hasattr(table, "dtype"):  # lists of numbers and texts
        array = np.asarray(table, dtype=object)
    if array.ndim != 2:
        raise ValueError(f"{what}: Expected 2D array, got {array.ndim}D array instead, of shape {array.shape}. Reshape your "
                         "data: X.reshape(-1, 1) is one column, X.reshape(1, -1) one sample")
    if array.dtype.kind == "c":
        raise ValueError(f"{what}: Complex data not supported: expected real numbers, found {array.dtype}")
    return None, list(array.T)


class Column:
    def __init__(self, values, name, what="X"):
        self.name = name
        self._place = f"{what}: column {name}"
        self.values, self.missing = _values(values)
        if self.values.ndim != 1:
            raise ValueError(f"{self._place}: expected one value a row, found the shape {self.values.shape}")
        self.kind = self._kind()
        if self.kind == NUMBER and self.values.dtype.kind == "f":
            infinite = np.isinf(self.values)
            if infinite.any():
                raise ValueError(f"{self._place}: expected finite numbers, found infinity in row {int(infinite.argmax())}")

    def __len__(self):
        return len(self.values)

    def _kind(self):
        kind = self.values.dtype.kind
        if kind in "iuf":
            return NUMBER
        if kind in "bUS":
            return CATEGORY
        if kind == "M":
            return DATE
        if kind != "O":
            raise TypeError(f"{self._place}: expected numbers, text or booleans, found {self.values.dtype}")
        present = self.values[~self.missing]
        if len(present) and all(isinstance(value, datetime.date) for value in present):
            return DATE
        wrong = [value for value in present if not isinstance(value, (str, bytes, bool, int, float, np.generic))]
        if wrong:
            joined = "; several values are one text with a separator between them (\"|\".join(values))"
            raise TypeError(f"{self._place}: each value (argument must be a string or a number): expected a string or a "
                            f"number, found {type(wrong[0]).__name__}{joined if hasattr(wrong[0], '__len__') else ''}")
        if not len(present):
            return EMPTY
        return NUMBER if all(_is_number(value) for value in present) else CATEGORY

    def texts(self, kind):
        """A list of str; "" where a value is missing. Dates have the format of a kind "date %Y-%m-%d"; text there is taken as
        it is. Raises ValueError or TypeError if the column is not of that kind."""
        if self.kind == DATE:
            texts = self._dates(kind)
        elif kind == CATEGORY or kind.startswith(DATE):
            texts = [_category(value) for value in self.values.tolist()]
        elif self.kind == CATEGORY:
            row = int((~self.missing).argmax())
            raise ValueError(f"{self._place}: expected numbers, found {self.values.dtype}: {self.values[row]!r} in row {row}")
        elif self.values.dtype.kind == "O":
            texts = [_number(value) if not absent else "" for value, absent in zip(self.values, self.missing)]
        else:
            texts = self.values.astype(str).tolist()  # the shortest that reads back as the same number
        for row in np.flatnonzero(self.missing):
            texts[row] = ""
        return texts

    def expect_no_date(self):
        if self.kind == DATE:
            raise TypeError(f"{self._place}: expected numbers, text or booleans, found {self.values.dtype}: a date needs a format")

    def _dates(self, kind):
        if not kind.startswith(DATE):
            self.expect_no_date()
        form = kind[len(DATE) + 1:]
        values = self.values
        if values.dtype.kind == "M":
            values = values.astype("M8[us]").tolist()
        if "%s" in form:  # seconds since 1970, which Python's strftime takes for local time
            epoch = datetime.datetime(1970, 1, 1)
            return ["" if absent else form.replace("%s", str((_moment(value) - epoch) // datetime.timedelta(seconds=1)))
                    for value, absent in zip(values, self.missing)]
        return ["" if absent else _moment(value).strftime(form)
                for value, absent in zip(values, self.missing)]


def _values(values):
    """(array, where values are missing)"""
    if hasattr(values, "isna") and hasattr(values, "to_numpy"):  # pandas
        missing, kind = values.isna().to_numpy(), getattr(values.dtype, "kind", "O")
        if hasattr(values, "cat") or kind not in "iufbmM":
            return values.astype(object).to_numpy(), missing
        return (values.fillna(0) if missing.any() and kind in "iub" else values).to_numpy(), missing
    if hasattr(values, "fill_null"):  # polars
        missing = values.is_null().to_numpy()
        if values.dtype.is_integer() and missing.any():
            return values.fill_null(0).to_numpy(), missing
        if not (values.dtype.is_float() or values.dtype.is_integer() or values.dtype.is_temporal()):
            return _objects(values.to_list()), missing
        array = values.to_numpy()
    elif hasattr(values, "to_pylist"):  # pyarrow
        array = _objects(values.to_pylist())
    else:
        array = np.asarray(values)
        if array.dtype.kind in "US" and not hasattr(values, "dtype"):
            array = _objects(values)
    if array.dtype.kind == "f":
        return array, np.isnan(array)
    if array.dtype.kind == "M":
        return array, np.isnat(array)
    if array.dtype.kind == "O":
        return array, np.array([value is None or value != value for value in array.tolist()], bool)
    return array, np.zeros(array.shape, bool)


def _objects(values):
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _moment(date):
    """As it is written: a time zone does not count."""
    if isinstance(date, datetime.datetime):
        return date.replace(tzinfo=None)
    return datetime.datetime(date.year, date.month, date.day)


def _is_number(value):
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _number(value):
    return str(value if isinstance(value, (int, np.integer)) else float(value))


def _category(value):
    """A whole number has the same text whatever its type, since pandas makes floats of integers in a column with a missing one."""
    if isinstance(value, bytes):
        return value.decode()
    return str(int(value)) if isinstance(value, (float, np.floating)) and float(value).is_integer() else str(value)


def write_csv(path, columns, separator=",", header=None):
    """columns: lists of str. Lines end in CRLF, because the csv module quotes just the line ends that it writes."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\r\n")
        if header is not None:
            writer.writerow(header)
        writer.writerows(zip(*columns))
