"""hl.Classifier."""
import numpy as np

from .estimator import _TableEstimator, expect_finite, one_column

try:
    from sklearn.base import ClassifierMixin
except ImportError:
    from .estimator_base import ClassifierMixin

_EPSILON = np.finfo(np.float64).eps  # probabilities of log losses are that far from 0 and 1, as scikit-learn's


class Classifier(ClassifierMixin, _TableEstimator):
    """A model for two classes, of a table of numbers and categories.

    X is a DataFrame of pandas or polars, a table of pyarrow, a dict of arrays or an array [n, features]. Columns of numbers
    are dense features, columns of text and booleans are categories; missing values are allowed in both, and categories that
    training did not see share the row of missing ones. csv_prep's own code makes ids and features, so that save() gives a
    checkpoint with which `predict` and `serve` score lines of text to the same bits.

    model: one of hl.models, except for mmoe and ple. categorical: names or numbers of columns of numbers that are
    categories. transforms: of numbers, csv_prep's (none, log1p, standardize, log1p_standardize), for all or {column:
    transform}; columns that the dict lacks are standardized. columns: features as blocks of csv_prep's schema, {"dense":
    [...], "categorical": [...]}, whose "column" is a name or number of X: buckets, quantiles, dates, crosses, clipping
    (docs/data.md). Columns of X in them become no features of their own. min_count: rarer categories share the row of
    missing ones; 1 keeps those of a single row, which are learnt by heart. epochs, batch_size, learning_rate: in place of
    the first config's. validation_fraction: of the rows, held out to stop early where fit() gets no eval_set and there are
    1,000 rows; 0: none. class_weight: "balanced", or {class: weight}, multiplies the weights of a class's rows, as in
    scikit-learn; the probabilities shift with it. warm_start: a second fit() goes on from the weights of the first one.
    tune: trials of `train --tune`, at least 2, in which a new fit() looks for better learning rates, penalties, dropout
    and widths by the loss of the validation rows; 0: none. set: further changes of the config, {path: value}. device,
    threads, progress: as Trainer's. random_state: of initial values, order of samples, dropout and validation rows; the
    same one gives the same model, bit for bit, on the same number of threads.

    After fit(): classes_ [2], n_features_in_, feature_names_in_ if columns have names, feature_importances_ [n_features_in_],
    history_ (what Trainer.train() yields), config_ (the config as trained), with tune trials_ (a dict of "changes", "value"
    and "iteration" for each). Raises ValueError and TypeError for samples, hl.Error for the rest."""

    def __init__(self, model="dcnv2", *, categorical=None, transforms="standardize", columns=None, min_count=2, epochs=None,
                 batch_size=None, learning_rate=None, validation_fraction=0.1, class_weight=None, warm_start=False, tune=0, set=None,
                 device="auto", threads=0, random_state=None, progress=False):
        self._keep(locals())

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """One pass over these rows, from the weights of the fits before; the first call makes the model. Returns self.

        classes: both of them, where y of the first call may lack one. The first call decides sizes, transforms and batches.
        New categories get rows of the tables, and columns have to be those of the first call. Raises ValueError and TypeError
        for samples, hl.Error for the rest."""
        if isinstance(self.class_weight, str):
            raise ValueError(f"class_weight: expected a dict or None, as partial_fit() does not see all rows, found "
                             f"{self.class_weight!r}")
        goes_on = hasattr(self, "_files")
        if classes is not None:
            classes = np.unique(classes)
            _expect_two(classes)
            if goes_on and not np.array_equal(classes, self.classes_):
                raise ValueError(f"classes: expected {self.classes_.tolist()}, as in the first call, found {classes.tolist()}")
        return self._fit(X, y, None, sample_weight, None, goes_on, one_pass=True, classes=classes)

    def predict_proba(self, X):
        """float64 [n, 2]: the probability of each of classes_."""
        positive = self._scores(X)
        return np.stack([1 - positive, positive], 1)

    def predict(self, X):
        """[n]: the class with the larger probability."""
        positive = self.predict_proba(X)[:, 1]
        return self.classes_[(positive > 0.5).astype(int)]

    _LABEL = {"positive": ["1"], "negative": ["0"]}

    def _read_labels(self, y, rows, kept, classes):
        """(0 or 1 for each row, the classes); classes: those that y may have, None: y has them."""
        labels = _labels(y, rows)
        found = np.unique(labels[kept])
        if classes is None:
            classes = found
            _expect_two(classes)
        unknown = found[~np.isin(found, classes)]
        if unknown.size:
            raise ValueError(f"y: expected the classes {classes.tolist()}, found {unknown.tolist()[0]!r}")
        return (labels == classes[-1]).astype(np.int64), classes

    def _eval_labels(self, y, rows, classes):
        labels = _labels(y, rows, "eval_set: y")
        if not np.array_equal(np.unique(labels), classes):
            raise ValueError(f"eval_set: expected the classes {classes.tolist()}, found {np.unique(labels).tolist()}")
        return np.searchsorted(classes, labels).astype(np.int64)

    def _weigh(self, weights, targets, classes, kept):
        """The weights times those of the classes, of mean 1 over the kept rows; None: all are 1."""
        of_class = self.class_weight
        if of_class is None and weights is None:
            return None
        if isinstance(of_class, str):
            if of_class != "balanced":
                raise ValueError(f'class_weight: expected "balanced", a dict or None, found {of_class!r}')
            with np.errstate(divide="ignore"):
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

    def _can_hold_out(self, targets):
        return np.bincount(targets, minlength=2).min() * self.validation_fraction >= 1

    def _held(self, targets, random):
        """bool [n]: the validation fraction of each class's rows."""
        held = np.zeros(len(targets), bool)
        for target in (0, 1):
            rows = np.flatnonzero(targets == target)
            held[random.permutation(rows)[:max(1, round(self.validation_fraction * len(rows)))]] = True
        return held

    @staticmethod
    def _loss(targets, scores, weights):
        scores = np.clip(scores, _EPSILON, 1 - _EPSILON)
        return -np.average(np.log(np.where(targets > 0, scores, 1 - scores)), weights=weights)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _expect_two(classes):
    if len(classes) != 2:
        known = "Only binary classification is supported: " if len(classes) > 2 else ""
        raise ValueError(f"{known}expected two classes in y, found {len(classes)} class" +
                         ("es" if len(classes) > 2 else f" ({classes.tolist()[0]!r})" if len(classes) else "es"))


def _labels(y, rows, what="y"):
    """[rows] of classes."""
    labels = one_column(y, rows, what)
    if labels.dtype.kind == "O" and all(isinstance(v, (int, float, np.number)) for v in labels.tolist()):
        labels = labels.astype(float) if any(isinstance(v, float) for v in labels.tolist()) else labels.astype(int)
    if labels.dtype.kind == "f":
        expect_finite(labels, what, "a class")
        if (labels != np.round(labels)).any():
            raise ValueError(f"{what}: Unknown label type: continuous: expected two classes, found "
                             f"{labels[(labels != np.round(labels)).argmax()]}")
    elif labels.dtype.kind == "O":
        for row, value in enumerate(labels.tolist()):
            if not isinstance(value, (str, bytes, bool)):
                raise ValueError(f"{what}: Input y contains NaN or mixed types: expected a class in each row, found {value!r} "
                                 f"in row {row}")
    return labels
