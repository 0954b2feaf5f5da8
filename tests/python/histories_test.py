#!/usr/bin/env python3
"""docs/gallery/histories.py against a slow oracle: what a history holds, which part a sample is in, which ids values get, and
that serving makes the lists of training."""
import contextlib
import datetime
import gzip
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

GALLERY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/gallery")
sys.path.insert(0, GALLERY)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "serve"))
from histories import Histories, check, prepare, read  # noqa: E402
from running_server import Server, json_scores  # noqa: E402


def log(n, users, times, seed=1):
    """Few times, so that many are the same; the last users have one event each."""
    draw = random.Random(seed)
    who = [draw.randrange(users - n // 20) for _ in range(n - n // 20)] + list(range(users - n // 20, users))
    item = [draw.randrange(30) for _ in who]
    rows = {"who": who, "item": [f"i{i}" for i in item], "kind": [i % 4 for i in item], "at": [draw.randrange(times) for _ in who],
            "stars": [draw.randrange(1, 6) for _ in who]}
    return pl.DataFrame(rows)


def oracle(events, liked, last, train, val, min_count):
    """{part: the samples, as tuples, in order of time}"""
    rows = sorted(events.iter_rows(named=True), key=lambda row: row["at"])
    cuts = [rows[min(int(len(rows) * share), len(rows) - 1)]["at"] for share in (train, train + val)]
    part_of = lambda row: "train" if row["at"] < cuts[0] else "val" if row["at"] < cuts[1] else "test"  # noqa: E731
    ids = {}
    for name in ("who", "item", "kind"):
        seen = [row[name] for row in rows if part_of(row) == "train"]
        often = sorted((v for v in set(seen) if seen.count(v) >= min_count), key=lambda v: (-seen.count(v), v))
        ids[name] = {value: 1 + i for i, value in enumerate(often)}
    parts = {"train": [], "val": [], "test": []}
    for row in rows:
        before = [other for other in rows if other["who"] == row["who"] and other["at"] < row["at"]
                  and (not liked or other["stars"] >= 4)][-last:]
        parts[part_of(row)].append((float(row["stars"] >= 4), *(ids[name].get(row[name], 0) for name in ids),
                                    *([ids[name].get(other[name], 0) for other in before] for name in ("item", "kind"))))
    return parts


class HistoriesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def how(self, liked=False, last=5):
        return Histories("who", ["item", "kind"], "at", "stars >= 4", liked, last)

    def part(self, name):
        return pl.read_parquet(os.path.join(self.folder, name + ".parquet"))

    def test_samples_are_those_of_the_oracle(self):
        events = log(600, 60, 90)
        for liked, last, min_count in ((False, 5, 2), (True, 5, 1), (True, 1, 2), (False, 1000, 3)):
            with self.subTest(liked=liked, last=last):
                files = prepare(events, self.how(liked, last), self.folder, min_count=min_count)
                expected = oracle(events, liked, last, 0.8, 0.1, min_count)
                for name, rows in expected.items():
                    found = self.part(name).rows()
                    self.assertEqual(sorted(found) if name == "train" else found, sorted(rows) if name == "train" else rows)
                    self.assertEqual(files[name]["samples"], len(rows))
                    self.assertEqual(files[name]["empty"], sum(row[4] == [] for row in rows))
                self.assertGreater(files["train"]["empty"], 0)
                self.assertNotEqual(self.part("train").rows(), expected["train"])  # another order than that of time

    def test_serving_makes_the_lists_of_training(self):
        events = log(600, 60, 90, seed=2)
        for liked, last in ((True, 5), (False, 1)):
            prepare(events, self.how(liked, last), self.folder)
            how = Histories.load(self.folder)
            asks = events.sort("at", maintain_order=True)
            trained = sorted(self.part("train").rows() + self.part("val").rows() + self.part("test").rows())
            everything = how.samples(asks.select("who", "item", "kind", "at"), events)
            self.assertEqual(sorted(row[1:] for row in trained), sorted(everything.rows()))
            for row, expected in list(zip(asks.iter_rows(named=True), everything.rows()))[::7]:
                past = events.filter((pl.col("who") == row["who"]) & (pl.col("at") < row["at"]))
                for given in (past, events.filter(pl.col("who") == row["who"])):
                    self.assertEqual(how.samples(pl.DataFrame([row]), given).rows(), [expected])
        backwards = how.samples(asks.reverse(), events)
        self.assertEqual(backwards["item"].to_list(), everything["item"].reverse().to_list())  # rows stay in their order

    def test_dates_and_values_never_seen(self):
        events = log(200, 30, 50).with_columns(at=datetime.datetime(2026, 1, 1) + pl.duration(hours=pl.col("at")))
        prepare(events, self.how(last=3), self.folder)
        how = Histories.load(self.folder)
        ask = pl.DataFrame({"who": [10**6], "item": ["new"], "kind": [77], "at": [datetime.datetime(2027, 1, 1)]})
        self.assertEqual(how.samples(ask, events).rows(), [(0, 0, 0, [], [])])
        self.assertEqual(how.samples(ask, events[:0]).rows(), [(0, 0, 0, [], [])])

    def test_files_are_lists_of_int32_in_several_row_groups(self):
        events = log(3000, 300, 900)
        prepare(events, self.how(last=1 << 18), self.folder)
        file = pq.ParquetFile(os.path.join(self.folder, "train.parquet"))
        self.assertGreater(file.num_row_groups, 100)
        for name in ("item_history", "kind_history"):
            self.assertEqual(file.schema_arrow.field(name).type.value_type, pa.int32())
        with open(os.path.join(self.folder, "histories.json"), encoding="utf-8") as text:
            facts = json.load(text)
        self.assertEqual(facts["columns"]["cats"], ["who", "item", "kind", "item_history", "kind_history"])
        self.assertEqual(facts["rows"], {name: 1 + max(self.part("train")[name]) for name in ("who", "item", "kind")})

    def test_commands(self):
        events = log(300, 30, 80)
        facts = events.select("item", "kind").unique().sort("item")
        path = {name: os.path.join(self.folder, name) for name in ("log.csv", "facts.csv", "out", "ask.csv")}
        events.drop("kind").write_csv(path["log.csv"])
        facts.write_csv(path["facts.csv"])
        script = [sys.executable, os.path.join(GALLERY, "histories.py")]
        made = subprocess.run([*script, "prepare", path["log.csv"], "--join", path["facts.csv"], "--user", "who", "--item", "item,kind",
                               "--time", "at", "--label", "stars >= 4", "--last", "4", "--out", path["out"]],
                              capture_output=True, text=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("train: ", made.stdout)
        with open(path["ask.csv"], "w", encoding="utf-8") as file:
            file.write("who,item,at\n3,i7,40\n10000,i8,41\n")
        body = subprocess.run([*script, "request", path["out"], "--past", path["log.csv"], "--join", path["facts.csv"], "--ask",
                               path["ask.csv"]], capture_output=True, text=True, check=False)
        self.assertEqual(body.returncode, 0, body.stderr)
        keys = json.loads(body.stdout)["inputs"][0]
        self.assertEqual((keys["name"], keys["shape"], len(keys["data"])), ("keys", [2, 3 + 2 * 4], 22))
        how = Histories.load(path["out"])
        asks = pl.read_csv(path["ask.csv"]).join(facts, on="item", maintain_order="left")
        rows = how.samples(asks, events).rows()
        pad = lambda keys: keys + [-1] * (4 - len(keys))  # noqa: E731
        self.assertEqual(keys["data"], [key for row in rows for key in (*row[:3], *pad(row[3]), *pad(row[4]))])
        self.assertGreater(len(rows[0][3]), 0)
        self.assertEqual(rows[1][3:], ([], []))

    def test_the_page_leads_from_a_log_to_served_probabilities(self):
        with open(os.path.join(GALLERY, "../histories.md"), encoding="utf-8") as page:
            commands = page.read().split("```\n")[1]
        before, after = re.split("serve .*&\n", commands)
        ask, curl = after.split("curl ")
        self.assertIn("ml/infer -d @ask.json", curl)
        draw = random.Random(4)
        events = [(draw.randrange(400, 420), draw.randrange(1, 30), draw.choice((2, 3.5, 4, 5)), 10**9 + 60 * i) for i in range(600)]
        for name, header, rows in (("ratings", "userId,movieId,rating,timestamp", events),
                                   ("movies", "movieId,title,genres", [(i, f"m{i}", "A|B" if i % 3 else "C") for i in range(1, 30)])):
            with gzip.open(os.path.join(self.folder, name + ".csv.gz"), "wt", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in (header, *(",".join(map(str, row)) for row in rows)))
        os.mkdir(os.path.join(self.folder, "bin"))
        for name in ("train", "predict"):
            os.symlink(os.environ["HLITE_" + name.upper()], os.path.join(self.folder, "bin", name))
        os.symlink(sys.executable, os.path.join(self.folder, "bin", "python3"))
        os.symlink(os.path.join(GALLERY, ".."), os.path.join(self.folder, "docs"))

        def shell(script):
            done = subprocess.run(["bash", "-ec", script], cwd=self.folder, capture_output=True, text=True, check=False,
                                  env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        shell(before.replace("--save", "--set solver.num_epochs=2 --quiet --save"))
        scores = np.load(os.path.join(self.folder, "ml/scores.npy"))
        self.assertGreater(np.unique(scores).size, 30)

        def served(server):
            with open(os.path.join(self.folder, "ask.json"), "rb") as body:
                status, _, answer = server.ask("/v2/models/ml/infer", body.read())
            self.assertEqual(status, 200, answer)
            return json_scores(answer)
        with Server(models=(f"ml={self.folder}/ml/model",)) as server:
            shell(ask)
            self.assertEqual(served(server).size, 1)
            # The test part again, as a program that serves would see it.
            asks = "\n".join(f"{user},{item},{at}" for user, item, _, at in events[-scores.size:])
            shell(ask.replace("414,2,1600000000", asks))
            np.testing.assert_array_equal(served(server), scores.ravel())

    def test_what_is_missing_is_named(self):
        events = log(100, 20, 30)
        with self.assertRaisesRegex(ValueError, "kind: expected a value in every row, found 1 rows without"):
            check(events.with_columns(kind=pl.when(pl.col("kind").cum_count() > 1).then("kind")), ["who", "kind"])
        with self.assertRaisesRegex(ValueError, "at: expected times of all three parts, found none for train"):
            prepare(events.with_columns(at=pl.lit(1)), self.how(), self.folder)
        events.write_csv(os.path.join(self.folder, "log.csv"))
        with contextlib.redirect_stdout(io.StringIO()), self.assertRaises(pl.exceptions.ColumnNotFoundError):
            read([os.path.join(self.folder, "log.csv")], ["who", "where"])


if __name__ == "__main__":
    unittest.main()
