"""Training and evaluation on arrays: what Trainer.fit() and Trainer.evaluate() do with samples of the caller."""
import numpy as np

from . import arrays
from ._native import DataError


class Samples:
    """label float32 [n], dense float32 [n, dense_dim], keys int64 [n, columns]."""

    def __init__(self, label, dense, keys, what=""):
        self.label = arrays.floats(label, what + "label")
        self.dense, self.keys = arrays.floats(dense, what + "dense"), arrays.keys(keys)
        lengths = [len(array) if array.ndim else 0 for array in (self.label, self.dense, self.keys)]
        if len(set(lengths)) != 1:
            raise DataError(f"{what}label, dense, keys: expected as many samples in each, found {lengths}")
        if lengths[0] == 0:
            raise DataError(f"{what}label: expected samples, found none")

    def __len__(self):
        return len(self.label)


def fit(trainer, native, samples, eval_samples, epochs, shuffle):
    """The list of events, as Trainer.train() yields them."""
    size, events = native.batch_size, []
    first = (trainer.iteration * size) // len(samples)  # an order for each epoch, also when fit() is called again
    for epoch in range(epochs):
        order = np.arange(len(samples))
        if shuffle:
            np.random.default_rng([native.seed, first + epoch]).shuffle(order)
        losses = 0.0
        for begin in range(0, len(samples), size):
            rows = order[begin:begin + size]
            trainer.step(samples.label[rows], samples.dense[rows], samples.keys[rows])
            losses += trainer.batch_loss * len(rows)
        events.append({"event": "train", "iter": trainer.iteration, "loss": losses / len(samples),
                       "batch_loss": trainer.batch_loss, "lr": trainer.learning_rate})
        if eval_samples is not None:
            metrics, ends = evaluate(native, eval_samples, decides=True)
            events.append({"event": "eval", "iter": trainer.iteration, **metrics})
            if ends:
                break
    if eval_samples is not None:
        native.use_best()
    return events


def evaluate(native, samples, decides=False):
    """(metrics, whether training ends: solver.early_stop or auc_target, where the evaluation decides)"""
    scores, *counts = native.predict(samples.dense, samples.keys)
    arrays.warn_if_unknown(native, *counts)
    scores = arrays.of_native(scores)
    label = samples.label.reshape(-1) if samples.label.ndim == 2 and samples.label.shape[1] == 1 else samples.label
    if scores.shape != label.shape:
        raise DataError(f"label: expected one label a sample, found the shape {list(label.shape)}: metrics of several tasks "
                        "are those of an evaluation set in files")
    wrong = label[~((label >= 0) & (label <= 1))]
    if wrong.size:
        raise DataError(f"label: expected values in [0, 1], found {wrong[0]}")
    return native.take_evaluation(label, scores, decides)
