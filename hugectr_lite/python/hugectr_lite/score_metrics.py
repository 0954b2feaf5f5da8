"""Metrics of scores against labels of 0 and 1, in double precision. Where scikit-learn has the same metric, the numbers are
its numbers."""
import numpy as np

_NORMAL_95 = 1.959963984540054  # standard normal quantile of 0.975


def counts_by_threshold(label, score):
    """(thresholds, descending; true positives, false positives of the samples at or above each)"""
    order = np.argsort(-score, kind="stable")
    label, score = label[order], score[order]
    last = np.r_[np.flatnonzero(np.diff(score)), len(score) - 1]
    positives = np.cumsum(label)[last]
    return score[last], positives, 1 + last - positives


def roc(label, score):
    """(false positive rates, true positive rates), from (0, 0) to (1, 1)"""
    _, tp, fp = counts_by_threshold(label, score)
    return np.r_[0, fp / fp[-1]], np.r_[0, tp / tp[-1]]


def precision_recall(label, score):
    """(recalls, ascending; precisions)"""
    _, tp, fp = counts_by_threshold(label, score)
    return tp / tp[-1], tp / (tp + fp)


def average_precision(label, score):
    recall, precision = precision_recall(label, score)
    return float(np.sum(np.diff(np.r_[0, recall]) * precision))


def log_loss(label, score):
    eps = np.finfo(np.float64).eps
    p = np.clip(score, eps, 1 - eps)
    return float(-np.mean(label * np.log(p) + (1 - label) * np.log(1 - p)))


def _midranks(values):
    """Ranks from 1; of equal values their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    end = np.cumsum(counts)
    return (end - (counts - 1) / 2)[inverse]


def auc_interval(label, score):
    """(AUC, lower, upper) of the 95 % confidence interval by DeLong, DeLong and Clarke-Pearson, "Comparing the Areas under
    Two or More Correlated Receiver Operating Characteristic Curves", Biometrics 44 (1988), with the ranks of Sun and Xu
    (2014); None where a class is absent. The interval is (None, None) where a class has a single sample."""
    positive, negative = score[label == 1], score[label == 0]
    m, n = len(positive), len(negative)
    if m == 0 or n == 0:
        return None
    ranks = _midranks(np.r_[positive, negative])
    v10 = (ranks[:m] - _midranks(positive)) / n       # share of negatives below each positive
    v01 = 1 - (ranks[m:] - _midranks(negative)) / m   # share of positives above each negative
    area = float(v10.mean())
    if m == 1 or n == 1:
        return area, None, None
    half = _NORMAL_95 * float(np.sqrt(v10.var(ddof=1) / m + v01.var(ddof=1) / n))
    return area, max(0.0, area - half), min(1.0, area + half)


def calibration(label, score, groups=10):
    """[(samples, mean score, share of label 1)] of groups between quantiles of the score; equal scores stay together."""
    edges = np.percentile(score, np.linspace(0, 100, groups + 1))
    group = np.searchsorted(edges[1:-1], score)
    return [(int(there.sum()), float(score[there].mean()), float(label[there].mean()))
            for there in (group == g for g in range(groups)) if there.any()]


def lift(label, score, groups=10):
    """[(share of the samples with the highest scores, their share of label 1 over that of all)]; ties in their order."""
    best = np.cumsum(label[np.argsort(-score, kind="stable")])
    ends = [max(1, round(len(label) * g / groups)) for g in range(1, groups + 1)]
    return [(end / len(label), float(best[end - 1] / end / label.mean())) for end in ends]
