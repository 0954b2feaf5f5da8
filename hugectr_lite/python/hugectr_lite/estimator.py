"""What Classifier and Regressor share: scikit-learn's estimators for tables with text columns, trained and served by what
csv_prep, train and predict are made of. They work without scikit-learn as well."""
import csv
import json
import os
import re
import tempfile
import warnings
import weakref

import numpy as np

from . import Trainer, _changes, _native, arrays
from ._native import DataError
from .frame_schema import schema_of
from .frames import Frame
from .importances import Rows, permutation_importances
from .prepared import embeddings_of_categories, inputs_of, score, warn_if_unknown

try:
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import DataConversionWarning, NotFittedError
except ImportError:
    from .estimator_base import BaseEstimator, DataConversionWarning, NotFittedError

_LEAST_ROWS = 1000  # of a table from which validation rows are taken
_DECAY = ("decay_start", "decay_steps", "end_lr")  # of a tuned model's rates, which are spent once it is trained
_PREDICTORS = weakref.WeakKeyDictionary()  # by estimator: (process, its model's files, Predictor)


class _TableEstimator(BaseEstimator):
    """A subclass has the constructor, _LABEL (the block of the label in csv_prep's schema), _loss() of importances, and says
    what its labels mean: _read_labels(), _eval_labels(), _weigh(), _can_hold_out(), _held()."""

    def _keep(self, parameters):
        """The constructor's parameters as attributes, as scikit-learn wants them."""
        for name, value in parameters.items():
            if name != "self":
                setattr(self, name, value)

    def fit(self, X, y, eval_set=None, sample_weight=None, callbacks=None):
        """Trains anew, or with warm_start from the weights of the fit before. Returns self.

        X: a table [rows]; y: [rows]. eval_set: (X, y), or (X, y, sample_weight), or a list of one such tuple, whose loss stops
        training early: the weights of the best evaluation count. sample_weight: [rows] of how much each row counts in the loss
        and in the metrics; rows of weight 0 are left out, and the others are divided by their mean. callbacks: functions of an
        evaluation's dict, as those of Trainer.train(): one that returns True ends training. Raises ValueError and TypeError
        for samples, hl.Error for the rest."""
        goes_on = bool(self.warm_start) and hasattr(self, "_files")
        return self._fit(X, y, eval_set, sample_weight, callbacks, goes_on)

    def _fit(self, X, y, eval_set, sample_weight, callbacks, goes_on, *, one_pass=False, classes=None):
        """goes_on: from the weights, categories and transforms of the fit before; one_pass: over these rows, all of them for
        training; classes: of a Classifier's labels, of which y may lack some. One that fails leaves the model as it was."""
        before = dict(self.__dict__)
        try:
            self._fit_table(X, y, eval_set, sample_weight, callbacks, goes_on, one_pass, classes)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _fit_table(self, X, y, eval_set, sample_weight, callbacks, goes_on, one_pass, classes):
        models = [model for model in _native.first_config_models() if not _native.has_tasks(model)]
        if self.model not in models:
            raise ValueError(f"model: expected one of {', '.join(models)}, found {self.model!r}")
        frame = Frame(X)
        if goes_on:
            self._expect_same(frame)
            classes = getattr(self, "classes_", None)
        _expect_rows(frame)
        weights = _weights(sample_weight, frame.rows)
        kept = np.arange(frame.rows) if weights is None else np.flatnonzero(weights)
        targets, classes = self._read_labels(y, frame.rows, kept, classes)
        weights = self._weigh(weights, targets, classes, kept)
        val = None if eval_set is None else self._pair(eval_set, frame, classes)
        weighted = weights is not None or val is not None and val[2] is not None
        if not goes_on:
            self._take_columns(frame, weighted)
        elif weighted and not self._weighted:
            raise ValueError("sample_weight: expected none, as in the fit that this one goes on from, found weights")
        random = _random(self.random_state)
        seed = int(random.randint(1, 2**31 - 1))  # 0 would draw one
        columns = self._native_columns(frame)
        train, held_out = Rows(columns, targets, weights, kept), None
        if val is not None:
            held_out = Rows(self._native_columns(val[0]), *val[1:], np.arange(val[0].rows))
        elif not one_pass and self._holds_out(targets[kept]):
            held = self._held(targets[kept], random)
            train, held_out = (Rows(columns, targets, weights, rows) for rows in (kept[~held], kept[held]))
        with tempfile.TemporaryDirectory(prefix="hugectr_lite_") as folder:
            self._train(folder, train, held_out, "X" if val is None else "eval_set", None if goes_on else seed,
                        1 if one_pass else self.epochs, callbacks)
        if classes is not None:
            self.classes_ = classes
        self._held_out = None if held_out is None else held_out.sample()
        self.__dict__.pop("_importances", None)

    def _take_columns(self, frame, weighted):
        """What a new model learns of the columns of X before it trains."""
        schema = schema_of(frame, self._LABEL, self.categorical, self.transforms, self.columns)
        self._weighted = weighted
        self.n_features_in_ = len(frame.columns)
        self.__dict__.pop("feature_names_in_", None)
        if frame.names is not None:
            self.feature_names_in_ = np.asarray(frame.names, object)
        inputs = inputs_of(_native.csv_inputs(json.dumps(schema)), schema)
        self._kinds = [inputs[1 + i].kind for i in range(len(frame.columns))]
        self._types = [inputs[1 + i].type for i in range(len(frame.columns))]
        self._constant = 1 + len(frame.columns) in inputs
        if weighted:
            schema["weight"] = {"column": 1 + len(frame.columns) + self._constant}
        self._schema, self._shape = schema, self._shape_parameters()

    def _shape_parameters(self):
        """Parameters that decide tables and layers, as text: going on needs the same."""
        return {name: repr(getattr(self, name)) for name in ("model", "categorical", "transforms", "columns", "min_count")}

    def _expect_same(self, frame):
        """Raises ValueError where a model cannot go on with these columns and parameters."""
        for name, found in self._shape_parameters().items():
            if found != self._shape[name]:
                raise ValueError(f"{name}: expected {self._shape[name]}, as in the fit that this one goes on from, found {found}")
        self._check_columns(frame)

    def _train(self, folder, train, held_out, held_of, seed, epochs, callbacks):
        """held_of: the table that held_out comes from; seed: of a new model, None: goes on from the one that there is."""
        place = lambda name: os.path.join(folder, name)  # noqa: E731
        train.write(place("train.csv"), self._weighted)
        if held_out is not None:
            held_out.write(place("val.csv"), self._weighted)
        if seed is None:
            _write_files(place("before"), self._files)
        else:
            with open(place("schema.json"), "w", encoding="utf-8") as file:
                json.dump(self._schema, file)
        before = place("before") if seed is None else None
        try:
            _native.csv_prep("" if before else place("schema.json"), place("train.csv"),
                             place("val.csv") if held_out is not None else "", place("data"), self.min_count, self.model,
                             self.threads, place("before/preparation") if before else "")
        except DataError as error:
            raise DataError(_words_of_frame(str(error), {place("train.csv"): ("X", train), place("val.csv"): (held_of, held_out)})
                            ) from None
        path = place(f"data/{self.model}.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        if before:  # the model as it is, with epochs and evaluations for these rows
            seed, known = self._seed, self.config_
            optimizer = {name: {key: value for key, value in block.items() if key not in _DECAY} if isinstance(block, dict) else block
                         for name, block in known["optimizer"].items()}
            config = {**known, "optimizer": optimizer, "solver": {**config["solver"], "batchsize": known["solver"]["batchsize"]},
                      "layers": config["layers"][:1] + known["layers"][1:]}
            with open(path, "w", encoding="utf-8") as file:
                json.dump(config, file)
        changes = {"solver.seed": seed, "solver.num_epochs": epochs, "solver.batchsize": self.batch_size,
                   "optimizer.adam_hparam.learning_rate": self.learning_rate, **(self.set or {})}
        changes = {path: value for path, value in changes.items() if value is not None}
        trials = None
        if self.tune and before is None:
            changes, trials = {}, self._tune(path, changes, held_out)
        trainer = Trainer(path, set=changes, device=self.device, threads=self.threads, resume=before, grow=before is not None,
                          with_preparation=True)
        if before:
            trainer._trainer.restart_rates()
        history = list(trainer.train(progress=self.progress, callbacks=callbacks))
        trainer.save(place("model"))
        if before is None:
            self.__dict__.pop("trials_", None)
        if trials is not None:
            self.trials_ = trials
            with open(path, encoding="utf-8") as file:
                config = json.load(file)
        self.config_, self.history_, self._seed = config, history, seed
        self._files = _read_files(place("model"))
        _PREDICTORS.pop(self, None)

    def _tune(self, path, changes, held_out):
        """Puts the config that trials find into the place of the one at path. Returns the trials."""
        if isinstance(self.tune, bool) or not isinstance(self.tune, (int, np.integer)) or self.tune < 2:
            raise ValueError(f"tune: expected 0 or a whole number of trials, at least 2, found {self.tune!r}")
        if held_out is None:
            raise ValueError(f"tune: expected validation rows, by which trials are compared ({_LEAST_ROWS:,} rows and a "
                             "validation_fraction, or an eval_set), found none")
        text, trials = _native.tune(path, _changes(changes), self.device, self.threads, int(self.tune),
                                    bool(self.progress))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return trials

    def _scores(self, X):
        """float64 [n]: what the model says of each row."""
        self._expect_fitted()
        frame = Frame(X)
        self._check_columns(frame)
        _expect_rows(frame)
        predictor = self._predictor()
        scores, present, unknown = score(predictor, self._lines(self._native_columns(frame)))
        warn_if_unknown(predictor.column_names["keys"], present, unknown, "X", stacklevel=4)
        return arrays.of_native(scores).astype(np.float64)

    def _lines(self, columns):
        """Columns of X among those of a line of the training file."""
        return [("none", None, None)] + columns + [("none", None, None)] * self._weighted

    def _expect_fitted(self):
        if not hasattr(self, "_files"):
            raise NotFittedError(f"{type(self).__name__}: expected a fitted estimator, found one on which fit() was not called")

    def embeddings(self, column, *, layer=None):
        """(tokens, vectors): what the model learnt of the categories of a column, its name or its number in X; a cross or a
        further feature by the name in its block. As Predictor.embeddings()."""
        self._expect_fitted()
        if not isinstance(column, str):
            names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])
            if not 0 <= column < len(names):
                raise ValueError(f"embeddings: expected a column of X, below {len(names)}, found {column}")
            column = names[column]
        with tempfile.TemporaryDirectory(prefix="hugectr_lite_") as folder:
            _write_files(folder, {name: content for name, content in self._files.items() if name.startswith("preparation")})
            return embeddings_of_categories(self._predictor(), os.path.join(folder, "preparation"), column, layer)

    @property
    def feature_importances_(self):
        """float64 [n_features_in_], in the order of the columns of X: by how much the loss of the validation rows rises when
        the values of a column are shuffled among them; below 0 if it falls. The loss is the log loss, of a Regressor the mean
        squared error. Mean of 5 shuffles, drawn from a fixed seed, of the rows that fit() held out or of its eval_set, at most
        10,000 of them. Computed at the first access. Raises AttributeError if the fit had no validation rows."""
        if getattr(self, "_held_out", None) is None:
            raise AttributeError(f"feature_importances_: expected a {type(self).__name__} whose fit had validation rows (1,000 "
                                 "rows and a validation_fraction, or an eval_set), found none")
        if not hasattr(self, "_importances"):
            predictor = self._predictor()
            self._importances = permutation_importances(
                lambda columns: arrays.of_native(predictor.predict_table(self._lines(columns))[0]).astype(np.float64),
                self._held_out, self.n_features_in_, self._loss)
        return self._importances

    def save(self, directory):
        """Writes the checkpoint, which `predict --model`, `serve` and hl.Predictor take. Their lines of text have the label
        (0 or 1, of a Regressor the number), which may be left out, then the columns of X."""
        self._expect_fitted()
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

    def _holds_out(self, targets):
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(f"validation_fraction: expected a share in [0, 1), found {self.validation_fraction}")
        return len(targets) >= _LEAST_ROWS and self._can_hold_out(targets)

    def _pair(self, eval_set, trained_on, classes):
        pairs = [eval_set] if isinstance(eval_set, tuple) else list(eval_set)
        if len(pairs) != 1 or len(pairs[0]) not in (2, 3):
            raise ValueError(f"eval_set: expected (X, y), (X, y, sample_weight) or a list of one such tuple, found "
                             f"{len(pairs)} of them")
        frame = Frame(pairs[0][0], "eval_set")
        if frame.names != trained_on.names or len(frame.columns) != len(trained_on.columns):
            raise ValueError(f"eval_set: expected the columns of X ({', '.join(trained_on.labels)}), found "
                             f"{', '.join(frame.labels)}")
        targets = self._eval_labels(pairs[0][1], frame.rows, classes)
        _expect_rows(frame, "eval_set")
        weights = _weights(pairs[0][2] if len(pairs[0]) == 3 else None, frame.rows, "eval_set: sample_weight")
        return frame, targets, weights

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
            warnings.warn(f"X does not have valid feature names, but {name} was fitted with feature names", stacklevel=4)
        elif known is None and frame.names is not None:
            warnings.warn(f"X has feature names, but {name} was fitted without feature names", stacklevel=4)

    def _native_columns(self, frame):
        """The columns of X, and a constant where none is of categories."""
        columns = [column.native(kind, of) for column, kind, of in zip(frame.columns, self._kinds, self._types)]
        return columns + [("text", ["1"] * frame.rows, None)] * self._constant

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def one_column(y, rows, what):
    """y as an array [rows]. Raises ValueError."""
    if y is None:
        raise ValueError(f"{what}: expected labels: this estimator requires y to be passed, but the target y is None")
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        warnings.warn(f"A column-vector y was passed when a 1d array was expected: {what}: its one column is taken",
                      DataConversionWarning, stacklevel=7)
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"{what}: expected a 1d array of labels, found bad input shape {labels.shape}")
    if len(labels) != rows:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: expected a label for each of {rows} "
                         f"rows, found {len(labels)} in {what}")
    return labels


def expect_finite(labels, what, expected):
    for wrong, word in ((np.isnan(labels), "NaN"), (np.isinf(labels), "infinity")):
        if wrong.any():
            raise ValueError(f"{what}: Input y contains {word}: expected {expected} in each row, found {word} in row "
                             f"{int(wrong.argmax())}")


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


def _words_of_frame(message, tables):
    """Of an error about a file of lines, {path: (name of the table, its Rows)}: the row and the column of the table."""
    found = re.match(r"(?P<path>.*?):(?P<line>\d+): (?P<words>.*)", message, re.DOTALL)
    if not found or found["path"] not in tables:
        return message
    what, rows = tables[found["path"]]
    with open(found["path"], encoding="utf-8", newline="") as file:
        lines, row = csv.reader(file), 0
        while next(lines, None) is not None and lines.line_num < int(found["line"]):
            row += 1
    return f"{what}: row {rows.rows[row]}: " + re.sub(r"column \d+ \((.*?)\): ", r"column \1: ", found["words"])


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
