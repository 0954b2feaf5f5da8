#!/usr/bin/env python3
"""Test AUC of WDL, DeepFM, DCN, DCNv2 and DLRM on MovieLens and Adult, ours and PyTorch's, in one command:

  tests/bench/accuracy.py --movielens DIR --adult DIR --out WORK [--python VENV/bin/python]

--movielens: a folder with GroupLens' ratings.csv and movies.csv (ml-latest-small; plain or gzip), whose terms its
README states. Label: a rating of 4 or more. Fields: user, movie, genres, year. Rating i of the file, from 0: validation where
i mod 10 is 8, test where it is 9, else training.
--adult: a folder with UCI's adult.data and adult.test (plain or gzip). Validation: every tenth training line.

Prepares the data with csv_prep, trains configs/accuracy/<set>_<model>.json with each seed, and with --python the same
configs in PyTorch (pytorch_config.py), in turn; prints a table of means and standard deviations over seeds.
"""
import argparse
import csv
import gzip
import json
import os
import re
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CONFIGS = os.path.join(ROOT, "configs", "accuracy")
MODELS = ["logistic", "wdl", "deepfm", "dcn", "dcnv2", "dlrm"]


def open_text(folder, name):
    path = os.path.join(folder, name)
    if os.path.exists(path):
        return open(path, newline="", encoding="utf-8")
    if os.path.exists(path + ".gz"):
        return gzip.open(path + ".gz", "rt", newline="", encoding="utf-8")
    sys.exit(f"accuracy.py: expected {path} or {path}.gz, found neither")


def write_splits(lines, header, folder):
    """lines: (split, fields); makes <folder>/<split>.csv."""
    os.makedirs(folder, exist_ok=True)
    files = {split: open(os.path.join(folder, split + ".csv"), "w", newline="", encoding="utf-8")
             for split in ("train", "val", "test")}
    writers = {split: csv.writer(f, lineterminator="\n") for split, f in files.items()}
    if header:
        for writer in writers.values():
            writer.writerow(header)
    for split, fields in lines:
        writers[split].writerow(fields)
    for f in files.values():
        f.close()


def movielens_lines(folder):
    movies = {}
    with open_text(folder, "movies.csv") as f:
        for row in csv.DictReader(f):
            year = re.search(r"\((\d{4})\)\s*$", row["title"])
            movies[row["movieId"]] = (row["genres"], year.group(1) if year else "")
    with open_text(folder, "ratings.csv") as f:
        for i, row in enumerate(csv.DictReader(f)):
            split = {8: "val", 9: "test"}.get(i % 10, "train")
            yield split, (int(float(row["rating"]) >= 4), row["userId"], row["movieId"], *movies[row["movieId"]])


def adult_lines(folder):
    for name in ("adult.data", "adult.test"):
        with open_text(folder, name) as f:
            rows = [line.strip() for line in f]
        rows = [[field.strip() for field in row.split(",")] for row in rows if row.count(",") == 14]
        for i, row in enumerate(rows):
            yield ("test" if name == "adult.test" else "val" if i % 10 == 9 else "train"), row


def prepare(name, schema, lines, header, work):
    raw = os.path.join(work, name + "_csv")
    write_splits(lines, header, raw)
    splits = [argument for split in ("train", "val", "test")
              for argument in ("--" + split, os.path.join(raw, split + ".csv"))]
    subprocess.run([os.path.join(A.bin, "csv_prep"), "--schema", schema, *splits, "--out", os.path.join(work, name),
                    "--force"], check=True, stdout=subprocess.DEVNULL)


def ours(config, seed, work):
    metrics = os.path.join(work, "metrics.jsonl")
    changes = [argument for change in A.set for argument in ("--set", change)]
    subprocess.run([os.path.join(A.bin, "train"), "--config", config, "--quiet", "--device", A.device,
                    "--threads", str(A.threads), "--metrics", metrics, "--set", f"solver.seed={seed}",
                    "--set", f"solver.snapshot_prefix={os.path.abspath(work)}/run_", *changes], check=True, cwd=work)
    with open(metrics) as f:
        events = [json.loads(line) for line in f]
    test = next(e for e in events if e["event"] == "test")
    return {"auc": test["auc"], "loss": test["loss"], "epochs": sum(e["event"] == "eval" for e in events)}


def pytorch(config, seed, work):
    out = subprocess.run([A.python, os.path.join(HERE, "pytorch_config.py"), "--config", config, "--data", work, "--seed",
                          str(seed), "--threads", str(A.threads)], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out.strip().splitlines()[-1])


def text(results):
    aucs = [r["auc"] for r in results]
    spread = statistics.stdev(aucs) if len(aucs) > 1 else 0.0
    return (f"{statistics.mean(aucs):.5f} ± {spread:.5f} | {statistics.mean(r['loss'] for r in results):.4f} | "
            f"{statistics.mean(r['epochs'] for r in results):.1f}")


def compare(name, work):
    print("\n| " + name + " | AUC | log loss | epochs |" + (" PyTorch AUC | log loss | epochs | difference |" if A.python else ""))
    print("|---" * (8 if A.python else 4) + "|")
    for model in A.models:
        config = os.path.join(CONFIGS, f"{name}_{model}.json")
        mine, theirs = [], []
        for seed in range(1, A.seeds + 1):
            mine.append(ours(config, seed, work))
            if A.python:
                theirs.append(pytorch(config, seed, work))
            print(f"{name} {model} seed {seed}:", mine[-1], theirs[-1] if theirs else "", file=sys.stderr, flush=True)
        line = f"| {model} | {text(mine)} |"
        if A.python:
            difference = statistics.mean(r["auc"] for r in mine) - statistics.mean(r["auc"] for r in theirs)
            line += f" {text(theirs)} | {difference:+.5f} |"
        print(line, flush=True)


def main():
    global A
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--movielens")
    parser.add_argument("--adult")
    parser.add_argument("--out", required=True, help="a folder for data and metrics")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build", "release", "bin"))
    parser.add_argument("--python", help="of a virtual environment with PyTorch; without it ours alone")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", type=lambda x: x.split(","), default=MODELS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE",
                        help="a change of every config, of our runs alone; may be repeated")
    A = parser.parse_args()
    if not A.movielens and not A.adult:
        parser.error("expected --movielens, --adult or both")
    os.makedirs(A.out, exist_ok=True)
    if A.movielens:
        prepare("movielens", os.path.join(CONFIGS, "movielens_schema.json"), movielens_lines(A.movielens),
                ["like", "user", "movie", "genres", "year"], A.out)
        compare("movielens", A.out)
    if A.adult:
        prepare("adult", os.path.join(ROOT, "configs", "adult_schema.json"), adult_lines(A.adult), None, A.out)
        compare("adult", A.out)


if __name__ == "__main__":
    main()
