#!/usr/bin/env python3
"""Samples in frames of pandas, polars and pyarrow score as those in NumPy's arrays. Run by versions.py, which installs
all three."""
import os
import tempfile
import unittest

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import hugectr_lite as hl
from small_model import config, features, samples


class FramesTest(unittest.TestCase):
    def setUp(self):
        folder, before = tempfile.TemporaryDirectory(), os.getcwd()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, before)
        os.chdir(folder.name)
        self.trainer = hl.Trainer(config(), arrays=True, threads=1)
        self.label, dense, self.keys = samples(32, 3)
        self.dense = features(dense)
        self.expected = self.trainer.predict(self.dense, self.keys)
        self.floats = {f"d{i}": self.dense[:, i] for i in range(2)}
        self.ids = {f"k{i}": self.keys[:, i].astype(t) for i, t in enumerate((np.int32, np.uint8, np.int64))}

    def same(self, dense, keys):
        scores = self.trainer.predict(dense, keys)
        self.assertEqual((scores.dtype, scores.strides, scores.flags.writeable), (np.float32, (4,), True))
        np.testing.assert_array_equal(scores, self.expected)

    def refused(self, words, dense=None, keys=None):
        with self.assertRaises(hl.DataError) as raised:
            self.trainer.predict(self.dense if dense is None else dense, self.keys if keys is None else keys)
        self.assertIn(words, str(raised.exception))

    def test_frames_score_as_arrays_do(self):
        for of in (pd.DataFrame, pl.DataFrame, pa.table):
            with self.subTest(of):
                self.same(of(self.floats), of(self.ids))
        dense, keys = pd.DataFrame(self.floats), pd.DataFrame(self.ids)
        self.same(dense.astype({"d1": "float64"}), keys.astype("Int64"))
        self.same(dense.convert_dtypes(dtype_backend="pyarrow"), keys.convert_dtypes(dtype_backend="pyarrow"))
        self.same(dense.sample(frac=1, random_state=1).sort_index(), keys[["k0", "k1", "k2"]])
        self.same(pa.table(self.floats).to_batches()[0], pa.concat_tables([pa.table(self.ids)[:9], pa.table(self.ids)[9:]]))
        self.same(pl.DataFrame(self.floats)[:, ["d0", "d1"]], pl.concat([pl.DataFrame(self.ids)[:5], pl.DataFrame(self.ids)[5:]]))
        self.same(self.dense, pa.FixedSizeListArray.from_arrays(pa.array(self.keys.reshape(-1)), 3))

    def test_columns_in_another_order_are_refused(self):
        for of in (pd.DataFrame, pl.DataFrame, pa.table):
            trainer = hl.Trainer(config(), arrays=True, threads=1)
            trainer.step(self.label, of(self.floats), of(self.ids))
            trainer.predict(of(self.floats), of(self.ids))
            other = of(dict(reversed(self.floats.items()))), of({k: self.ids[k] for k in ("k1", "k0", "k2")})
            with self.assertRaisesRegex(hl.DataError, "keys: expected the columns in the order k0, k1, k2, found k1, k0, k2"):
                trainer.predict(of(self.floats), other[1])
            with self.assertRaisesRegex(hl.DataError, "dense: expected the columns in the order d0, d1, found d1, d0"):
                trainer.step(self.label, other[0], of(self.ids))
            trainer.predict(of({"a": self.dense[:, 0], "b": self.dense[:, 1]}), of(self.ids))  # names of their own

    def test_a_step_takes_series_for_labels(self):
        other = hl.Trainer(config(), arrays=True, threads=1)
        other.step(self.label, self.dense, self.keys)
        expected = other.weights
        for of in (pd.Series, lambda v: pl.Series("y", v), pa.array, lambda v: pa.chunked_array([v[:3], v[3:]])):
            trainer = hl.Trainer(config(), arrays=True, threads=1)
            trainer.step(of(self.label), pd.DataFrame(self.floats), pl.DataFrame(self.ids))
            for name, value in trainer.weights.items():
                np.testing.assert_array_equal(value, expected[name])
            self.assertEqual(hl.auc(of(self.label), of(self.expected)), hl.auc(self.label, self.expected))

    def test_missing_values_and_text_are_refused(self):
        holes = {**self.floats, "d1": [None, *self.floats["d1"][1:].tolist()]}
        self.refused("expected a finite value, found nan", pd.DataFrame(holes))
        self.refused("found null in row 0", pl.DataFrame(holes))
        self.refused("found null in row 0", pa.table(holes))
        self.refused("dense: expected an array of numbers", pd.DataFrame(holes).convert_dtypes())
        holes = {**self.ids, "k1": [None, *self.ids["k1"][1:].tolist()]}
        self.refused("keys: expected integers, found float64", keys=pd.DataFrame(holes))
        self.refused("keys: expected integers, found objects", keys=pd.DataFrame(holes).astype("Int64"))
        self.refused("found -1", keys=pl.DataFrame(holes))
        text = {**self.ids, "k1": [str(k) for k in self.ids["k1"]]}
        self.refused("keys: expected integers", keys=pd.DataFrame(text))
        self.refused("keys: expected integers", keys=pd.DataFrame(text).astype({"k1": "category"}))
        self.refused("expected columns of numbers", keys=pl.DataFrame(text))
        self.refused("expected columns of numbers", keys=pl.DataFrame(text).with_columns(pl.col("k1").cast(pl.Categorical)))
        self.refused("expected columns of numbers", keys=pa.table(text))
        self.refused("dense: expected an array of numbers", pd.DataFrame({"a": pd.date_range("2020", periods=32), "b": 1.0}))
        self.refused("keys", keys=pl.DataFrame(self.ids).lazy())


if __name__ == "__main__":
    print("NumPy", np.__version__, "pandas", pd.__version__, "polars", pl.__version__, "pyarrow", pa.__version__)
    unittest.main()
