"""The page of report.py, from the template of all pages (trainer/report/page.h)."""
import json

import numpy as np

from ._native import html_page

_POINTS = 300  # of a curve


def _line(kind, xs, ys, **more):
    if len(xs) > _POINTS:  # at equal distances along the curve, which keeps its steps
        way = np.r_[0, np.cumsum(np.hypot(np.diff(xs), np.diff(ys)))]
        keep = np.unique(np.searchsorted(way, np.linspace(0, way[-1], _POINTS)))
        xs, ys = np.asarray(xs)[keep], np.asarray(ys)[keep]
    return {"kind": kind, "points": [[float(x), float(y)] for x, y in zip(xs, ys)], **more}


def _chart(title, text, x, y, *lines, below=()):
    return ["chart", {"title": title, "x": x, "y": y, "zero": True, "lines": lines}, ["p.soft", text], *below]


def _section(title, text, *nodes):
    return ["section", ["h2", title], ["p.soft", text], *nodes]


def _interval(area):
    if area is None:
        return "one class only"
    return f"{area[0]:.4f}" + (f" ({area[1]:.4f} to {area[2]:.4f})" if area[1] is not None else "")


def _importance(columns):
    """Bars with ranges of one deviation; a loss below 0 is drawn as none."""
    scale = 100 / max([mean + deviation for _, mean, deviation in columns] + [1e-9])
    return ["table", ["column", "", "AUC lost", "deviation"], [
        [name, ["bar", {"fill": (end := max(0, mean) * scale), "low": max(0, end - deviation * scale), "high": end + deviation * scale}],
         f"{mean:.4f}", f"{deviation:.4f}"] for name, mean, deviation in columns], [1]]


def _range(area, low, high):
    if area is None or area[1] is None:
        return ""
    mark, begin, end = (1 + 98 * (value - low) / max(high - low, 1e-9) for value in area)
    return ["bar", {"low": begin, "high": end, "mark": mark}]


def _slices(columns):
    for column, rows in columns.items():
        known = [area for *_, area in rows if area is not None and area[1] is not None]
        low, high = min([a[1] for a in known] + [1.0]), max([a[2] for a in known] + [0.0])
        yield ["h3", column]
        yield ["table", ["value", "samples", "label 1", "mean score", "AUC (95 % interval)", ""],
               [[value, f"{n:,}", f"{rate:.4f}", f"{mean:.4f}", _interval(area), _range(area, low, high)]
                for value, n, rate, mean, area in rows], [5]]


def page(r):
    """The HTML of report.report()'s dict."""
    area = r["auc"]
    most = max(max(group[1:]) for group in r["calibration"])
    body = [
        ["h1", f"Scores of {r['model']}"], ["p.soft", f"{r['input']}, hugectr_lite {r['version']}"],
        ["tiles", [f"{area[0]:.5f}", "AUC, 95 % interval " + (f"{area[1]:.4f} to {area[2]:.4f}" if area[1] is not None else "unknown")],
         [f"{r['average_precision']:.5f}", "average precision"], [f"{r['log_loss']:.5f}", "log loss"],
         [f"{r['brier']:.5f}", "Brier score"], [f"{r['rate']:.4f}", "share of label 1"],
         [f"{r['mean_score']:.4f}", "mean score"], [f"{r['samples']:,}", "samples"],
         *([value, name] for name, value in r["metrics"])],
        ["div.charts.pairs",
         _chart("ROC", "Dashed: a model that guesses.", "false positive rate", "true positive rate",
                _line("dash", [0, 1], [0, 1]), _line("line", *r["roc"])),
         _chart("Precision and recall", "Dashed: the share of label 1, which a guess would have.", "recall", "precision",
                _line("dash", [0, 1], [r["rate"]] * 2), _line("line", *r["precision_recall"])),
         _chart("Calibration", "Tenths of the samples by score. On the dashed line scores are what comes true.",
                "mean score of a tenth", "share of label 1", _line("dash", [0, most], [0, most]),
                {"kind": "dots", "points": [[mean, rate, f"{n:,} samples"] for n, mean, rate in r["calibration"]]}, below=[
                    ["table", ["tenth", "samples", "mean score", "label 1"],
                     [[i + 1, f"{n:,}", f"{mean:.5f}", f"{rate:.5f}"] for i, (n, mean, rate) in enumerate(r["calibration"])]]]),
         _chart("Lift", "Label 1 among the highest scores, over its share in all samples (dashed).",
                "share of samples, highest scores first", "lift", {"kind": "bars", "points": r["lift"]},
                _line("dash", [0, 1], [1, 1]), below=[
                    ["table", ["best", "lift"], [[f"{share:.0%}", f"{value:.4f}"] for share, value in r["lift"]]]])],
        _section("Permutation importance", "AUC that is lost when the values of a column are shuffled over the samples: mean and "
                 f"deviation of {r['repeats']} shuffles. Columns that say the same share it.", _importance(r["importance"])),
        _section("Unknown and missing values", "Categories that training did not see, or too rarely, share one row of the table.",
                 ["table", ["column", "unknown", "missing"], [[name, f"{not_known / n:.2%}", f"{missing / n:.2%}"]
                                                              for name, missing, not_known, n in r["unknown"]]]),
        _section("Slices", "The AUC among the samples with one value of a column, of numbers by quarters. A slice's AUC may be below "
                 "that of all, because the column itself no longer helps.", *_slices(r["slices"]))]
    return html_page(json.dumps({"title": f"{r['model']} on {r['input']}", "body": body}, default=float))
