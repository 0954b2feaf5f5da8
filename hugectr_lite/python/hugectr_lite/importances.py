"""Rows of a table for training or validation, and how much a model's loss depends on each column of them."""
import numpy as np

from . import _native

_SHUFFLES = 5
_MOST_ROWS = 10_000  # that are looked at


class Rows:
    """columns: of a whole table, as _native takes them; targets [all rows]: numbers; weights [all rows] or None; rows: the
    numbers of those that belong to it."""

    def __init__(self, columns, targets, weights, rows):
        self.columns, self.targets, self.weights, self.rows = columns, targets, weights, rows

    def write(self, path, weighted):
        """As lines of text: target, columns, and the weight if the model has weights."""
        columns = [(self.targets.dtype.name, np.ascontiguousarray(self.targets), None)] + self.columns
        if weighted:
            weights = np.ones(len(self.targets)) if self.weights is None else self.weights
            columns.append(("float64", np.ascontiguousarray(weights, np.float64), None))
        _native.write_table(path, columns, np.ascontiguousarray(self.rows, np.int64))

    def sample(self):
        """All of its rows, or as many as are looked at, always the same, without the others."""
        rows = self.rows
        if len(rows) > _MOST_ROWS:
            rows = np.sort(np.random.default_rng(0).choice(rows, _MOST_ROWS, replace=False))
        return Rows([_taken(column, rows) for column in self.columns], self.targets[rows],
                    None if self.weights is None else self.weights[rows], np.arange(len(rows)))


def permutation_importances(scores_of, sample, features, loss):
    """float64 [features]: by how much loss(targets, scores, weights) rises when the values of each of the first columns are
    shuffled. scores_of: the scores of columns. sample: Rows."""
    random, rises = np.random.default_rng(0), np.zeros(features)
    columns = sample.columns
    before = loss(sample.targets, scores_of(columns), sample.weights)
    for _ in range(_SHUFFLES):
        order = random.permutation(len(sample.targets))
        for i in range(features):
            changed = columns[:i] + [_taken(columns[i], order)] + columns[i + 1:]
            rises[i] += loss(sample.targets, scores_of(changed), sample.weights) - before
    return rises / _SHUFFLES


def _taken(column, rows):
    """Rows of a column as _native takes it."""
    kind, values, missing = column
    values = [values[row] for row in rows.tolist()] if isinstance(values, list) else np.ascontiguousarray(values[rows])
    return kind, values, None if missing is None else np.ascontiguousarray(missing[rows])
