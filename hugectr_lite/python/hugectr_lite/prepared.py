"""What a preparation says to Python: the tokens of a table's rows, and the columns that it would read."""
import json
import os
import re
import warnings

import numpy as np

from . import _native, arrays
from ._native import ConfigError, DataError
from .arrays import MANY
from .frames import CATEGORY, LIST, NUMBERS, Frame

OTHER = None  # the token of the row for missing, rare and unseen categories


def embeddings_of_training(native, weights, column, layer):
    """embeddings() of a native Trainer."""
    manifest, names = native.prepared
    if not manifest:
        raise ConfigError("embeddings: expected training data with a manifest, which names the columns; found none")
    return embeddings(native, weights, os.path.dirname(manifest), names, column, layer)


def embeddings_of_categories(native, folder, column, layer):
    """(tokens: object array [rows] of str, vectors float32 [rows, V]) of a native Predictor and its preparation: of the
    categories that came in training."""
    weights = {name: arrays.of_native(array) for name, array in native.weights().items()}
    tokens, vectors = embeddings(native, weights, folder, native.column_names["keys"], column, layer)
    rows = [row for row, token in enumerate(tokens) if token is not OTHER]
    return np.array([tokens[row] for row in rows], object), vectors[rows]


def embeddings(native, weights, folder, names, column, layer):
    """(tokens, vectors [rows, V]) of the table that a key column looks up. folder: of the preparation; names: its key
    columns."""
    if column not in names:
        raise ConfigError(f"embeddings: expected a column ({', '.join(names)}), found {column!r}")
    slot = names.index(column)
    found = [(name, table) for name, table, of in native.embedding_slots if of == slot and layer in (None, name)]
    if len(found) != 1:
        raise ConfigError(f"embeddings: expected one layer that looks up {column}, found "
                          f"{', '.join(name for name, _ in found) or 'none'}: pass layer")
    name = "{}.table_{}".format(*found[0])
    vectors = weights[name]
    keys = weights.get(name + ".keys")
    ids = np.arange(len(vectors)) if keys is None else keys.astype(np.int64).reshape(-1)
    first, texts = _native.categories(folder, slot)
    known = [OTHER] * first + texts
    return [known[i] if i < len(known) else OTHER for i in ids.tolist()], np.array(vectors)


class Input:
    """A column that a model reads. names: those that it may have in a table, the best first; kind: as Column.native() takes it,
    that of categories where it is a number in one feature and a category in another; type: of the categories."""

    def __init__(self, names, kind, category_type):
        self.names, self.kind, self.type = names, kind, category_type

    def native(self, column):
        return column.native(self.kind, self.type)


def inputs_of(uses, schema, header=()):
    """{place among the columns of the training file: Input} of what _native says of a schema, those of numbers first.
    header: names of the columns of the training file."""
    ranks, inputs = {NUMBERS: 0, CATEGORY: 1}, {}
    for names, place, kind, category_type in uses:
        found = inputs.setdefault(place, Input([], kind, category_type))
        found.names += [name for name in names if name not in found.names]
        found.kind = max(found.kind, kind, key=lambda k: ranks.get(k, 2))
        found.type = found.type or category_type
    for block in schema["categorical"]:
        if "separator" in block:
            column = block["column"]
            inputs[header.index(column) if isinstance(column, str) else column].kind = f"{LIST} {block['separator']}"
    return inputs


class TableText:
    """What csv_prep's schema says of the columns, for tables that have them by name.

    inputs: as inputs_of(); header: names of the columns of the training file, or []; label: the schema's block."""

    def __init__(self, native, folder):
        with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        schema = manifest["options"]["schema"]
        self.header = manifest["features"].get("header", [])
        self.inputs = inputs_of(native.table_inputs, schema, self.header)
        self.width = native.table_width
        self.separator, self.trim, self.label = schema.get("separator", ","), schema.get("trim", False), schema["label"]
        comment = schema.get("comment", [])
        self.comment = tuple([comment] if isinstance(comment, str) else comment)

    def columns(self, table):
        """The columns of a table as _native takes them. Raises DataError, ValueError and TypeError."""
        frame = Frame(table, "frame")
        if frame.names is None:
            expected = ", ".join(input.names[0] for input in self.inputs.values())
            raise DataError(f"frame: expected columns with names ({expected}), found none")
        places = {place: frame.find(input.names) for place, input in self.inputs.items()}
        missing = [self.inputs[place].names[0] for place, found in places.items() if found is None]
        if missing:
            raise DataError(f"frame: expected the columns of the training data, found none named {', '.join(missing)}")
        return self.placed({place: self.inputs[place].native(frame.columns[found]) for place, found in places.items()})

    def placed(self, columns):
        """A list of all columns of the training file, of which these are there."""
        return [columns.get(place, ("none", None, None)) for place in range(self.width)]


def score(native, columns):
    """native.predict_table(), whose errors name the columns of a frame by their names alone."""
    try:
        return native.predict_table(columns)
    except DataError as error:
        raise DataError(re.sub(r"column \d+ \((.*?)\): ", r"column \1: ", str(error))) from None


def warn_if_unknown(names, present, unknown, what="frame", stacklevel=3):
    """Warns of columns without a single known category."""
    columns = [name for name, there, not_known in zip(names, present, unknown) if not_known == there >= MANY]
    if columns:
        warnings.warn(f"{what}: {', '.join(columns)}: no value is one that the model was trained on",
                      stacklevel=stacklevel)
