"""A scikit-learn estimator for tables with text columns, trained and served by what csv_prep, train and predict are made
of. Works without scikit-learn as well."""
import csv
import json
import os
import re
import tempfile
import warnings
import weakref

import numpy as np

from . import Trainer, _native, arrays
from ._native import DataError
from .frames import DATE, Frame
from .prepared import inputs_of, score, warn_if_unknown

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.exceptions import DataConversionWarning, NotFittedError
except ImportError:
    from .estimator_base import BaseEstimator, ClassifierMixin, DataConversionWarning, NotFittedError

_LEAST_ROWS = 1000  # of a table from which validation rows are taken
_CONSTANT = "constant"  # the category of a table without categories: models need an embedding
_PREDICTORS = weakref.WeakKeyDictionary()  # by estimator: (process, its model's files, Predictor)


class Classifier(ClassifierMixin, BaseEstimator):
    """A model for two classes, of a table of numbers and categories.

    X is a DataFrame of pandas or polars, a table of pyarrow, a dict of arrays or an array [n, features]. Columns of numbers
    are dense features, columns of text and booleans are categories; missing values are allowed in both, and categories that
    training did not see share the row of missing ones. csv_prep's own code makes ids and features, so that save() gives a
    checkpoint with which `predict` and `serve` score lines of text to the same bits.

    model: dlrm, dcnv2, deepfm, wdl or dcn (hl.models). categorical: names or numbers of columns of numbers that are
    categories. transforms: of numbers, csv_prep's (none, log1p, standardize, log1p_standardize), for all or {column: transform};
    columns that the dict lacks are standardized. columns: features as blocks of csv_prep's
    schema, {"dense": [...], "categorical": [...]}, whose "column" is a name or number of X: buckets, quantiles, dates,
    crosses, clipping (docs/data.md). Columns of X in them become no features of their own. min_count: rarer categories share the row of missing ones. epochs,
    batch_size, learning_rate: in place of the first config's. validation_fraction: of the rows, held out to stop early where
    fit() gets no eval_set and there are 1,000 rows; 0: none. class_weight: "balanced", or {class: weight}, multiplies the
    weights of a class's rows, as in scikit-learn; the probabilities shift with it. set: further changes of the config,
    {path: value}. device,
    threads, progress: as Trainer's. random_state: of initial values, order of samples, dropout and validation rows; the same
    one gives the same model, bit for bit, on the same number of threads.

    After fit(): classes_ [2], n_features_in_, feature_names_in_ if columns have names, history_ (what Trainer.train()
    yields), config_ (the config as trained). Raises ValueError and TypeError for samples, hl.Error for the rest."""

    def __init__(self, model="dcnv2", *, categorical=None, transforms="standardize", columns=None, min_count=1, epochs=None,
                 batch_size=None, learning_rate=None, validation_fraction=0.1, class_weight=None, set=None, device="auto",
                 threads=0, random_state=None, progress=False):
        self.model = model
        self.categorical = categorical
        self.transforms = transforms
        self.columns = columns
        self.min_count = min_count
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.set = set
        self.device = device
        self.threads = threads
        self.random_state = random_state
        self.progress = progress

    def fit(self, X, y, eval_set=None, sample_weight=None):
        """Trains anew. eval_set: (X, y), or (X, y, sample_weight), or a list of one such tuple, whose AUC stops training
        early: the weights of the best evaluation count. sample_weight: [rows] of how much each row counts in the loss and in
        the AUC; rows of weight 0 are left out, and the others are divided by their mean. Returns self."""
        if self.model not in _native.first_config_models():
            raise ValueError(f"model: expected one of {', '.join(_native.first_config_models())}, found {self.model!r}")
        frame = Frame(X)
        _expect_rows(frame)
        labels = _labels(y, frame.rows)
        weights = _weights(sample_weight, frame.rows)
        kept = np.arange(frame.rows) if weights is None else np.flatnonzero(weights)
        classes = np.unique(labels[kept])
        targets = (labels == classes[-1]).astype(int)
        if len(classes) != 2:
            known = "Only binary classification is supported: " if len(classes) > 2 else ""
            raise ValueError(f"{known}expected two classes in y, found {len(classes)} class" +
                             ("es" if len(classes) > 2 else f" ({classes.tolist()[0]!r})"))
        weights = self._class_weighted(weights, targets, classes, kept)
        schema = self._schema(frame)
        random = _random(self.random_state)
        seed = int(random.randint(1, 2**31 - 1))  # 0 would draw one
        train, val = (frame, targets, kept, weights), None
        if eval_set is not None:
            val = self._pair(eval_set, frame, classes)
            if val[3] is not None and weights is None:
                train = (frame, targets, kept, np.ones(frame.rows))
        elif self._holds_out(targets[kept]):
            held = _stratified(targets[kept], self.validation_fraction, random)
            train, val = (frame, targets, kept[~held], weights), (frame, targets, kept[held], weights)
        self._weighted = train[3] is not None
        self.n_features_in_ = len(frame.columns)
        self.__dict__.pop("feature_names_in_", None)
        if frame.names is not None:
            self.feature_names_in_ = np.asarray(frame.names, object)
        inputs = inputs_of(_native.csv_inputs(json.dumps(schema)))
        self._kinds = [inputs[1 + i].kind for i in range(len(frame.columns))]
        self._types = [inputs[1 + i].type for i in range(len(frame.columns))]
        self._constant = 1 + len(frame.columns) in inputs
        if self._weighted:
            schema = {**schema, "weight": {"column": 1 + len(frame.columns) + self._constant}}
        self.classes_ = classes
        with tempfile.TemporaryDirectory(prefix="hugectr_lite_") as folder:
            self._train(folder, schema, train, val, seed)
        return self

    def _train(self, folder, schema, train, val, seed):
        place = lambda name: os.path.join(folder, name)  # noqa: E731
        with open(place("schema.json"), "w", encoding="utf-8") as file:
            json.dump(schema, file)
        self._write(place("train.csv"), *train)
        if val is not None:
            self._write(place("val.csv"), *val)
        try:
            _native.csv_prep(place("schema.json"), place("train.csv"), place("val.csv") if val is not None else "",
                             place("data"), self.min_count, self.model, self.threads)
        except DataError as error:
            rows = {place("train.csv"): ("X", train[2]), place("val.csv"): ("X" if val and val[0] is train[0] else "eval_set",
                                                                             val and val[2])}
            raise DataError(_words_of_frame(str(error), rows)) from None
        with open(place(f"data/{self.model}.json"), encoding="utf-8") as file:
            self.config_ = json.load(file)
        changes = {"solver.seed": seed, "solver.num_epochs": self.epochs, "solver.batchsize": self.batch_size,
                   "optimizer.adam_hparam.learning_rate": self.learning_rate, **(self.set or {})}
        changes = {path: value for path, value in changes.items() if value is not None}
        trainer = Trainer(place(f"data/{self.model}.json"), set=changes, device=self.device, threads=self.threads,
                          with_preparation=True)
        self.history_ = list(trainer.train(progress=self.progress))
        trainer.save(place("model"))
        self._files = _read_files(place("model"))
        _PREDICTORS.pop(self, None)

    def predict_proba(self, X):
        """float64 [n, 2]: the probability of each of classes_."""
        if not hasattr(self, "_files"):
            raise NotFittedError(f"{type(self).__name__}: expected a fitted estimator, found one on which fit() was not called")
        frame = Frame(X)
        self._check_columns(frame)
        _expect_rows(frame)
        columns = [("none", None, None)] + self._native_columns(frame) + [("none", None, None)] * self._weighted
        predictor = self._predictor()
        scores, present, unknown = score(predictor, columns)
        warn_if_unknown(predictor.column_names["keys"], present, unknown, "X")
        positive = arrays.of_native(scores).astype(np.float64)
        return np.stack([1 - positive, positive], 1)

    def predict(self, X):
        """[n]: the class with the larger probability."""
        positive = self.predict_proba(X)[:, 1]
        return self.classes_[(positive > 0.5).astype(int)]

    def save(self, directory):
        """Writes the checkpoint, which `predict --model`, `serve` and hl.Predictor take. Their lines of text have the label
        (0 or 1), which may be left out, then the columns of X."""
        if not hasattr(self, "_files"):
            raise NotFittedError(f"{type(self).__name__}: expected a fitted estimator, found one on which fit() was not called")
        if os.path.exists(directory):
            raise FileExistsError(f"save: expected a new directory, found {os.fspath(directory)}")
        _write_files(directory, self._files)

    def _predictor(self):
        process, files, predictor = _PREDICTORS.get(self, (None, None, None))
        if process == os.getpid() and files is self._files:
            return predictor
        with tempfile.TemporaryDirectory(prefix="hugectr_lite_") as folder:
            _write_files(os.path.join(folder, "model"), self._files)
            predictor = _native.Predictor(os.path.join(folder, "model"), "", "", [], self.device, self.threads, 8192)
            predictor.open_preparation("", True)
        _PREDICTORS[self] = os.getpid(), self._files, predictor
        return predictor

    def _schema(self, frame):
        """The schema of the lines that _write() makes."""
        given = {} if self.columns is None else self.columns
        unknown = [key for key in given if key not in ("dense", "categorical")]
        if unknown:
            raise ValueError(f"columns: expected \"dense\" and \"categorical\", found {unknown[0]!r}")
        used = set()
        blocks = {key: [self._block(block, frame, used, key == "categorical") for block in given.get(key, ())]
                  for key in ("dense", "categorical")}
        chosen = self._columns_of(self.categorical, frame, "categorical")
        transforms = self.transforms if isinstance(self.transforms, dict) else {}
        of_column = dict(zip(self._columns_of(list(transforms), frame, "transforms"), transforms.values()))
        default = "standardize" if isinstance(self.transforms, dict) else self.transforms
        dense, categorical = [], []
        for i, column in enumerate(frame.columns):
            if i in used:
                continue
            column.expect_no_date()
            block = {"column": 1 + i, "name": column.name}
            if i in chosen or not column.is_number:
                categorical.append({**block, "type": column.category_type})
            else:
                dense.append({**block, "transform": of_column.get(i, default)})
        dense += blocks["dense"]
        categorical += blocks["categorical"]
        if not categorical:
            name = _CONSTANT
            while name in frame.labels:
                name += "_"
            categorical = [{"column": 1 + len(frame.columns), "name": name, "type": "text"}]
        return {"label": {"column": 0, "positive": ["1"], "negative": ["0"]}, "dense": dense, "categorical": categorical}

    def _block(self, block, frame, used, is_category):
        """A block of a schema with places of lines for columns of X, which are added to `used`."""
        block = dict(block)
        if "column" in block:
            column, = self._columns_of([block["column"]], frame, "columns")
            used.add(column)
            block.update(column=1 + column, name=block.get("name", frame.labels[column]))
            if is_category and not {"type", "buckets", "quantiles", DATE, "separator"} & block.keys():
                block["type"] = frame.columns[column].category_type
        date = block.get("date")
        if isinstance(date, dict) and isinstance(date.get("since"), dict):
            block["date"] = {**date, "since": self._block(date["since"], frame, used, False)}
        if "cross" in block:
            block["cross"] = [self._block(one, frame, used, True) if isinstance(one, dict) else one for one in block["cross"]]
        return block

    @staticmethod
    def _columns_of(columns, frame, what):
        """Numbers of columns that are given by name or number."""
        if isinstance(columns, str):
            raise ValueError(f"{what}: expected a list of columns, found {columns!r}")
        numbers = []
        for column in () if columns is None else columns:
            if isinstance(column, str) and column in frame.labels:
                numbers.append(frame.labels.index(column))
            elif not isinstance(column, str) and 0 <= column < len(frame.columns):
                numbers.append(int(column))
            else:
                raise ValueError(f"{what}: expected columns of X ({', '.join(frame.labels)}), found {column!r}")
        return numbers

    def _holds_out(self, targets):
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(f"validation_fraction: expected a share in [0, 1), found {self.validation_fraction}")
        return len(targets) >= _LEAST_ROWS and np.bincount(targets).min() * self.validation_fraction >= 1

    def _class_weighted(self, weights, targets, classes, kept):
        """The weights times those of the classes, of mean 1 over the kept rows; None: all are 1."""
        of_class = self.class_weight
        if of_class is None and weights is None:
            return None
        if isinstance(of_class, str):
            if of_class != "balanced":
                raise ValueError(f'class_weight: expected "balanced", a dict or None, found {of_class!r}')
            factors = len(kept) / 2 / np.bincount(targets[kept], minlength=2)
        else:
            known = dict(of_class or {})
            unknown = [name for name in known if name not in classes.tolist()]
            if unknown:
                raise ValueError(f"class_weight: expected the classes {classes.tolist()}, found {unknown[0]!r}")
            factors = np.array([known.get(name, 1) for name in classes.tolist()], float)
        if not (np.isfinite(factors) & (factors > 0)).all():
            raise ValueError(f"class_weight: expected weights above 0, found {factors.tolist()}")
        weights = factors[targets] * (1 if weights is None else weights)
        return weights / weights[kept].mean()

    def _pair(self, eval_set, trained_on, classes):
        pairs = [eval_set] if isinstance(eval_set, tuple) else list(eval_set)
        if len(pairs) != 1 or len(pairs[0]) not in (2, 3):
            raise ValueError(f"eval_set: expected (X, y), (X, y, sample_weight) or a list of one such tuple, found "
                             f"{len(pairs)} of them")
        frame = Frame(pairs[0][0], "eval_set")
        if frame.names != trained_on.names or len(frame.columns) != len(trained_on.columns):
            raise ValueError(f"eval_set: expected the columns of X ({', '.join(trained_on.labels)}), found "
                             f"{', '.join(frame.labels)}")
        labels = _labels(pairs[0][1], frame.rows, "eval_set: y")
        _expect_rows(frame, "eval_set")
        if not np.array_equal(np.unique(labels), classes):
            raise ValueError(f"eval_set: expected the classes {classes.tolist()}, found {np.unique(labels).tolist()}")
        weights = _weights(pairs[0][2] if len(pairs[0]) == 3 else None, frame.rows, "eval_set: sample_weight")
        return frame, np.searchsorted(classes, labels), np.arange(frame.rows), weights

    def _check_columns(self, frame):
        """In the words of scikit-learn, which its own checks look for."""
        known = getattr(self, "feature_names_in_", None)
        name = type(self).__name__
        if known is not None and frame.names is not None and list(known) != frame.names:
            found, expected = set(frame.names), set(known)
            text = "The feature names should match those that were passed during fit.\n"
            for words, names in (("unseen at fit time", found - expected), ("seen at fit time, yet now missing", expected - found)):
                if names:
                    text += f"Feature names {words}:\n" + "".join(f"- {name}\n" for name in sorted(names))
            if found == expected:
                text += "Feature names must be in the same order as they were in fit.\n"
            raise ValueError(text)
        if len(frame.columns) != self.n_features_in_:
            raise ValueError(f"X has {len(frame.columns)} features, but {name} is expecting {self.n_features_in_} features as "
                             "input")
        if known is not None and frame.names is None:
            warnings.warn(f"X does not have valid feature names, but {name} was fitted with feature names", stacklevel=3)
        elif known is None and frame.names is not None:
            warnings.warn(f"X has feature names, but {name} was fitted without feature names", stacklevel=3)

    def _native_columns(self, frame):
        """The columns of X, and a constant where none is of categories."""
        columns = [column.native(kind, of) for column, kind, of in zip(frame.columns, self._kinds, self._types)]
        return columns + [("text", ["1"] * frame.rows, None)] * self._constant

    def _write(self, path, frame, targets, rows, weights):
        """The lines of these rows: label, columns, and the weight if the model has weights."""
        columns = [("int64", np.ascontiguousarray(targets, np.int64), None)] + self._native_columns(frame)
        if self._weighted:
            weights = np.ones(frame.rows) if weights is None else weights
            columns.append(("float64", np.ascontiguousarray(weights, np.float64), None))
        _native.write_table(path, columns, np.ascontiguousarray(rows, np.int64))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def _labels(y, rows, what="y"):
    """[rows] of classes."""
    if y is None:
        raise ValueError(f"{what}: expected labels: this estimator requires y to be passed, but the target y is None")
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        warnings.warn(f"A column-vector y was passed when a 1d array was expected: {what}: its one column is taken",
                      DataConversionWarning, stacklevel=4)
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"{what}: expected a 1d array of labels, found bad input shape {labels.shape}")
    if len(labels) != rows:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: expected a label for each of {rows} "
                         f"rows, found {len(labels)} in {what}")
    if labels.dtype.kind == "O" and all(isinstance(v, (int, float, np.number)) for v in labels.tolist()):
        labels = labels.astype(float) if any(isinstance(v, float) for v in labels.tolist()) else labels.astype(int)
    if labels.dtype.kind == "f":
        for wrong, word in ((np.isnan(labels), "NaN"), (np.isinf(labels), "infinity")):
            if wrong.any():
                raise ValueError(f"{what}: Input y contains {word}: expected a class in each row, found {word} in row "
                                 f"{int(wrong.argmax())}")
        if (labels != np.round(labels)).any():
            raise ValueError(f"{what}: Unknown label type: continuous: expected two classes, found "
                             f"{labels[(labels != np.round(labels)).argmax()]}")
    elif labels.dtype.kind == "O":
        for row, value in enumerate(labels.tolist()):
            if not isinstance(value, (str, bytes, bool)):
                raise ValueError(f"{what}: Input y contains NaN or mixed types: expected a class in each row, found {value!r} "
                                 f"in row {row}")
    return labels


def _weights(sample_weight, rows, what="sample_weight"):
    """float64 [rows], or None."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, float)
    if weights.ndim != 1:
        raise ValueError(f"{what}: Sample weights must be 1D array or scalar: expected one weight a row, found the shape "
                         f"{weights.shape}")
    if len(weights) != rows:
        raise ValueError(f"{what}: expected a weight for each of {rows} rows, found {len(weights)}")
    wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if wrong.size:
        raise ValueError(f"{what}: expected finite weights >= 0, found {weights[wrong[0]]} in row {wrong[0]}")
    if not weights.any():
        raise ValueError(f"{what}: expected a weight above 0, found zero in all {rows} rows")
    return weights


def _expect_rows(frame, what="X"):
    if not frame.columns:
        raise ValueError(f"{what}: 0 feature(s) (shape=({frame.rows}, 0)) while a minimum of 1 is required.")
    if frame.rows == 0:
        raise ValueError(f"{what}: 0 sample(s) (shape=(0, {len(frame.columns)})) while a minimum of 1 is required.")


def _random(state):
    if hasattr(state, "randint"):
        return state
    if isinstance(state, np.random.Generator):
        state = int(state.integers(2**31))
    return np.random.RandomState(state)


def _stratified(targets, share, random):
    """bool [n]: that share of each class's rows."""
    held = np.zeros(len(targets), bool)
    for target in (0, 1):
        rows = np.flatnonzero(targets == target)
        held[random.permutation(rows)[:max(1, round(share * len(rows)))]] = True
    return held


def _words_of_frame(message, tables):
    """Of an error about a file of lines, {path: (name of the table, its rows)}: the row and the column of the table."""
    found = re.match(r"(?P<path>.*?):(?P<line>\d+): (?P<words>.*)", message, re.DOTALL)
    if not found or found["path"] not in tables:
        return message
    what, rows = tables[found["path"]]
    with open(found["path"], encoding="utf-8", newline="") as file:
        lines, row = csv.reader(file), 0
        while next(lines, None) is not None and lines.line_num < int(found["line"]):
            row += 1
    return f"{what}: row {rows[row]}: " + re.sub(r"column \d+ \((.*?)\): ", r"column \1: ", found["words"])


def _read_files(folder):
    """{path in the folder: bytes}"""
    files = {}
    for at, _, names in os.walk(folder):
        for name in sorted(names):
            with open(os.path.join(at, name), "rb") as file:
                files[os.path.relpath(os.path.join(at, name), folder)] = file.read()
    return files


def _write_files(folder, files):
    for name, content in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
