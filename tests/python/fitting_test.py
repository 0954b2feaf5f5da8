#!/usr/bin/env python3
"""Training and scoring on arrays and frames: Trainer.fit(), evaluate(), learning_rate, embeddings(), and
Predictor.predict_frame(). Run by ctest; HLITE_TRAIN, HLITE_PREDICT, HLITE_CSV_PREP and HLITE_CRITEO_PREP name the programs."""
import csv
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import warnings

import numpy as np

import hugectr_lite as hl
from small_model import config, features, samples, write_files

CITIES = ["Paris", "Rome, Italy", 'the "old" town', "two\nlines", "back\\slash", "東京", "cr\rlf"]


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True)


def early_stopping(**optimizer):
    built = hl.models.dcnv2(dense=2, tables=[40, 5, 300], samples=500)
    built["solver"].update({"batchsize": 32, "threads": 1})
    built["optimizer"]["adam_hparam"].update(optimizer)
    return built


class FittingTest(unittest.TestCase):
    def setUp(self):
        folder, before = tempfile.TemporaryDirectory(), os.getcwd()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, before)
        os.chdir(folder.name)
        write_files(".")
        label, dense, keys = samples(500, 1)
        self.samples = label, features(dense), keys
        label, dense, keys = samples(333, 2)
        self.held_out = label, features(dense), keys

    def test_more_memory_than_there_is_is_refused_at_the_start(self):
        built = hl.models.dcnv2(dense=2, tables=[4_000_000_000, 5, 4_000_000_000], samples=500)
        with self.assertRaisesRegex(hl.ConfigError, r"memory: expected .* GB available, found .*solver.embedding_memory=auto"):
            hl.Trainer(built, arrays=True)

    def test_fit_makes_the_bits_of_steps(self):
        one, other = (hl.Trainer(early_stopping(), arrays=True) for _ in range(2))
        events = one.fit(*self.samples, epochs=2, shuffle=False)
        label, dense, keys = self.samples
        losses = []
        for _ in range(2):
            for begin in range(0, 500, 32):
                rows = slice(begin, begin + 32)
                other.step(label[rows], dense[rows], keys[rows])
                losses.append((other.batch_loss, len(label[rows])))
        self.assertEqual([(e["event"], e["iter"]) for e in events], [("train", 16), ("train", 32)])
        last = losses[16:]
        self.assertAlmostEqual(events[1]["loss"], np.average([loss for loss, _ in last], weights=[n for _, n in last]), places=12)
        for name, array in one.weights.items():
            np.testing.assert_array_equal(array, other.weights[name], name)

    def test_orders_differ_by_epoch_and_follow_the_seed(self):
        runs = []
        for seed in (1, 1, 2):
            trainer = hl.Trainer(early_stopping(), arrays=True, set={"solver.seed": seed})
            runs.append([event["loss"] for event in trainer.fit(*self.samples, epochs=2)])
        self.assertEqual(runs[0], runs[1])
        self.assertNotEqual(runs[0], runs[2])
        again = hl.Trainer(early_stopping(), arrays=True)
        self.assertNotEqual(runs[0], [e["loss"] for e in again.fit(*self.samples, epochs=2, shuffle=False)])

    def test_an_eval_set_stops_early_and_the_best_weights_come_back(self):
        trainer = hl.Trainer(early_stopping(learning_rate=0.02), arrays=True)
        events = trainer.fit(*self.samples, epochs=100, eval_set=self.held_out)
        losses = [event["loss"] for event in events if event["event"] == "eval"]
        areas = [event["auc"] for event in events if event["event"] == "eval"]
        self.assertLess(len(losses), 100)
        self.assertGreater(len(losses), 4)  # the config's patience
        best = len(losses) - 5
        self.assertLess(losses[best], min(losses[:best] + losses[best + 1:]) + early_stopping()["solver"]["early_stop"]["min_delta"])
        self.assertEqual(trainer.evaluate(*self.held_out)["loss"], losses[best])
        self.assertAlmostEqual(hl.auc(self.held_out[0], trainer.predict(*self.held_out[1:])), areas[best], places=12)

    def test_a_callback_ends_training_and_the_best_weights_come_back(self):
        records = []

        def third(record):
            records.append(record)
            return len(records) == 3

        trainer = hl.Trainer(early_stopping(learning_rate=0.02), arrays=True)
        events = trainer.fit(*self.samples, epochs=100, eval_set=self.held_out, callbacks=[third])
        found = [event for event in events if event["event"] == "eval"]
        trained = [event["loss"] for event in events if event["event"] == "train"]
        self.assertEqual(records, [{**event, "train_loss": loss} for event, loss in zip(found, trained)])
        losses = [event["loss"] for event in found]
        self.assertEqual(len(losses), 3)
        self.assertEqual(trainer.evaluate(*self.held_out)["loss"], min(losses))

    def test_evaluates_arrays_as_the_file_with_the_same_samples(self):
        trainer = hl.Trainer("config.json")
        list(trainer.train(30))
        of_file, of_arrays = trainer.evaluate(), trainer.evaluate(*self.held_out)
        self.assertEqual(of_arrays["samples"], of_file["samples"])
        self.assertAlmostEqual(of_arrays["auc"], of_file["auc"], places=9)
        self.assertAlmostEqual(of_arrays["loss"], of_file["loss"], places=6)

    def test_a_learning_rate_counts_from_the_next_step_on(self):
        label, dense, keys = (array[:32] for array in self.samples)
        moved = []
        for rate in (None, 0.05, 0.3, 0.0):
            trainer = hl.Trainer(config(), arrays=True)
            before = {name: array.copy() for name, array in trainer.weights.items()}
            if rate is not None:
                trainer.learning_rate = rate
            trainer.step(label, dense, keys)
            self.assertAlmostEqual(trainer.learning_rate, 0.1 if rate is None else rate, places=7)
            moved.append({name: array.astype(float) - before[name] for name, array in trainer.weights.items()})
            if rate == 0.3:
                trainer.save("checkpoint")
        for name, plain in moved[0].items():
            self.assertGreater(np.abs(plain).max(), 0)
            np.testing.assert_allclose(moved[1][name], plain / 2, rtol=0, atol=5e-7)
            np.testing.assert_allclose(moved[2][name], plain * 3, rtol=0, atol=5e-7)
            self.assertEqual(np.abs(moved[3][name]).max(), 0)
        resumed = hl.Trainer(config(), arrays=True, resume="checkpoint")
        resumed.step(label, dense, keys)
        self.assertAlmostEqual(resumed.learning_rate, 0.3, places=6)
        for wrong in (-0.1, float("nan"), float("inf")):
            with self.assertRaisesRegex(ValueError, "learning_rate: expected a number of 0 or more"):
                resumed.learning_rate = wrong

    def weighted(self, arrays=True, **changes):
        return hl.Trainer(early_stopping(), arrays=arrays, set={"layers.data.label.sample_weight": True, **changes})

    def test_weights_of_1_change_no_bit_and_weights_of_0_count_for_nothing(self):
        label, dense, keys = (array[:64] for array in self.samples)
        plain, ones, zeros, halves = hl.Trainer(early_stopping(), arrays=True), self.weighted(), self.weighted(), self.weighted()
        weight = np.repeat([1.0, 0.0], 16)
        for _ in range(3):
            plain.step(label[:32], dense[:32], keys[:32])
            ones.step(label[:32], dense[:32], keys[:32])
            zeros.step(label[:32], dense[:32], keys[:32], sample_weight=weight)
            other = np.r_[0:16, 48:64]  # other samples with weight 0
            halves.step(label[other], dense[other], keys[other], sample_weight=list(weight))
            self.assertAlmostEqual(zeros.batch_loss, halves.batch_loss, places=6)
            self.assertNotAlmostEqual(zeros.batch_loss, plain.batch_loss, places=3)
        for name, array in plain.weights.items():
            np.testing.assert_array_equal(array, ones.weights[name], name)

    def test_evaluations_weight_as_scikit_learn_does(self):
        trainer = self.weighted(**{"solver.num_epochs": 2})
        weight = np.random.default_rng(3).gamma(1, 2, 833)
        weight[::9] = 0
        events = trainer.fit(*self.samples, sample_weight=weight[:500], epochs=2, eval_set=(*self.held_out, weight[500:]))
        score, label = trainer.predict(*self.held_out[1:]).astype(float), self.held_out[0]
        w = weight[500:]
        loss = -np.average(np.where(label == 1, np.log(score), np.log(1 - score)), weights=w)
        better = (score[label == 1][:, None] > score[label == 0]) + (score[label == 1][:, None] == score[label == 0]) / 2
        pairs = w[label == 1][:, None] * w[label == 0]
        area = (better * pairs).sum() / pairs.sum()
        got = trainer.evaluate(*self.held_out, sample_weight=w)
        self.assertAlmostEqual(got["loss"], loss, places=6)
        self.assertAlmostEqual(got["auc"], area, places=6)
        self.assertAlmostEqual(hl.auc(label, score, w), area, places=6)
        self.assertIn(got["auc"], [event["auc"] for event in events if event["event"] == "eval"])
        self.assertNotAlmostEqual(trainer.evaluate(*self.held_out)["auc"], area, places=4)

    def test_auc_is_exact_in_double_precision(self):
        random = np.random.default_rng(0)
        label = (random.random(2000) < 0.5).astype(int)
        weight = random.gamma(1, 2, 2000) * 1e200
        normal = random.normal(size=2000) + label
        for score in (1 - 1e-9 * random.random(2000) + 1e-10 * label, 1e300 * normal, 1e-320 * normal,
                      1.7e9 + np.round(10 * normal) / 1000, np.round(1e15 * normal).astype(np.int64), normal.astype(np.float32)):
            above = score[label == 1][:, None].astype(np.longdouble) - score[label == 0]
            won = (above > 0) + (above == 0) / 2
            self.assertAlmostEqual(hl.auc(label, score), won.mean(), places=14)
            pairs = (weight / 1e200)[label == 1][:, None] * (weight / 1e200)[label == 0]
            self.assertAlmostEqual(hl.auc(label, score, weight), (won * pairs).sum() / pairs.sum(), places=12)
        self.assertEqual(hl.auc([0, 1, 0, 1], [1e300, 2e300, 1e299, 3e300]), 1)
        self.assertEqual(hl.auc([0.5, 0.5 + 1e-12], [1, 2]), 1)  # so is a label
        self.assertEqual(hl.auc([0, 1], [0.0, -0.0]), 0.5)
        self.assertIsNone(hl.auc([1, 1], [0.1, 0.2]))
        self.assertIsNone(hl.auc([0, 1], [0.1, 0.2], [1, 0]))

    def test_mse_loss_fits_numbers(self):
        built = early_stopping(learning_rate=0.02)
        built["layers"][-1]["type"] = "MSELoss"
        built["layers"][0]["label"]["real"] = True
        with self.assertRaisesRegex(hl.ConfigError, r'eval_metrics\[0\]: expected "AverageLoss", .*"RMSE", as MSELoss predicts values'):
            hl.Trainer(built, arrays=True)
        built["solver"].update({"eval_metrics": ["AverageLoss", "MAE"], "early_stop": {"monitor": "AverageLoss"},
                                "lr_plateau": {"monitor": "AverageLoss"}})
        trainer = hl.Trainer(built, arrays=True)
        target = lambda dense, keys: 3 * dense[:, 0] - keys[:, 1] - 5.5  # noqa: E731
        fit, held = (((target(*of[1:]), *of[1:]) for of in (self.samples, self.held_out)))
        events = [event for event in trainer.fit(*fit, epochs=30, eval_set=held) if event["event"] == "eval"]
        error = trainer.predict(*held[1:]).astype(float) - held[0]
        got = trainer.evaluate(*held)
        self.assertAlmostEqual(got["rmse"], np.sqrt(np.mean(error ** 2)), places=5)
        self.assertAlmostEqual(got["loss"], np.mean(error ** 2), places=5)
        self.assertAlmostEqual(got["mae"], np.mean(np.abs(error)), places=5)
        self.assertIsNone(got["auc"])
        self.assertEqual(got["loss"], min(event["loss"] for event in events))
        self.assertLess(got["rmse"], 0.5 * np.std(held[0]))
        with self.assertRaisesRegex(hl.DataError, "label: sample 1, label 0: expected a finite value, found nan"):
            trainer.step([1.5, float("nan")], fit[1][:2], fit[2][:2])
        with self.assertRaisesRegex(hl.DataError, "label: expected finite values, found inf"):
            trainer.evaluate([1.5, float("inf")], fit[1][:2], fit[2][:2])

    def test_wrong_arrays_are_refused(self):
        trainer = hl.Trainer(early_stopping(), arrays=True)
        label, dense, keys = self.samples
        self.part = label[:2], dense[:2], keys[:2]
        cases = [
            (lambda: trainer.fit(label[:-1], dense, keys), hl.DataError, r"expected as many samples in each, found \[499, 500"),
            (lambda: trainer.fit(label[:0], dense[:0], keys[:0]), hl.DataError, "label: expected samples, found none"),
            (lambda: trainer.fit(*self.samples, epochs=-1), ValueError, "epochs: expected 0 or more"),
            (lambda: trainer.fit(*self.samples, eval_set=(label, dense, keys[:-1])), hl.DataError, "eval_set: label, dense"),
            (lambda: trainer.fit(label * 2, dense, keys), hl.DataError, "label"),
            (lambda: trainer.evaluate(label * 2, dense, keys), hl.DataError, r"label: expected values in \[0, 1\], found 2"),
            (lambda: trainer.evaluate(label), TypeError, "label, dense and keys"),
            (lambda: trainer.step(*self.part, sample_weight=np.ones(2)), hl.DataError, 'sample_weight.: true in its label'),
            (lambda: trainer.step(sample_weight=np.ones(2)), TypeError, "label, dense and keys"),
            (lambda: self.weighted().step(*self.part, sample_weight=np.ones(3)), hl.DataError, r"shape \[2, 1\], found \[3, 1\]"),
            (lambda: self.weighted().step(*self.part, sample_weight=[1, -2]), hl.DataError,
             "sample_weight: sample 1: expected a finite value >= 0, found -2"),
            (lambda: self.weighted().fit(*self.samples, sample_weight=np.full(500, np.nan)), hl.DataError,
             "sample_weight: sample 0: expected a finite value >= 0, found nan"),
            (lambda: self.weighted().fit(*self.samples, sample_weight=np.ones(499)), hl.DataError,
             r"label, dense, keys, sample_weight: expected as many samples in each, found \[500, 500, 500, 499\]"),
            (lambda: trainer.evaluate(*self.samples, sample_weight=np.ones((500, 2))), hl.DataError, "one weight a sample"),
            (lambda: hl.auc([0, 1], [0, 1], [1]), hl.DataError, "sample_weight: expected one for each of 2 labels, found 1"),
            (lambda: trainer.embeddings("city"), hl.ConfigError, "expected training data with a manifest"),
        ]
        for i, (call, kind, words) in enumerate(cases):
            with self.subTest(f"{i}: {words}"):
                with self.assertRaisesRegex(kind, words):
                    call()


class PreparedTest(unittest.TestCase):
    """With text that csv_prep has prepared."""

    def setUp(self):
        folder, before = tempfile.TemporaryDirectory(), os.getcwd()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, before)
        os.chdir(folder.name)
        random = np.random.default_rng(4)
        self.city = [CITIES[i] for i in random.integers(0, len(CITIES), 200)]
        self.seen = [CITIES[i] for i in random.integers(0, 3, 200)]
        self.amount = np.round(random.lognormal(2, 1, 200), 2)
        self.label = random.integers(0, 2, 200)
        self.city[9], self.amount[11] = "", np.nan
        self.frame = {"seen": np.array(self.seen, object), "amount": self.amount, "unused": np.arange(200),
                      "city": np.array(self.city, object)}

    def prepare(self, schema, header):
        """csv_prep of lines like: label, city, amount, seen."""
        with open("lines.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\r\n")
            if header:
                writer.writerow(["clicked", "city", "amount", "seen"])
            writer.writerows(zip(self.label, self.city, ["" if a != a else repr(float(a)) for a in self.amount], self.seen))
        with open("schema.json", "w", encoding="utf-8") as file:
            json.dump(schema, file)
        run(os.environ["HLITE_CSV_PREP"], "--schema", "schema.json", "--train", "lines.csv", "--out", "data", "--min-count", "2",
            "--write-config", "deepfm")

    def named(self, **more):
        return {"header": True, "label": {"column": "clicked", "positive": ["1"]}, "dense": [{"column": "amount"}],
                "categorical": [{"column": "city", **more}, {"column": "seen", **more}]}

    def train(self, **changes):
        trainer = hl.Trainer("data/deepfm.json", set={"solver.num_epochs": 1, **changes}, threads=1, with_preparation=True)
        list(trainer.train())
        trainer.save("model")
        return trainer

    def test_embeddings_have_the_tokens_of_their_rows(self):
        self.prepare(self.named(), header=True)
        trainer = self.train()
        tokens, vectors = trainer.embeddings("city")
        self.assertIsNone(tokens[0])
        seen = list(dict.fromkeys(city for city in self.city if city))
        self.assertEqual(tokens[1:], [city for city in seen if self.city.count(city) > 1])
        np.testing.assert_array_equal(vectors, trainer.weights["embedding.table_0"])
        self.assertEqual(trainer.embeddings("seen", layer="embedding")[0][1:], list(dict.fromkeys(self.seen)))
        predictor = hl.Predictor("model", threads=1)
        texts, rows = predictor.embeddings("city")
        self.assertEqual((texts.dtype, rows.dtype), (object, np.float32))
        self.assertEqual(texts.tolist(), tokens[1:])
        np.testing.assert_array_equal(rows, vectors[1:])
        with self.assertRaisesRegex(hl.ConfigError, "embeddings: expected a column .city, seen., found 'town'"):
            predictor.embeddings("town")
        with self.assertRaisesRegex(hl.ConfigError, "embeddings: expected a column .city, seen., found 'town'"):
            trainer.embeddings("town")
        with self.assertRaisesRegex(hl.ConfigError, "expected one layer that looks up city, found none"):
            trainer.embeddings("city", layer="other")

    def test_grow_reads_data_from_their_start_even_if_they_are_the_same(self):
        self.prepare(self.named(), header=True)
        trainer = self.train()
        again = hl.Trainer("data/deepfm.json", set={"solver.num_epochs": 1}, resume="model", grow=True, threads=1)
        self.assertEqual(again.iteration, trainer.iteration)
        list(again.train())
        self.assertEqual(again.iteration, 2 * trainer.iteration)
        with self.assertRaisesRegex(hl.ConfigError, "grow: expected resume, a checkpoint to go on from, found none"):
            hl.Trainer("data/deepfm.json", grow=True)

    def test_embeddings_of_a_shared_vocabulary_and_of_a_hash_table(self):
        self.prepare(self.named(vocabulary="place"), header=True)
        trainer = self.train()
        for one, other in zip(trainer.embeddings("city"), trainer.embeddings("seen")):
            np.testing.assert_array_equal(one, other)
        with open("data/deepfm.json", encoding="utf-8") as file:
            changed = json.load(file)
        layer = next(layer for layer in changed["layers"] if layer["type"].endswith("OneHot"))
        layer["type"] = "DistributedSlotSparseEmbeddingHash"
        layer["sparse_embedding_hparam"] = {"embedding_vec_size": 9, "max_vocabulary_size_per_gpu": 100, "combiner": "sum"}
        changed["optimizer"]["update_type"] = "Local"
        with open("data/hashed.json", "w", encoding="utf-8") as file:
            json.dump(changed, file)
        hashed = hl.Trainer("data/hashed.json", threads=1, with_preparation=True)
        list(hashed.train(40))  # an epoch
        tokens, vectors = hashed.embeddings("city")
        self.assertEqual(len(tokens), len(vectors))
        self.assertEqual(set(tokens), {None, *CITIES})
        hashed.save("hashed")
        texts, rows = hl.Predictor("hashed", "data/hashed.json", threads=1).embeddings("city")
        self.assertEqual(len(texts), len(set(texts)))
        self.assertEqual(set(texts), set(CITIES))
        for text, row in zip(texts, rows):
            np.testing.assert_array_equal(row, vectors[tokens.index(text)])

    def test_embeddings_of_criteo_s_tokens(self):
        random = np.random.default_rng(2)
        with open("lines.tsv", "w", encoding="utf-8") as file:
            for _ in range(100):
                file.write("\t".join([str(random.integers(0, 2)), *["3"] * 13, f"{random.integers(1, 5):x}abc", *["7"] * 25]) +
                           "\n")
        run(os.environ["HLITE_CRITEO_PREP"], "--train", "lines.tsv", "--out", "data", "--min-count", "1", "--save-vocabulary",
            "--write-config", "dcn")
        trainer = hl.Trainer("data/dcn.json", threads=1)
        tokens, vectors = trainer.embeddings("C1")
        self.assertIsNone(tokens[0])
        self.assertEqual(set(tokens[1:]), {f"0000{i}abc" for i in range(1, 5)})
        self.assertEqual(len(vectors), 5)

    def test_a_frame_has_the_scores_of_its_lines(self):
        numbered = {"trim": True, "missing": "?", "label": {"column": 0, "positive": ["1"], "negative": ["0"]},
                    "dense": [{"column": 2, "name": "amount", "transform": "standardize"}],
                    "categorical": [{"column": 1, "name": "city"}, {"column": 3, "name": "seen"}]}
        for name, schema in (("header", self.named()), ("numbers", numbered)):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                self.prepare(schema, header=name == "header")
                self.train()
                run(os.environ["HLITE_PREDICT"], "--model", "model", "--input", "lines.csv", "--out", "scores.npy")
                predictor = hl.Predictor("model", threads=1)
                scores = predictor.predict_frame(self.frame)
                np.testing.assert_array_equal(scores, np.load("scores.npy"))
                self.assertEqual(len(predictor.predict_frame({name: column[:0] for name, column in self.frame.items()})), 0)
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    predictor.predict_frame({**self.frame, "city": np.array(["Oslo"] * 200, object)})
                self.assertEqual([str(w.message) for w in caught],
                                 ["frame: city: no value is one that the model was trained on"])
                with self.assertRaisesRegex(hl.DataError, "frame: expected the columns .* found none named city, seen"):
                    predictor.predict_frame({"amount": self.amount})
                with self.assertRaisesRegex(hl.DataError, "frame: expected columns with names"):
                    predictor.predict_frame(np.ones((3, 3)))
                with self.assertRaisesRegex(ValueError, "frame: column amount: expected numbers, found .*'Paris' in row 0"):
                    predictor.predict_frame({**self.frame, "amount": np.array(["Paris"] * 200, object)})
                os.chdir("/")

    def test_a_frame_of_weighted_numbers_has_the_scores_of_its_lines(self):
        self.label = np.round(self.amount, 1)
        self.label[11] = 4.5
        schema = {"header": True, "label": {"column": "clicked", "real": True}, "weight": {"column": "times"},
                  "dense": [{"column": "amount"}], "categorical": [{"column": "city"}, {"column": "seen"}]}
        with open("lines.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\r\n")
            writer.writerow(["clicked", "city", "times", "amount", "seen"])
            writer.writerows(zip(self.label, self.city, np.arange(200) % 3, ["" if a != a else repr(float(a)) for a in self.amount],
                                 self.seen))
        with open("schema.json", "w", encoding="utf-8") as file:
            json.dump(schema, file)
        shutil.copy("lines.csv", "val.csv")
        run(os.environ["HLITE_CSV_PREP"], "--schema", "schema.json", "--train", "lines.csv", "--val", "val.csv", "--out", "data",
            "--write-config", "deepfm")
        with open("data/deepfm.json", encoding="utf-8") as file:
            written = json.load(file)
        self.assertEqual(written["layers"][0]["label"], {"top": "label", "label_dim": 1, "sample_weight": True, "real": True})
        self.assertEqual(written["layers"][-1]["type"], "MSELoss")
        self.assertEqual(written["solver"]["early_stop"]["monitor"], "AverageLoss")
        self.train()
        result = run(os.environ["HLITE_PREDICT"], "--model", "model", "--input", "lines.csv", "--out", "scores.npy")
        scores = np.load("scores.npy")
        np.testing.assert_array_equal(hl.Predictor("model", threads=1).predict_frame(self.frame), scores)
        rmse = np.sqrt(np.average((scores.astype(float) - self.label) ** 2, weights=np.arange(200) % 3))
        printed = re.search(r"RMSE ([0-9.]+)", result.stderr + result.stdout)
        self.assertAlmostEqual(float(printed[1]), rmse, delta=2e-6)

    def test_a_model_without_its_preparation_says_what_it_needs(self):
        self.prepare(self.named(), header=True)
        trainer = hl.Trainer("data/deepfm.json", set={"solver.num_epochs": 1}, threads=1)
        list(trainer.train())
        trainer.save("model")
        predictor = hl.Predictor("model", threads=1)
        with self.assertRaisesRegex(hl.ConfigError, "expected a checkpoint with its preparation .* or prepared"):
            predictor.predict_frame(self.frame)
        self.assertEqual(len(predictor.predict_frame(self.frame, prepared="data")), 200)


if __name__ == "__main__":
    unittest.main()
