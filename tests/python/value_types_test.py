#!/usr/bin/env python3
"""A value is the same category whatever it comes as: a model that was fitted through one door scores the same rows to the same
bits through every other one, or refuses and names the column. Run by ctest; HLITE_CSV_PREP, HLITE_TRAIN, HLITE_PREDICT and
HLITE_SERVE name the programs. Needs pandas, polars and pyarrow."""
import collections
import datetime
import decimal
import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import hugectr_lite as hl
from hugectr_lite import serve

ROWS, NEW = 1200, 5003
PLACES = [datetime.date(2024, 1, 1) + datetime.timedelta(days=7 * i) for i in range(9)]
# name: (the values, NA in some rows, Arrow's type, pandas' type)
KINDS = {
    "int": ([100000, 7, -3, 42, 0, 123456789012], False, pa.int64(), "int64"),
    "int_na": ([100000, 7, -3, 42, 0, 1000000], True, pa.int64(), "Int64"),
    "float_whole": ([100000.0, 7.0, -3.0, 42.0, 0.0, 1e6], True, pa.float64(), "float64"),
    "float": ([0.1, 1.5, -2.25, 1e-7, 3.0, 1e6], False, pa.float64(), "float64"),
    "float32": ([0.1, 1.5, -2.25, 3.0], False, pa.float32(), "float32"),
    "bool": ([True, False], False, pa.bool_(), "bool"),
    "bool_na": ([True, False], True, pa.bool_(), "boolean"),
    "text": (["Zürich", "#1, say \"hi\"", " x", "a|b"], True, pa.string(), "object"),
    "digits": (["7", "12", "007", "1e5"], False, pa.string(), "object"),
    "category_int": ([10, 20, 30], True, pa.dictionary(pa.int32(), pa.int64()), "category"),
    "category_text": (["red", "green", "1"], False, pa.dictionary(pa.int32(), pa.string()), "category"),
    "date": (PLACES, False, pa.date32(), "object"),
    "decimal": ([decimal.Decimal("1.50"), decimal.Decimal("2.25"), decimal.Decimal("100.00")], False, pa.decimal128(9, 2),
                "object"),
}


def table_of(kind, rows, seed):
    """{column: list}: the values of a kind, a number, and a label that follows from both."""
    values, holes, _, _ = KINDS[kind]
    random = np.random.default_rng([seed, list(KINDS).index(kind)])
    at = random.integers(0, len(values), rows)
    number = np.round(random.normal(size=rows), 3)
    label = (random.random(rows) < 1 / (1 + np.exp(-(3.0 * (at % 2) - 1.5 + number)))).astype(int)
    absent = (random.random(rows) < 0.1) & holes
    return {"clicked": label.tolist(), "v": [None if a else values[i] for a, i in zip(absent, at)], "x": number.tolist()}


def in_pandas(table, kind):
    frame = pd.DataFrame({"clicked": table["clicked"], "x": table["x"]})
    dtype = KINDS[kind][3]
    frame.insert(1, "v", pd.Series(table["v"], dtype=None if dtype == "category" else dtype, index=frame.index))
    if dtype == "category":
        values = KINDS[kind][0]
        frame["v"] = pd.Categorical(table["v"], categories=values)
    return frame


def in_arrow(table, kind):
    of = KINDS[kind][2]
    values = pa.array(table["v"], of.value_type).dictionary_encode() if pa.types.is_dictionary(of) else pa.array(table["v"], of)
    return pa.table({"clicked": pa.array(table["clicked"], pa.int64()), "v": values, "x": pa.array(table["x"], pa.float64())})


def in_polars(table, kind):
    frame = pl.from_arrow(in_arrow(table, kind))
    return frame.with_columns(pl.col("v").cast(pl.Categorical)) if kind == "category_text" else frame


def arrays(table, kind):
    return {name: np.array(values, object if name == "v" else None) for name, values in table.items()}


def csv_text(table, label=True, header=True):
    """As pandas writes it."""
    frame = pd.DataFrame({"clicked": table["clicked"], "v": pd.Series(table["v"], dtype=object), "x": table["x"]})
    return frame[["clicked"] * label + ["v", "x"]].to_csv(index=False, header=header)


def write_csv(path, table, kind):
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(csv_text(table))


def write_gzip(path, table, kind):
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        file.write(csv_text(table))


def write_parquet(path, table, kind):
    pq.write_table(in_arrow(table, kind), path)


FILES = {"csv": write_csv, "csv.gz": write_gzip, "parquet": write_parquet}
FRAMES = {"pandas": in_pandas, "pandas of Arrow": lambda t, k: in_arrow(t, k).to_pandas(types_mapper=pd.ArrowDtype),
          "polars": in_polars, "pyarrow": in_arrow, "arrays": arrays,
          # Without the type pandas makes 7 of 007.
          "CSV read by pandas": lambda t, k: pd.read_csv(io.StringIO(csv_text(t)), dtype={"v": str} if k == "digits" else None)}
SCHEMA = {"header": True, "label": {"column": "clicked", "positive": "1", "negative": "0"},
          "dense": [{"column": "x", "transform": "standardize"}], "categorical": [{"column": "v"}]}
REFUSED = {"date"}  # by doors whose dates are no text: they need a format
SERVED = 60  # rows that the server is asked for
LIMIT = 600  # seconds that an answer may take on a busy machine


def run(name, *command):
    return subprocess.run([os.environ["HLITE_" + name], *command], capture_output=True, text=True, check=False)


class Models:
    """Of one kind of values, by the door they were fitted through: a checkpoint, or the words of a refusal."""

    def __init__(self, folder, kind):
        self.folder, self.kind = folder, kind
        table = table_of(kind, ROWS, 1)
        self.fitted = {}
        for door, write in FILES.items():
            path, out = self.path(f"train.{door}"), self.path(f"{door}.model")
            write(path, table, kind)
            with open(self.path("schema.json"), "w", encoding="utf-8") as file:
                json.dump(SCHEMA, file)
            prepared = run("CSV_PREP", path, "--schema", self.path("schema.json"), "--out", self.path(door + ".data"),
                           "--val-share", "0", "--write-config", "deepfm", "--threads", "1")
            if prepared.returncode != 0:
                self.fitted[door] = prepared.stderr
                continue
            trained = run("TRAIN", "--config", self.path(door + ".data/deepfm.json"), "--set", "solver.num_epochs=1", "--set",
                          "solver.seed=5", "--save", out, "--with-preparation", "--quiet", "--threads", "1")
            assert trained.returncode == 0, trained.stderr
            self.fitted[door] = hl.Predictor(out, threads=1), out
        for door, frame_of in FRAMES.items():
            frame = frame_of(table, kind)
            X = {"v": frame["v"], "x": frame["x"]} if isinstance(frame, dict) else frame[["v", "x"]] if hasattr(
                frame, "iloc") else frame.select(["v", "x"])
            model = hl.Classifier("deepfm", categorical=["v"], epochs=1, random_state=1, threads=1, validation_fraction=0)
            try:
                model.fit(X, np.array(table["clicked"]))
            except (ValueError, TypeError, hl.Error) as error:
                self.fitted[door] = str(error)
                continue
            out = self.path(door.replace(" ", "_") + ".model")
            model.save(out)
            self.fitted[door] = hl.Predictor(out, threads=1), out

    def path(self, name):
        return os.path.join(self.folder, name)


class ValueTypesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def scores(self, predictor, out, door, table, kind):
        """float32 [rows], or the words of a refusal."""
        if door in FRAMES:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # no column may be unknown
                try:
                    return predictor.predict_frame(FRAMES[door](table, kind))
                except (ValueError, TypeError, hl.Error) as error:
                    return str(error)
        path = os.path.join(self.folder, "new." + door)
        FILES[door](path, table, kind)
        # Lines of a model of columns have no header, and the order of X.
        by_name = "header" in self.manifest(out)["features"]
        if not by_name and door == "csv":
            with open(path, encoding="utf-8", newline="") as file:
                lines = file.read().split("\n", 1)[1]
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(lines)
        elif not by_name:
            return None
        result = run("PREDICT", "--model", out, "--input", path, "--out", path + ".scores.csv", "--threads", "1")
        if result.returncode != 0:
            return result.stderr
        self.assertNotIn("warning", result.stderr)
        return pd.read_csv(path + ".scores.csv")["score"].to_numpy(np.float32)

    def served(self, models, table):
        """{fitted through: scores of the rows, as lines of text without label}"""
        names = {f"m{i}": fitted for i, fitted in enumerate(models)}
        command = [sys.executable, "-m", "hugectr_lite.serve", "--port", "0", "--threads", "1", "--deadline-ms", "3600000",
                   "--request-s", "3600"]
        for name, fitted in names.items():
            command += ["--model", f"{name}={models[fitted][1]}"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            port = re.search(r":(\d+)$", server.stdout.readline())[1]
            lines = csv_text(table, label=False, header=False)
            scores = {}
            for name, fitted in names.items():
                answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/models/{name}/text", lines.encode(), timeout=LIMIT)
                scores[fitted] = np.array(answer.read().decode().split(), np.float32)
            return scores
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=LIMIT)

    @staticmethod
    def manifest(out):
        with open(os.path.join(out, "preparation/manifest.json"), encoding="utf-8") as file:
            return json.load(file)

    def check_kind(self, kind):
        models, new = Models(self.folder, kind), table_of(kind, NEW, 2)
        refusals, scored = collections.Counter(), {}
        for fitted, model in models.fitted.items():
            if isinstance(model, str):
                self.assertIn(kind, REFUSED, f"{fitted}: {model}")
                self.assertRegex(model, r"\bv\b", fitted)
                refusals["fit"] += 1
                continue
            expected = None
            for door in [*FILES, *FRAMES]:
                with self.subTest(f"{kind}: fitted through {fitted}, scored through {door}"):
                    found = self.scores(*model, door, new, kind)
                    if found is None:
                        continue
                    if isinstance(found, str):
                        self.assertIn(kind, REFUSED, found)
                        self.assertRegex(found, r"\bv\b")
                        refusals["score"] += 1
                        continue
                    self.assertEqual(len(found), NEW)
                    if expected is None:
                        expected = found
                        area = hl.auc(new["clicked"], found)
                        self.assertGreater(area, 0.6)
                    np.testing.assert_array_equal(found, expected)
            self.assertIsNotNone(expected)
            scored[fitted] = expected
        self.assertEqual(bool(refusals), kind in REFUSED)
        if serve.program():
            rows = {name: values[:SERVED] for name, values in new.items()}
            for fitted, found in self.served({f: models.fitted[f] for f in scored}, rows).items():
                with self.subTest(f"{kind}: fitted through {fitted}, scored by serve"):
                    np.testing.assert_array_equal(found, scored[fitted][:SERVED])


for _kind in KINDS:
    setattr(ValueTypesTest, f"test_{_kind}", lambda self, kind=_kind: self.check_kind(kind))


if __name__ == "__main__":
    unittest.main()
