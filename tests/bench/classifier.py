#!/usr/bin/env python3
"""hl.Classifier compared with LightGBM and logistic regression: seconds of fit, test AUC and log loss.

    tests/bench/classifier.py [--adult DIR] [--movielens DIR] [--clicks DIR] [--models MODEL...] [--seeds N] [--json FILE]

Each DIR is a data set: of UCI Adult, adult.data and adult.test; of MovieLens, ratings.csv and movies.csv (plain or gzip);
of clicks, what `criteo_synth --out DIR/s` writes. MovieLens' label is 1 for 4 stars and more, its columns are user, movie and
its first genre, and of each ten rows the first eight are for training and the last one for the test. All models get the same
DataFrame of numbers and text; a tenth of the training rows stops LightGBM and hl.Classifier early, by the log loss. Prints
the rows of the table in docs/python.md. Needs pandas, scikit-learn and lightgbm; run it while nothing else runs.
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
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import hugectr_lite as hl

NAMES = ("age workclass fnlwgt education education-num marital-status occupation relationship race sex capital-gain "
         "capital-loss hours-per-week native-country income").split()


def plain_or_gzip(folder, name):
    path = os.path.join(folder, name)
    return path if os.path.exists(path) else path + ".gz"


def adult(folder):
    """((DataFrame, labels) for training, the same for the test)"""
    def read(name):
        frame = pd.read_csv(plain_or_gzip(folder, name), names=NAMES, skipinitialspace=True, na_values="?")
        frame = frame.dropna(subset=["income"])
        return frame, frame.pop("income").str.startswith(">50K").to_numpy()
    return read("adult.data"), read("adult.test")


def movielens(folder):
    ratings = pd.read_csv(plain_or_gzip(folder, "ratings.csv"))
    genres = pd.read_csv(plain_or_gzip(folder, "movies.csv")).set_index("movieId")["genres"].str.split("|").str[0]
    frame = pd.DataFrame({"user": ratings["userId"].astype(str), "movie": ratings["movieId"].astype(str),
                          "genre": ratings["movieId"].map(genres)})
    place, liked = ratings.index % 10, (ratings["rating"] >= 4).to_numpy()
    return (frame[place < 8], liked[place < 8]), (frame[place == 9], liked[place == 9])


def clicks(folder):
    names = ["label"] + [f"I{i}" for i in range(1, 14)] + [f"C{i}" for i in range(1, 27)]
    def read(name):
        frame = pd.read_csv(os.path.join(folder, name), sep="\t", names=names, dtype={name: str for name in names[14:]})
        return frame, frame.pop("label").to_numpy() == 1
    return read("s.train.tsv"), read("s.test.tsv")


def classifier(model, threads):
    def fit(train, y, seed):
        return hl.Classifier(model, random_state=seed, threads=threads).fit(train, y)
    return fit


def gradient_boosting(threads):
    def fit(train, y, seed):
        x, x_val, y, y_val = train_test_split(train, y, test_size=0.1, stratify=y, random_state=seed)
        model = lightgbm.LGBMClassifier(n_estimators=2000, learning_rate=0.05, n_jobs=threads, random_state=seed, verbose=-1)
        return model.fit(x, y, eval_set=[(x_val, y_val)], eval_metric="logloss",
                         callbacks=[lightgbm.early_stopping(50, verbose=False)])
    return fit


def logistic(train, y, seed):
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = make_column_transformer((numbers, make_column_selector(dtype_include="number")),
                                      (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")))
    return make_pipeline(columns, LogisticRegression(max_iter=1000, random_state=seed)).fit(train, y)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sets = {"adult": adult, "movielens": movielens, "clicks": clicks}
    for name in sets:
        parser.add_argument(f"--{name}", metavar="DIR")
    parser.add_argument("--models", nargs="+", default=["dcnv2", "deepfm", "dlrm"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    threads = len(os.sched_getaffinity(0))
    results = []
    print(f"load {os.getloadavg()[0]:.1f} before, {threads} threads, {options.seeds} seeds\n")
    print("| data | model | fit, seconds | test AUC | log loss |\n|---|---|---|---|---|")
    for name, read in sets.items():
        if getattr(options, name):
            results += compare(name, *read(getattr(options, name)), options, threads)
    print(f"\nload {os.getloadavg()[0]:.1f} after")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


def compare(data, trained_on, tested_on, options, threads):
    """Prints a row for each model, and returns the numbers."""
    (train, y), (test, y_test) = trained_on, tested_on
    text = train.select_dtypes(exclude="number").columns
    kinds = {name: pd.CategoricalDtype(sorted(train[name].dropna().unique())) for name in text}
    rows = [("logistic regression (scikit-learn)", logistic, (train, test)),
            ("LightGBM", gradient_boosting(threads), (train.astype(kinds), test.astype(kinds)))]
    rows += [(f'`hl.Classifier("{model}")`', classifier(model, threads), (train, test)) for model in options.models]
    results = []
    for name, fit, (x, x_test) in rows:
        seconds, areas, losses = [], [], []
        for seed in range(options.seeds):
            begin = time.perf_counter()
            model = fit(x, y, seed)
            seconds.append(time.perf_counter() - begin)
            scores = model.predict_proba(x_test)[:, 1]
            areas.append(roc_auc_score(y_test, scores))
            losses.append(log_loss(y_test, scores))
        result = {"data": data, "model": name, "fit_seconds": statistics.median(seconds), "auc": statistics.mean(areas),
                  "auc_deviation": statistics.pstdev(areas), "log_loss": statistics.mean(losses)}
        results.append(result)
        print(f"| {data} | {name} | {result['fit_seconds']:.1f} | {result['auc']:.4f} ± {result['auc_deviation']:.4f} | "
              f"{result['log_loss']:.4f} |", flush=True)
    return results


if __name__ == "__main__":
    main()
