#!/usr/bin/env python3
"""What hl.Classifier and hl.Regressor have in common: importances, embeddings, callbacks, going on with other rows; and
hl.Regressor under scikit-learn's own checks. Run by ctest where tools/setup.sh has fetched scikit-learn and pandas."""
import copy
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
import warnings

import numpy as np
import pandas as pd
import sklearn
from sklearn.metrics import log_loss, r2_score

import hugectr_lite as hl

LETTERS = np.array(list("abcdefgh"), object)
ESTIMATORS = (hl.Classifier, hl.Regressor)
# Checks of scikit-learn that do not apply, and why.
NOT_MET = {"check_sample_weight_equivalence_on_dense_data": "a sample that is there twice comes in two places of an epoch"}


def table(n=1500, seed=1, letters=6):
    """(DataFrame; number that follows from the letter and a little from x, and not from noise and other)"""
    random = np.random.default_rng(seed)
    letter, x = random.integers(0, letters, n), random.normal(size=n)
    frame = pd.DataFrame({"noise": random.normal(size=n), "x": x, "letter": LETTERS[letter],
                          "other": LETTERS[random.integers(0, 5, n)]})
    return frame, np.where(letter % 2 == 0, 1.0, -1.0) + 0.3 * x + 0.1 * random.normal(size=n)


def labels_for(kind, numbers):
    return np.where(numbers > 0, "yes", "no") if kind is hl.Classifier else numbers


def small(kind, **parameters):
    return kind(**{"random_state": 3, "threads": 1, **parameters})


def scores(model, frame):
    return model.predict_proba(frame)[:, 1] if isinstance(model, hl.Classifier) else model.predict(frame)


def loss(model, frame, y):
    if isinstance(model, hl.Classifier):
        return log_loss(y == "yes", scores(model, frame))
    return np.mean((model.predict(frame) - y) ** 2)


class RegressorTest(unittest.TestCase):
    @unittest.skipIf(tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8), "checks of an older scikit-learn")
    def test_scikit_learn_s_checks_pass(self):
        from sklearn.utils.estimator_checks import check_estimator
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = check_estimator(hl.Regressor(threads=1), expected_failed_checks=NOT_MET, on_fail=None, on_skip=None)
        by_status = {status: {r["check_name"] for r in results if r["status"] == status}
                     for status in ("passed", "xfail", "failed", "skipped")}
        self.assertEqual(by_status["failed"], set(), [r for r in results if r["status"] == "failed"])
        self.assertEqual(by_status["xfail"], set(NOT_MET))
        self.assertLessEqual(by_status["skipped"], {"check_array_api_input"})  # needs SCIPY_ARRAY_API
        self.assertGreater(len(by_status["passed"]), 40)

    def test_learns_numbers_and_scores_them_as_the_program_does(self):
        frame, y = table()
        model = small(hl.Regressor).fit(frame, y)
        other, truth = table(400, seed=2)
        found = model.predict(other)
        self.assertEqual((found.dtype, found.shape), (np.float64, (400,)))
        self.assertGreater(model.score(other, truth), 0.95)
        self.assertEqual(model.score(other, truth), r2_score(truth, found))
        self.assertEqual(model.config_["layers"][-1]["type"], "MSELoss")
        with tempfile.TemporaryDirectory() as folder:
            model.save(os.path.join(folder, "model"))
            other.insert(0, "label", truth)
            other.to_csv(os.path.join(folder, "lines.csv"), header=False, index=False)
            subprocess.run([os.environ["HLITE_PREDICT"], "--model", os.path.join(folder, "model"), "--input",
                            os.path.join(folder, "lines.csv"), "--out", os.path.join(folder, "scores.npy")], check=True,
                           capture_output=True)
            np.testing.assert_array_equal(np.load(os.path.join(folder, "scores.npy")), found)

    def test_an_eval_set_and_weights_count(self):
        frame, y = table(600)
        other, truth = table(400, seed=2)
        weight = np.random.default_rng(5).gamma(1, 1, 400)
        model = small(hl.Regressor, epochs=8).fit(frame, y, eval_set=(other, truth, weight))
        errors = [event["loss"] for event in model.history_ if event["event"] == "eval"]
        self.assertAlmostEqual(np.average((model.predict(other) - truth) ** 2, weights=weight), min(errors), places=5)
        weight = (np.arange(600) % 3 > 0) * 2.5
        model = small(hl.Regressor, epochs=3).fit(frame, y, sample_weight=weight)
        kept = small(hl.Regressor, epochs=3).fit(frame[weight > 0], y[weight > 0], sample_weight=np.ones(400))
        np.testing.assert_array_equal(model.predict(frame), kept.predict(frame))

    def test_wrong_numbers_are_refused(self):
        frame, y = table(20)
        fit = lambda y, **more: small(hl.Regressor, epochs=1).fit(frame, y, **more)  # noqa: E731
        wrong = lambda value: np.where(np.arange(20) == 7, value, y)  # noqa: E731
        for call, words in ((lambda: fit(wrong(np.nan)), "y: Input y contains NaN: expected a number in each row, .* row 7"),
                            (lambda: fit(wrong(np.inf)), "y: Input y contains infinity: .* in row 7"),
                            (lambda: fit(wrong(1e39)), "y: expected numbers up to 3.4e.38, found 1e.39 in row 7"),
                            (lambda: fit(np.full(20, "a")), "y: expected numbers, found <U1"),
                            (lambda: fit(np.zeros((20, 2))), "y: expected a 1d array of labels"),
                            (lambda: fit(y[:9]), "expected a label for each of 20 rows, found 9 in y"),
                            (lambda: fit(y, eval_set=(frame, wrong(np.nan))), "eval_set: y: Input y contains NaN")):
            with self.subTest(words), self.assertRaisesRegex(ValueError, words):
                call()

    def test_works_without_scikit_learn(self):
        code = ("import sys\nfor name in ('sklearn', 'pandas', 'polars', 'pyarrow'): sys.modules[name] = None\n"
                "import numpy as np, hugectr_lite as hl\nc = np.array(['a', 'b'] * 50); y = np.where(c == 'a', 1.0, -1.0)\n"
                "m = hl.Regressor(epochs=20, threads=1).fit({'c': c}, y)\nprint(m.score({'c': c}, y) > 0.9, m)")
        out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
        self.assertEqual(out, "True Regressor(epochs=20, threads=1)\n")


class EstimatorTest(unittest.TestCase):
    def test_a_row_has_the_bits_that_it_has_among_others_soon(self):
        frame, y = table()
        for kind in ESTIMATORS:
            model = small(kind, epochs=2).fit(frame, labels_for(kind, y))
            expected, seconds = scores(model, frame[:100]), []
            for i in range(100):
                row = frame[i:i + 1]
                begin = time.perf_counter()
                found = scores(model, row)
                seconds.append(time.perf_counter() - begin)
                self.assertEqual(found, expected[i])
            self.assertLess(statistics.median(seconds), 0.02)  # on a busy machine; 0.4 ms on a quiet one

    def test_importances_are_those_of_columns_that_count(self):
        frame, y = table(3000)
        for kind in ESTIMATORS:
            with self.subTest(kind.__name__):
                model = small(kind, epochs=8).fit(frame, labels_for(kind, y))
                found = dict(zip(model.feature_names_in_, model.feature_importances_))
                self.assertEqual(max(found, key=found.get), "letter")
                self.assertGreater(found["letter"], 0.3)
                self.assertGreater(found["x"], 0.1 if kind is hl.Regressor else -0.01)
                for name in ("noise", "other"):
                    self.assertLess(abs(found[name]), 0.01)
                restored = pickle.loads(pickle.dumps(small(kind, epochs=8).fit(frame, labels_for(kind, y))))
                np.testing.assert_array_equal(restored.feature_importances_, model.feature_importances_)
                clean = small(kind, epochs=1, validation_fraction=0).fit(frame, labels_for(kind, y))
                with self.assertRaisesRegex(AttributeError, "expected a .* whose fit had validation rows"):
                    clean.feature_importances_
                self.assertFalse(hasattr(clean, "feature_importances_"))

    def test_importances_are_rises_of_the_loss(self):
        frame, y = table(600)
        other, numbers = table(300, seed=2)
        for kind in ESTIMATORS:
            truth = labels_for(kind, numbers)
            model = small(kind, epochs=8).fit(frame, labels_for(kind, y), eval_set=(other, truth))
            random, rise = np.random.default_rng(0), 0
            for _ in range(5):
                mixed = other.assign(letter=other["letter"].to_numpy()[random.permutation(300)])
                rise += (loss(model, mixed, truth) - loss(model, other, truth)) / 5
            self.assertAlmostEqual(model.feature_importances_[2], rise, places=6)

    def test_embeddings_are_those_of_categories_that_came(self):
        frame, y = table(letters=5)
        frame.loc[3, "letter"] = "rare"
        for kind in ESTIMATORS:
            model = small(kind, epochs=2, min_count=2, validation_fraction=0,
                          columns={"categorical": [{"column": "x", "buckets": [0.0]}]}).fit(frame, labels_for(kind, y))
            tokens, vectors = model.embeddings("letter")
            self.assertEqual(sorted(tokens), list("abcde"))
            self.assertEqual((tokens.dtype, vectors.dtype, vectors.shape), (object, np.float32, (5, 8)))
            for one, other in zip(model.embeddings(2), (tokens, vectors)):
                np.testing.assert_array_equal(one, other)
            self.assertEqual(len(model.embeddings("x")[0]), 2)
            with tempfile.TemporaryDirectory() as folder:
                model.save(os.path.join(folder, "model"))
                of_file = hl.Predictor(os.path.join(folder, "model"), threads=1).embeddings("letter")
                np.testing.assert_array_equal(of_file[1], vectors)
            with self.assertRaisesRegex(hl.ConfigError, "embeddings: expected a column .*found 'noise'"):
                model.embeddings("noise")
            with self.assertRaisesRegex(ValueError, "embeddings: expected a column of X, below 4, found 4"):
                model.embeddings(4)
            with self.assertRaisesRegex(ValueError, "expected a fitted estimator"):
                small(kind).embeddings("letter")

    def test_a_callback_sees_each_evaluation_and_may_end_training(self):
        frame, y = table()
        for kind in ESTIMATORS:
            whole, records = [], []
            small(kind, epochs=6).fit(frame, labels_for(kind, y), callbacks=[whole.append])
            self.assertEqual(len(whole), 6)

            def second(record):
                records.append(record)
                return len(records) == 2

            model = small(kind, epochs=6).fit(frame, labels_for(kind, y), callbacks=[lambda record: None, second])
            self.assertEqual(len(records), 2)
            evaluations = [event for event in model.history_ if event["event"] == "eval"]
            self.assertEqual([{**event, "train_loss": record["train_loss"]} for event, record in zip(evaluations, records)],
                             records)
            for record, other in zip(records, whole):
                self.assertEqual([record[name] for name in ("iter", "loss", "train_loss")],
                                 [other[name] for name in ("iter", "loss", "train_loss")])
            self.assertGreater(records[0]["train_loss"], records[1]["train_loss"])
            expected, importances = scores(model, frame), model.feature_importances_
            with self.assertRaisesRegex(ZeroDivisionError, "division"):
                model.fit(frame.rename(columns={"x": "z"}), labels_for(kind, y), callbacks=[lambda record: 1 / 0])
            np.testing.assert_array_equal(scores(model, frame), expected)  # it is as it was
            np.testing.assert_array_equal(model.feature_importances_, importances)


class TuneTest(unittest.TestCase):
    def test_tune_trains_the_best_of_its_trials(self):
        frame, y = table()
        for kind in ESTIMATORS:
            with self.subTest(kind.__name__):
                labels = labels_for(kind, y)
                model = small(kind, tune=5, warm_start=True).fit(frame, labels)
                # Five, two of which are trained again.
                self.assertEqual(len(model.trials_), 7)
                self.assertEqual(model.trials_[0]["changes"], "the config itself")
                best = min(model.trials_, key=lambda trial: trial["value"])
                self.assertEqual([event["loss"] for event in model.history_
                                  if event["event"] == "eval" and event["iter"] == best["iteration"]], [best["value"]])
                np.testing.assert_array_equal(scores(model, frame), scores(pickle.loads(pickle.dumps(model)), frame))
                again = small(kind, tune=5).fit(frame, labels)
                self.assertEqual(again.config_, model.config_)
                np.testing.assert_array_equal(scores(again, frame), scores(model, frame))
                # The fits that follow have the values that were found, and not the rates at their end.
                found = model.config_["optimizer"]["adam_hparam"]
                model.fit(frame, labels)
                self.assertEqual(len(model.trials_), 7)
                self.assertEqual(model.config_["optimizer"]["adam_hparam"]["learning_rate"], found["learning_rate"])
                self.assertNotIn("decay_start", model.config_["optimizer"]["adam_hparam"])
                model.set_params(tune=0, warm_start=False).fit(frame, labels)
                self.assertFalse(hasattr(model, "trials_"))

    def test_tune_says_what_it_needs(self):
        frame, y = table()
        for tune in (1, -3, True, 2.5, "16"):
            with self.assertRaisesRegex(ValueError, f"tune: expected 0 or a whole number of trials, at least 2, found {tune!r}"):
                small(hl.Regressor, tune=tune).fit(frame, y)
        with self.assertRaisesRegex(ValueError, "tune: expected validation rows.*found none"):
            small(hl.Regressor, tune=4, validation_fraction=0).fit(frame, y)


class GoingOnTest(unittest.TestCase):
    def test_warm_start_goes_on_with_known_and_new_categories(self):
        frame, y = table(letters=5)
        new, more = table(seed=2, letters=8)
        other, truth = table(500, seed=3, letters=8)
        for kind in ESTIMATORS:
            with self.subTest(kind.__name__):
                model = small(kind, warm_start=True).fit(frame, labels_for(kind, y))
                before, iterations = loss(model, other, labels_for(kind, truth)), model.history_[-1]["iter"]
                known = model.embeddings("letter")[0].tolist()
                self.assertEqual(sorted(known), list("abcde"))
                model.fit(new, labels_for(kind, more))
                self.assertGreater(model.history_[0]["iter"], iterations)
                self.assertEqual(model.embeddings("letter")[0].tolist()[:5], known)
                self.assertEqual(sorted(model.embeddings("letter")[0]), list("abcdefgh"))
                self.assertLess(loss(model, other, labels_for(kind, truth)), before / 2)
                restored = pickle.loads(pickle.dumps(model))
                for again in (model, restored):
                    again.fit(frame, labels_for(kind, y))
                np.testing.assert_array_equal(scores(model, other), scores(restored, other))
                # Without warm_start a fit forgets.
                anew = model.set_params(warm_start=False).fit(frame, labels_for(kind, y))
                first = small(kind).fit(frame, labels_for(kind, y))
                np.testing.assert_array_equal(scores(anew, other), scores(first, other))

    def test_a_fit_that_goes_on_begins_with_the_weights_of_the_one_before(self):
        frame, y = table()
        for kind in ESTIMATORS:
            model = small(kind, epochs=2, validation_fraction=0, warm_start=True).fit(frame, labels_for(kind, y))
            before = scores(model, frame)
            model.set_params(learning_rate=1e-30).fit(frame[:40], labels_for(kind, y)[:40])
            np.testing.assert_allclose(scores(model, frame), before, atol=1e-6)

    def test_partial_fit_learns_pass_by_pass(self):
        frame, y = table()
        other, truth = table(500, seed=3)
        for kind in ESTIMATORS:
            with self.subTest(kind.__name__):
                labels, truths = labels_for(kind, y), labels_for(kind, truth)
                first = {"classes": ["no", "yes"]} if kind is hl.Classifier else {}
                model, found = small(kind), []
                for _ in range(3):
                    for begin in range(0, 1500, 500):
                        rows = slice(begin, begin + 500)
                        model.partial_fit(frame[rows], labels[rows], **first)
                    found.append(loss(model, other, truths))
                self.assertLess(found[-1], 0.8 * found[0])
                again = copy.deepcopy(model)
                before = scores(again, other)
                again.partial_fit(frame[:1], labels[:1])  # a row, of one class
                again.partial_fit(frame[:1], labels[:1])
                self.assertFalse(np.array_equal(scores(again, other), before))
                # It goes on from a fit, too, and learns the categories that are new.
                new, more = table(seed=2, letters=8)
                wider, truths = table(500, seed=4, letters=8)
                fitted = small(kind).fit(frame, labels)
                before = loss(fitted, wider, labels_for(kind, truths))
                for _ in range(3):
                    fitted.partial_fit(new, labels_for(kind, more))
                self.assertLess(loss(fitted, wider, labels_for(kind, truths)), before / 2)

    def test_what_cannot_go_on_says_why(self):
        frame, y = table(200)
        for kind in ESTIMATORS:
            labels = labels_for(kind, y)
            model = small(kind, epochs=1, warm_start=True).fit(frame, labels)
            expected = scores(model, frame)
            cases = [
                (lambda: model.partial_fit(frame[["x", "letter"]], labels), "yet now missing:\n- noise\n- other"),
                (lambda: model.fit(frame[list(frame)[::-1]], labels), "must be in the same order"),
                (lambda: model.fit(frame.assign(more=1), labels), "unseen at fit time:\n- more"),
                (lambda: model.partial_fit(frame.assign(x="a"), labels), "X: column x: expected numbers, found"),
                (lambda: model.fit(frame, labels, sample_weight=np.ones(200)), "sample_weight: expected none, as in the fit"),
                (lambda: copy.deepcopy(model).set_params(model="dlrm").fit(frame, labels),
                 "model: expected 'dcnv2', as in the fit that this one goes on from, found 'dlrm'"),
                (lambda: copy.deepcopy(model).set_params(categorical=["x"]).partial_fit(frame, labels),
                 "categorical: expected None, as in the fit"),
            ]
            if kind is hl.Classifier:
                other = np.where(labels == "yes", "maybe", "no")
                cases += [(lambda: model.partial_fit(frame, other), r"y: expected the classes \['no', 'yes'\], found 'maybe'"),
                          (lambda: model.partial_fit(frame, labels, classes=["a", "b"]), r"classes: expected \['no', 'yes'\]"),
                          (lambda: small(kind).partial_fit(frame, labels, classes=list("abc")), "Only binary classification"),
                          (lambda: small(kind).partial_fit(frame, np.full(200, "a")), "expected two classes in y, found 1 class"),
                          (lambda: small(kind, class_weight="balanced").partial_fit(frame, labels),
                           "class_weight: expected a dict or None")]
            for i, (call, words) in enumerate(cases):
                with self.subTest(f"{kind.__name__} {i}: {words}"), self.assertRaisesRegex(ValueError, words):
                    call()
            np.testing.assert_array_equal(scores(model, frame), expected)


if __name__ == "__main__":
    unittest.main()
