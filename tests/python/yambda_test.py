#!/usr/bin/env python3
"""docs/gallery/yambda.py against its definition, event by event: who is an anchor, what a history holds, and that nothing of later
events is in a sample; that it goes on where it was interrupted; that the best AUC of a generated log is one; and that
configs/demo_dlrmv4.json comes close to it by the commands of docs/histories.md; that its windows can be followed."""
import contextlib
import io
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import numpy as np
import polars as pl

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "docs/gallery"))
import histories  # noqa: E402
import yambda  # noqa: E402
from yambda import Rules, prepare  # noqa: E402

ITEMS = 40
XXH64 = [(0, (0,), 3803688792395291579), (1, (7, 9), 8209927567149031916),  # of the reference implementation
         (7, (1_000_000, 1_293_394, 23), 6371377268683013702)]
SMALL = {"day": 1000, "start": 500, "train": (1, 4), "test": 4}


def log_of(n, users, seed):
    """Few times, so that many events of a user are at the same one; users come in any order."""
    draw = random.Random(seed)
    kinds = ["listen"] * 8 + ["like", "dislike", "unlike"]
    rows = []
    for _ in range(n):
        kind = draw.choice(kinds)
        rows.append({"uid": draw.randrange(users) ** 2, "timestamp": 5 * draw.randrange(1200), "item_id": draw.randrange(ITEMS),
                     "is_organic": draw.randrange(2), "played_ratio_pct": draw.randrange(101) if kind == "listen" else None,
                     "track_length_seconds": 180, "event_type": kind})
    types = {"uid": pl.UInt32, "timestamp": pl.UInt32, "item_id": pl.UInt32, "is_organic": pl.UInt8, "played_ratio_pct": pl.UInt16}
    return pl.DataFrame(rows, schema_overrides=types)


def artist_of(item):
    return 0 if item % 7 == 0 else 1 + item % 5  # an item may have none


def album_of(item):
    return 1 + item % 11


def action_of(event, rules):
    if event["event_type"] == "listen":
        return 1 if event["played_ratio_pct"] >= rules.played else 4
    return 2 if event["event_type"] == "like" else 0


def oracle(events, rules):
    """{window: the samples in order of time, those of a time in the order of users and of the log}"""
    windows = {}
    for uid in sorted(set(events["uid"])):
        mine = sorted((e for e in events.iter_rows(named=True) if e["uid"] == uid), key=lambda e: e["timestamp"])
        for at, event in enumerate(mine):
            window = (event["timestamp"] - rules.start) // rules.day
            if event["event_type"] != "listen" or at < rules.min_past or not (rules.train[0] <= window < rules.train[1] or window == rules.test):
                continue
            latest = [i for i in range(max(0, at - rules.among), at) if mine[i]["timestamp"] < event["timestamp"]]
            kept = sorted(i for kind in (1, 2, 4) for i in [j for j in latest if action_of(mine[j], rules) == kind][-rules.per_kind:])
            now = mine[kept[-1]]["timestamp"] if kept else event["timestamp"]
            items = [mine[i]["item_id"] for i in kept] + [event["item_id"]]
            since = event["timestamp"] - rules.start
            hour, weekday = 2 * math.pi * since / 86400, 2 * math.pi * (since // 86400) / 7
            dense = [np.float32(f(x)) for x in (hour, weekday) for f in (math.cos, math.sin)]
            facts = {"uid": uid, "item": items[-1], "artist": artist_of(items[-1]), "album": album_of(items[-1]),
                     "organic": event["is_organic"], "hour": since // 3600 % 24}
            tokens = [uid % rules.rows["uid"]]
            for seed, (name, parts) in enumerate(list(yambda.CONTEXT.items())[1:], 1):
                words = [np.array([facts[part]]) for part in parts]
                tokens.append(int(yambda.xxh64(words, seed)[0]) % rules.rows[name])
            windows.setdefault(window, []).append((
                event["timestamp"], np.float32(action_of(event, rules) == 1), *dense, *tokens, items, [artist_of(i) for i in items],
                [album_of(i) for i in items], [action_of(mine[i], rules) for i in kept] + [0],
                [min(2048, math.isqrt((now - mine[i]["timestamp"]) // 60)) for i in kept] + [0]))
    return {window: sorted(rows, key=lambda row: row[0]) for window, rows in windows.items()}


class YambdaTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        pairs = [(item, artist_of(item), album_of(item)) for item in range(ITEMS)]
        self.write("artists", pl.DataFrame({"artist_id": [a for _, a, _ in pairs if a] + [9], "item_id": [i for i, a, _ in pairs if a] + [1]}))
        self.write("albums", pl.DataFrame({"album_id": [b for _, _, b in pairs], "item_id": [i for i, _, _ in pairs]}))

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, frame):
        frame.write_parquet(self.path(name + ".parquet"))
        return self.path(name + ".parquet")

    def prepared(self, events, rules, out="out", at_once=150):
        paths = [self.write("a", events[:len(events) // 2]), self.write("b", events[len(events) // 2:])]
        with mock.patch.object(histories, "KEYS_AT_ONCE", 400):  # several row groups a file
            return prepare(paths, self.path("artists.parquet"), self.path("albums.parquet"), rules, self.path(out), at_once)

    def windows(self, out="out"):
        files = {name: os.path.join(part, name) for part in ("train", "test") for name in sorted(os.listdir(self.path(out, part)))}
        return {int(name[:-8]): pl.read_parquet(self.path(out, path)).rows() for name, path in files.items()}

    def test_samples_are_those_of_the_definition(self):
        for case, (seed, more) in enumerate([(1, {}), (2, {"per_kind": 1, "among": 7, "min_past": 3}),
                                             (3, {"per_kind": 100, "among": 15, "min_past": 30, "played": 90}),
                                             (4, {"rows": {**yambda.ROWS, "uid": 50, "item_hour": 3}, "min_past": 0})]):
            with self.subTest(more=more):
                rules = Rules(**{**SMALL, "per_kind": 4, "among": 30, "min_past": 10, **more})
                events = log_of(1500, 30, seed)
                parts = self.prepared(events, rules, f"out{case}")
                expected = oracle(events, rules)
                found = self.windows(f"out{case}")
                self.assertEqual(found, expected)
                self.assertGreater(len(found), 2)
                self.assertEqual(parts["train"]["samples"], sum(len(expected.get(w, [])) for w in (1, 2, 3)))
                self.assertEqual(parts["test"]["samples"], len(expected[4]))
                with open(self.path(f"out{case}", "yambda.json"), encoding="utf-8") as file:
                    facts = json.load(file)
                self.assertEqual(facts["max_len"], 3 * rules.per_kind + 1)
                self.assertLessEqual(max(len(row[-1]) for rows in found.values() for row in rows), facts["max_len"])
                names = pl.read_parquet_schema(self.path(f"out{case}", "test", "004.parquet"))
                self.assertEqual([*names], ["timestamp", *(name for some in facts["columns"].values() for name in some)])
                self.assertFalse(os.path.exists(self.path(f"out{case}", ".pieces")))

    def test_later_events_change_no_sample(self):
        rules = Rules(**{**SMALL, "per_kind": 4, "among": 30, "min_past": 10})
        events = log_of(1500, 30, 5)
        self.prepared(events, rules)
        begin_of_test = rules.start + rules.test * rules.day + 300  # within window 4
        self.prepared(events.filter(pl.col("timestamp") < begin_of_test), rules, "short")
        whole, short = self.windows(), self.windows("short")
        self.assertGreater(len(short[4]), 10)
        self.assertEqual(short, {**whole, 4: [row for row in whole[4] if row[0] < begin_of_test]})

    def test_it_goes_on_where_it_was_interrupted(self):
        rules = Rules(**{**SMALL, "per_kind": 4, "among": 30, "min_past": 10})
        events = log_of(900, 30, 6)
        self.prepared(events, rules, "whole")
        for function in ("write_pieces", "merge"):
            made = getattr(yambda, function)
            for failing in (0, 2):
                calls = [0]

                def fails(*arguments):
                    calls[0] += 1
                    if calls[0] == failing + 1:
                        raise KeyboardInterrupt
                    made(*arguments)

                with mock.patch.object(yambda, function, fails), self.assertRaises(KeyboardInterrupt):
                    self.prepared(events, rules, f"{function}{failing}")
                calls = [0]
                with mock.patch.object(yambda, "write_pieces", side_effect=yambda.write_pieces) as pieces:
                    self.prepared(events, rules, f"{function}{failing}")
                self.assertEqual(pieces.call_count, 6 - failing if function == "write_pieces" else 0)
                self.assertEqual(self.windows(f"{function}{failing}"), self.windows("whole"))
        with self.assertRaisesRegex(ValueError, "rules.json: expected what this run was told"):
            self.prepared(events, Rules(**{**SMALL, "per_kind": 5, "min_past": 10}), "whole")
        with self.assertRaisesRegex(ValueError, "expected samples of train, found none: no listen .* has 4086 events"):
            self.prepared(events, Rules(**SMALL), "none")

    def test_crosses_are_hashed_by_xxh64(self):
        for seed, parts, expected in XXH64:
            self.assertEqual(int(yambda.xxh64([np.array([part]) for part in parts], seed)[0]), expected)

    def test_no_score_beats_the_probabilities_of_a_generated_log(self):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            with mock.patch.object(sys, "argv", ["yambda.py", "generate", "--users", "100", "--events", "300", "--out", self.path("log")]):
                yambda.main()
        self.assertRegex(said.getvalue(), r"listens of the last day: \d+, best AUC 0\.8\d+, of the item alone 0\.6")
        truth = pl.read_parquet(self.path("log", "truth.parquet"))
        label, chance = truth["label"].to_numpy(), truth["probability"].to_numpy()
        for low, high in ((0.1, 0.3), (0.4, 0.6), (0.8, 0.95)):
            some = (chance >= low) & (chance < high)
            self.assertAlmostEqual(label[some].mean(), chance[some].mean(), delta=5 * 0.5 / math.sqrt(some.sum()))
        # The probability follows from the item and from what was heard before, as a history shows it.
        heard = {}
        matches = {True: [], False: []}
        for event in pl.read_parquet(self.path("log", "multi_event.parquet")).join(truth, on=["uid", "timestamp"], how="left",
                                                                                    maintain_order="left").iter_rows(named=True):
            if event["event_type"] != "listen":
                continue
            before, artist = heard.setdefault(event["uid"], []), (event["item_id"] - 1) // 5
            matches[artist in before[-5:]].append(math.log(event["probability"] / (1 - event["probability"])) - event["of_item"])
            if event["played_ratio_pct"] >= 50:
                before.append(artist)
        for match, offsets in matches.items():
            self.assertLess(max(abs(offset - (1.5 if match else -1.5)) for offset in offsets), 1e-9)
    def test_the_small_model_learns_from_histories_by_the_commands_of_the_page(self):
        with open(os.path.join(ROOT, "docs/histories.md"), encoding="utf-8") as page:
            script = re.search(r"^(python3 docs/gallery/yambda.py generate.*?)^train ([^\n]*)$", page.read(), re.M | re.S)
        commands = script[1].replace("--users 3000", "--users 250 --artists 20").replace("python3 docs", f"{sys.executable} {ROOT}/docs").replace("demo/", self.path("demo/"))
        said = subprocess.run(["bash", "-ec", commands], check=True, capture_output=True, text=True).stdout
        best, of_item = (float(found) for found in re.search(r"best AUC (0\.\d+), of the item alone (0\.\d+)", said).groups())
        train = [os.environ["HLITE_TRAIN"], *script[2].replace("configs/", ROOT + "/configs/").split(), "--quiet", "--metrics", self.path("m")]
        for part in ("source=train", "eval_source=test"):
            train += ["--set", "layers.data." + part.replace("=", "=" + self.path("demo/dlrmv4/"))]
        run = subprocess.run(train, capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        with open(self.path("m"), encoding="utf-8") as metrics:
            evaluations = [event for event in map(json.loads, metrics) if event["event"] == "eval"]
        self.assertEqual(evaluations[0]["iter"], 400)
        self.assertGreater(evaluations[-1]["auc"], of_item + 0.6 * (best - of_item))
        self.assertLess(evaluations[-1]["auc"], best)

    def test_windows_are_scored_before_they_are_trained_on(self):
        """Each window's AUC is that of predict with the checkpoint of all windows before it, also on two ranks; one without samples
        has none; a run that is killed, and waits for a window that is written meanwhile, ends with the same."""
        yambda.generate(self.path("log"), users=60, events=300, days=5)
        rows = {name: 500 for name in yambda.ROWS}
        log = [self.path("log", name + ".parquet") for name in ("multi_event", "artist_item_mapping", "album_item_mapping")]
        prepare(log[:1], *log[1:], Rules(per_kind=2, among=50, min_past=10, train=(0, 4), test=4, rows=rows), self.path("out"))
        with open(os.path.join(ROOT, "configs/demo_dlrmv4.json"), encoding="utf-8") as file:
            text = file.read().replace('"max_len": 20', '"max_len": 7').replace('"max_position": 20', '"max_position": 7')
        with open(self.path("config.json"), "w", encoding="utf-8") as file:
            file.write(text)
        days = self.path("days")
        shutil.copytree(self.path("out/train"), days)
        names = ["000.parquet", "001.parquet", "001a.parquet", "002.parquet", "003.parquet"]
        first = pl.read_parquet(os.path.join(days, names[0]))
        first[:0].write_parquet(os.path.join(days, names[2]))
        open(os.path.join(days, "_END"), "w", encoding="utf-8").close()

        def command(ranks, *more):
            sets = [f"layers.data.source={days}", "layers.data.follow=true", "solver.num_epochs=", "solver.eval_interval=",
                    f"solver.gpu={ranks}", "solver.eval_metrics=[\"AUPRC\"]", "solver.snapshot_prefix=" + self.path("snap_")]
            return [os.environ["HLITE_TRAIN"], "--config", self.path("config.json"), "--threads", "2", "--quiet",
                    *(word for one in [*sets, *(m for m in more if "=" in m)] for word in ("--set", one)), *(m for m in more if "=" not in m)]

        def train(ranks, *more):
            run = subprocess.run(command(ranks, *more), capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 0, run.stderr)

        def windows(path):
            try:
                with open(path, encoding="utf-8") as metrics:
                    events = [json.loads(line) for line in metrics if line.endswith("\n")]
            except FileNotFoundError:
                return []
            return [{k: v for k, v in event.items() if k != "seconds"} for event in events if event["event"] == "progressive"]

        for ranks in ("[0]", "[[0,1]]"):
            with self.subTest(ranks):
                metrics, weights = self.path(f"m{ranks}"), self.path(f"w{ranks}")
                train(ranks, "--metrics", metrics, "--export", weights)
                scored = windows(metrics)
                self.assertEqual([one["file"] for one in scored], names)
                self.assertEqual([one["samples"] for one in scored], [pl.read_parquet(os.path.join(days, name)).height for name in names])
                for one in scored[1:]:
                    if one["samples"] == 0:
                        self.assertEqual((one["auc"], one["loss"]), (None, None))
                        continue
                    window = os.path.join(days, one["file"])
                    train(ranks, f"solver.max_iter={one['iter']}", "layers.data.test_source=" + window, "--save", self.path("before"),
                          "--metrics", self.path("test"))
                    with open(self.path("test"), encoding="utf-8") as file:
                        tested = next(event for event in map(json.loads, file) if event["event"] == "test")
                    for name in ("iter", "auc", "loss", "auprc", "samples"):
                        self.assertEqual(one[name], tested[name])
                    said = subprocess.run([os.environ["HLITE_PREDICT"], "--model", self.path("before"), "--input", window, "--out",
                                           self.path("scores.npy")], check=True, capture_output=True, text=True)
                    self.assertIn(f"AUC {one['auc']:.6f}, log loss {one['loss']:.6f}", said.stdout + said.stderr)
                # Killed as often as there are windows; the last one is being written, not under its name, when the first run begins.
                last, writing, again = (self.path(*name) for name in (("days", names[-1]), ("days", "." + names[-1]), (f"again{ranks}",)))
                os.remove(os.path.join(days, "_END"))
                with open(last, "rb") as file:
                    complete = file.read()
                os.remove(last)
                for kill in range(len(scored)):
                    with open(writing, "wb") as file:
                        file.write(complete[:len(complete) * kill // len(scored)])
                    with subprocess.Popen(command(ranks, "solver.snapshot=3", "--metrics", again, *self.newest())) as run:
                        wanted = min(len(scored) - 1, kill + 1)
                        while run.poll() is None and (len(windows(again)) < wanted or not self.newest()):
                            time.sleep(0.01)
                        self.assertIsNone(run.poll())
                        run.kill()
                    self.assertNotIn(names[-1], [one["file"] for one in windows(again)])
                with open(writing, "wb") as file:
                    file.write(complete)
                os.rename(writing, last)
                open(os.path.join(days, "_END"), "w", encoding="utf-8").close()
                train(ranks, *self.newest(), "--metrics", again, "--export", weights + "2")
                self.assertEqual(windows(again), scored)
                with open(weights, "rb") as one, open(weights + "2", "rb") as two:
                    self.assertEqual(one.read(), two.read())
                for name in self.snapshots():
                    shutil.rmtree(self.path(name))

    def snapshots(self):
        return sorted((name for name in os.listdir(self.folder) if re.fullmatch("snap_[0-9]+", name)), key=lambda name: int(name[5:]))

    def newest(self):
        return ["--resume", self.path(self.snapshots()[-1])] if self.snapshots() else []

    def test_areas_under_curves(self):
        self.assertEqual(yambda.auc(np.array([1, 0, 1, 0]), np.array([0.5, 0.5, 0.9, 0.1])), 0.875)


if __name__ == "__main__":
    unittest.main()
