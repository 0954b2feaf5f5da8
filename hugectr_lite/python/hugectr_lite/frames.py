"""Tables of a caller as typed columns: DataFrames of pandas and polars, tables of pyarrow, dicts of arrays, arrays of numbers.
Only methods are called that these objects have; none of the packages is imported.

A column has the type of its values. Missing values are NaN, None, null, NaT and pandas' NA, in columns of every type. What a
value is as a category is decided in C++ (preparation/csv/category_type.h), where the values go as they are."""
import datetime
import decimal

import numpy as np

INTEGER, NUMBER, BOOLEAN, TEXT = "integer", "number", "boolean", "text"  # types of categorical columns in schemas
# Further types of a column: datetime64 or Python's dates; no values, which fit all; lists of values.
DATE, EMPTY, LIST = "date", "no value", "list"
NUMBERS, CATEGORY = "numbers", "text"  # what a model takes a column for; or "date " and a format, "list " and a separator
_ARRAYS = {"i": np.int64, "u": np.uint64, "b": np.bool_}


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

    def find(self, names):
        """The number of the column with the first of these names that there is, or None. Raises ValueError where two columns
        have that name."""
        for name in names:
            places = [i for i, found in enumerate(self.names) if found == name]
            if len(places) > 1:
                raise ValueError(f"frame: expected one column named {name}, found two, columns {places[0]} and {places[1]}")
            if places:
                return places[0]
        return None


def _split(table, what):
    """(names or None, one array a column)"""
    if isinstance(table, dict):
        return list(table), list(table.values())
    if hasattr(table, "iloc") and hasattr(table, "columns"):  # pandas
        return list(table.columns), [column for _, column in table.items()]
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
    """values: of numbers and booleans as they are, else objects; missing: bool [rows]; type: one of those above;
    is_category: the table says so (pandas' category, Arrow's dictionary, polars' Categorical and Enum)."""

    def __init__(self, values, name, what="X"):
        self.name = name
        self._place = f"{what}: column {name}"
        self.values, self.missing, self.is_category = _values(values)
        if self.values.ndim != 1:
            raise ValueError(f"{self._place}: expected one value a row, found the shape {self.values.shape}")
        self.found = getattr(values, "dtype", self.values.dtype)  # for messages
        self.type = self._type()
        if self.values.dtype.kind == "f":
            infinite = np.isinf(self.values)
            if infinite.any():
                raise ValueError(f"{self._place}: expected finite numbers, found infinity in row {int(infinite.argmax())}")

    def __len__(self):
        return len(self.values)

    @property
    def is_number(self):
        """True if it is a feature of numbers where nobody says that it is a category."""
        return self.type in (INTEGER, NUMBER) and not self.is_category

    @property
    def category_type(self):
        """The type for a schema. Raises TypeError for lists. Floats that are whole are integers: pandas makes floats of integers where one is missing."""
        self._expect_no_list()
        if self.type == NUMBER and self.values.dtype.kind == "f":
            present = self.values[~self.missing]
            return INTEGER if (present == np.trunc(present)).all() else NUMBER
        return TEXT if self.type == EMPTY else self.type

    def _type(self):
        kind = self.values.dtype.kind
        if kind in "iufbM":
            return {"f": NUMBER, "b": BOOLEAN, "M": DATE}.get(kind, INTEGER)
        if kind in "US":
            return TEXT
        if kind != "O":
            raise TypeError(f"{self._place}: expected numbers, text or booleans, found {self.values.dtype}")
        present = self.values[~self.missing].tolist()
        kinds = {_kind_of(value) for value in present}
        if None in kinds:
            wrong = next(value for value in present if _kind_of(value) is None)
            raise TypeError(f"{self._place}: each value (argument must be a string or a number): expected a string or a "
                            f"number, found {type(wrong).__name__}")
        for one, name in ((DATE, "dates"), (LIST, "lists")):
            if one in kinds and len(kinds) > 1:
                raise TypeError(f"{self._place}: expected values of one type, found {name} and others")
        if kinds == {INTEGER, NUMBER}:
            return NUMBER
        return kinds.pop() if len(kinds) == 1 else TEXT if kinds else EMPTY

    def native(self, kind, category_type=""):
        """The column as _native takes it, (kind, values, missing), for a model that takes it for `kind`, and its categories
        for `category_type`. Raises ValueError and TypeError if it is not of that kind."""
        missing = np.ascontiguousarray(self.missing) if self.missing.any() else None
        if self.type == EMPTY:
            return "text", [None] * len(self), None
        if self.type == DATE:
            return "text", self._dates(kind), missing
        if self.type == LIST:
            return "text", self._joined(kind), None
        if kind == NUMBERS and self.type not in (INTEGER, NUMBER):
            row = int((~self.missing).argmax())
            raise ValueError(f"{self._place}: expected numbers, found {self.found}: {self.values[row]!r} in row {row}")
        if self.type == BOOLEAN and category_type == TEXT:
            raise TypeError(f"{self._place}: expected text, as in the training data, found {self.found}")
        if self.type == BOOLEAN and not category_type:  # of models of earlier versions
            return "text", [str(bool(value)) for value in self.values.tolist()], missing
        kind = self.values.dtype.kind
        if kind == "O" and self.type in (NUMBER, BOOLEAN):
            filled = np.array([0 if absent else value for value, absent in zip(self.values, self.missing)], object)
            dtype = np.float64 if self.type == NUMBER else np.bool_
            return dtype.__name__.rstrip("_"), filled.astype(dtype), missing
        if kind == "f":
            values = self.values.astype(np.float64 if self.values.dtype.itemsize > 4 else np.float32)
            return values.dtype.name, np.ascontiguousarray(values), missing
        if kind in _ARRAYS:
            return np.dtype(_ARRAYS[kind]).name, np.ascontiguousarray(self.values, _ARRAYS[kind]), missing
        return "text", [None if absent else _text(value) for value, absent in zip(self.values.tolist(), self.missing)], None

    def expect_no_date(self):
        if self.type == DATE:
            raise TypeError(f"{self._place}: expected numbers, text or booleans, found {self.found}: a date needs a format")

    def _expect_no_list(self):
        if self.type == LIST:
            raise TypeError(f"{self._place}: each value (argument must be a string or a number): expected a string or a number, "
                            "found lists, which need a block with a separator and max_values")

    def _joined(self, kind):
        """Lists as the texts that a file would have."""
        if not kind.startswith(LIST):
            self._expect_no_list()
        separator, texts = kind[len(LIST) + 1:], []
        for row, values in enumerate(self.values):
            parts = [] if self.missing[row] else [_text(value) for value in values if value is not None]
            wrong = next((part for part in parts if separator in part), None)
            if wrong is not None:
                raise ValueError(f"{self._place}: expected values without the separator {separator!r}, found {wrong!r} in row {row}")
            texts.append(separator.join(parts))
        return texts

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
    """(array, where values are missing, whether the table calls it a category)"""
    if hasattr(values, "cat") and hasattr(values, "iloc"):  # pandas' category: values of the type of its categories
        categories, missing, _ = _values(values.cat.categories.to_series())
        codes = values.cat.codes.to_numpy()
        if not len(categories):
            return np.full(len(codes), None, object), codes < 0, True
        return categories[codes], (codes < 0) | missing[codes], True
    if hasattr(values, "isna") and hasattr(values, "to_numpy"):  # pandas
        kind = getattr(values.dtype, "kind", "O")
        if isinstance(values.dtype, np.dtype) and kind in "iubf":
            return _of_numpy(values.to_numpy())
        if hasattr(values, "array"):  # a Series, whose own methods take ten times as long for a row
            values = values.array
        missing = np.asarray(values.isna())
        if kind == "f":
            return values.to_numpy(dtype=_float_of(values.dtype), na_value=np.nan), missing, False
        if kind not in "iubmM":
            return np.asarray(values, object), missing, False
        if missing.any() and kind in "iub":
            values = values.fillna(kind != "b" and 0)
        return values.to_numpy(dtype=np.bool_) if kind == "b" else values.to_numpy(), missing, False
    if hasattr(values, "to_pylist"):  # pyarrow
        kind = str(values.type)
        if kind.startswith(("int", "uint", "bool")):
            missing = np.asarray(values.is_null().to_numpy(zero_copy_only=False))
            filled = values.fill_null(False if kind == "bool" else 0)
            return np.asarray(filled.to_numpy(zero_copy_only=False)), missing, False
        if kind in ("float", "double", "halffloat"):
            array = np.asarray(values.to_numpy(zero_copy_only=False))
            return array, np.isnan(array), False
        array = _objects(values.to_pylist())
        return array, _no_value(array), kind.startswith("dictionary")
    if hasattr(values, "fill_null"):  # polars
        missing, dtype = values.is_null().to_numpy(), values.dtype
        if dtype.is_integer() or str(dtype) == "Boolean":
            return values.fill_null(0 if dtype.is_integer() else False).to_numpy(), missing, False
        if dtype.is_float():
            array = values.to_numpy()
            return array, np.isnan(array), False
        if dtype.is_temporal():
            return values.to_numpy(), missing, False
        return _objects(values.to_list()), missing, str(dtype).startswith(("Categorical", "Enum"))
    array = np.asarray(values)
    if array.dtype.kind in "US" and not hasattr(values, "dtype"):
        array = _objects(values)
    return _of_numpy(array)


def _of_numpy(array):
    if array.dtype.kind == "f":
        return array, np.isnan(array), False
    if array.dtype.kind == "M":
        return array, np.isnat(array), False
    if array.dtype.kind == "O":
        return array, _no_value(array), False
    return array, np.zeros(array.shape, bool), False


def _float_of(dtype):
    return np.float32 if getattr(dtype, "itemsize", 8) <= 4 else np.float64


def _no_value(array):
    return np.array([value is None or not hasattr(value, "__len__") and value != value for value in array.ravel().tolist()],
                    bool).reshape(array.shape)


def _objects(values):
    return np.fromiter(values, object, len(values))  # lists of one length would make two dimensions


def _moment(date):
    """As it is written: a time zone does not count."""
    if isinstance(date, datetime.datetime):
        return date.replace(tzinfo=None)
    return datetime.datetime(date.year, date.month, date.day)


def _kind_of(value):
    """The type of a value, or None if no column can have it."""
    if isinstance(value, (bool, np.bool_)):
        return BOOLEAN
    if isinstance(value, (int, np.integer)):
        return INTEGER
    if isinstance(value, (float, np.floating, decimal.Decimal)):
        return NUMBER
    if isinstance(value, (str, bytes)):
        return TEXT
    if isinstance(value, (list, tuple, np.ndarray)):
        return LIST
    return DATE if isinstance(value, (datetime.date, np.datetime64)) else None


def _text(value):
    """Of a value of a column of texts and others: a whole number has the same text whatever its type."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)
