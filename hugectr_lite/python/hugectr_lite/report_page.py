"""The page of report.py: HTML with drawings in SVG, styles within, light and dark as the browser prefers."""
from html import escape

import numpy as np

_STYLE = """
:root { color-scheme: light dark; --page: #f7f7f5; --card: #fff; --text: #1c1c1a; --muted: #63635e; --line: #dddcd6;
  --grid: #ebeae5; --series: #1f6fb5; --soft: #1f6fb533; }
@media (prefers-color-scheme: dark) { :root { --page: #161615; --card: #20201e; --text: #efeee9; --muted: #a5a49c;
  --line: #3a3a36; --grid: #2c2c29; --series: #6db1ee; --soft: #6db1ee44; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem; background: var(--page); color: var(--text);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; } h2 { font-size: 1.05rem; margin: 0 0 .1rem; } h3 { font-size: .95rem; margin: 1rem 0 .2rem; }
p { margin: 0 0 .6rem; color: var(--muted); }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1rem 0; }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .8rem 1rem; }
.tile { flex: 1 1 9rem; } .tile b { display: block; font-size: 1.35rem; font-weight: 600; } .tile span { color: var(--muted); font-size: .85rem; }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }
.wide { grid-column: 1 / -1; overflow-x: auto; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--muted); font: 12px system-ui, sans-serif; } svg .name { fill: var(--text); }
.axis { stroke: var(--line); } .gridline { stroke: var(--grid); } .reference { stroke: var(--muted); stroke-dasharray: 4 4; }
.curve { fill: none; stroke: var(--series); stroke-width: 2; } .dot { fill: var(--series); } .bar { fill: var(--series); }
.range { stroke: var(--series); stroke-width: 2; } .whisker { stroke: var(--text); stroke-width: 1.5; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { text-align: right; padding: .2rem .5rem; border-bottom: 1px solid var(--grid); } th { color: var(--muted); font-weight: 500; }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere; }
td svg { min-width: 9rem; } .columns { max-width: 40rem; }
"""
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 420, 300, 54, 38, 10, 16
_POINTS = 300  # of a curve


def _round_step(most):
    """The least step of 1, 2, 2.5 or 5 times a power of ten of which five reach `most`."""
    power = 10.0 ** np.floor(np.log10(most / 5))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power * 5 >= most * (1 - 1e-9))


class _Plot:
    """A drawing with axes from (0, 0) to (x_most, y_most) or a little beyond, where a round number is."""

    def __init__(self, label, x_name, y_name, x_most=1.0, y_most=1.0):
        x_step, y_step = _round_step(x_most), _round_step(y_most)
        self._x_most, self._y_most, self._parts = 5 * x_step, 5 * y_step, []
        self._label = label
        for i in range(6):
            x, y = i * x_step, i * y_step
            self._parts.append(f'<line class="gridline" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{self.y(y)}" y2="{self.y(y)}"/>'
                               f'<text x="{_LEFT - 6}" y="{self.y(y)}" text-anchor="end" dy=".32em">{y:.3g}</text>'
                               f'<text x="{self.x(x)}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{x:.3g}</text>')
        self._parts.append(f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 4}" text-anchor="middle">{x_name}</text>'
                           f'<text transform="translate(11 {(_TOP + _HEIGHT - _BOTTOM) / 2}) rotate(-90)" text-anchor="middle">'
                           f'{y_name}</text>')

    def x(self, value):
        return round(_LEFT + value / self._x_most * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value):
        return round(_HEIGHT - _BOTTOM - value / self._y_most * (_HEIGHT - _BOTTOM - _TOP), 1)

    def line(self, kind, xs, ys):
        if len(xs) > _POINTS:  # at equal distances along the curve, which keeps its steps
            way = np.r_[0, np.cumsum(np.hypot(np.diff(xs), np.diff(ys)))]
            keep = np.unique(np.searchsorted(way, np.linspace(0, way[-1], _POINTS)))
            xs, ys = np.asarray(xs)[keep], np.asarray(ys)[keep]
        points = " ".join(f"{self.x(x)},{self.y(y)}" for x, y in zip(xs, ys))
        self._parts.append(f'<polyline class="{kind}" points="{points}" fill="none"/>')

    def dot(self, x, y, title):
        self._parts.append(f'<circle class="dot" cx="{self.x(x)}" cy="{self.y(y)}" r="4"><title>{escape(title)}</title></circle>')

    def bar(self, x, width, y, title):
        self._parts.append(f'<rect class="bar" x="{self.x(x)}" width="{self.x(x + width) - self.x(x):.1f}" y="{self.y(y)}" '
                           f'height="{self.y(0) - self.y(y):.1f}" rx="2"><title>{escape(title)}</title></rect>')

    def svg(self):
        return (f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(self._label)}">{"".join(self._parts)}'
                f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{self.y(0)}" y2="{self.y(0)}"/></svg>')


def _card(title, text, body, wide=False):
    return f'<section class="card{" wide" if wide else ""}"><h2>{title}</h2><p>{text}</p>{body}</section>'


def _table(names, rows):
    head = "".join(f"<th>{name}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _interval(area):
    if area is None:
        return "one class only"
    return f"{area[0]:.4f}" + (f" ({area[1]:.4f} to {area[2]:.4f})" if area[1] is not None else "")


def _importance(columns):
    """Bars with whiskers of one deviation; a loss below 0 is drawn as none."""
    most = max([mean + deviation for _, mean, deviation in columns] + [1e-9])
    left, row, width = 150, 24, 640
    scale = (width - left - 80) / most
    parts = []
    for i, (name, mean, deviation) in enumerate(columns):
        y, end = i * row, left + max(0.0, mean) * scale
        parts.append(
            f'<text class="name" x="{left - 8}" y="{y + 12}" text-anchor="end" dy=".32em">{escape(name[:20])}</text>'
            f'<rect class="bar" x="{left}" y="{y + 5}" width="{end - left:.1f}" height="14" rx="2"/>'
            f'<line class="whisker" x1="{max(left, end - deviation * scale):.1f}" x2="{end + deviation * scale:.1f}" '
            f'y1="{y + 12}" y2="{y + 12}"/>'
            f'<text x="{end + deviation * scale + 6:.1f}" y="{y + 12}" dy=".32em">{mean:.4f}</text>')
    return (f'<svg class="columns" viewBox="0 0 {width} {max(1, len(columns)) * row}" role="img" aria-label="permutation importance">'
            f'{"".join(parts)}</svg>')


def _range(area, low, high):
    if area is None or area[1] is None:
        return ""
    x = lambda value: 4 + (value - low) / max(high - low, 1e-9) * 152  # noqa: E731
    return (f'<svg viewBox="0 0 160 14" aria-hidden="true"><line class="range" x1="{x(area[1]):.1f}" x2="{x(area[2]):.1f}" y1="7" '
            f'y2="7"/><circle class="dot" cx="{x(area[0]):.1f}" cy="7" r="4"/></svg>')


def _slices(columns):
    parts = []
    for column, rows in columns.items():
        known = [area for *_, area in rows if area is not None and area[1] is not None]
        low, high = min([a[1] for a in known] + [1.0]), max([a[2] for a in known] + [0.0])
        parts.append(f"<h3>{escape(column)}</h3>" + _table(
            ("value", "samples", "label 1", "mean score", "AUC (95 % interval)", ""),
            [(escape(value), f"{n:,}", f"{rate:.4f}", f"{mean:.4f}", _interval(area), _range(area, low, high))
             for value, n, rate, mean, area in rows]))
    return "".join(parts)


def page(r):
    """The HTML of report.report()'s dict."""
    roc, pr = _Plot("ROC curve", "false positive rate", "true positive rate"), _Plot("precision and recall", "recall", "precision")
    roc.line("reference", [0, 1], [0, 1])
    roc.line("curve", *r["roc"])
    pr.line("reference", [0, 1], [r["rate"]] * 2)
    pr.line("curve", *r["precision_recall"])
    most = max(max(group[1:]) for group in r["calibration"])
    calibration = _Plot("calibration", "mean score of a tenth", "share of label 1", most, most)
    calibration.line("reference", [0, most], [0, most])
    for n, mean, rate in r["calibration"]:
        calibration.dot(mean, rate, f"{n:,} samples: mean score {mean:.4f}, label 1 {rate:.4f}")
    best = r["lift"][0][1]
    lift, before = _Plot("lift", "share of samples, highest scores first", "lift", 1.0, max(best, 1.0)), 0.0
    for share, value in r["lift"]:
        lift.bar(before + 0.008, share - before - 0.016, value, f"best {share:.0%}: {value:.3f}")
        before = share
    lift.line("reference", [0, 1], [1, 1])
    tiles = [("AUC, 95 % interval " + (f"{r['auc'][1]:.4f} to {r['auc'][2]:.4f}" if r["auc"][1] is not None else "unknown"),
              f"{r['auc'][0]:.5f}"), ("average precision", f"{r['average_precision']:.5f}"), ("log loss", f"{r['log_loss']:.5f}"),
             ("Brier score", f"{r['brier']:.5f}"), ("share of label 1", f"{r['rate']:.4f}"), ("mean score", f"{r['mean_score']:.4f}"),
             ("samples", f"{r['samples']:,}")]
    calibrated = _table(("tenth", "samples", "mean score", "label 1"),
                        [(i + 1, f"{n:,}", f"{mean:.5f}", f"{rate:.5f}") for i, (n, mean, rate) in enumerate(r["calibration"])])
    lifted = _table(("best", "lift"), [(f"{share:.0%}", f"{value:.4f}") for share, value in r["lift"]])
    unknown = _table(("column", "unknown", "missing"), [(escape(name), f"{not_known / n:.2%}", f"{missing / n:.2%}")
                                                        for name, missing, not_known, n in r["unknown"]])
    cards = [
        _card("ROC", "Dashed: a model that guesses.", roc.svg()),
        _card("Precision and recall", "Dashed: the share of label 1, which a guess would have.", pr.svg()),
        _card("Calibration", "Tenths of the samples by score. On the dashed line scores are what comes true.",
              calibration.svg() + calibrated),
        _card("Lift", "Label 1 among the highest scores, over its share in all samples (dashed).", lift.svg() + lifted),
        _card("Permutation importance", f"AUC that is lost when the values of a column are shuffled over the samples: mean and "
              f"deviation of {r['repeats']} shuffles. Columns that say the same share it.", _importance(r["importance"]), wide=True),
        _card("Unknown and missing values", "Categories that training did not see, or too rarely, share one row of the table.",
              unknown, wide=True),
        _card("Slices", "The AUC among the samples with one value of a column, of numbers by quarters. A slice's AUC may be below "
              "that of all, because the column itself no longer helps.", _slices(r["slices"]), wide=True)]
    return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>{escape(r['model'])} on {escape(r['input'])}</title><style>{_STYLE}</style></head><body>"
            f"<h1>Scores of {escape(r['model'])}</h1><p>{escape(r['input'])}, hugectr_lite {r['version']}</p>"
            f'<div class="tiles">{"".join(f"<div class=tile><b>{value}</b><span>{name}</span></div>" for name, value in tiles)}</div>'
            f'<div class="grid">{"".join(cards)}</div></body></html>\n')
