#!/usr/bin/env python3
"""Columns as a schema makes them over are the same in preparation, predict, serve and Python, bit for bit, and as the
definition says. Run by ctest; HLITE_CSV_PREP and HLITE_PREDICT name the programs."""
import csv
import datetime
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request

import numpy as np

import hugectr_lite as hl
from hugectr_lite import serve

LIMIT = 600  # seconds that an answer may take on a busy machine
TRAIN, NEW, MIN_COUNT = 3000, 10_000, 3
SEEN, SIGNUP = "%Y-%m-%d %H:%M:%S", "%d/%m/%Y"
MISSING = ("", "?", "NA")
NO_KEY = 2**32 - 1
SEEN_DATE = {"format": SEEN, "parts": ["hour", "weekday", "month"]}
SCHEMA = {
    "missing": ["?", "NA"],
    "label": {"column": 0, "positive": ["1"], "negative": ["0"]},
    "carry": [7],
    "dense": [
        {"column": 1, "name": "amount", "clip": [0, 500], "transform": "log1p_standardize"},
        {"column": 2, "name": "score", "missing": "-999.0", "transform": "standardize"},
        {"column": 5, "name": "seen", "transform": "standardize",
         "date": {"format": SEEN, "age": "hours",
                  "since": {"column": 6, "name": "signup", "format": SIGNUP}}},
        {"column": 6, "name": "signup", "clip": [-400, 400],
         "date": {"format": SIGNUP, "age": "days", "since": "01/07/2023", "malformed": "missing"}}],
    "categorical": [
        {"column": 3, "name": "city"},
        {"column": 4, "name": "colour"},
        {"column": 1, "name": "amount", "quantiles": 8},
        {"column": 2, "name": "score", "missing": "-999.0", "buckets": [-1, 0, 1.5]},
        {"column": 5, "name": "seen", "date": SEEN_DATE},
        {"cross": ["city", "colour"]},
        {"cross": ["city", "seen weekday", {"column": 2, "name": "sign", "missing": "-999.0", "buckets": [0]}]},
        {"cross": ["city", "amount x", "colour"], "hash": 37, "name": "hashed"},
        {"column": 8, "name": "tags", "missing": "none", "separator": "|", "max_values": 6},
        {"column": 8, "name": "first tags", "separator": "|", "max_values": 2, "truncate": True}]}
SCHEMA["categorical"].insert(6, {"column": 1, "name": "amount x", "buckets": [10, 50]})


class Rows:
    """Fields of the columns 1 to 8 of n rows; `new`: some categories that others do not have."""

    def __init__(self, n, seed, new=False):
        random = np.random.default_rng(seed)
        cities = ["Zürich", "東京", "a&b", "a\\&b", "back\\slash", 'say "hi", twice', "Łódź", " padded", "a", "b&b"]
        cities += [f"town {i}" for i in range(40 if new else 25)] + ["🙂", "नमस्ते"] * new
        absent = lambda share: random.random(n) < share  # noqa: E731
        hole = lambda: MISSING[random.integers(3)]  # noqa: E731
        amount = np.round(random.lognormal(3, 1.5, n) - 5, 2)
        score = random.normal(0, 1.5, n)
        start = datetime.datetime(2023, 1, 1)
        moments = [start + datetime.timedelta(seconds=int(s)) for s in random.integers(0, 500 * 86400, n)]
        days = [start + datetime.timedelta(days=int(d)) for d in random.integers(-300, 500, n)]
        no_amount, no_score, no_city, no_colour, no_seen, no_signup = (absent(0.06) for _ in range(6))
        self.amount = np.where(no_amount, np.nan, amount)
        self.score = np.where(no_score, np.nan, np.where(absent(0.03), -999, score))
        self.city = [hole() if m else cities[int(len(cities) * u * u)] for m, u in zip(no_city, random.random(n))]
        self.colour = [hole() if m else f"c{int(12 * u * u)}" for m, u in zip(no_colour, random.random(n))]
        self.seen = [None if m else moment for m, moment in zip(no_seen, moments)]
        # The age of `seen` wants every signup to be a date, or absent.
        self.signup = [hole() if m else day.strftime(SIGNUP) for m, day in zip(no_signup, days)]
        self.user = [f'user "{i}", Ü\n{i % 7}' if i % 50 == 0 else f"u{i}" for i in range(n)]
        tags = ["Ünï", "東京", "a&b", "x y", " padded", "NA", "none", ""] + [f"tag {i}" for i in range(25 if new else 15)]
        tags += ["🙂", "नमस्ते"] * new
        self.tags = [hole() if random.random() < 0.1 else
                     "|".join(tags[int(len(tags) * u * u)] for u in random.random(random.integers(0, 7))) for _ in range(n)]
        self.label = (random.random(n) < 0.3 + 0.4 * (np.arange(n) % 3 == 0)).astype(int)
        self.fields = [[hole() if np.isnan(x) else repr(float(x)) for x in self.amount],
                       [hole() if np.isnan(x) else repr(float(x)) for x in self.score],
                       self.city, self.colour, [hole() if d is None else d.strftime(SEEN) for d in self.seen],
                       self.signup, self.user, self.tags]

    def frame(self, absent=MISSING):
        """absent: texts that are None."""
        text = lambda column: np.array([None if field in absent else field for field in column], object)  # noqa: E731
        return {"amount": self.amount, "score": self.score, "city": text(self.city), "colour": text(self.colour),
                "seen": np.array(self.seen, "M8[s]"), "signup": text(self.signup), "tags": text(self.tags)}

    def write(self, path, label=True):
        columns = [self.label.tolist()] * label + self.fields
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(zip(*columns))


# The definition, in Python.

def bucket(x, edges):
    if x is None:
        return None
    at = sum(edge <= x for edge in edges)
    text = [f"{edge:.17g}" if float(f"{edge:g}") != edge else f"{edge:g}" for edge in edges]
    return f"[{'-inf' if at == 0 else text[at - 1]}, {'inf' if at == len(edges) else text[at]})"


def escaped(token):
    return token.replace("\\", "\\\\").replace("&", "\\&")


def cross(*tokens):
    return None if None in tokens else "&".join(map(escaped, tokens))


class Oracle:
    """Numbers before they are standardized, and tokens, of rows."""

    def __init__(self, rows, edges):
        present = lambda field: None if field in MISSING else field  # noqa: E731
        number = lambda field, *more: None if field in MISSING + more else float(field)  # noqa: E731
        amount, score, city, colour, seen, signup, _, tags = rows.fields
        amount, score = [number(f) for f in amount], [number(f, "-999.0") for f in score]
        city, colour = [present(f) for f in city], [present(f) for f in colour]
        seen = [None if f in MISSING else datetime.datetime.strptime(f, SEEN) for f in seen]
        signup = [None if f in MISSING else datetime.datetime.strptime(f, SIGNUP) for f in signup]
        clip = lambda x, low, high: None if x is None else min(max(x, low), high)  # noqa: E731
        july = datetime.datetime(2023, 7, 1)
        self.dense = [
            [None if x is None else math.log1p(clip(x, 0, 500)) for x in amount],
            score,
            [None if s is None or t is None else (s - t).total_seconds() / 3600 for s, t in zip(seen, signup)],
            [None if t is None else clip((t - july).total_seconds() / 86400, -400, 400) for t in signup]]
        part = lambda of: [None if s is None else str(of(s)) for s in seen]  # noqa: E731
        weekday = part(lambda s: s.isoweekday())
        sign = [bucket(x, [0]) for x in score]
        coarse = [bucket(x, [10, 50]) for x in amount]
        present = [x for x in amount if x is not None]
        self.edges = sorted({sorted(present)[j * len(present) // 8] for j in range(1, 8)}) if edges is None else edges
        self.tokens = [
            city, colour, [bucket(x, self.edges) for x in amount], [bucket(x, [-1, 0, 1.5]) for x in score],
            part(lambda s: s.hour), weekday, part(lambda s: s.month),
            [cross(*pair) for pair in zip(city, colour)],
            coarse, [cross(*three) for three in zip(city, weekday, sign)],
            [cross(*three) for three in zip(city, coarse, colour)]]
        listed = lambda field, *more: [value for value in field.split("|") if value not in MISSING + more]  # noqa: E731
        self.lists = [[listed(field, "none") for field in tags], [listed(field)[:2] for field in tags]]


def ids_of(train):
    """{token: id} of a column: first appearance, tokens of MIN_COUNT rows."""
    tokens = [token for token in dict.fromkeys(train) if token is not None and train.count(token) >= MIN_COUNT]
    return {token: 1 + i for i, token in enumerate(tokens)}


def run(program, *arguments):
    subprocess.run([os.environ["HLITE_" + program.upper()], *arguments], check=True, capture_output=True, timeout=LIMIT)


class ColumnsTest(unittest.TestCase):
    def setUp(self):
        folder, before = tempfile.TemporaryDirectory(), os.getcwd()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, before)
        os.chdir(folder.name)

    def prepare(self):
        train, new = Rows(TRAIN, 1), Rows(NEW, 2, new=True)
        train.write("train.csv")
        new.write("new.csv")
        with open("schema.json", "w", encoding="utf-8") as file:
            json.dump(SCHEMA, file)
        run("csv_prep", "--schema", "schema.json", "--train", "train.csv", "--val", "new.csv", "--min-count", str(MIN_COUNT),
            "--write-config", "dcnv2", "--out", "data")
        return train, new

    def check_definition(self, train, new):
        with open("data/manifest.json", encoding="utf-8") as file:
            features = json.load(file)["features"]
        known = Oracle(train, None)
        self.assertEqual(features["categorical"][2]["edges"], known.edges)
        for name, rows in (("train", train), ("val", new)):
            of, width = Oracle(rows, known.edges), 1 + 4 + 11 + 6 + 2
            words = np.fromfile(f"data/{name}.bin", "<u4").reshape(-1, width)
            self.assertEqual(len(words), len(rows.user))
            np.testing.assert_array_equal(words[:, 0], rows.label)
            for k, values in enumerate(of.dense):
                mean, deviation = features["dense"][k]["mean"], features["dense"][k]["deviation"]
                if SCHEMA["dense"][k].get("transform"):
                    present = [x for x in known.dense[k] if x is not None]
                    self.assertAlmostEqual(mean, np.mean(present), delta=1e-9 * np.std(present))
                    self.assertAlmostEqual(deviation, np.std(present), delta=1e-9 * deviation)
                    values = [None if x is None else (x - mean) / deviation for x in values]
                expected = np.array([0 if x is None else x for x in values], np.float32)
                np.testing.assert_array_equal(words[:, 1 + k].copy().view("<f4"), expected, err_msg=f"{name} dense {k}")
            for slot, tokens in enumerate(of.tokens[:10]):
                ids = ids_of(known.tokens[slot])
                expected = [0 if token is None else ids.get(token, 0) for token in tokens]
                np.testing.assert_array_equal(words[:, 5 + slot], expected, err_msg=f"{name} slot {slot}")
                self.assertGreater(sum(i == 0 for i in expected), 0)
            # Of the hash only what follows from the definition: a function of the text with few values.
            by_text = {}
            for token, i in zip(of.tokens[10], words[:, 15].tolist()):
                self.assertEqual(by_text.setdefault(token, i), i)
            self.assertEqual(by_text[None], 0)
            self.assertLessEqual(len(set(by_text.values())), 38)
            self.assertGreater(len(set(by_text.values())), 30)
            for first, most, train_lists, lists in zip((16, 22), (6, 2), known.lists, of.lists):
                ids = ids_of([value for values in train_lists for value in values])
                expected = [[ids.get(value, 0) for value in values] or [0] for values in lists]
                self.assertEqual({len(values) for values in expected}, set(range(1, most + 1)))
                self.assertEqual(any(0 in values[1:] for values in expected), name == "val")
                expected = [values + [NO_KEY] * (most - len(values)) for values in expected]
                np.testing.assert_array_equal(words[:, first:first + most], expected, err_msg=f"{name} keys from {first}")

    def prepared_arrays(self):
        """dense, keys of the prepared validation rows, with -1 in place of a key that is not there."""
        words = np.fromfile("data/val.bin", "<u4").reshape(-1, 24)
        keys = words[:, 5:].astype(np.int64)
        keys[keys == NO_KEY] = -1
        self.assertGreater((keys == -1).sum(), NEW)
        return words[:, 1:5].copy().view("<f4"), keys

    def served(self, rows):
        """Scores of the lines without their labels, and of the same rows as values, as `serve` answers them."""
        with open("bare.csv", encoding="utf-8", newline="") as file:
            lines = []
            for fields in csv.reader(file):
                lines.append(",".join('"' + field.replace('"', '""') + '"' for field in fields))
        self.assertEqual(len(lines), rows)
        server = subprocess.Popen([sys.executable, "-m", "hugectr_lite.serve", "--model", "model", "--port", "0", "--threads",
                                   "2", "--deadline-ms", "3600000", "--request-s", "3600"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        dense, keys = self.prepared_arrays()
        scores, of_values = [], []
        try:
            port = re.search(r":(\d+)$", server.stdout.readline())[1]
            for at in range(0, rows, 999):
                part = lines[at:at + 999]
                body = {"inputs": [{"name": "text", "shape": [len(part), 1], "datatype": "BYTES", "data": part}]}
                answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/models/model/infer", json.dumps(body).encode(),
                                                timeout=LIMIT)
                scores += json.load(answer)["outputs"][0]["data"]
                values = slice(at, at + len(part))
                body = {"inputs": [{"name": "dense", "shape": [len(part), 4], "datatype": "FP32",
                                    "data": dense[values].astype(float).tolist()},
                                   {"name": "keys", "shape": [len(part), 19], "datatype": "INT64", "data": keys[values].tolist()}]}
                answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/models/model/infer", json.dumps(body).encode(),
                                                timeout=LIMIT)
                of_values += json.load(answer)["outputs"][0]["data"]
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=LIMIT)
        return np.array(scores, np.float32), np.array(of_values, np.float32)

    def test_all_ways_give_the_same_bits_and_those_of_the_definition(self):
        train, new = self.prepare()
        self.check_definition(train, new)
        trainer = hl.Trainer("data/dcnv2.json", set={"solver.num_epochs": 2, "solver.threads": 2}, with_preparation=True, threads=2)
        list(trainer.train())
        trainer.save("model")
        new.write("bare.csv", label=False)
        run("predict", "--model", "model", "--input", "data/val.bin", "--out", "prepared.npy")
        run("predict", "--model", "model", "--input", "new.csv", "--out", "text.npy")
        run("predict", "--model", "model", "--input", "bare.csv", "--no-label", "--out", "bare.npy")
        expected = np.load("prepared.npy")
        self.assertEqual(len(expected), NEW)
        self.assertGreater(len(np.unique(expected)), NEW // 4)
        np.testing.assert_array_equal(np.load("text.npy"), expected)
        np.testing.assert_array_equal(np.load("bare.npy"), expected)
        predictor = hl.Predictor("model", threads=2)
        np.testing.assert_array_equal(predictor.predict_frame({"more": np.zeros(NEW), **new.frame(absent=())}), expected)
        np.testing.assert_array_equal(predictor.predict(*self.prepared_arrays()), expected)
        if serve.program():
            for scores in self.served(NEW):
                np.testing.assert_array_equal(scores, expected)
        self.check_carried(new, expected)

    def check_carried(self, rows, expected):
        for arguments, names in (([], ["column 7"]), (["--carry", "city,0,7"], ["city", "0", "7"])):
            run("predict", "--model", "model", "--input", "new.csv", "--out", "scores.csv", *arguments)
            with open("scores.csv", encoding="utf-8", newline="") as file:
                header, *lines = csv.reader(file)
            self.assertEqual(header, [*names, "score"])
            self.assertEqual([line[-2] for line in lines], rows.user)
            np.testing.assert_array_equal(np.array([line[-1] for line in lines], np.float32), expected)
            if arguments:
                self.assertEqual([line[0] for line in lines], rows.city)
                self.assertEqual([line[1] for line in lines], [str(label) for label in rows.label])
        run("predict", "--model", "model", "--input", "bare.csv", "--no-label", "--carry", "7", "--out", "scores.csv")
        with open("scores.csv", encoding="utf-8", newline="") as file:
            self.assertEqual([line[0] for line in csv.reader(file)][1:], rows.user)
        for words, arguments in (("--carry: expected columns that the lines have, found \"0\", the label",
                                  ("--input", "bare.csv", "--no-label", "--carry", "0", "--out", "x.csv")),
                                 ("--carry: expected names of columns in the schema, or numbers of columns, found \"town\"",
                                  ("--input", "new.csv", "--carry", "town", "--out", "x.csv")),
                                 ("--carry: expected --out FILE.csv or -, which have columns, found x.npy",
                                  ("--input", "new.csv", "--carry", "7", "--out", "x.npy")),
                                 ("--carry: expected lines of text",
                                  ("--input", "data/val.bin", "--carry", "7", "--out", "x.csv")),
                                 ("expected at least 10 columns",
                                  ("--input", "new.csv", "--carry", "9", "--out", "x.csv"))):
            result = subprocess.run([os.environ["HLITE_PREDICT"], "--model", "model", *arguments], capture_output=True, text=True,
                                    check=False, timeout=LIMIT)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(words, result.stderr)
            self.assertFalse(os.path.exists("x.csv"))

    def test_a_classifier_takes_the_same_blocks(self):
        rows = Rows(TRAIN, 1)
        frame = rows.frame()
        columns = {"dense": [{"column": "amount", "clip": [0, 500], "transform": "log1p_standardize"},
                             {"column": "seen", "transform": "standardize",
                              "date": {"format": SEEN, "age": "hours", "since": {"column": "signup", "format": SIGNUP}}}],
                   "categorical": [{"column": "score", "missing": "-999.0", "quantiles": 5},
                                   {"column": 4, "date": SEEN_DATE},
                                   {"cross": ["city", {"column": "colour"}, "seen hour"], "limit": 100000},
                                   {"column": "tags", "separator": "|", "max_values": 6}]}
        model = hl.Classifier("dcnv2", columns=columns, epochs=2, random_state=3, threads=2).fit(frame, rows.label)
        names = [column["name"] for column in json.loads(model._files["preparation/manifest.json"])["columns"]]  # noqa: SLF001
        self.assertEqual(names, ["city", "score", "seen hour", "seen weekday", "seen month", "city x colour x seen hour", "tags"])
        new = Rows(500, 4, new=True)
        proba = model.predict_proba(new.frame())[:, 1]
        model.save("model")
        fields = [new.fields[k] for k in (0, 1, 2, 3, 4, 5, 7)]
        with open("lines.csv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(zip(*[["" if f in MISSING else f for f in column] for column in fields]))
        run("predict", "--model", "model", "--input", "lines.csv", "--no-label", "--out", "lines.npy")
        np.testing.assert_array_equal(np.load("lines.npy").astype(np.float64), proba)
        np.testing.assert_array_equal(hl.Predictor("model", threads=2).predict_frame(new.frame()).astype(np.float64), proba)

    def test_blocks_that_cannot_be_are_named(self):
        frame, label = {"when": np.array(["2024-01-01", "2024-02-01"], "M8[D]"), "n": np.array([1.5, 2])}, [0, 1]
        for error, words, columns in (
                (TypeError, "X: column when: expected numbers, text or booleans, found datetime64", None),
                (ValueError, "columns: expected columns of X \\(when, n\\), found 'then'",
                 {"categorical": [{"column": "then"}]}),
                (ValueError, "columns: expected \"dense\" and \"categorical\", found 'sparse'", {"sparse": []}),
                (hl.ConfigError, "categorical\\[0\\].date.parts", {"categorical": [{"column": "when", "date": {
                    "format": "%Y", "parts": ["age"]}}]}),
                (TypeError, "X: column when: expected numbers, text or booleans", {"dense": [{"column": "when"}]}),
                (hl.ConfigError, "categorical\\[1\\].separator: \"max_values\", the maximum number of values in a field, is required with it",
                 {"categorical": [{"column": "n", "buckets": [1]}, {"column": "when", "separator": "|"}]})):
            with self.subTest(words), self.assertRaisesRegex(error, words):
                hl.Classifier(columns=columns).fit(frame, label)
        lists = np.array([["a", "b"], ["c"]], object)
        with self.assertRaisesRegex(TypeError, "found lists, which need a block with a separator and max_values"):
            hl.Classifier().fit({"tags": lists}, label)


if __name__ == "__main__":
    unittest.main()
