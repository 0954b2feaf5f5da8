"""hl.Regressor."""
import numpy as np

from .estimator import _TableEstimator, expect_finite, one_column

try:
    from sklearn.base import RegressorMixin
except ImportError:
    from .estimator_base import RegressorMixin

_MOST = float(np.finfo(np.float32).max)


class Regressor(RegressorMixin, _TableEstimator):
    """A model for a number, of a table of numbers and categories, which learns by the mean squared error.

    X and the parameters are those of Classifier, which has class_weight in addition. y: [n] of finite numbers, which are
    float32 in training. score() is R².

    After fit(): n_features_in_, feature_names_in_ if columns have names, feature_importances_ [n_features_in_], history_
    (what Trainer.train() yields), config_ (the config as trained), with tune trials_. Raises ValueError and TypeError for samples, hl.Error for
    the rest."""

    def __init__(self, model="dcnv2", *, categorical=None, transforms="standardize", columns=None, min_count=2, epochs=None,
                 batch_size=None, learning_rate=None, validation_fraction=0.1, warm_start=False, tune=0, set=None, device="auto",
                 threads=0, random_state=None, progress=False):
        self._keep(locals())

    def partial_fit(self, X, y, sample_weight=None):
        """One pass over these rows, from the weights of the fits before; the first call makes the model. Returns self.

        The first call decides sizes, transforms and batches. New categories get rows of the tables, and columns have to be
        those of the first call. Raises ValueError and TypeError for samples, hl.Error for the rest."""
        return self._fit(X, y, None, sample_weight, None, hasattr(self, "_files"), one_pass=True)

    def predict(self, X):
        """float64 [n]: the number of each row."""
        return self._scores(X)

    _LABEL = {"real": True}

    def _read_labels(self, y, rows, kept, classes):
        """(the number of each row, None)"""
        return _numbers(y, rows, "y"), None

    def _eval_labels(self, y, rows, classes):
        return _numbers(y, rows, "eval_set: y")

    def _weigh(self, weights, targets, classes, kept):
        """The weights, of mean 1 over the kept rows; None: all are 1."""
        return None if weights is None else weights / weights[kept].mean()

    def _can_hold_out(self, targets):
        return len(targets) * self.validation_fraction >= 1

    def _held(self, targets, random):
        """bool [n]: the validation fraction of the rows."""
        held = np.zeros(len(targets), bool)
        held[random.permutation(len(targets))[:round(self.validation_fraction * len(targets))]] = True
        return held

    @staticmethod
    def _loss(targets, scores, weights):
        return np.average((scores - targets) ** 2, weights=weights)


def _numbers(y, rows, what):
    """float64 [rows]"""
    labels = one_column(y, rows, what)
    if labels.dtype.kind == "c":
        raise ValueError(f"{what}: Complex data not supported: expected real numbers, found {labels.dtype}")
    try:
        labels = labels.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what}: expected numbers, found {labels.dtype}: {error}") from None
    expect_finite(labels, what, "a number")
    large = np.flatnonzero(np.abs(labels) > _MOST)
    if large.size:
        raise ValueError(f"{what}: expected numbers up to {_MOST:.3g}, found {labels[large[0]]} in row {large[0]}")
    return labels
