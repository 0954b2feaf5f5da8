#!/usr/bin/env python3
"""hl.Classifier on DataFrames and under scikit-learn's own checks. Run by ctest where tools/setup.sh has fetched
scikit-learn, pandas and polars; HLITE_TRAIN, HLITE_PREDICT and HLITE_CSV_PREP name the programs."""
import copy
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np
import pandas as pd
import polars as pl
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

import hugectr_lite as hl

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Checks of scikit-learn that do not apply, and why.
NOT_MET = {"check_sample_weight_equivalence_on_dense_data": "a sample that is there twice comes in two places of an epoch"}


def table(n=600, seed=1):
    """(DataFrame with text, missing values and awkward characters; labels that follow from it)"""
    random = np.random.default_rng(seed)
    kinds = np.array(["Zürich", 'say "hi", twice', "two\nlines", "cr\rlf", " padded ", "back\\slash", "東京"], object)
    city, hour = random.integers(0, len(kinds), n), random.integers(0, 24, n)
    frame = pd.DataFrame({"amount": np.round(random.lognormal(3, 1, n), 2), "city": kinds[city], "hour": hour,
                          "member": random.random(n) < 0.5, "size": random.random(n).astype(np.float32)})
    label = random.random(n) < np.where((city % 2 == 0) == frame["member"], 0.9, 0.1)
    frame.loc[::7, "amount"], frame.loc[::11, "city"] = np.nan, None
    return frame, np.where(label, "yes", "no")


def in_polars(frame):
    return pl.DataFrame({name: [None if value is None or value != value else value for value in frame[name].tolist()]
                         for name in frame}).with_columns(pl.col("size").cast(pl.Float32))


def small(**parameters):
    return hl.Classifier(**{"epochs": 3, "random_state": 3, "threads": 1, **parameters})


class ClassifierTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    @unittest.skipIf(tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8), "checks of an older scikit-learn")
    def test_scikit_learn_s_checks_pass(self):
        from sklearn.utils.estimator_checks import check_estimator
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = check_estimator(hl.Classifier(threads=1), expected_failed_checks=NOT_MET, on_fail=None, on_skip=None)
        by_status = {status: {r["check_name"] for r in results if r["status"] == status}
                     for status in ("passed", "xfail", "failed", "skipped")}
        self.assertEqual(by_status["failed"], set(), [r for r in results if r["status"] == "failed"])
        self.assertEqual(by_status["xfail"], set(NOT_MET))
        self.assertLessEqual(by_status["skipped"], {"check_array_api_input"})  # needs SCIPY_ARRAY_API
        self.assertGreater(len(by_status["passed"]), 40)

    def test_the_page_s_lines_reach_the_auc_of_adult(self):
        with open(os.path.join(ROOT, "docs/python.md"), encoding="utf-8") as file:
            lines = re.search(r"```python adult\n([\s\S]*?)```", file.read()).group(1)
        self.assertLessEqual(len(lines.splitlines()), 12)
        data = os.path.join(ROOT, "tests/data")
        os.symlink(data, self.path("tests-data"))
        result = subprocess.run([sys.executable, "-c", lines.replace('"tests/data/', f'"{data}/')], capture_output=True,
                                text=True, check=False, cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreater(float(re.search(r"0\.9\d+", result.stdout).group()), 0.907)

    def test_ids_numbers_and_scores_are_those_of_the_programs(self):
        frame, label = table()
        model = small(transforms={"amount": "log1p_standardize"}, validation_fraction=0).fit(frame, label)
        written = frame.copy()
        written.insert(0, "label", (label == "yes").astype(int))
        written.to_csv(self.path("lines.csv"), header=False, index=False, lineterminator="\r\n")
        schema = {"label": {"column": 0, "positive": ["1"], "negative": ["0"]},
                  "dense": [{"column": 1, "name": "amount", "transform": "log1p_standardize"},
                            {"column": 3, "name": "hour", "transform": "standardize"},
                            {"column": 5, "name": "size", "transform": "standardize"}],
                  "categorical": [{"column": 2, "name": "city"}, {"column": 4, "name": "member"}]}
        with open(self.path("schema.json"), "w", encoding="utf-8") as file:
            json.dump(schema, file)
        run = lambda *command: subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: E731
        run(os.environ["HLITE_CSV_PREP"], "--schema", self.path("schema.json"), "--train", self.path("lines.csv"), "--out",
            self.path("data"), "--write-config", "dcnv2", "--min-count", "2")
        seed = np.random.RandomState(3).randint(1, 2**31 - 1)
        run(os.environ["HLITE_TRAIN"], "--config", self.path("data/dcnv2.json"), "--set", f"solver.seed={seed}", "--set",
            "solver.num_epochs=3", "--threads", "1", "--with-preparation", "--save", self.path("program"))
        model.save(self.path("saved"))
        for name in ("weights.safetensors", "preparation/vocabulary/00_city.txt"):
            with open(self.path(f"program/{name}"), "rb") as a, open(self.path(f"saved/{name}"), "rb") as b:
                self.assertTrue(a.read() == b.read(), name)
        manifests = []
        for checkpoint in ("program", "saved"):
            with open(self.path(checkpoint + "/preparation/manifest.json"), encoding="utf-8") as file:
                manifests.append(json.load(file))
            del manifests[-1]["sources"]  # names and bytes of the lines
        self.assertEqual(*manifests)
        scores = model.predict_proba(frame)[:, 1]
        for checkpoint in ("program", "saved"):
            run(os.environ["HLITE_PREDICT"], "--model", self.path(checkpoint), "--input", self.path("lines.csv"), "--out",
                self.path("scores.npy"))
            np.testing.assert_array_equal(np.load(self.path("scores.npy")), scores)

    def test_any_table_gives_the_same_scores(self):
        frame, label = table()
        model = small().fit(frame, label)
        expected = model.predict_proba(frame)
        columns = {name: frame[name].to_numpy() for name in frame}
        self.assertEqual(columns["city"].dtype.kind, "O")
        others = {"polars": in_polars(frame), "dict": columns, "category": frame.astype({"city": "category"}),
                  "nullable": frame.astype({"hour": "Int64", "member": "boolean", "city": "string"})}
        for name, other in others.items():
            with self.subTest(name):
                np.testing.assert_array_equal(model.predict_proba(other), expected)
                np.testing.assert_array_equal(small().fit(other, list(label)).predict_proba(frame), expected)

    def test_works_under_scikit_learn_s_tools(self):
        frame, label = table()
        scores = cross_val_score(small(epochs=20, learning_rate=0.01), frame, label, scoring="roc_auc", cv=3)
        self.assertGreater(scores.min(), 0.6)
        search = GridSearchCV(small(), {"model": ["dlrm", "deepfm"], "learning_rate": [0.001, 0.02]}, n_jobs=2, cv=2,
                              scoring="roc_auc").fit(frame, label)
        self.assertEqual(search.best_params_["learning_rate"], 0.02)
        self.assertEqual(search.predict(frame).dtype, label.dtype)
        copied = clone(search.best_estimator_)
        self.assertEqual(copied.get_params(), search.best_estimator_.get_params())
        self.assertFalse(hasattr(copied, "classes_"))

    def test_a_pickle_holds_the_model(self):
        frame, label = table()
        model = small().fit(frame, label)
        expected = model.predict_proba(frame)
        np.testing.assert_array_equal(copy.deepcopy(model).predict_proba(frame), expected)
        frame.to_pickle(self.path("frame"))
        with open(self.path("model"), "wb") as file:
            pickle.dump(model, file)
        code = ("import pickle, sys, numpy as np\nmodel, frame = (pickle.load(open(p, 'rb')) for p in sys.argv[1:3])\n"
                "np.save(sys.argv[3], model.predict_proba(frame))")
        subprocess.run([sys.executable, "-c", code, self.path("model"), self.path("frame"), self.path("p.npy")], check=True)
        np.testing.assert_array_equal(np.load(self.path("p.npy")), expected)

    def test_random_state_decides_the_bits(self):
        frame, label = table(1500)
        scores = [small(random_state=state).fit(frame, label).predict_proba(frame) for state in (5, 5, 6)]
        np.testing.assert_array_equal(scores[0], scores[1])
        self.assertFalse(np.array_equal(scores[0], scores[2]))

    def test_an_eval_set_stops_training_and_its_best_weights_count(self):
        frame, label = table(1200)
        other, truth = table(400, seed=2)
        model = small(epochs=60, learning_rate=0.02).fit(frame, label, eval_set=[(other, truth)])
        evaluations = [event for event in model.history_ if event["event"] == "eval"]
        self.assertLess(len(evaluations), 60)
        best = min(evaluations, key=lambda event: event["loss"])
        self.assertAlmostEqual(hl.auc(truth == "yes", model.predict_proba(other)[:, 1]), best["auc"], places=9)

    def test_rows_of_weight_0_are_as_if_they_were_not_there(self):
        frame, label = table(900)
        weight = (np.arange(900) % 3 > 0) * 2.5
        kept = weight > 0
        model = small(validation_fraction=0).fit(frame, label, sample_weight=weight)
        other = small(validation_fraction=0).fit(frame[kept], label[kept], sample_weight=np.ones(600))
        np.testing.assert_array_equal(model.predict_proba(frame), other.predict_proba(frame))
        plain = small(validation_fraction=0).fit(frame[kept], label[kept])
        np.testing.assert_allclose(model.predict_proba(frame), plain.predict_proba(frame), rtol=0, atol=1e-6)

    def test_weights_multiply_the_odds_of_each_category(self):
        # The weighted loss of a category, -w n1 log p - n0 log(1 - p), is least at the odds p / (1 - p) = w n1 / n0. The
        # model holds a probability for each category, and takes full batches without dropout and penalty until it is
        # there.
        yes, no, names = np.array([7, 53, 31]), np.array([29, 11, 31]), np.array(["a", "b", "c"], object)
        x = {"x": np.repeat(names, yes + no)}
        y = np.concatenate([np.repeat(["yes", "no"], pair) for pair in zip(yes, no)])
        for class_weight, weight in ((None, 1), ({"yes": 6.0}, 6), ({"no": 5.0}, 0.2)):
            with self.subTest(class_weight):
                model = hl.Classifier(epochs=400, batch_size=len(y), learning_rate=0.01, class_weight=class_weight,
                                      random_state=3, threads=1, set={"layers[5].rate": 0, "layers[1].sparse_embedding_hparam.lambda": 0}).fit(x, y)
                self.assertEqual(model.config_["layers"][5]["type"], "Dropout")
                p = model.predict_proba({"x": names})
                np.testing.assert_allclose(p[:, 1] / p[:, 0], weight * yes / no, rtol=2e-3)

    def test_weights_move_the_scores(self):
        frame, label = table(1200)
        heavy = small(epochs=12, learning_rate=0.01, class_weight={"yes": 6.0}).fit(frame, label)
        weight = np.where(label == "yes", 6.0, 1.0)
        model = small(epochs=12, learning_rate=0.01).fit(frame, label, sample_weight=weight)
        np.testing.assert_array_equal(model.predict_proba(frame), heavy.predict_proba(frame))
        balanced = small(epochs=2, class_weight="balanced").fit(frame, label)
        counts = np.bincount((label == "yes").astype(int))
        by_hand = small(epochs=2, class_weight={"no": 1200 / 2 / counts[0], "yes": 1200 / 2 / counts[1]}).fit(frame, label)
        np.testing.assert_array_equal(balanced.predict_proba(frame), by_hand.predict_proba(frame))

    def test_an_eval_set_may_have_weights(self):
        frame, label = table(600)
        other, truth = table(400, seed=2)
        weight = np.random.default_rng(5).gamma(1, 1, 400)
        model = small(epochs=5).fit(frame, label, eval_set=(other, truth, weight))
        found = [event["auc"] for event in model.history_ if event["event"] == "eval"]
        self.assertAlmostEqual(hl.auc(truth == "yes", model.predict_proba(other)[:, 1], weight), max(found), places=6)

    def test_unseen_categories_share_the_row_of_missing_ones(self):
        frame, label = table()
        model = small().fit(frame, label)
        unseen, missing = frame.assign(city="Paris"), frame.assign(city=None)
        np.testing.assert_array_equal(model.predict_proba(unseen), model.predict_proba(missing))
        self.assertFalse(np.array_equal(model.predict_proba(unseen), model.predict_proba(frame)))

    def test_whole_numbers_are_the_same_category_in_every_type(self):
        frame, label = table()
        model = small(categorical=["hour"]).fit(frame, label)
        np.testing.assert_array_equal(model.predict_proba(frame.astype({"hour": float})), model.predict_proba(frame))
        np.testing.assert_array_equal(model.predict_proba(frame.astype({"hour": str})), model.predict_proba(frame))

    def test_works_without_scikit_learn_pandas_and_polars(self):
        code = ("import sys\nfor name in ('sklearn', 'pandas', 'polars', 'pyarrow'): sys.modules[name] = None\n"
                "import numpy as np, hugectr_lite as hl\nx = np.arange(40.0); y = x > 20\n"
                "m = hl.Classifier(epochs=20, threads=1).fit({'x': x, 'c': np.where(y, 'a', 'b')}, y)\n"
                "print(m.score({'x': x, 'c': np.where(y, 'a', 'b')}, y), m.set_params(epochs=2).get_params()['epochs'], m)\n"
                "try: hl.Classifier().predict({'x': x})\nexcept ValueError as e: print(type(e).__name__, e)")
        out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
        self.assertRegex(out, r"^1\.0 2 Classifier\(epochs=2, threads=1\)\nNotFittedError Classifier: expected a fitted")

    def test_bad_input_is_refused_with_its_place(self):
        frame, label = table(200)
        model = small().fit(frame, label)
        nan, one, three = label.astype(object), np.full(200, "no"), np.arange(200) % 3
        nan[7] = np.nan
        infinite, mixed = frame.copy(), frame.copy()
        infinite.loc[5, "amount"], mixed["hour"] = np.inf, "noon"
        objects = frame.copy()
        objects["city"] = [{"a": 1}] * 200
        fit, score = (lambda X, y, **more: small().fit(X, y, **more)), model.predict_proba
        cases = [
            (lambda: fit(frame, nan), ValueError, "y: Input y contains NaN.* in row 7"),
            (lambda: fit(frame, label[:-1]), ValueError, "expected a label for each of 200 rows, found 199"),
            (lambda: fit(frame, one), ValueError, r"expected two classes in y, found 1 class \('no'\)"),
            (lambda: fit(frame, three), ValueError, "Only binary classification .* found 3 classes"),
            (lambda: fit(frame, label, sample_weight=np.ones(199)), ValueError, "a weight for each of 200 rows, found 199"),
            (lambda: fit(frame, label, sample_weight=np.ones((200, 1))), ValueError, "one weight a row, found the shape"),
            (lambda: fit(frame, label, sample_weight=np.arange(200) - 1.5), ValueError, ">= 0, found -1.5 in row 0"),
            (lambda: fit(frame, label, sample_weight=np.full(200, np.nan)), ValueError, "found nan in row 0"),
            (lambda: fit(frame, label, sample_weight=np.zeros(200)), ValueError, "a weight above 0, found zero in all 200 rows"),
            (lambda: fit(frame, label, sample_weight=label == "no"), ValueError, r"two classes in y, found 1 class \('no'\)"),
            (lambda: fit(frame, label, eval_set=(frame, label, np.ones(3))), ValueError, "eval_set: sample_weight: .* found 3"),
            (lambda: small(class_weight="equal").fit(frame, label), ValueError, 'expected "balanced", a dict or None'),
            (lambda: small(class_weight={"maybe": 2}).fit(frame, label), ValueError, "class_weight: expected the classes"),
            (lambda: small(class_weight={"no": 0}).fit(frame, label), ValueError, "class_weight: expected weights above 0"),
            (lambda: fit(frame, label, eval_set=[(frame, label)] * 2), ValueError, r"eval_set: expected \(X, y\)"),
            (lambda: fit(frame, label, eval_set=(frame[["city"]], label)), ValueError, "eval_set: expected the columns of X"),
            (lambda: fit(frame, label, eval_set=(frame, one)), ValueError, "eval_set: expected the classes"),
            (lambda: fit(infinite, label), ValueError, "X: column amount: .* infinity in row 5"),
            (lambda: fit(objects, label), TypeError, "X: column city: .* found dict"),
            (lambda: fit(frame.assign(day=pd.Timestamp("2020-01-01")), label), TypeError, "X: column day: expected numbers, text"),
            (lambda: fit(in_polars(frame).lazy(), label), TypeError, r"found a lazy one: pass its collect\(\)"),
            (lambda: small(categorical=["town"]).fit(frame, label), ValueError, "categorical: expected columns of X"),
            (lambda: small(transforms={"town": "none"}).fit(frame, label), ValueError, "transforms: expected columns of X"),
            (lambda: small(transforms="square").fit(frame, label), hl.ConfigError, "transform"),
            (lambda: small(model="bert").fit(frame, label), ValueError, "model: expected one of dlrm, .* found 'bert'"),
            (lambda: small(validation_fraction=1.5).fit(frame, label), ValueError, "validation_fraction: expected a share"),
            (lambda: score(frame[["city", "amount"]]), ValueError, "yet now missing:\n- hour\n- member\n- size"),
            (lambda: score(frame[list(frame)[::-1]]), ValueError, "must be in the same order"),
            (lambda: score(frame.rename(columns={"city": "town"})), ValueError, "unseen at fit time:\n- town"),
            (lambda: score(mixed), ValueError, "X: column hour: expected numbers, found .*'noon' in row 0"),
            (lambda: score(frame[:0]), ValueError, "0 sample"),
            (lambda: small().predict(frame), ValueError, "expected a fitted estimator"),
            (lambda: model.save(self.folder), FileExistsError, "expected a new directory"),
        ]
        for i, (call, kind, words) in enumerate(cases):
            with self.subTest(f"{i}: {words}"):
                with self.assertRaisesRegex(kind, words):
                    call()

    def test_models_are_the_configs_of_the_program(self):
        frame, label = table(300)
        written = frame.assign(label=(label == "yes").astype(int))
        written.to_csv(self.path("lines.csv"), index=False)
        schema = {"header": True, "label": {"column": "label", "positive": ["1"]}, "dense": [{"column": "amount"}],
                  "categorical": [{"column": "city"}, {"column": "member"}]}
        with open(self.path("schema.json"), "w", encoding="utf-8") as file:
            json.dump(schema, file)
        subprocess.run([os.environ["HLITE_CSV_PREP"], "--schema", self.path("schema.json"), "--train", self.path("lines.csv"),
                        "--out", self.path("data")], check=True, capture_output=True)
        first = ["dlrm", "dcnv2", "deepfm", "wdl", "dcn", "gdcn", "finalmlp", "finalnet", "masknet"]
        self.assertEqual(set(hl.models.__all__), {*first, "mmoe", "ple", "din", "dien", "bst"})
        for name in first:
            with self.subTest(name):
                text = subprocess.run([os.environ["HLITE_TRAIN"], "--new", name, "--prepared", self.path("data")], check=True,
                                      capture_output=True, text=True).stdout
                build = getattr(hl.models, name)
                self.assertEqual(build(self.path("data")), json.loads(text))
                config = build(dense=3, tables=[50, 7], samples=5000, evaluates=False)
                trainer = hl.Trainer(config, arrays=True, threads=1)
                trainer.step(np.ones(9), np.zeros((9, 3)), np.full((9, 2), 6))
                self.assertTrue(np.isfinite(trainer.batch_loss))
        with self.assertRaisesRegex(TypeError, "expected the folder of prepared data, or tables"):
            hl.models.dlrm()
        with self.assertRaisesRegex(TypeError, "expected samples"):
            hl.models.dlrm(dense=1, tables=[3])
        self.assertNotIn("Interaction", [layer["type"] for layer in hl.models.dlrm(tables=[3], samples=9)["layers"]])


if __name__ == "__main__":
    unittest.main()
