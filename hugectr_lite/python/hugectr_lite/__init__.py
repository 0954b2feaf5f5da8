"""Training of recommender models from a config, in Python.

    import hugectr_lite as hl

    trainer = hl.Trainer("dlrm.json", set={"solver.batchsize": 4096})
    for metrics in trainer.train():          # a dict every `display` iterations and after every evaluation
        print(metrics)
    trainer.save("checkpoint")

    scores = hl.Predictor("checkpoint").predict(dense, keys)

    model = hl.Classifier("dcnv2").fit(frame, label)     # a scikit-learn estimator, of DataFrames with text columns
    model = hl.Regressor("dcnv2").fit(frame, number)

A config is a path or a dict of the same form. Errors are hl.ConfigError, hl.DataError and hl.DeviceError, all of them
hl.Error, with the words that `train` prints. One rank of one process: several are `train`'s own business. Samples are
anything that NumPy makes an array of, or Arrow tables, record batches and arrays of pyarrow, polars and others.
"""
import importlib.machinery
import json
import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
try:
    import numpy as np
except ImportError as error:
    raise ImportError(f"hugectr_lite: {sys.executable} has no NumPy that works (python3 -m pip install numpy): {error}"
                      ) from None
_MODULES = sorted(name for name in os.listdir(_FOLDER) if name.startswith("_native."))
if not any("_native" + suffix in _MODULES for suffix in importlib.machinery.EXTENSION_SUFFIXES):
    raise ImportError(f"hugectr_lite: expected a module for {sys.implementation.cache_tag}, found "
                      f"{', '.join(_MODULES) or 'none'} in {_FOLDER}: install the package with this Python")
from . import _native, arrays, fitting, models  # noqa: E402
from . import prepared as _prepared  # noqa: E402
from ._native import ConfigError, DataError, DeviceError, Error, __version__  # noqa: E402
from .progress import Progress  # noqa: E402

__all__ = ["Classifier", "ConfigError", "DataError", "DeviceError", "Error", "Predictor", "Regressor", "Trainer", "__version__",
           "auc", "check", "models"]


def __getattr__(name):
    """Classifier and Regressor are imported when they are first used, because they import scikit-learn where that is
    installed."""
    if name == "Classifier":
        from .classifier import Classifier
        return Classifier
    if name == "Regressor":
        from .regressor import Regressor
        return Regressor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _plain(value):
    """What a config may hold in addition to JSON's types: numbers and arrays of NumPy, paths."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    try:
        return os.fsdecode(value)
    except TypeError:
        raise TypeError(f"expected what JSON can hold, found {type(value).__name__}: {value!r}") from None


def _json(value):
    return json.dumps(value, default=_plain)


def _config(config):
    """(path, JSON text); one of the two is empty."""
    if isinstance(config, dict):
        return "", _json(config)
    return _path(config), ""


def _changes(changes):
    """`set`: {path in the config: value}."""
    return [f"{path}={_json(value)}" for path, value in dict(changes or {}).items()]


def _path(path):
    path = os.fspath(path)
    if not path:
        raise ConfigError("expected a path, found an empty one")
    return path


def _path_or_none(path):
    return "" if path is None else _path(path)


def check(config, *, set=None):
    """What `train --check` prints of a config: its layers, and what it needs."""
    return _native.check(*_config(config), _changes(set))


def auc(label, score, sample_weight=None):
    """The exact area under the ROC curve, or None if one of the classes is absent. A label above 0.5 is positive. Scores are
    any finite numbers, in double precision: only equal ones are a tie. With weights, a pair of samples counts as much as
    the product of its two weights."""
    label, score = (array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
                    for array in (arrays.floats(label, "label", np.float64), arrays.floats(score, "score", np.float64)))
    for name, array in (("label", label), ("score", score)):
        if array.ndim != 1:
            raise DataError(f"{name}: expected an array of one column, found the shape {list(array.shape)}")
    if len(score) != len(label):
        raise DataError(f"score: expected one for each of {len(label)} labels, found {len(score)}")
    wrong = label[~((label >= 0) & (label <= 1))]
    if wrong.size:
        raise DataError(f"label: expected values in [0, 1], found {wrong[0]}")
    wrong = np.flatnonzero(~np.isfinite(score))
    if wrong.size:
        raise DataError(f"score: sample {wrong[0]}: expected a finite value, found {score[wrong[0]]}")
    weight = None if sample_weight is None else arrays.weights(sample_weight, kind=np.float64)
    if weight is not None and len(weight) != len(label):
        raise DataError(f"sample_weight: expected one for each of {len(label)} labels, found {len(weight)}")
    return _native.auc(label, score, weight)


class Trainer:
    """Trains the model of a config, iteration by iteration.

    init: exported weights, or a checkpoint, to start from; resume: a checkpoint to go on from; grow: with data that may
    continue those of the checkpoint, as `train --grow`, from their start even if they are the same. arrays: the config's files are not opened,
    all samples come by step(label, dense, keys). allow_other_data: data that were prepared otherwise than the model's are
    warned of, not refused. with_preparation: checkpoints hold the vocabularies and transforms that scoring text takes. The
    bits are those of `train` with the same config and threads.
    """

    def __init__(self, config, *, set=None, device="auto", threads=0, init=None, resume=None, arrays=False,
                 allow_other_data=False, with_preparation=False, grow=False):
        self._trainer = _native.Trainer(*_config(config), _changes(set), device, threads, _path_or_none(init),
                                        _path_or_none(resume), arrays, allow_other_data, with_preparation, grow)
        self._columns = {}

    def step(self, label=None, dense=None, keys=None, *, sample_weight=None):
        """One iteration, with the next batch of the training data or with these samples: label float [n] or
        [n, label_dim], dense float [n, dense_dim] as the network sees it, keys int [n, keys a sample], local to each
        slot's table, -1 (of Arrow also null) where a sample has fewer, of a history after its keys, oldest first; or a
        DataFrame with a column of lists for each slot, of which a history keeps the last ones. sample_weight: float [n],
        if the label of the config's Data layer has "sample_weight": true; without it all are 1."""
        if label is None and dense is None and keys is None and sample_weight is None:
            self._trainer.step()
        elif label is None or dense is None or keys is None:
            raise TypeError("expected label, dense and keys, or none of them")
        else:
            arrays.check_columns(self._columns, dense=dense, keys=keys)
            counts = self._trainer.step_on(arrays.floats(label, "label"), arrays.floats(dense, "dense"),
                                           arrays.keys(keys, self._trainer),
                                           None if sample_weight is None else arrays.weights(sample_weight))
            arrays.warn_if_unknown(self._trainer, *counts)

    def train(self, iterations=None, *, progress=False, callbacks=None):
        """Trains `iterations`, or as many as the config has left, and yields a dict every solver.display iterations
        ("event": "train", iter, loss, batch_loss, lr, samples_per_s, wait_share) and after every evaluation ("event":
        "eval", iter, and what evaluate() returns) and, of a folder that is followed, before every file ("event":
        "progressive", and its "file"), with the names and values of `train --metrics`. As in `train`,
        evaluations may lower learning rates or end training; at the end the best weights come back and test_source is
        evaluated ("event": "test"). progress: a bar, in a notebook or on a terminal. callbacks: functions that get a copy of
        each "eval" dict and in it "train_loss", the mean loss of the samples since the "train" dict before this iteration. If
        one returns True, training ends as solver.early_stop ends it, and its best weights come back."""
        if iterations is not None and iterations < 0:
            raise ValueError(f"iterations: expected 0 or more, found {iterations}")
        native, first, more = self._trainer, self.iteration, True
        bar = Progress(self.last_iteration - first if iterations is None else iterations) if progress else None
        native.begin(iterations)
        while more:
            events, more = native.advance()
            for event in events:
                if bar is not None:
                    bar.update(event["iter"] - first, event)
                yield event
                if event["event"] == "eval" and fitting.end_early(callbacks, event, native.train_loss):
                    native.stop()
                    more = False
        yield from native.finish()
        if bar is not None:
            bar.close()

    def fit(self, label, dense, keys, *, sample_weight=None, epochs=1, eval_set=None, shuffle=True,
            callbacks=None):
        """Trains on these samples, arrays as in step(), and returns a list of train()'s events: "train" after every epoch,
        and "eval" if eval_set is (label, dense, keys), or with weights (label, dense, keys, sample_weight). Evaluations lead to what the config says: solver.lr_plateau,
        solver.early_stop, after which the best weights are back, auc_target. shuffle: another order in every epoch, drawn
        from solver.seed. callbacks: as in train()."""
        if epochs < 0:
            raise ValueError(f"epochs: expected 0 or more, found {epochs}")
        arrays_of = fitting.Samples(self._trainer, label, dense, keys, sample_weight)
        held_out = None if eval_set is None else fitting.Samples(self._trainer, *eval_set, what="eval_set: ")
        return fitting.fit(self, self._trainer, arrays_of, held_out, epochs, shuffle, callbacks)

    def evaluate(self, label=None, dense=None, keys=None, *, sample_weight=None):
        """{"auc", "loss", "samples", "seconds"} over the evaluation set, or over these samples, as scikit-learn's metrics
        weight them; of MSELoss no "auc", but "rmse", and "loss" is the mean squared error; further eval_metrics by their names in the
        metrics file ("gauc", "ndcg@10"; metrics of groups are None over these samples), and of several tasks "tasks", a list of the same."""
        if label is None and dense is None and keys is None and sample_weight is None:
            return self._trainer.evaluate()
        if label is None or dense is None or keys is None:
            raise TypeError("expected label, dense and keys, or none of them")
        return fitting.evaluate(self._trainer, fitting.Samples(self._trainer, label, dense, keys, sample_weight))[0]

    def predict(self, dense, keys):
        """The probability of label 1 for each sample, or of MSELoss the value; arrays as in step()."""
        arrays.check_columns(self._columns, dense=dense, keys=keys)
        scores, *counts = self._trainer.predict(arrays.dense(dense, self._trainer), arrays.keys(keys, self._trainer))
        arrays.warn_if_unknown(self._trainer, *counts)
        return arrays.of_native(scores)

    def save(self, directory):
        """Writes a checkpoint, complete or not at all."""
        self._trainer.save(_path(directory))

    def export(self, path):
        """Writes all weights as a safetensors file."""
        self._trainer.export_weights(_path(path))

    @property
    def weights(self):
        """{name: array}. On the CPU they are the model's own memory: what is written there counts from the next
        iteration on, once weights_changed() has been called. From a GPU they are copies."""
        return {name: arrays.of_native(array) for name, array in self._trainer.weights().items()}

    def weights_changed(self):
        self._trainer.weights_changed()

    def embeddings(self, column, *, layer=None):
        """(tokens, vectors float32 [rows, V]) of the table that a key column looks up, with the column's name in the
        manifest of the training data. The token of the row for missing, rare and unseen categories is None. The tokens of
        criteo_prep are 32-bit numbers in hexadecimal. layer: which embedding layer, where several look up the column.
        Raises ConfigError, DataError."""
        return _prepared.embeddings_of_training(self._trainer, self.weights, column, layer)

    @property
    def learning_rate(self):
        """Of the last step's dense parameters. Set it, and the next step has that rate: all schedules are scaled alike,
        those of embedding layers too, and a checkpoint keeps the scale."""
        return self._trainer.learning_rate

    @learning_rate.setter
    def learning_rate(self, rate):
        if not 0 <= rate < float("inf"):
            raise ValueError(f"learning_rate: expected a number of 0 or more, found {rate}")
        self._trainer.learning_rate = rate

    iteration = property(lambda self: self._trainer.iteration, doc="iterations done, those before a resume counted")
    last_iteration = property(lambda self: self._trainer.last_iteration, doc="after which the config ends")
    samples = property(lambda self: self._trainer.samples, doc="samples trained on")
    batch_loss = property(lambda self: self._trainer.batch_loss, doc="mean loss of the last batch")


class Predictor:
    """Scores samples with a checkpoint's directory, or exported weights and their config.

    unknown_keys: by key column, how many keys of all samples so far were outside of the table and replaced, as the
    config's key_policy says (without one such a key is a DataError).
    """

    def __init__(self, model, config=None, *, set=None, device="auto", threads=0, batch=8192):
        own = ("", "") if config is None else _config(config)
        self._predictor = _native.Predictor(_path(model), *own, _changes(set), device, threads, batch)
        self._columns = self._predictor.column_names
        self._text = None  # (preparation, TableText) of predict_frame()
        self.unknown_keys = np.zeros(len(self._predictor.key_columns), np.int64)

    def predict(self, dense, keys):
        """float32 [n], or [n, tasks] of a model with several: the probability of label 1; arrays as in Trainer.step().
        Warns if all keys of a column are unknown."""
        native = self._predictor
        arrays.check_columns(self._columns, dense=dense, keys=keys)
        scores, *counts = native.predict(arrays.dense(dense, native), arrays.keys(keys, native))
        arrays.warn_if_unknown(native, *counts)
        self.unknown_keys += counts[1]
        return arrays.of_native(scores)

    def predict_frame(self, frame, *, prepared=None):
        """float32 [n]: scores of a DataFrame (or anything that hl.Classifier takes, with names of columns) by the columns of
        the training data, which csv_prep made of text; other columns do not matter. prepared: the folder that csv_prep
        wrote, for a checkpoint that was not saved with its preparation. Warns if no value of a column is known. Raises
        DataError, ConfigError, ValueError and TypeError."""
        if self._text is None or self._text[0] != prepared:
            folder = self._predictor.open_preparation(_path_or_none(prepared), True)
            self._text = prepared, _prepared.TableText(self._predictor, folder)
        scores, present, unknown = _prepared.score(self._predictor, self._text[1].columns(frame))
        _prepared.warn_if_unknown(self._columns["keys"], present, unknown)
        return arrays.of_native(scores)

    def embeddings(self, column, *, layer=None, prepared=None):
        """(tokens, vectors): what the model learnt of the categories of a key column, by its name in the training data's
        manifest. tokens: object array [rows] of str, the categories as text; vectors: float32 [rows, V], a copy. Categories
        that training did not have, rarer than min_count or missing have no row here. layer, and tokens of criteo_prep: as
        Trainer.embeddings(). prepared: as predict_frame(). Raises ConfigError, DataError."""
        folder = self._predictor.preparation_folder(_path_or_none(prepared))
        return _prepared.embeddings_of_categories(self._predictor, folder, column, layer)
