"""What a preparation says to Python: the tokens of a table's rows, and the lines of text that it would read."""
import json
import os
import warnings

import numpy as np

from . import _native
from ._native import ConfigError, DataError
from .arrays import MANY
from .frames import CATEGORY, NUMBER, Frame, write_csv

OTHER = None  # the token of the row for missing, rare and unseen categories


def embeddings(native, weights, column, layer):
    """(tokens, vectors [rows, V]) of the table that a key column looks up."""
    manifest, names = native.prepared
    if not manifest:
        raise ConfigError("embeddings: expected training data with a manifest, which names the columns; found none")
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
    first, texts = _native.categories(os.path.dirname(manifest), slot)
    known = [OTHER] * first + texts
    return [known[i] if i < len(known) else OTHER for i in ids.tolist()], np.array(vectors)


def inputs_of(schema):
    """{number or header name of a column of the lines: ([names for it, the schema's first], kind as Column.texts() takes it)},
    those of numbers first. A column that is a number here and text there is text, one with a date a date."""
    inputs = {}
    for name, place, kind in _native.csv_inputs(json.dumps(schema)):
        name = str(place) if name == f"column {place}" else name
        names, before = inputs.get(place, ([name, place] if isinstance(place, str) and name != place else [name], NUMBER))
        ranks = {NUMBER: 0, CATEGORY: 1}
        inputs[place] = names + [name] * (name not in names), max(before, kind, key=lambda k: ranks.get(k, 2))
    return inputs


class FrameText:
    """How the rows of a DataFrame become the lines that csv_prep's schema describes."""

    def __init__(self, folder):
        path = os.path.join(folder, "manifest.json")
        with open(path, encoding="utf-8") as file:
            manifest = json.load(file)
        if not manifest["tool"].startswith("csv_prep"):
            raise DataError(f"{path}: expected a preparation by csv_prep, whose columns have names; found {manifest['tool']}")
        schema = manifest["options"]["schema"]
        self.inputs = inputs_of(schema)
        self.header, self.separator = schema.get("header", False), schema.get("separator", ",")
        self.trim = schema.get("trim", False)
        self.label = schema["label"]
        self.weight = schema.get("weight")
        self.columns = [(name, place, NUMBER if kind == NUMBER else CATEGORY)
                        for place, ((name, *_), kind) in self.inputs.items()]

    def write(self, table, path):
        """Writes the lines, with a label and a weight that do not count. Returns how many."""
        frame = Frame(table, "frame")
        if frame.names is None:
            expected = ", ".join(names[0] for names, _ in self.inputs.values())
            raise DataError(f"frame: expected columns with names ({expected}), found none")
        missing = [names[0] for names, _ in self.inputs.values() if not set(names) & set(frame.names)]
        if missing:
            raise DataError(f"frame: expected the columns of the training data, found none named {', '.join(missing)}")
        found = {place: next(name for name in names if name in frame.names) for place, (names, _) in self.inputs.items()}
        texts = {place: frame.columns[frame.names.index(found[place])].texts(kind)
                 for place, (_, kind) in self.inputs.items()}
        texts[self.label["column"]] = ["0" if self.label.get("real") else str(self.label["positive"][0])] * frame.rows
        if self.weight:
            texts[self.weight["column"]] = ["1"] * frame.rows
        if self.header:
            write_csv(path, texts.values(), self.separator, header=list(texts))
        else:
            width = 1 + max(texts)
            write_csv(path, [texts.get(i, [""] * frame.rows) for i in range(width)], self.separator)
        return frame.rows


def warn_if_unknown(names, present, unknown):
    """Warns of columns without a single known category."""
    columns = [name for name, there, not_known in zip(names, present, unknown) if not_known == there >= MANY]
    if columns:
        warnings.warn(f"frame: {', '.join(columns)}: no value is one that the model was trained on", stacklevel=3)
