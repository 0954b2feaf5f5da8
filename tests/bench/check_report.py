#!/usr/bin/env python3
"""Trains the demo's model with --report, --tensorboard and --metrics, opens the page in headless Chromium and the event
file with TensorBoard's own reader, and holds both against the metrics file.

    tests/bench/check_report.py --bin build/release/bin --venv /tmp/browser --install --out /tmp/pages

Needs Debian's chromium (apt-get install chromium). --install puts playwright and tensorboard (PyPI) into a virtual
environment at --venv first. Fails on a message in the console, a request for anything but the page, a page wider than
its window, a curve that is further than 0.3 pixels from the metrics file's numbers, or another number in the event
file. --out gets the page, its screenshots (light, dark, narrow) and what it prints as.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGES = ["playwright==1.49.1", "tensorboard==2.18.0", "setuptools<81"]
LOOKS = {"light": (1180, 900, "light"), "dark": (1180, 900, "dark"), "narrow": (390, 844, "light")}
PIXELS = 0.3  # coordinates have one decimal, and the axis is read from ticks that have one too

READ_CHARTS = """() => [...document.querySelectorAll('figure')].map(f => ({
  title: f.querySelector('svg').getAttribute('aria-label'),
  y: [...f.querySelectorAll('line.grid')].map(g => [+g.getAttribute('y1'), g.nextElementSibling.textContent]),
  x: [...f.querySelectorAll('text[text-anchor=middle]')].map(t => [+t.getAttribute('x'), t.textContent]),
  lines: [...f.querySelectorAll('path')].map(p => p.getAttribute('d'))}))"""


def train(binary, out):
    """A run of the demo's model on a tenth of its data."""
    synth = os.path.join(out, "synth")
    quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([f"{binary}/criteo_synth", "--train", "100000", "--test", "20000", "--out", synth, "--force"],
                   **quiet)
    subprocess.run([f"{binary}/criteo_prep", "--train", synth + ".train.tsv", "--val", synth + ".test.tsv", "--out",
                    out, "--force"], **quiet)
    with open(os.path.join(out, "manifest.json"), encoding="utf-8") as file:
        sizes = json.load(file)["slot_size_array"]
    subprocess.run([f"{binary}/train", "--config", f"{ROOT}/configs/demo.json", "--quiet", "--report",
                    f"{out}/report.html", "--metrics", f"{out}/metrics.jsonl", "--tensorboard", f"{out}/events",
                    "--set", "solver.gpu=[[0],[0]]", "--traffic",
                    "--set", f"layers.data.source={out}/train.bin", "--set", f"layers.data.eval_source={out}/val.bin",
                    "--set", f"layers[0].slot_size_array={sizes}",
                    "--set", f"layers[1].sparse_embedding_hparam.slot_size_array={sizes}",
                    "--set", f"solver.snapshot_prefix={out}/snapshot_",
                    "--set", "solver.max_iter=97", "--set", "solver.display=2", "--set", "solver.eval_interval=20"],
                   check=True, stdout=subprocess.DEVNULL)


def number(text):
    """What a tick says: 12.5k, 3M."""
    scale = {"k": 1e3, "M": 1e6, "G": 1e9}.get(text[-1], 1)
    return float(text[:-1] if scale != 1 else text) * scale


def axis(ticks):
    """Pixels of a value, from the two ticks that are furthest apart."""
    (p0, t0), (p1, t1) = ticks[0], ticks[-1]
    v0, v1 = number(t0), number(t1)
    return lambda v: p0 + (v - v0) * (p1 - p0) / (v1 - v0)


def points(path):
    return [tuple(float(c) for c in point.split(",")) for point in re.findall(r"[ML]([-\d.]+,[-\d.]+)", path)]


def check_curves(charts, events, problems):
    of = lambda kind, *keys: [(e["iter"], *(e[k] for k in keys)) for e in events if e["event"] == kind]
    percent = [(i, 100 * w) for i, w in of("train", "wait_share")]
    wanted = {"Loss": [of("train", "loss"), of("eval", "loss")], "AUC": [of("eval", "auc")],
              "Throughput, samples/s": [of("train", "samples_per_s")], "Waiting for data, % of the time": [percent],
              "Learning rate": [of("train", "lr")]}
    if {c["title"] for c in charts} != set(wanted):
        problems.append(f"charts: expected {sorted(wanted)}, found {sorted(c['title'] for c in charts)}")
        return
    compared, worst = 0, 0.0
    for chart in charts:
        x, y = axis(chart["x"]), axis(chart["y"])
        if len(chart["lines"]) != len(wanted[chart["title"]]):
            problems.append(f"{chart['title']}: {len(chart['lines'])} curves")
            continue
        for path, values in zip(chart["lines"], wanted[chart["title"]]):
            drawn = points(path)
            if len(drawn) != len(values):
                problems.append(f"{chart['title']}: {len(drawn)} points of {len(values)}")
                continue
            for (px, py), (iteration, value) in zip(drawn, values):
                off = max(abs(px - x(iteration)), abs(py - y(value)))
                compared, worst = compared + 1, max(worst, off)
                if off > PIXELS:
                    problems.append(f"{chart['title']}: iteration {iteration} is {off:.2f} pixels off")
    print(f"curves: {compared} points, at most {worst:.2f} pixels from the metrics file's numbers")


def check_numbers(numbers, events, problems):
    wanted = {kind: [{k: e[k] for k in e if k not in ("event", "tasks")} for e in events if e["event"] == kind]
              for kind in ("train", "eval", "test")}
    if numbers != wanted:
        problems.append("the page's numbers are not the metrics file's")
    print(f"numbers: {len(wanted['train'])} lines of training, {len(wanted['eval'])} evaluations, "
          f"equal: {numbers == wanted}")


def check_page(chromium, out, events, problems):
    from playwright.sync_api import sync_playwright
    address = f"file://{out}/report.html"
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for look, (width, height, scheme) in LOOKS.items():
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.on("console", lambda message: problems.append(f"console: {message.text}"))
            page.on("pageerror", lambda error: problems.append(f"error: {error}"))
            page.on("request", lambda request: request.url == address or request.url.startswith("data:") or
                    problems.append(f"request: {request.url}"))
            page.goto(address)
            page.wait_for_timeout(500)
            wide = page.evaluate("() => document.documentElement.scrollWidth")
            if wide > width:
                problems.append(f"{look}: {wide} pixels wide in a window of {width}")
            page.screenshot(path=f"{out}/{look}.png", full_page=True)
            ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
            print(f"{look}: {width} x {height}, {wide} wide, on {ground}")
            if look == "light":
                check_curves(page.evaluate(READ_CHARTS), events, problems)
                check_numbers(json.loads(page.text_content("#page"))["numbers"], events, problems)
                page.pdf(path=f"{out}/printed.pdf")
            page.close()
        browser.close()


def check_event_file(out, events, problems):
    import struct
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    reader = EventAccumulator(f"{out}/events")
    reader.Reload()
    tags = {f"{kind}/{key}": (kind, key) for kind in ("train", "eval")
            for key in next(e for e in events if e["event"] == kind) if key not in ("event", "iter", "tasks")}
    if set(reader.Tags()["scalars"]) != set(tags):
        problems.append(f"event file: tags {reader.Tags()['scalars']}")
        return
    single = lambda v: struct.unpack("f", struct.pack("f", v))[0]  # the format's numbers have 32 bits
    for tag, (kind, key) in tags.items():
        wanted = [(e["iter"], single(e[key])) for e in events if e["event"] == kind]
        found = [(e.step, e.value) for e in reader.Scalars(tag)]
        print(f"TensorBoard reads {tag}: {len(found)} values, equal: {found == wanted}")
        if found != wanted:
            problems.append(f"event file: {tag} is not the metrics file's")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"))
    ap.add_argument("--venv", required=True, help="virtual environment that has playwright and tensorboard")
    ap.add_argument("--install", action="store_true", help="make it first")
    ap.add_argument("--chromium", default=shutil.which("chromium"), help="the browser (default: on PATH)")
    ap.add_argument("--out", required=True, help="folder for page and screenshots")
    a = ap.parse_args()
    if not a.chromium:
        sys.exit("expected chromium on PATH, or --chromium (Debian: apt-get install chromium)")
    if a.install:
        subprocess.run([sys.executable, "-m", "venv", a.venv], check=True)
        subprocess.run([f"{a.venv}/bin/pip", "install", "-q", *PACKAGES], check=True)
    if os.path.realpath(sys.prefix) != os.path.realpath(a.venv):  # once more, inside it
        python = os.path.join(a.venv, "bin/python")
        os.execv(python, [python, *[word for word in sys.argv if word != "--install"]])
    out = os.path.abspath(a.out)
    shutil.rmtree(f"{out}/events", ignore_errors=True)
    os.makedirs(out, exist_ok=True)
    train(os.path.abspath(a.bin), out)
    with open(f"{out}/metrics.jsonl", encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    problems = []
    check_page(a.chromium, out, events, problems)
    check_event_file(out, events, problems)
    for problem in problems:
        print("PROBLEM", problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
