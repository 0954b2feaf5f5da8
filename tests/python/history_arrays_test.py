#!/usr/bin/env python3
"""Histories in arrays and in columns of lists of pandas, polars and pyarrow are the same samples. Run by ctest; needs those
three; HLITE_SERVE names the program."""
import json
import os
import sys
import tempfile
import unittest

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import hugectr_lite as hl

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "serve"))
from running_server import Server, json_scores  # noqa: E402

T, ROWS = 4, [30, 500, 7, 9]
CONFIG = {
    "solver": {"seed": 7, "lr_policy": "fixed", "display": 10, "max_iter": 60, "gpu": [0], "batchsize": 8,
               "batchsize_eval": 8, "eval_batches": 1, "eval_interval": 30, "snapshot": 1000000,
               "snapshot_prefix": "./snap_", "threads": 1},
    "optimizer": {"type": "SGD", "update_type": "Local", "sgd_hparam": {"learning_rate": 0.1}},
    "layers": [
        {"name": "data", "type": "Data", "format": "Norm", "source": "train.txt", "eval_source": "eval.txt", "check": "None",
         "label": {"top": "label", "label_dim": 1}, "dense": {"top": "dense", "dense_dim": 1, "aligned": "None"},
         "sparse": [{"top": "user", "slot_num": 1}, {"top": "history", "slot_num": 2, "max_len": T},
                    {"top": "tags", "slot_num": 1, "max_nnz": 2}]},
        *({"name": top + "_emb", "type": "DistributedSlotSparseEmbeddingHash", "bottom": top, "top": top + "_emb",
           "sparse_embedding_hparam": {"slot_size_array": rows, "max_vocabulary_size_per_gpu": 1000,
                                      "embedding_vec_size": 4, "combiner": "sum"}}
          for top, rows in (("user", ROWS[:1]), ("history", ROWS[1:3]), ("tags", ROWS[3:]))),
        *({"name": top + "_flat", "type": "Reshape", "bottom": top + "_emb", "top": top + "_flat", "leading_dim": 4 * n}
          for top, n in (("user", 1), ("history", 2), ("tags", 1))),
        {"name": "all", "type": "Concat", "bottom": ["user_flat", "history_flat", "tags_flat", "dense"], "top": "all"},
        {"name": "fc", "type": "InnerProduct", "bottom": "all", "top": "z", "fc_param": {"num_output": 1}},
        {"name": "loss", "type": "BinaryCrossEntropyLoss", "bottom": ["z", "label"], "top": "loss"}]}
LENGTHS = [0, 1, T - 1, T, T + 1, 3 * T + 5, 0, 2]


def samples():
    """(label, dense, keys as arrays, lists of each slot)"""
    random = np.random.default_rng(3)
    lists = [[[int(k) for k in random.integers(0, ROWS[s], 1 if s == 0 else n if s < 3 else i % 3)]
              for i, n in enumerate(LENGTHS)] for s in range(4)]
    keys = np.concatenate([np.array([row[-width:] + [-1] * (width - len(row)) for row in slot])
                           for slot, width in zip(lists, (1, T, T, 2))], 1)
    label = random.integers(0, 2, len(LENGTHS))
    return label.astype(np.float32), random.normal(size=(len(LENGTHS), 1)).astype(np.float32), keys, lists


def frames(lists):
    columns = dict(zip(("user", "items", "cates", "tags"), lists))
    columns["user"] = [row[0] for row in columns["user"]]
    arrow = pa.table({name: pa.array(values, pa.int64() if name == "user" else pa.list_(pa.int32()))
                      for name, values in columns.items()})
    doubled = pa.concat_tables([arrow.slice(0, 3), arrow.slice(3)])
    return {"pandas": pd.DataFrame(columns),
            "pandas of arrays": pd.DataFrame({**columns, "items": [np.array(row, np.int32) for row in columns["items"]]}),
            "pandas of Arrow": arrow.to_pandas(types_mapper=pd.ArrowDtype),
            "polars": pl.DataFrame(columns), "pyarrow": arrow, "batches": doubled,
            "large lists": arrow.set_column(1, "items", arrow["items"].cast(pa.large_list(pa.int64())))}


class HistoriesTest(unittest.TestCase):
    def setUp(self):
        self.trainer = hl.Trainer(CONFIG, arrays=True)

    def test_lists_are_the_keys_of_arrays(self):
        label, dense, keys, lists = samples()
        self.trainer.fit(label, dense, keys, epochs=3)
        expected = self.trainer.predict(dense, keys)
        self.assertGreater(np.unique(expected).size, 4)
        for name, frame in frames(lists).items():
            with self.subTest(name):
                np.testing.assert_array_equal(self.trainer.predict(dense, frame), expected)
        other = hl.Trainer(CONFIG, arrays=True)
        other.fit(label, dense, frames(lists)["polars"], epochs=3)
        np.testing.assert_array_equal(other.predict(dense, keys), expected)

    def test_what_no_history_has_is_refused(self):
        _, dense, keys, lists = samples()
        hole = keys.copy()
        hole[2, 1:4] = [5, -1, 7]
        with self.assertRaisesRegex(hl.DataError, "sample 2, key 2 of slot 1: expected no key after an absent one, found 7"):
            self.trainer.predict(dense, hole)
        hole[2, 1:4] = [5, -1, -1]
        with self.assertRaisesRegex(hl.DataError, "sample 2, slot 1 and slot 2: expected equally many keys, .* found 1 and 3"):
            self.trainer.predict(dense, hole)
        lists[1][5] = lists[1][5][1:]
        for name, frame in frames(lists).items():
            with self.subTest(name), self.assertRaisesRegex(
                    hl.DataError, r"sample \d, column items and column cates: expected equally many keys, .* found 16 and 17"):
                self.trainer.predict(dense, frame)
        lists[1][5] = lists[2][5]
        lists[3][1] = [1, 2, 3]
        with self.assertRaisesRegex(hl.DataError, "sample 1, column tags: expected at most 2 keys, found 3"):
            self.trainer.predict(dense, frames(lists)["polars"])
        lists[3][1] = [1, None]
        with self.assertRaisesRegex(hl.DataError, "column tags: expected a number in each row, found null"):
            self.trainer.predict(dense, frames(lists)["pyarrow"])
        lists[3][1] = None
        for name in ("pandas", "polars", "pyarrow"):
            with self.subTest(name), self.assertRaisesRegex(hl.DataError, "column tags: expected a (value|list) in each row, found "):
                self.trainer.predict(dense, frames(lists)[name])
        with self.assertRaisesRegex(hl.DataError, "expected 4 columns, one for each slot, found 1"):
            self.trainer.predict(dense, frames(samples()[3])["polars"].select("items"))

    def test_a_classifier_reads_lists_as_the_text_of_their_values(self):
        draw = np.random.default_rng(6)
        rows = 300
        items = [[f"i{k}" for k in draw.integers(0, 9, draw.integers(0, 7))] for _ in range(rows)]
        years = [[int(k) for k in draw.integers(0, 4, len(row))] for row in items]
        columns = {"items": items, "years": years, "item": [f"i{k}" for k in draw.integers(0, 9, rows)],
                   "year": [str(k) for k in draw.integers(0, 4, rows)], "age": draw.normal(size=rows)}
        label = np.array([item in seen for item, seen in zip(columns["item"], items)], int)
        history = {"separator": "|", "max_values": 5, "history": "seen"}
        blocks = {"categorical": [{"column": "items", "vocabulary": "item", **history}, {"column": "years", "vocabulary": "year", **history},
                                  {"column": "item", "vocabulary": "item"}, {"column": "year", "vocabulary": "year"}]}

        def fitted(frame, model="din"):
            return hl.Classifier(model, columns=blocks, epochs=2, random_state=3, threads=1, validation_fraction=0).fit(frame, label)
        texts = {**columns, **{name: ["|".join(map(str, row)) for row in columns[name]] for name in ("items", "years")}}
        model = fitted(pd.DataFrame(texts))
        expected = model.predict_proba(pd.DataFrame(texts))
        self.assertGreater(np.unique(expected).size, 100)
        with tempfile.TemporaryDirectory() as folder:
            model.save(os.path.join(folder, "model"))
            predictor = hl.Predictor(os.path.join(folder, "model"))
            for name, frame in {"pandas": pd.DataFrame(columns), "polars": pl.DataFrame(columns), "pyarrow": pa.table(columns),
                                "pandas of Arrow": pa.table(columns).to_pandas(types_mapper=pd.ArrowDtype)}.items():
                with self.subTest(name):
                    np.testing.assert_array_equal(model.predict_proba(frame), expected)
                    np.testing.assert_array_equal(fitted(frame).predict_proba(frame), expected)
                    np.testing.assert_array_equal(predictor.predict_frame(frame), expected[:, 1].astype(np.float32))
        with self.assertRaisesRegex(ValueError, "column items: expected values without the separator '|', found 'a|b' in row 1"):
            model.predict_proba(pd.DataFrame({**columns, "items": [[], ["a|b"], *items[2:]]}))
        with self.assertRaisesRegex(TypeError, "column item: .* found lists, which need a block with a separator"):
            model.predict_proba(pd.DataFrame({**columns, "item": items}))
        with self.assertRaisesRegex(hl.ConfigError, r"without histories for dcn \(din, dien and bst read them\)"):
            fitted(pd.DataFrame(columns), "dcn")

    def test_serve_takes_histories_among_the_keys_or_by_themselves(self):
        label, dense, keys, lists = samples()
        self.trainer.fit(label, dense, keys, epochs=3)
        expected, longest = self.trainer.predict(dense, keys), max(LENGTHS)
        history = np.array([[row + [-1] * (longest - len(row)) for row in rows] for rows in zip(lists[1], lists[2])])
        others = np.concatenate([keys[:, :1], keys[:, -2:]], 1)

        def request(**arrays):
            return json.dumps({"inputs": [
                {"name": name, "shape": array.shape, "datatype": "FP32" if name == "dense" else "INT64",
                 "data": array.ravel().tolist()} for name, array in arrays.items()]}).encode()
        with tempfile.TemporaryDirectory() as folder:
            self.trainer.save(os.path.join(folder, "ck"))
            with Server(models=(f"demo={folder}/ck",)) as server:
                for given in ({"keys": keys}, {"keys": others, "history": history}):
                    status, _, answer = server.score(request(dense=dense, **given))
                    self.assertEqual(status, 200, answer)
                    np.testing.assert_array_equal(json_scores(answer), expected)
                hole, uneven = history.copy(), history.copy()
                hole[3, 1, 1], uneven[5, 1, 16] = -1, -1
                for given, message in (
                        ({"keys": others, "history": hole}, 'input "history": sample 3, slot 1: expected no key after'),
                        ({"keys": others, "history": uneven}, "sample 5, slot 0 and slot 1: expected equally many keys"),
                        ({"keys": keys, "history": history}, 'input "keys": expected shape [-1,3] beside histories'),
                        ({"keys": others}, "or the histories by themselves"),
                        ({"history": history}, 'expected input "keys", found none'),
                        ({"keys": others, "history": history[:, :1]}, "expected shape [-1,2,-1], found [8,1,17]")):
                    status, _, answer = server.score(request(dense=dense, **given))
                    self.assertEqual(status, 400)
                    self.assertIn(message, json.loads(answer)["error"])


if __name__ == "__main__":
    unittest.main()
