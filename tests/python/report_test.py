#!/usr/bin/env python3
"""The numbers of hugectr_lite.report against scikit-learn and definitions, and the page. Run by ctest where tools/setup.sh has
fetched scikit-learn; HLITE_TRAIN, HLITE_PREDICT and HLITE_CSV_PREP name the programs."""
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import types
import unittest

import numpy as np
from sklearn import metrics as of_sklearn
from sklearn.calibration import calibration_curve

import hugectr_lite as hl
from hugectr_lite import report, score_metrics

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from pages import HAS_NODE, content, drawn, nodes  # noqa: E402


def samples(n, seed, ties=False):
    random = np.random.default_rng(seed)
    score = random.random(n)
    label = (random.random(n) < score * 0.6).astype(float)
    label[:2] = 0, 1
    return label, np.round(score, 1) if ties else score


class MetricsTest(unittest.TestCase):
    SIZES = [(2, False), (3, True), (7, False), (1000, False), (997, True)]

    def test_curves_and_losses_are_scikit_learn_s(self):
        for n, ties in self.SIZES:
            with self.subTest(n=n, ties=ties):
                label, score = samples(n, n, ties)
                rates = of_sklearn.roc_curve(label, score, drop_intermediate=False)[:2]
                np.testing.assert_allclose(np.array(score_metrics.roc(label, score)), np.array(rates), rtol=0, atol=1e-12)
                precision, recall, _ = of_sklearn.precision_recall_curve(label, score)
                ours = score_metrics.precision_recall(label, score)
                np.testing.assert_allclose(ours[0], recall[-2::-1], rtol=0, atol=1e-12)
                np.testing.assert_allclose(ours[1], precision[-2::-1], rtol=0, atol=1e-12)
                for mine, theirs in ((score_metrics.average_precision, of_sklearn.average_precision_score),
                                     (score_metrics.log_loss, of_sklearn.log_loss)):
                    self.assertAlmostEqual(mine(label, score), theirs(label, score), places=12)
                self.assertAlmostEqual(score_metrics.auc_interval(label, score)[0], of_sklearn.roc_auc_score(label, score), places=12)

    def test_calibration_is_scikit_learn_s(self):
        for n, ties in self.SIZES[2:]:
            label, score = samples(n, n, ties)
            found = score_metrics.calibration(label, score)
            rate, mean = calibration_curve(label, score, n_bins=10, strategy="quantile")
            np.testing.assert_allclose([group[1] for group in found], mean, rtol=0, atol=1e-12)
            np.testing.assert_allclose([group[2] for group in found], rate, rtol=0, atol=1e-12)
            self.assertEqual(sum(group[0] for group in found), n)

    def test_the_interval_is_delong_s(self):
        for n, ties in self.SIZES[1:]:
            with self.subTest(n=n, ties=ties):
                label, score = samples(n, n + 1, ties)
                positive, negative = score[label == 1], score[label == 0]
                wins = (positive[:, None] > negative) + 0.5 * (positive[:, None] == negative)  # [m, n], the definition
                area, low, high = score_metrics.auc_interval(label, score)
                self.assertAlmostEqual(area, wins.mean(), places=12)
                if min(wins.shape) == 1:
                    self.assertEqual((low, high), (None, None))
                    continue
                variance = wins.mean(1).var(ddof=1) / len(positive) + wins.mean(0).var(ddof=1) / len(negative)
                self.assertAlmostEqual(low, max(0, area - 1.959963984540054 * variance ** 0.5), places=12)
                self.assertAlmostEqual(high, min(1, area + 1.959963984540054 * variance ** 0.5), places=12)
        self.assertIsNone(score_metrics.auc_interval(np.ones(5), np.arange(5.0)))

    def test_intervals_cover_the_true_area(self):
        random, true_area = np.random.default_rng(5), 0.760249938906523  # of N(1, 1) over N(0, 1): Phi(1 / sqrt 2)
        label, covered = np.r_[np.ones(80), np.zeros(120)], 0
        for _ in range(400):
            _, low, high = score_metrics.auc_interval(label, random.normal(size=200) + label)
            covered += low <= true_area <= high
        self.assertTrue(0.91 < covered / 400 < 0.98, covered / 400)

    def test_lift_is_the_definition(self):
        label, score = samples(997, 3)
        order = np.argsort(-score)
        for (share, value), tenth in zip(score_metrics.lift(label, score), range(1, 11)):
            best = label[order[:round(99.7 * tenth)]]
            self.assertAlmostEqual(value, best.mean() / label.mean(), places=12)
            self.assertAlmostEqual(share, len(best) / 997, places=12)


class ReportTest(unittest.TestCase):
    def setUp(self):
        folder, before = tempfile.TemporaryDirectory(), os.getcwd()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, before)
        os.chdir(folder.name)
        random = np.random.default_rng(8)
        kinds = np.array(["a <b>", 'say "c", d', "e", ""], object)
        self.kind, self.noise = random.integers(0, 4, 1000), random.integers(0, 5, 1000)
        self.amount = random.normal(size=1000).round(3)
        self.label = (random.random(1000) < np.where(self.kind % 2 == 0, 0.8, 0.2)).astype(int)
        self.rows = list(zip(self.label, kinds[self.kind], [f"n{i}" for i in self.noise], self.amount))
        self.write("lines.csv", self.rows)
        schema = {"header": True, "label": {"column": "clicked", "positive": ["1"], "negative": ["0"]},
                  "dense": [{"column": "amount", "transform": "standardize"}],
                  "categorical": [{"column": "kind"}, {"column": "noise"}]}
        with open("schema.json", "w", encoding="utf-8") as file:
            json.dump(schema, file)
        subprocess.run([os.environ["HLITE_CSV_PREP"], "--schema", "schema.json", "--train", "lines.csv", "--out", "data",
                        "--write-config", "dlrm"], check=True, capture_output=True)
        subprocess.run([os.environ["HLITE_TRAIN"], "--config", "data/dlrm.json", "--set", "solver.num_epochs=30", "--set",
                        'solver.eval_metrics=["AUC", "AUPRC"]', "--threads", "1",
                        "--with-preparation", "--save", "model"], check=True, capture_output=True)

    def write(self, path, rows, header=("clicked", "kind", "noise", "amount")):
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\r\n")
            writer.writerow(header)
            writer.writerows(rows)

    def run_report(self, *arguments):
        return subprocess.run([sys.executable, "-m", "hugectr_lite.report", "--model", "model", "--out", "r.html", *arguments],
                              capture_output=True, text=True, check=False)

    def numbers(self, **options):
        found = {}
        kept, report.page = report.page, lambda numbers: found.update(numbers) or ""
        try:
            arguments = [word for name, value in options.items() for word in ("--" + name, str(value))]
            self.assertEqual(report.main(["--model", "model", "--input", "lines.csv", "--out", "r.html", *arguments]), 0)
        finally:
            report.page = kept
        return found

    def test_numbers_are_those_of_the_scores(self):
        found = self.numbers(repeats=2)
        subprocess.run([os.environ["HLITE_PREDICT"], "--model", "model", "--input", "lines.csv", "--out", "scores.npy"], check=True,
                       capture_output=True)
        score = np.load("scores.npy").astype(np.float64)
        self.assertEqual(found["samples"], 1000)
        self.assertAlmostEqual(found["auc"][0], of_sklearn.roc_auc_score(self.label, score), places=12)
        self.assertAlmostEqual(found["brier"], of_sklearn.brier_score_loss(self.label, score), places=12)
        self.assertEqual([name for name, *_ in found["importance"]][0], "kind")
        self.assertLess(abs(dict((name, mean) for name, mean, _ in found["importance"])["noise"]), found["importance"][0][1] / 5)
        self.assertEqual([(name, not_known, n) for name, _, not_known, n in found["unknown"]], [("kind", 0, 1000), ("noise", 0, 1000)])
        self.assertEqual(found["unknown"][0][1], int((self.kind == 3).sum()))
        for value, n, rate, mean, area in found["slices"]["noise"]:
            there = self.noise == int(value[1:])
            self.assertEqual(n, there.sum())
            self.assertAlmostEqual(rate, self.label[there].mean(), places=12)
            self.assertAlmostEqual(mean, score[there].mean(), places=12)
            self.assertAlmostEqual(area[0], of_sklearn.roc_auc_score(self.label[there], score[there]), places=12)
        self.assertEqual(sum(n for _, n, *_ in found["slices"]["amount"]), 1000)
        self.assertEqual(len(found["slices"]["amount"]), 4)

    def test_a_slice_with_few_samples_of_a_class_has_no_interval(self):
        place = np.repeat(["many", "few ones", "few zeros", "ones"], [60, 60, 60, 5])
        label = np.r_[np.arange(60) % 2, np.arange(60) < 29, np.arange(60) >= 29, np.ones(5)]
        lines = types.SimpleNamespace(columns={"place": (0, "category")}, fields=[place], label=label)
        found = {value: area for value, *_, area in report.slices(lines, np.linspace(0, 1, 185), "place")}
        self.assertIsNotNone(found["many"][1])
        self.assertIsNone(found["ones"])
        for value in ("few ones", "few zeros"):
            self.assertEqual(found[value][1:], (None, None))
            self.assertAlmostEqual(found[value][0], of_sklearn.roc_auc_score(label[place == value], np.arange(60)))

    def test_importance_is_that_of_shuffled_lines(self):
        found = dict((name, mean) for name, mean, _ in self.numbers(repeats=1, seed=4)["importance"])
        order = np.random.default_rng([4, 1, 0]).permutation(1000)  # column 1: amount, kind, noise
        self.write("shuffled.csv", [(label, self.rows[i][1], noise, amount)
                                    for (label, _, noise, amount), i in zip(self.rows, order)])
        areas = []
        for name in ("lines", "shuffled"):
            subprocess.run([os.environ["HLITE_PREDICT"], "--model", "model", "--input", name + ".csv", "--out", "scores.npy"],
                           check=True, capture_output=True)
            areas.append(of_sklearn.roc_auc_score(self.label, np.load("scores.npy")))
        self.assertAlmostEqual(found["kind"], areas[0] - areas[1], places=12)

    def test_the_page_is_whole_and_needs_no_network(self):
        result = self.run_report("--input", "lines.csv", "--slice", "kind", "--repeats", "1", "--metric", "a&b@3", "0.25")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        with open("r.html", encoding="utf-8") as file:
            text = file.read()
        page = content(text)
        self.assertEqual(page["title"], "model on lines.csv")
        self.assertEqual([chart[1]["title"] for chart in nodes(page, "chart")], ["ROC", "Precision and recall", "Calibration", "Lift"])
        self.assertEqual(len(nodes(page, "bar")), 3 + 4)
        for words in ("a <b>", 'say "c", d', "(missing)", "Permutation importance", "1,000", "a&b@3", "0.25"):
            self.assertIn(json.dumps(words), json.dumps(page))
        self.assertNotIn("<b>", text[text.index('id="page"'):])
        self.assertNotIn("NaN", json.dumps(page))
        if HAS_NODE:
            main, title = drawn("r.html")
            self.assertEqual(title, page["title"])
            self.assertEqual((main.count("<circle"), main.count("nothing yet")), (len(nodes(page, "chart")[2][1]["lines"][1]["points"]), 0))
            self.assertIn("<td>a &lt;b></td>", main)

    def predict(self, *arguments, **environment):
        return subprocess.run([os.environ["HLITE_PREDICT"], "--model", "model", "--input", "lines.csv", "--out", "s.csv", *arguments],
                              capture_output=True, text=True, check=False,
                              env={**os.environ, "HLITE_PYTHON": sys.executable, **environment})

    def test_predict_writes_the_page(self):
        result = self.predict("--report", "one.html", "--threads", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        precision = re.search(r", AUPRC (0\.\d{6})\n", result.stderr)[1]
        score = np.loadtxt("s.csv", skiprows=1)
        self.assertAlmostEqual(float(precision), of_sklearn.average_precision_score(self.label, score), places=5)
        self.run_report("--input", "lines.csv", "--metric", "AUPRC", f"{float(precision):.5f}")
        with open("one.html", encoding="utf-8") as one, open("r.html", encoding="utf-8") as other:
            self.assertEqual(one.read(), other.read())
        for arguments, environment, code, words in (
                (["--report", "one.pdf"], {}, 2, "--report: expected FILE.html, found \"one.pdf\""),
                (["--report", "x.html", "--no-label"], {}, 2, "a file of text with labels, found --no-label"),
                (["--report", "x.html", "--set", "solver.threads=1"], {}, 2, "found --set"),
                (["--report", "x.html"], {"HLITE_PYTHON": "/none/python3"}, 2, "cannot start /none/python3, .*No such file"),
                (["--report", "x.html"], {"HLITE_PYTHON": "/bin/false"}, 3, "has not written x.html; the scores are complete")):
            with self.subTest(words):
                result = self.predict(*arguments, **environment)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertRegex(result.stderr, words)
                self.assertFalse(os.path.exists("x.html"))

    def test_bad_input_is_refused(self):
        self.write("one_class.csv", [row for row in self.rows if row[0] == 1])
        self.write("other.csv", [row[:3] for row in self.rows], header=("clicked", "kind", "noise"))
        self.write("empty.csv", [])
        for arguments, code, words in (
                (["--input", "one_class.csv"], 3, "expected labels of both classes, found one class"),
                (["--input", "other.csv"], 3, "other.csv:1: expected a column amount, found clicked, kind, noise"),
                (["--input", "empty.csv"], 3, "expected lines with labels, found none"),
                (["--input", "none.csv"], 3, "none.csv"),
                (["--input", "lines.csv", "--slice", "town"], 2, "--slice: expected a column .amount, kind, noise., found town"),
                (["--input", "lines.csv", "--repeats", "0"], 2, "--repeats: expected 1 or more, found 0")):
            with self.subTest(words):
                result = self.run_report(*arguments)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertRegex(result.stderr, words)
                self.assertFalse(os.path.exists("r.html"))


if __name__ == "__main__":
    unittest.main()
