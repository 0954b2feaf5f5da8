"""Training and evaluation on arrays: what Trainer.fit() and Trainer.evaluate() do with samples of the caller."""
import numpy as np

from . import arrays
from ._native import DataError


class Samples:
    """label float32 [n], dense float32 [n, dense_dim], keys int64 [n, columns], weight float32 [n] or None."""

    def __init__(self, native, label, dense, keys, weight=None, what=""):
        self.label = arrays.floats(label, what + "label")
        self.dense, self.keys = arrays.floats(dense, what + "dense"), arrays.keys(keys, native)
        self.weight = None if weight is None else arrays.weights(weight, what + "sample_weight")
        given = {"label": self.label, "dense": self.dense, "keys": self.keys, "sample_weight": self.weight}
        given = {name: array for name, array in given.items() if array is not None}
        lengths = [len(array) if array.ndim else 0 for array in given.values()]
        if len(set(lengths)) != 1:
            raise DataError(f"{what}{', '.join(given)}: expected as many samples in each, found {lengths}")
        if lengths[0] == 0:
            raise DataError(f"{what}label: expected samples, found none")

    def __len__(self):
        return len(self.label)


def end_early(callbacks, event, train_loss):
    """Calls all of them with an evaluation's event, and returns whether one of them ends training."""
    answers = [callback({**event, "train_loss": train_loss}) for callback in callbacks or ()]
    return any(isinstance(answer, (bool, np.bool_)) and answer for answer in answers)


def fit(trainer, native, samples, eval_samples, epochs, shuffle, callbacks):
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
            weight = None if samples.weight is None else samples.weight[rows]
            trainer.step(samples.label[rows], samples.dense[rows], samples.keys[rows], sample_weight=weight)
            losses += trainer.batch_loss * len(rows)
        events.append({"event": "train", "iter": trainer.iteration, "loss": losses / len(samples),
                       "batch_loss": trainer.batch_loss, "lr": trainer.learning_rate})
        if eval_samples is not None:
            metrics, ends = evaluate(native, eval_samples, decides=True)
            events.append({"event": "eval", "iter": trainer.iteration, **metrics})
            if end_early(callbacks, events[-1], events[-2]["loss"]) or ends:
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
        raise DataError(f"label: expected the shape {list(scores.shape)} of the scores, found {list(label.shape)}")
    values = native.predicts_values
    wrong = label[~(np.isfinite(label) if values else (label >= 0) & (label <= 1) | (label < -0.5) & (label.ndim == 2))]
    if wrong.size:
        raise DataError(f"label: expected {'finite values' if values else 'values in [0, 1]'}, found {wrong[0]}")
    return native.take_evaluation(label, scores, decides, samples.weight)
