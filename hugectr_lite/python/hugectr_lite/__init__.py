"""Training of recommender models from a config, in Python.

    import hugectr_lite as hl

    trainer = hl.Trainer("dlrm.json", set={"solver.batchsize": 4096})
    for metrics in trainer.train():          # a dict every `display` iterations and after every evaluation
        print(metrics)
    trainer.save("checkpoint")

    scores = hl.Predictor("checkpoint").predict(dense, keys)

A config is a path or a dict of the same form. Errors are hl.ConfigError, hl.DataError and hl.DeviceError, all of them
hl.Error, with the words that `train` prints. One rank of one process: several are `train`'s own business. Samples are
anything that NumPy makes an array of, or Arrow tables, record batches and arrays of pyarrow, polars and others.
"""
import json
import os
import time

_PLUGIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libhlite_cuda.so")
if os.path.exists(_PLUGIN):
    os.environ.setdefault("HLITE_CUDA_LIBRARY", _PLUGIN)

import numpy as np  # noqa: E402

from . import _native, arrow  # noqa: E402
from ._native import ConfigError, DataError, DeviceError, Error, __version__  # noqa: E402
from .progress import Progress  # noqa: E402

__all__ = ["ConfigError", "DataError", "DeviceError", "Error", "Predictor", "Trainer", "__version__", "auc", "check"]


def _plain(value):
    """What a config may hold beside JSON's types: numbers and arrays of NumPy, paths."""
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


def _array(value, name, dtype=None, null=None):
    if arrow.is_arrow(value) and not _is_pandas(value):
        value = arrow.matrix(value, name, null)
    if np.ma.is_masked(value):
        raise DataError(f"{name}: expected a number everywhere, found masked ones")
    try:
        array = np.asarray(value)
        if array.dtype.kind == "c":
            raise TypeError("complex numbers")
        return array if dtype is None else array.astype(dtype, copy=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name}: expected an array of numbers, found something else: {error}") from None


def _floats(value, name):
    return _array(value, name, np.float32)


def _keys(value):
    """Integers; -1 where Arrow has none."""
    array = _array(value, "keys", null=-1)
    if array.dtype.kind not in "iu":
        raise DataError(f"keys: expected integers, found {array.dtype}")
    return array


def _is_pandas(value):
    """Its own way to Arrow needs pyarrow; its arrays do not."""
    return type(value).__module__.split(".")[0] == "pandas"


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


def auc(label, score):
    """The exact area under the ROC curve, or None where one of the classes is absent."""
    return _native.auc(_floats(label, "label"), _floats(score, "score"))


class Trainer:
    """Trains the model of a config, iteration by iteration.

    init: exported weights, or a checkpoint, to start from; resume: a checkpoint to go on from. arrays: the config's files are not opened,
    all samples come by step(label, dense, keys). The bits are those of `train` with the same config and threads.
    """

    def __init__(self, config, *, set=None, device="auto", threads=0, init=None, resume=None, arrays=False):
        self._trainer = _native.Trainer(*_config(config), _changes(set), device, threads, _path_or_none(init),
                                        _path_or_none(resume), arrays)

    def step(self, label=None, dense=None, keys=None):
        """One iteration, with the next batch of the training data or with these samples: label float [n] or
        [n, label_dim], dense float [n, dense_dim] as the network sees it, keys int [n, keys a sample], local to each
        slot's table, -1 (of Arrow also null) where a sample has fewer, which raw data never have."""
        if label is None and dense is None and keys is None:
            self._trainer.step(1)
        elif label is None or dense is None or keys is None:
            raise TypeError("expected label, dense and keys, or none of them")
        else:
            self._trainer.step_on(_floats(label, "label"), _floats(dense, "dense"), _keys(keys))

    def train(self, iterations=None, *, progress=False):
        """Trains `iterations`, or as many as the config has left, and yields a dict every solver.display iterations
        ("event": "train", iteration, loss, lr, samples_per_s) and after every evaluation ("event": "eval", iteration,
        and what evaluate() returns). As in `train`, evaluations may lower learning rates or end training, by the
        config's AUC:x, lr_plateau and early_stop; at the end the best weights come back, and test_source is evaluated
        ("event": "test"). progress: a bar, in a notebook or on a terminal."""
        if iterations is not None and iterations < 0:
            raise ValueError(f"iterations: expected 0 or more, found {iterations}")
        native = self._trainer
        last = native.last_iteration if iterations is None else native.iteration + iterations
        first, reason = native.iteration, ""
        bar = Progress(last - first) if progress else None
        while native.iteration < last and not reason:
            stops = [_next(native.iteration, every) for every in (native.display, native.eval_interval) if every > 0]
            goal = min([last, *stops])
            begin, samples = time.monotonic(), native.samples
            native.step(goal - native.iteration)
            seconds = time.monotonic() - begin
            events = []
            if goal == last or (native.display and goal % native.display == 0):
                events.append({"event": "train", "iteration": goal, "loss": native.loss, "lr": native.learning_rate,
                               "samples_per_s": (native.samples - samples) / max(seconds, 1e-9)})
            if native.eval_interval and goal % native.eval_interval == 0:
                metrics, reason = native.evaluate_and_heed()
                events.append({"event": "eval", "iteration": goal, **metrics})
            for event in events:
                if bar is not None:
                    bar.update(goal - first, event)
                yield event
        if reason or native.iteration >= native.last_iteration:
            test = native.finish()
            if test is not None:
                yield {"event": "test", "iteration": native.iteration, **test}
        if bar is not None:
            bar.close()

    def evaluate(self):
        """{"auc", "loss", "samples"} over the evaluation set, and further eval_metrics by their names."""
        return self._trainer.evaluate()

    def predict(self, dense, keys):
        """The probability of label 1 for each sample; arrays as in step()."""
        return self._trainer.predict(_floats(dense, "dense"), _keys(keys))

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
        return self._trainer.weights()

    def weights_changed(self):
        self._trainer.weights_changed()

    iteration = property(lambda self: self._trainer.iteration, doc="iterations done, those before a resume counted")
    last_iteration = property(lambda self: self._trainer.last_iteration, doc="after which the config ends")
    samples = property(lambda self: self._trainer.samples, doc="samples trained on")
    loss = property(lambda self: self._trainer.loss, doc="mean loss of the last batch")
    learning_rate = property(lambda self: self._trainer.learning_rate, doc="of the last step's dense parameters")


class Predictor:
    """Scores samples with a checkpoint's directory, or exported weights and their config."""

    def __init__(self, model, config=None, *, set=None, device="auto", threads=0, batch=8192):
        own = ("", "") if config is None else _config(config)
        self._predictor = _native.Predictor(_path(model), *own, _changes(set), device, threads, batch)

    def predict(self, dense, keys):
        """float32 [n]: the probability of label 1; arrays as in Trainer.step()."""
        return self._predictor.predict(_floats(dense, "dense"), _keys(keys))


def _next(iteration, every):
    return (iteration // every + 1) * every
