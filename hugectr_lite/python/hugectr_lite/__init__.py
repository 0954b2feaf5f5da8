"""Training of recommender models from a config, in Python.

    import hugectr_lite as hl

    trainer = hl.Trainer("dlrm.json", set={"solver.batchsize": 4096})
    for metrics in trainer.train():          # a dict every `display` iterations and after every evaluation
        print(metrics)
    trainer.save("checkpoint")

    scores = hl.Predictor("checkpoint").predict(dense, keys)

A config is a path or a dict of the same form. Errors are hl.ConfigError, hl.DataError and hl.DeviceError, all of them
hl.Error, with the words that `train` prints. One rank of one process: several are `train`'s own business.
"""
import json
import os
import time

_PLUGIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libhlite_cuda.so")
if os.path.exists(_PLUGIN):
    os.environ.setdefault("HLITE_CUDA_LIBRARY", _PLUGIN)

from . import _native  # noqa: E402
from ._native import ConfigError, DataError, DeviceError, Error, __version__

__all__ = ["ConfigError", "DataError", "DeviceError", "Error", "Predictor", "Trainer", "__version__", "auc", "check"]


def _config(config):
    """(path, JSON text); one of the two is empty."""
    if config is None:
        return "", ""
    if isinstance(config, dict):
        return "", json.dumps(config)
    return os.fspath(config), ""


def _changes(changes):
    """`set`: {path in the config: value}."""
    return [f"{path}={json.dumps(value)}" for path, value in (changes or {}).items()]


def _path(path):
    return "" if path is None else os.fspath(path)


def check(config, *, set=None):
    """What `train --check` prints of a config: its layers, and what it needs."""
    return _native.check(*_config(config), _changes(set))


def auc(label, score):
    """The exact area under the ROC curve, or None where one of the classes is absent."""
    return _native.auc(label, score)


class Trainer:
    """Trains the model of a config, iteration by iteration.

    init: exported weights to start from; resume: a checkpoint to go on from. arrays: the config's files are not opened,
    all samples come by step(label, dense, keys). The bits are those of `train` with the same config and threads.
    """

    def __init__(self, config, *, set=None, device="auto", threads=0, init=None, resume=None, arrays=False):
        self._trainer = _native.Trainer(*_config(config), _changes(set), device, threads, _path(init), _path(resume),
                                        arrays)

    def step(self, label=None, dense=None, keys=None):
        """One iteration, with the next batch of the training data or with these samples: label float [n] or
        [n, label_dim], dense float [n, dense_dim] as the network sees it, keys int [n, keys a sample], local to each
        slot's table, -1 where there is none."""
        if label is None:
            self._trainer.step(1)
        else:
            self._trainer.step_on(label, dense, keys)

    def train(self, iterations=None, *, progress=False):
        """Trains `iterations`, or as many as the config has left, and yields a dict every solver.display iterations
        ("event": "train", iteration, loss, lr, samples_per_s) and every solver.eval_interval ("event": "eval",
        iteration, auc, loss, samples). progress: a bar, by tqdm where it is installed."""
        native = self._trainer
        last = native.last_iteration if iterations is None else native.iteration + iterations
        bar = _bar(last - native.iteration) if progress else None
        while native.iteration < last:
            stops = [_next(native.iteration, every) for every in (native.display, native.eval_interval) if every > 0]
            goal = min([last, *stops])
            begin, samples, before = time.monotonic(), native.samples, native.iteration
            native.step(goal - native.iteration)
            seconds = time.monotonic() - begin
            if bar is not None:
                bar.update(native.iteration - before)
            if goal == last or (native.display and goal % native.display == 0):
                yield {"event": "train", "iteration": goal, "loss": native.loss, "lr": native.learning_rate,
                       "samples_per_s": (native.samples - samples) / max(seconds, 1e-9)}
            if native.eval_interval and goal % native.eval_interval == 0:
                yield {"event": "eval", "iteration": goal, **native.evaluate()}
        if bar is not None:
            bar.close()

    def evaluate(self):
        """{"auc", "loss", "samples"} over the evaluation set."""
        return self._trainer.evaluate()

    def predict(self, dense, keys):
        """The probability of label 1 for each sample; arrays as in step()."""
        return self._trainer.predict(dense, keys)

    def save(self, directory):
        """Writes a checkpoint, complete or not at all."""
        self._trainer.save(os.fspath(directory))

    def export(self, path):
        """Writes all weights as a safetensors file."""
        self._trainer.export_weights(os.fspath(path))

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
        self._predictor = _native.Predictor(os.fspath(model), *_config(config), _changes(set), device, threads, batch)

    def predict(self, dense, keys):
        """float32 [n]: the probability of label 1; arrays as in Trainer.step()."""
        return self._predictor.predict(dense, keys)


def _next(iteration, every):
    return (iteration // every + 1) * every


def _bar(total):
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=total, unit="it")
