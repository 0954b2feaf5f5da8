#!/usr/bin/env python3
"""hl.Classifier on UCI Adult compared with LightGBM and logistic regression: seconds of fit and test AUC.

    tests/bench/classifier.py --adult DIR [--seeds N] [--json FILE]

DIR holds adult.data and adult.test (plain or gzip). All get the same DataFrame of numbers and text; a tenth of the training
rows stops LightGBM and hl.Classifier early. Prints the rows of the table in docs/python.md. Needs pandas, scikit-learn and
lightgbm; run it while nothing else runs.
"""
import argparse
import json
import os
import statistics
import time
import warnings

import lightgbm
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import hugectr_lite as hl

NAMES = ("age workclass fnlwgt education education-num marital-status occupation relationship race sex capital-gain "
         "capital-loss hours-per-week native-country income").split()


def read(folder, name):
    path = os.path.join(folder, name)
    path = path if os.path.exists(path) else path + ".gz"
    frame = pd.read_csv(path, names=NAMES, skipinitialspace=True, na_values="?").dropna(subset=["income"])
    return frame, frame.pop("income").str.startswith(">50K").to_numpy()


def classifier(model, threads):
    def fit(train, y, seed):
        return hl.Classifier(model, random_state=seed, threads=threads).fit(train, y)
    return fit


def gradient_boosting(threads):
    def fit(train, y, seed):
        x, x_val, y, y_val = train_test_split(train, y, test_size=0.1, stratify=y, random_state=seed)
        model = lightgbm.LGBMClassifier(n_estimators=2000, learning_rate=0.05, n_jobs=threads, random_state=seed, verbose=-1)
        return model.fit(x, y, eval_set=[(x_val, y_val)], eval_metric="auc",
                         callbacks=[lightgbm.early_stopping(50, verbose=False)])
    return fit


def logistic(train, y, seed):
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = make_column_transformer((numbers, make_column_selector(dtype_include="number")),
                                      (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")))
    return make_pipeline(columns, LogisticRegression(max_iter=1000, random_state=seed)).fit(train, y)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adult", required=True, metavar="DIR")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    threads = len(os.sched_getaffinity(0))
    (train, y), (test, y_test) = read(options.adult, "adult.data"), read(options.adult, "adult.test")
    text = train.select_dtypes(exclude="number").columns
    kinds = {name: pd.CategoricalDtype(sorted(train[name].dropna().unique())) for name in text}
    rows = [("logistic regression (scikit-learn)", logistic, (train, test)),
            ("LightGBM", gradient_boosting(threads), (train.astype(kinds), test.astype(kinds)))]
    rows += [(f'`hl.Classifier("{model}")`', classifier(model, threads), (train, test)) for model in ("dcnv2", "deepfm", "dlrm")]
    results = []
    print(f"load {os.getloadavg()[0]:.1f} before, {threads} threads, {options.seeds} seeds\n")
    print("| model | fit, seconds | predict 16,281 rows, seconds | test AUC |\n|---|---|---|---|")
    for name, fit, (x, x_test) in rows:
        seconds, predicting, areas = [], [], []
        for seed in range(options.seeds):
            begin = time.perf_counter()
            model = fit(x, y, seed)
            fitted = time.perf_counter()
            scores = model.predict_proba(x_test)[:, 1]
            seconds.append(fitted - begin)
            predicting.append(time.perf_counter() - fitted)
            areas.append(roc_auc_score(y_test, scores))
        result = {"model": name, "fit_seconds": statistics.median(seconds), "predict_seconds": statistics.median(predicting),
                  "auc": statistics.mean(areas), "auc_deviation": statistics.pstdev(areas)}
        results.append(result)
        print(f"| {name} | {result['fit_seconds']:.1f} | {result['predict_seconds']:.2f} | {result['auc']:.4f} ± "
              f"{result['auc_deviation']:.4f} |", flush=True)
    print(f"\nload {os.getloadavg()[0]:.1f} after")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
