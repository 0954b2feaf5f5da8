"""What a model's scores are worth, as one HTML page that needs no network.

    python3 -m hugectr_lite.report --model checkpoint --input test.csv --out report.html [--slice COLUMN]

`predict --report FILE.html` starts this. The input is text as csv_prep read it, with labels: ROC, precision and recall,
calibration, lift, the AUC with its confidence interval and by slices of columns, permutation importance (how much AUC is lost
when the values of a column are shuffled over the rows), and the share of values that the model does not know.
"""
import argparse
import csv
import gzip
import os
import secrets
import sys

import numpy as np

from . import Error, Predictor, __version__, arrays
from . import score_metrics as metrics
from ._native import ConfigError, DataError
from .frames import NUMBERS
from .prepared import TableText
from .report_page import page

_SLICES = 12  # of a column: its most frequent values
_FEWEST_OF_A_CLASS = 30  # samples of a slice whose AUC has an interval


class Lines:
    """The fields of a text file. label: float64 [n]; columns: {name: (place in the training file, kind)}; fields: {place: texts}."""

    def __init__(self, path, text, trim):
        self._text = text
        with open(path, "rb") as file:
            opened = gzip.open if file.read(2) == b"\x1f\x8b" else open
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file, delimiter=text.separator)
                    if (len(row) > 1 or "".join(row).strip()) and not row[0].startswith(text.comment)]
        if trim:
            rows = [[field.strip() for field in row] for row in rows]
        header = rows.pop(0) if text.header else []
        if not rows:
            raise DataError(f"{path}: expected lines with labels, found none")
        if len({len(row) for row in rows}) > 1:
            raise DataError(f"{path}: expected lines of one width, found {sorted({len(row) for row in rows})} columns")
        self._fields = [list(column) for column in zip(*rows)]

        def fields_of(column):
            """Of a column of the training file: by its name where it has one."""
            name = column if isinstance(column, str) else text.header[column] if text.header else None
            if name is not None and name not in header:
                raise DataError(f"{path}:1: expected a column {name}, found {', '.join(header)}")
            return self._fields[column if name is None else header.index(name)]

        self.columns = {input.names[-1]: (place, input.kind) for place, input in text.inputs.items()}
        self.fields = {place: fields_of(place) for place in text.inputs}
        several = isinstance(text.label, list)
        if several or text.label.get("real"):
            raise DataError(f"{path}: expected a model of labels of two classes, found one of "
                            f"{'several labels' if several else 'real labels'}")
        positive = set(text.label["positive"])
        self.label = np.array([field in positive for field in fields_of(text.label["column"])], float)

    def native(self, place=None, order=None):
        """The columns as _native takes them; those of one place in another order."""
        columns = {at: ("text", fields if at != place else [fields[row] for row in order], None)
                   for at, fields in self.fields.items()}
        return self._text.placed(columns)


class Model:
    """Scores and counts of unknown values of lines."""

    def __init__(self, options):
        self._predictor = Predictor(options.model, threads=options.threads, device=options.device)._predictor
        self.text = TableText(self._predictor, self._predictor.open_preparation(options.prepared or "", True))
        self.categories = self._predictor.column_names["keys"]

    def score(self, lines, place=None, order=None):
        """(scores float64 [n], present values of each categorical column, unknown ones)"""
        scores, present, unknown = self._predictor.predict_table(lines.native(place, order))
        return arrays.of_native(scores).astype(np.float64), present, unknown


def importance(model, lines, score, repeats, seed):
    """[(column, mean loss of AUC, its deviation over repeats)], the largest first."""
    base, losses = metrics.auc_interval(lines.label, score)[0], []
    for c, (name, (place, _)) in enumerate(lines.columns.items()):
        drops = []
        for repeat in range(repeats):
            order = np.random.default_rng([seed, c, repeat]).permutation(len(score))
            drops.append(base - metrics.auc_interval(lines.label, model.score(lines, place, order)[0])[0])
        losses.append((name, float(np.mean(drops)), float(np.std(drops))))
    return sorted(losses, key=lambda column: -column[1])


def slices(lines, score, column):
    """[(value, samples, share of label 1, mean score, (AUC, lower, upper) or None)]: of a column of numbers its quarters.
    Without an interval where a class has too few samples for the normal distribution that it rests on."""
    if column not in lines.columns:
        raise ConfigError(f"--slice: expected a column ({', '.join(lines.columns)}), found {column}")
    place, kind = lines.columns[column]
    values = np.array(lines.fields[place], object)
    if kind == NUMBERS:
        values = _quarters(values)
    names, counts = np.unique(values.astype(str), return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_SLICES] if kind != NUMBERS else range(len(names))
    rows = []
    for name in names[list(order)]:
        there = values == name
        label, part = lines.label[there], score[there]
        area, ones = metrics.auc_interval(label, part), int(label.sum())
        if area is not None and min(ones, len(label) - ones) < _FEWEST_OF_A_CLASS:
            area = area[0], None, None
        rows.append((name or "(missing)", int(there.sum()), float(label.mean()), float(part.mean()), area))
    return rows


def _quarters(texts):
    """Texts of numbers to names of quarters: "1: up to 28"."""
    def number(text):
        try:
            return float(text)
        except ValueError:
            return np.nan
    numbers = np.array([number(text) for text in texts])
    edges = np.unique(np.nanpercentile(numbers, [25, 50, 75])) if not np.isnan(numbers).all() else np.zeros(0)
    group = np.searchsorted(edges, numbers)
    names = [f"{g + 1}: up to {edge:g}" for g, edge in enumerate(edges)]
    names.append(f"{len(edges) + 1}: above {edges[-1]:g}" if len(edges) else "1: all")
    return np.array(["" if np.isnan(x) else names[g] for g, x in zip(group, numbers)], object)


def report(options):
    """The numbers of the page, a dict."""
    model = Model(options)
    lines = Lines(options.input, model.text, model.text.trim)
    score, present, unknown = model.score(lines)
    area = metrics.auc_interval(lines.label, score)
    if area is None:
        raise DataError(f"{options.input}: expected labels of both classes, found one class")
    wanted = options.slice or list(lines.columns)
    return {
        "model": options.model, "input": options.input, "version": __version__, "samples": len(score),
        "rate": float(lines.label.mean()), "mean_score": float(score.mean()), "auc": area,
        "log_loss": metrics.log_loss(lines.label, score), "brier": float(np.mean((score - lines.label) ** 2)),
        "average_precision": metrics.average_precision(lines.label, score), "metrics": options.metric,
        "roc": metrics.roc(lines.label, score), "precision_recall": metrics.precision_recall(lines.label, score),
        "calibration": metrics.calibration(lines.label, score), "lift": metrics.lift(lines.label, score),
        "importance": importance(model, lines, score, options.repeats, options.seed), "repeats": options.repeats,
        "slices": {column: slices(lines, score, column) for column in wanted},
        "unknown": [(name, len(score) - there, not_known, len(score))
                    for name, there, not_known in zip(model.categories, present, unknown)]}


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="hugectr_lite.report", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, metavar="DIR", help="a checkpoint")
    parser.add_argument("--input", required=True, metavar="FILE", help="lines of text with labels, plain or gzip")
    parser.add_argument("--prepared", metavar="DIR", help="what csv_prep wrote [the checkpoint's own]")
    parser.add_argument("--out", required=True, metavar="FILE.html")
    parser.add_argument("--slice", action="append", metavar="COLUMN", help="AUC by values of this column; repeatable [all]")
    parser.add_argument("--metric", action="append", nargs=2, default=[], metavar=("NAME", "VALUE"),
                        help="a further metric of the scores, as predict has computed it; repeatable")
    parser.add_argument("--repeats", type=int, default=3, help="shuffles of each column [3]")
    parser.add_argument("--seed", type=int, default=1, help="of the shuffles [1]")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        parser.error(f"--repeats: expected 1 or more, found {options.repeats}")
    try:
        text = page(report(options))
        temporary = f"{options.out}.tmp.{os.getpid()}.{secrets.token_hex(8)}"
        with open(temporary, "x", encoding="utf-8") as file:  # a new file: no link is followed
            file.write(text)
        os.replace(temporary, options.out)
    except (Error, OSError) as error:
        print(f"report: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
