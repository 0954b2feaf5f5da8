#!/usr/bin/env python3
"""Makes the plots and the table of figures of RESULTS.md from the records in results/*.json.

  plot_results.py           writes results/*.svg, and the table between the two marks in RESULTS.md
  plot_results.py --check   writes nothing; fails and names what is not as the records say

A record has its "order" on the page, a "title", "notes", where and when it was measured ("machine", "date"), the section
of RESULTS.md that describes it ("section"), "figures" for the table, and a plot:

  "bars"     {"unit", "series": [names], "groups": [[name, value of each series], ...]}; each group has its own scale if
             "scale" is "group", as where only ratios are comparable
  "points"   the same, with a value and its deviation; the axis does not start at 0
  "lines"    {"unit", "x", "x_label", "step" of the axis, "from": where it starts, "lines": [[name, value or null for each
             x], ...]}
"""
import argparse
import glob
import json
import math
import os
import re
import sys
from xml.sax.saxutils import escape

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "RESULTS.md")
MARKS = ("<!-- figures: made by plot_results.py -->", "<!-- end of figures -->")
WIDTH, LEFT, RIGHT, ROW, GAP = 760, 210, 120, 17, 11
STYLE = """<style>
text { fill: #1d2733; } .soft { fill: #5b6b7b; } .axis { stroke: #5b6b7b; } .s0 { fill: #2f6fb0; } .s1 { fill: #d9a441; }
.s2 { fill: #8a9aa9; } .s3 { fill: #b9c4ce; } .e0, .e1 { stroke: #1d2733; } .l0 { stroke: #2f6fb0; } .l1 { stroke: #d9a441; }
.l2 { stroke: #8a9aa9; } .l3 { stroke: #b9c4ce; }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .soft { fill: #9fb0c0; } .axis { stroke: #9fb0c0; }
.s0 { fill: #5b9bd9; } .e0, .e1 { stroke: #e6edf3; } }
</style>"""


def number(value):
    """As many digits as one compares by: 131,713, 12.4, 0.35."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 100 else f"{value:.2f}".rstrip("0").rstrip(".")


class Drawing:
    def __init__(self, record, series, rows):
        self.parts, self.y = [], 34
        height = 58 + rows + 20 * len(record["notes"])
        self.parts.append(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
                          f'font-family="sans-serif" font-size="12">\n{STYLE}')
        self.text(16, 20, record["title"], "font-size=\"14\" font-weight=\"bold\"")
        x = LEFT
        for i, name in enumerate(series):
            self.parts.append(f'<rect class="s{i}" x="{x}" y="{self.y - 4}" width="10" height="10"/>')
            self.text(x + 15, self.y + 5, name)
            x += 30 + 7 * len(name)
        self.y += 20

    def text(self, x, y, text, more=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{" " + more if more else ""}>{escape(text)}</text>')

    def finish(self, notes):
        for note in notes:
            self.y += 16
            self.text(16, self.y, note, 'class="soft"')
        return "\n".join(self.parts) + "\n</svg>\n"


def group_rows(groups):
    return sum(GAP + ROW * sum(v is not None for v in group[1:]) for group in groups)


def bars(record):
    plot = record["bars"]
    drawing = Drawing(record, plot["series"], group_rows(plot["groups"]))
    all_most = max(v for group in plot["groups"] for v in group[1:] if v is not None)
    for name, *values in plot["groups"]:
        most = max(v for v in values if v is not None) if plot.get("scale") == "group" else all_most
        drawing.text(16, drawing.y + 12, name)
        for i, value in enumerate(values):
            if value is None:
                continue
            width = max(1.0, (WIDTH - LEFT - RIGHT) * value / most)
            drawing.parts.append(f'<rect class="s{i}" x="{LEFT}" y="{drawing.y}" width="{width:.1f}" height="{ROW - 3}"/>')
            drawing.text(LEFT + width + 6, drawing.y + 11, f"{number(value)} {plot['unit']}")
            drawing.y += ROW
        drawing.y += GAP
    return drawing.finish(record["notes"])


def points(record):
    plot = record["points"]
    drawing = Drawing(record, plot["series"], group_rows(plot["groups"]) + 20)
    pairs = [pair for group in plot["groups"] for pair in group[1:]]
    step = plot["step"]
    low = math.floor(min(v - e for v, e in pairs) / step) * step
    high = math.ceil(max(v + e for v, e in pairs) / step) * step
    place = lambda v: LEFT + (WIDTH - LEFT - RIGHT) * (v - low) / (high - low)  # noqa: E731
    top, bottom = drawing.y - 4, drawing.y + group_rows(plot["groups"])
    for i in range(round((high - low) / step) + 1):
        x = place(low + i * step)
        drawing.parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" stroke-opacity="0.25"/>')
        drawing.text(x - 16, bottom + 14, f"{low + i * step:.3f}", 'class="soft"')
    for name, *values in plot["groups"]:
        drawing.text(16, drawing.y + 12, name)
        for i, (value, error) in enumerate(values):
            y = drawing.y + 7
            drawing.parts.append(f'<line class="e{i}" x1="{place(value - error):.1f}" x2="{place(value + error):.1f}" '
                                 f'y1="{y}" y2="{y}"/>')
            drawing.parts.append(f'<circle class="s{i}" cx="{place(value):.1f}" cy="{y}" r="4.5"/>')
            drawing.y += ROW
        drawing.y += GAP
    drawing.y = bottom + 20
    return drawing.finish(record["notes"])


def lines(record):
    plot = record["lines"]
    height, left, right = 220, 70, 150
    drawing = Drawing(record, [], height + 20)
    values = [v for _, *line in plot["lines"] for v in line if v is not None]
    low, step = plot["from"], plot["step"]
    high = low + math.ceil((max(values) - low) / step) * step
    top, bottom = drawing.y - 6, drawing.y + height - 20
    across = lambda i: left + (WIDTH - left - right) * i / (len(plot["x"]) - 1)  # noqa: E731
    up = lambda v: bottom - (bottom - top) * (v - low) / (high - low)  # noqa: E731
    for i in range(round((high - low) / step) + 1):
        y = up(low + i * step)
        drawing.parts.append(f'<line class="axis" x1="{left}" x2="{WIDTH - right}" y1="{y:.1f}" y2="{y:.1f}" stroke-opacity="0.25"/>')
        drawing.text(left - 8, y + 4, f"{low + i * step:,g}", 'class="soft" text-anchor="end"')
    for i, x in enumerate(plot["x"]):
        drawing.text(across(i), bottom + 16, str(x), 'class="soft" text-anchor="middle"')
    drawing.text((left + WIDTH - right) / 2, bottom + 32, plot["x_label"], 'class="soft" text-anchor="middle"')
    names = []  # heights of names, which must not lie on each other
    for n, (name, *line) in enumerate(plot["lines"]):
        places = [f"{across(i):.1f},{up(v):.1f}" for i, v in enumerate(line) if v is not None]
        drawing.parts.append(f'<polyline class="l{n}" points="{" ".join(places)}" fill="none" stroke-width="2"/>')
        at = up(next(v for v in reversed(line) if v is not None))
        while any(abs(at - other) < 14 for other in names):
            at += 1
        names.append(at)
        drawing.parts.append(f'<rect class="s{n}" x="{WIDTH - right + 8}" y="{at - 5:.1f}" width="10" height="10"/>')
        drawing.text(WIDTH - right + 23, at + 4, name)
    drawing.y = bottom + 36
    return drawing.finish(record["notes"])


def drawn(record):
    kind = next(k for k in ("bars", "points", "lines") if k in record)
    return {"bars": bars, "points": points, "lines": lines}[kind](record)


def anchor(heading):
    """The link to a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def table(records):
    lines = ["| what | ours | peer | ratio | share of the bound | machine | date |", "|---|---|---|---|---|---|---|"]
    for record in records:
        for f in record["figures"]:
            lines.append(f"| [{f['what']}](#{anchor(record['section'])}) | {f['ours']} | {f.get('peer', '')} | "
                         f"{f.get('ratio', '')} | {f.get('bound', '')} | {record['machine']} | {record['date']} |")
    return "\n".join(lines)


def images(records):
    return "\n".join(f"![{r['title']}](results/{r['name']}.svg)\n" for r in records)


def records():
    found = []
    for path in sorted(glob.glob(os.path.join(HERE, "results", "*.json"))):
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        record["name"] = os.path.splitext(os.path.basename(path))[0]
        record["notes"] = record.get("notes", []) + [f"{record['machine']}, {record['date']}"]
        found.append(record)
    return sorted(found, key=lambda r: r["order"])


def wanted_files():
    """{path: contents} of all that is made."""
    all_records = records()
    files = {os.path.join(HERE, "results", r["name"] + ".svg"): drawn(r) for r in all_records}
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    for record in all_records:
        if f"\n## {record['section']}\n" not in page:
            sys.exit(f"results/{record['name']}.json: RESULTS.md has no section \"{record['section']}\"")
    before, rest = page.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    files[PAGE] = f"{before}{MARKS[0]}\n\n{table(all_records)}\n\n{images(all_records)}\n{MARKS[1]}{after}"
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    wrong = []
    for path, text in wanted_files().items():
        if not options.check:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        elif not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
            wrong.append(os.path.relpath(path, HERE))
    stale = set(glob.glob(os.path.join(HERE, "results", "*.svg"))) - set(wanted_files())
    wrong += [f"{os.path.relpath(path, HERE)} (has no record)" for path in sorted(stale)]
    if wrong:
        sys.exit("not as results/*.json say; run tests/bench/plot_results.py: " + ", ".join(wrong))


if __name__ == "__main__":
    main()
