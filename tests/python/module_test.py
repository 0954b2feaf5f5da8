#!/usr/bin/env python3
"""The Python package against the programs: same bits, same words. Run by ctest; HLITE_TRAIN and HLITE_PREDICT name the
programs, PYTHONPATH the package."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings

import numpy as np

import hugectr_lite as hl
from arrow_producer import ArrowColumn, BrokenStream, arrow_columns, arrow_stream
from small_model import CONFIG, TABLES, config, features, samples, write_files


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True)


class ModuleTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.before = os.getcwd()
        os.chdir(self.folder.name)
        write_files(".")

    def tearDown(self):
        os.chdir(self.before)
        self.folder.cleanup()

    def test_numpy_is_the_expected_one(self):
        self.assertEqual(np.__version__, os.environ.get("HLITE_EXPECTED_NUMPY", np.__version__))

    def test_trains_to_the_bits_of_the_program(self):
        run(os.environ["HLITE_TRAIN"], "--config", "config.json", "--export", "program.safetensors", "--threads", "2")
        trainer = hl.Trainer("config.json", threads=2)
        self.assertEqual((trainer.iteration, trainer.last_iteration), (0, 60))
        events = list(trainer.train())
        self.assertEqual([(e["event"], e["iter"]) for e in events],
                         [("train", 10), ("train", 20), ("train", 30), ("eval", 30), ("train", 40), ("train", 50),
                          ("train", 60), ("eval", 60)])
        trainer.export("module.safetensors")
        with open("program.safetensors", "rb") as a, open("module.safetensors", "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.assertEqual(trainer.samples, sum(min(32, 500 - 32 * (i % 16)) for i in range(60)))
        self.assertAlmostEqual(events[-1]["auc"], trainer.evaluate()["auc"])
        self.assertLess(np.mean([e["loss"] for e in events if e["event"] == "train"]), 0.75)

    def test_a_dict_and_changes_are_a_config(self):
        trainer = hl.Trainer(config(max_iter=5), set={"solver.batchsize": 8, "layers.emb.sparse_embedding_hparam"
                                                      ".embedding_vec_size": 6, "layers.b1.fc_param.num_output": 6})
        self.assertEqual(trainer.weights["emb.table_1"].shape, (5, 6))
        self.assertEqual(trainer.last_iteration, 5)
        trainer = hl.Trainer(config(max_iter=np.int64(7), gpu=np.zeros(1, int)),
                             set={"layers.data.source": pathlib.Path("train.bin")})
        self.assertEqual(trainer.last_iteration, 7)
        self.assertIn("emb", hl.check(config()))

    def test_samples_may_come_as_arrays(self):
        label, dense, keys = samples(500, 1)
        files = hl.Trainer("config.json", threads=2)
        arrays = hl.Trainer(config(), arrays=True, threads=2)
        for i in range(16):
            part = slice(32 * i, 32 * i + 32)
            files.step()
            arrays.step(label[part], features(dense[part]), keys[part])
        for name, value in files.weights.items():
            np.testing.assert_allclose(arrays.weights[name], value, rtol=1e-6, atol=1e-7)
        self.assertEqual(arrays.samples, 500)
        eval_label, eval_dense, eval_keys = samples(333, 2)
        scores = arrays.predict(features(eval_dense), eval_keys)
        self.assertAlmostEqual(hl.auc(eval_label, scores), files.evaluate()["auc"], places=5)

    def test_weights_are_the_model_s_own_memory(self):
        trainer = hl.Trainer(config())
        _, dense, keys = samples(7, 3)
        weights = trainer.weights
        self.assertEqual([weights[f"emb.table_{i}"].shape for i in range(3)], [(n, 4) for n in TABLES])
        weights["t1.weight"][:] = 0
        weights["t1.bias"][:] = np.log(3)
        trainer.weights_changed()
        np.testing.assert_allclose(trainer.predict(features(dense), keys), 0.75, rtol=1e-6)
        del trainer  # the arrays keep it
        self.assertEqual(weights["t1.weight"].sum(), 0)

    def test_predicts_what_the_program_predicts(self):
        trainer = hl.Trainer("config.json", threads=2)
        for _ in trainer.train(40):
            pass
        trainer.save("checkpoint")
        trainer.export("weights.safetensors")
        run(os.environ["HLITE_PREDICT"], "--model", "checkpoint", "--input", "eval.bin", "--out", "scores.npy")
        expected = np.load("scores.npy")
        _, dense, keys = samples(333, 2)
        for predictor in (hl.Predictor("checkpoint"), hl.Predictor("checkpoint", batch=10, threads=1),
                          hl.Predictor("weights.safetensors", CONFIG), hl.Predictor("checkpoint", "config.json")):
            scores = predictor.predict(features(dense), keys)
            self.assertEqual((scores.dtype, scores.shape), (np.float32, (333,)))
            np.testing.assert_allclose(scores, expected, atol=1e-6)
        self.assertEqual(hl.Predictor("checkpoint").predict(np.zeros((0, 2)), np.zeros((0, 3), int)).shape, (0,))

    def test_samples_may_come_from_arrow(self):
        trainer = hl.Trainer(config(), arrays=True)
        _, dense, keys = samples(45, 3)
        dense = features(dense)
        expected = trainer.predict(dense, keys)
        columns = [keys[:, i].astype(t) for i, t in enumerate((np.int32, np.uint8, np.int64))]
        floats = [dense[:, 0], dense[:, 1].astype(np.float64)]
        for offset in (0, 3, 8):  # of the rows in longer columns, and of their bits of validity
            np.testing.assert_array_equal(
                trainer.predict(arrow_columns(*floats, offset=offset), arrow_columns(*columns, offset=offset)), expected)
        stream = arrow_stream([[c[:20] for c in columns], [c[20:] for c in columns]])
        np.testing.assert_array_equal(trainer.predict(arrow_columns(*floats), stream), expected)
        # A null is no key, in whatever integers.
        fewer = config()
        fewer["layers"][0]["format"] = "Norm"
        fewer["layers"][1]["type"] = "HybridSparseEmbedding"
        fewer = hl.Trainer(fewer, arrays=True)
        absent = keys.copy()
        absent[[0, 9, 44], [0, 1, 2]] = -1
        with_nulls = [[None if k < 0 else k for k in absent[:, i].tolist()] for i in range(3)]
        scores = fewer.predict(dense, absent)
        self.assertEqual(list(np.flatnonzero(scores != fewer.predict(dense, keys))), [0, 9, 44])
        np.testing.assert_array_equal(
            fewer.predict(dense, arrow_columns(*with_nulls, types=(np.uint32, np.uint8, np.int64), offset=5)), scores)
        lists = ArrowColumn("+w:3", [], ArrowColumn.of(keys.reshape(-1).tolist(), np.int16), length=45)
        np.testing.assert_array_equal(trainer.predict(dense, lists), expected)

    def test_applies_evaluations_as_the_program_does(self):
        watched = config(max_iter=10**6, eval_interval=0, eval_every_epochs=1, eval_batches=0,
                         lr_plateau={"patience": 1}, early_stop={"patience": 2, "min_delta": 0.01})
        watched["layers"][0]["test_source"] = "eval.bin"
        with open("watched.json", "w", encoding="utf-8") as file:
            json.dump(watched, file)
        run(os.environ["HLITE_TRAIN"], "--config", "watched.json", "--export", "program.safetensors", "--threads", "2",
            "--metrics", "program.jsonl", "--set", "solver.snapshot_prefix=./program_")
        trainer = hl.Trainer(watched, threads=2)
        events = [e for e in trainer.train() if e["event"] != "train"]
        with open("program.jsonl", encoding="utf-8") as file:
            theirs = [e for e in map(json.loads, file) if e["event"] in ("eval", "test")]
        self.assertEqual([list(e) for e in events], [list(e) for e in theirs])
        self.assertEqual([e["event"] for e in events], [e["event"] for e in theirs])
        self.assertEqual(events[-1]["event"], "test")
        np.testing.assert_allclose([e["auc"] for e in events], [e["auc"] for e in theirs], rtol=1e-6)
        self.assertLess(trainer.iteration, 10**6)
        trainer.export("module.safetensors")
        with open("program.safetensors", "rb") as a, open("module.safetensors", "rb") as b:
            self.assertEqual(a.read(), b.read())
        target = hl.Trainer(config(eval_metrics=["AUC:0.01"]))
        self.assertEqual([e["iter"] for e in target.train() if e["event"] == "eval"], [30])

    def test_events_have_the_share_of_replaced_keys(self):
        policy = config(max_iter=32, display=16, eval_interval=16)  # 16 batches are an epoch
        policy["layers"][0].update(key_policy="clamp", test_source="eval.bin")
        policy["layers"][1]["sparse_embedding_hparam"]["slot_size_array"] = [1, *TABLES[1:]]
        train, evaluation = (np.mean(samples(n, seed)[2][:, 0] >= 1) / 3 for n, seed in ((500, 1), (333, 2)))
        trainer = hl.Trainer(policy)
        for event in trainer.train():
            self.assertAlmostEqual(event["replaced_share"], train if event["event"] == "train" else evaluation)
        self.assertAlmostEqual(trainer.evaluate()["replaced_share"], evaluation)
        self.assertNotIn("replaced_share", hl.Trainer("config.json").evaluate())

    def test_a_callback_sees_evaluations_and_ends_training_with_the_best_weights(self):
        watched = config(max_iter=200, eval_interval=10, display=5, lr_plateau={"patience": 1}, early_stop={"patience": 100})
        whole = [e for e in hl.Trainer(watched, threads=1).train() if e["event"] == "eval"]
        records, timed = [], ("seconds",)

        def fourth(record):
            records.append(record)
            return len(records) == 4

        trainer = hl.Trainer(watched, threads=1)
        events = list(trainer.train(callbacks=[lambda record: None, fourth]))
        self.assertEqual(trainer.iteration, 40)
        known = lambda e: {k: v for k, v in e.items() if k not in timed}  # noqa: E731
        self.assertEqual([known(e) for e in events if e["event"] == "eval"], [known(e) for e in whole[:4]])
        displayed = [e["loss"] for e in events if e["event"] == "train" and e["iter"] % 10 == 0]
        self.assertEqual([r.pop("train_loss") for r in records], displayed)
        self.assertEqual([known(r) for r in records], [known(e) for e in whole[:4]])
        best = max(whole[:4], key=lambda e: e["auc"])
        self.assertEqual(known(trainer.evaluate()), {k: v for k, v in known(best).items() if k not in ("event", "iter")})
        # It goes on where it was, from the last weights.
        self.assertEqual([known(e) for e in trainer.train(10) if e["event"] == "eval"], [known(whole[4])])

    def test_a_run_that_was_stopped_early_is_over(self):
        stopped = config(eval_interval=10, early_stop={"patience": 1, "min_delta": 0.9})
        trainer = hl.Trainer(stopped)
        self.assertEqual([e["iter"] for e in trainer.train() if e["event"] == "eval"], [10, 20])
        trainer.save("stopped")
        trainer = hl.Trainer(stopped, resume="stopped")
        self.assertEqual(list(trainer.train()), [])  # with a warning
        self.assertEqual(trainer.iteration, 20)
        self.assertEqual([e["iter"] for e in trainer.train(3)], [23])

    def test_a_save_leaves_the_best_weights_in_use_and_a_step_goes_on_from_the_last(self):
        stopped = config(eval_interval=10, early_stop={"patience": 1, "min_delta": 0.9})
        label, dense, keys = samples(32, 3)
        for name, batch in (("own", ()), ("given", (label, features(dense), keys))):
            trainer = hl.Trainer(stopped, threads=1)
            best, last = [e["loss"] for e in trainer.train() if e["event"] == "eval"]
            self.assertNotEqual(best, last)
            trainer.save(name)
            self.assertEqual(trainer.evaluate()["loss"], best)
            resumed = hl.Trainer(stopped, resume=name, threads=1)
            for each in (trainer, resumed):
                each.step(*batch)
            for table, array in resumed.weights.items():
                np.testing.assert_array_equal(array, trainer.weights[table], table)

    def test_events_are_those_of_the_metrics_file(self):
        metrics = config(eval_metrics=["GAUC", "NDCG@3", "Calibration"], eval_group_slot=0)
        tasks = several_tasks()
        for i, changed in enumerate((metrics, tasks)):
            if changed is tasks:
                for name in ("train.bin", "eval.bin"):
                    records = np.fromfile(name, "<i4").reshape(-1, 6)
                    records[:, 1] %= 2  # the second label
                    records.tofile(name)
            with open("changed.json", "w", encoding="utf-8") as file:
                json.dump(changed, file)
            run(os.environ["HLITE_TRAIN"], "--config", "changed.json", "--metrics", f"{i}.jsonl", "--threads", "2")
            with open(f"{i}.jsonl", encoding="utf-8") as file:
                theirs = [e for e in map(json.loads, file) if e["event"] in ("train", "eval")]
            ours = list(hl.Trainer(changed, threads=2).train())
            self.assertEqual([list(e) for e in ours], [list(e) for e in theirs])
            for a, b in zip(ours, theirs):
                for name, value in a.items():
                    if name == "tasks":
                        self.assertEqual([list(t) for t in value], [list(t) for t in b[name]])
                        self.assertEqual([t["samples"] for t in value], [t["samples"] for t in b[name]])
                    elif isinstance(value, (str, int)):
                        self.assertEqual(value, b[name])
                    elif name not in ("seconds", "samples_per_s", "wait_share"):
                        self.assertAlmostEqual(value, b[name], places=6)
        self.assertIn("tasks", ours[-1])

    def test_goes_on_from_a_checkpoint(self):
        whole, first = hl.Trainer("config.json", threads=1), hl.Trainer("config.json", threads=1)
        list(whole.train())
        list(first.train(25))
        first.save("half")
        second = hl.Trainer("config.json", resume="half", threads=1)
        self.assertEqual(second.iteration, 25)
        list(second.train())
        for name, value in whole.weights.items():
            np.testing.assert_array_equal(second.weights[name], value)

    def test_a_model_of_other_data_is_refused_unless_allowed(self):
        def write_manifest(vocabulary):
            columns = [{"name": name, "rows": rows, "distinct": rows, "vocabulary": vocabulary + name}
                       for name, rows in zip(("user", "item", "kind"), TABLES)]
            manifest = {"format": "hugectr_lite raw", "version": 1, "tool": "csv_prep 0.1.0", "dense_dim": 2,
                        "slot_size_array": TABLES, "columns": columns,
                        "files": {"train": {"name": "train.bin", "rows": 500}, "val": {"name": "eval.bin", "rows": 333}}}
            pathlib.Path("manifest.json").write_text(json.dumps(manifest))

        write_manifest("00ff")
        trainer = hl.Trainer("config.json", threads=1)
        trainer.step()
        trainer.export("w.safetensors")
        write_manifest("00ee")
        with self.assertRaisesRegex(hl.DataError, "w.safetensors was trained on, .*vocabulary of slots user, item, kind"):
            hl.Trainer("config.json", init="w.safetensors")
        hl.Trainer("config.json", init="w.safetensors", allow_other_data=True).step()

    def test_misuse_is_an_exception_that_says_why(self):
        trainer = hl.Trainer(config(), arrays=True)
        label, dense, keys = samples(32, 1)
        dense = features(dense)
        broken = copy_of(CONFIG)
        broken["solver"]["batchsize"] = -1
        without_loss = copy_of(CONFIG)
        without_loss["layers"] = without_loss["layers"][:-1]
        trainer.export("w.safetensors")
        far, negative, missing = keys.copy(), keys.copy(), keys.copy()
        far[3, 1], negative[4, 2], missing[4, 2] = 5, -2, -1
        cases = [
            (hl.ConfigError, "nowhere.json", lambda: hl.Trainer("nowhere.json")),
            (hl.ConfigError, "batchsize", lambda: hl.Trainer(broken)),
            (hl.ConfigError, "loss", lambda: hl.Trainer(without_loss)),
            (hl.ConfigError, "solver.nonsense", lambda: hl.Trainer(config(), set={"solver.nonsense": 1})),
            (hl.ConfigError, "one rank", lambda: hl.Trainer(config(gpu=[0, 1]))),
            (hl.ConfigError, "missing key", lambda: hl.Trainer({})),
            (hl.ConfigError, 'device: expected "auto"', lambda: hl.Trainer(config(), device="tpu")),
            (hl.ConfigError, "threads: expected", lambda: hl.Trainer(config(), threads=-1)),
            (hl.ConfigError, "found both", lambda: hl.Trainer(config(), init="a", resume="b")),
            (hl.ConfigError, "an empty one", lambda: hl.Trainer("")),
            (hl.ConfigError, "an empty one", lambda: trainer.save("")),
            (ValueError, "iterations", lambda: next(trainer.train(-1))),
            (hl.DataError, "label: sample 2, label 0: expected a value in [0, 1], found 2",
             lambda: trainer.step(np.where(np.arange(32) == 2, 2, label), dense, keys)),
            (hl.DataError, "dense: sample 0, feature 1: expected a finite value, found nan",
             lambda: trainer.predict(np.array([[0, np.nan]]), keys[:1])),
            (hl.DataError, "dense: expected a number everywhere",
             lambda: trainer.predict(np.ma.masked_less(dense, 1), keys)),
            (hl.DataError, "complex", lambda: trainer.predict(dense * 1j, keys)),
            (hl.DataError, "score: expected one for each of 32 labels, found 5", lambda: hl.auc(label, dense[:5, 0])),
            (hl.DataError, "label: expected values in [0, 1], found 2.0", lambda: hl.auc(label + 1, dense[:, 0])),
            (hl.DataError, "label: expected values in [0, 1], found nan", lambda: hl.auc(label * np.nan, dense[:, 0])),
            (hl.DataError, "score: expected an array of one column, found the shape [32, 2]", lambda: hl.auc(label, dense)),
            (hl.DataError, "label: expected an array of one column", lambda: hl.auc(keys.T, keys)),
            (hl.DataError, "score: sample 3: expected a finite value, found nan",
             lambda: hl.auc(label, np.where(np.arange(32) == 3, np.nan, 1))),
            (hl.DataError, "score: sample 3: expected a finite value, found inf",
             lambda: hl.auc(label, np.where(np.arange(32) == 3, np.inf, 1))),
            (hl.DataError, "score: expected integers from -2^53 to 2^53, found -9007199254740993",
             lambda: hl.auc(label, np.where(np.arange(32) == 3, -2**53 - 1, 1))),
            (hl.DeviceError, "", lambda: hl.Trainer(config(), device="cuda")),
            (hl.DataError, "none.safetensors", lambda: hl.Trainer(config(), init="none.safetensors")),
            (hl.DataError, "header", lambda: hl.Trainer(config(), init="train.bin")),
            (hl.DataError, "none", lambda: hl.Trainer(config(), resume="none")),
            (hl.DataError, "nothing.bin", lambda: hl.Trainer(config(), set={"layers.data.source": "nothing.bin"})),
            (TypeError, "", lambda: hl.Trainer(7)),
            (TypeError, "", lambda: hl.Trainer()),
            (TypeError, "", lambda: hl.Trainer(config(), threads="many")),
            (hl.DataError, "label: expected an array of shape [32, 1], found [31, 1]",
             lambda: trainer.step(label[:31], dense, keys)),
            (hl.DataError, "dense: expected an array of shape [32, 2], found [32, 1]",
             lambda: trainer.step(label, dense[:, :1], keys)),
            (hl.DataError, "keys: expected an array of shape [32, 3], found [32, 2]",
             lambda: trainer.step(label, dense, keys[:, :2])),
            (hl.DataError, "keys: expected an array of 2 dimensions", lambda: trainer.step(label, dense, keys[0])),
            (hl.DataError, "keys: sample 3, key of slot 1: expected a key below 5, the rows of its table, found 5",
             lambda: trainer.step(label, dense, far)),
            (hl.DataError, "keys: sample 4", lambda: trainer.predict(dense, negative)),
            (hl.DataError, "expected 1 to 32 samples", lambda: trainer.step(*(np.concatenate([a, a]) for a in
                                                                               (label, dense, keys)))),
            (hl.DataError, "expected 1 to 32 samples", lambda: trainer.step(label[:0], dense[:0], keys[:0])),
            (TypeError, "label, dense and keys", lambda: trainer.step(label)),
            (TypeError, "label, dense and keys", lambda: trainer.step(keys=keys)),
            (hl.DataError, "label: expected an array of numbers", lambda: trainer.step("a", "b", "c")),
            (hl.DataError, "keys: expected integers, found <U1", lambda: trainer.step(label, dense, "c")),
            (hl.DataError, "keys: expected integers, found float64", lambda: trainer.predict(dense, keys + 0.5)),
            (hl.DataError, "keys: expected integers, found float64", lambda: trainer.predict([], [])),
            (hl.DataError, "keys: expected integers, found bool", lambda: trainer.predict(dense, keys > 0)),
            (hl.DataError, "keys: expected integers below 2^63, found 18446744073709551615",
             lambda: trainer.predict(dense, np.full((32, 3), 2**64 - 1, np.uint64))),
            (hl.DataError, "found 4294967297", lambda: trainer.predict(dense, keys + 2**32 + 1 - keys[0, 0])),
            (hl.DataError, "keys: expected integers, found objects such as 11805", lambda: trainer.predict(dense, [[2**70] * 3])),
            (hl.DataError, "keys: expected an array of shape [0, 3], found [0, 9]",
             lambda: trainer.predict(dense[:0], np.zeros((0, 9), int))),
            (hl.DataError, "dense: expected an array of numbers, found <U1", lambda: trainer.predict([["1", "2"]], keys[:1])),
            (hl.DataError, "dense: expected an array of numbers, found objects such as '1'",
             lambda: trainer.predict(np.array([["1", 2.0]], object), keys[:1])),
            (hl.DataError, "dense: expected an array of numbers, found objects such as None",
             lambda: trainer.predict([[None, 2.0]], keys[:1])),
            (hl.DataError, "dense: expected an array of numbers, found datetime64",
             lambda: trainer.predict(np.array([["2020-01-01"] * 2], "M8[ns]"), keys[:1])),
            (hl.DataError, "dense: sample 0, feature 0: expected a finite value, found inf",
             lambda: trainer.predict([[1e300, 1.0]], keys[:1])),
            (hl.DataError, "keys: expected an array of numbers", lambda: trainer.predict(dense, [[1, 2, 3], [1]])),
            (hl.DataError, "dense: expected an array of numbers", lambda: trainer.predict("x", keys)),
            (hl.DataError, "dense: expected an array of numbers", lambda: trainer.predict([[1.0], [1.0, 2.0]], keys)),
            (hl.DataError, "dense: expected an array of 2 dimensions", lambda: trainer.predict(dense[0], keys)),
            (hl.DataError, "dense: expected an array of 2 dimensions", lambda: trainer.predict(dense[None], keys)),
            (hl.DataError, "found null in row 1", lambda: trainer.predict(arrow_columns([1.0, None], [2.0, 3.0]), keys)),
            (hl.DataError, "keys: sample 4, key of slot 2: expected a key below 300, the rows of its table, found -1",
             lambda: trainer.predict(dense, missing)),
            (hl.DataError, "found -1", lambda: trainer.step(label, dense, missing)),
            (hl.DataError, "Arrow's type u", lambda: trainer.predict(ArrowColumn("u", [], None), keys)),
            (hl.DataError, "no more", lambda: trainer.predict(BrokenStream(), keys)),
            (TypeError, "what JSON can hold", lambda: hl.Trainer(config(), set={"solver.seed": object()})),
            (TypeError, "", lambda: hl.Trainer({"solver": {1, 2}})),
            (hl.ConfigError, "solver.seed", lambda: hl.Trainer(config(), set={"solver.seed": "x"})),
            (TypeError, "", lambda: hl.Predictor(None)),
            (hl.DeviceError, "", lambda: hl.Predictor("w.safetensors", config(), device="cuda")),
            (hl.ConfigError, "solver", lambda: hl.check({})),
            (hl.Error, "", lambda: trainer.step()),
            (hl.Error, "", lambda: trainer.evaluate()),
            (hl.DataError, "train.bin", lambda: trainer.save("train.bin")),
            (hl.DataError, "none", lambda: trainer.export("none/w.safetensors")),
            (hl.ConfigError, "--config", lambda: hl.Predictor("w.safetensors")),
            (hl.DataError, "none: expected a checkpoint", lambda: hl.Predictor("none")),
            (hl.DataError, "none", lambda: hl.Predictor("none", config())),
        ]
        self.assertGreaterEqual(len(cases), 45)
        for kind, words, call in cases:
            with self.subTest(words=words):
                with self.assertRaises(kind) as raised:
                    call()
                self.assertIn(words, str(raised.exception))
        trainer.step(label, dense, keys)  # it still works
        self.assertEqual(trainer.iteration, 1)

    def test_columns_are_in_the_order_of_the_training_data(self):
        class Frame:  # as of pandas or polars
            def __init__(self, values, *columns):
                self.values, self.columns, self.shape = values, columns, values.shape

            def __array__(self, dtype=None, copy=None):
                return self.values

        trainer = hl.Trainer(config())
        trainer.export("weights.safetensors")
        _, dense, keys = samples(5, 2)
        with open("weights.safetensors", "rb") as file:
            header, body = json.loads(file.read(int.from_bytes(file.read(8), "little"))), file.read()
        header["__metadata__"] = {"trained_on": json.dumps({
            "file": {"name": "train.bin", "rows": 500, "xxh3": "0"}, "rules": [],
            "slots": [{"name": name, "vocabulary": "0"} for name in ("user", "item", "city")],
            "dense": [{"name": name, "transform": "none"} for name in ("age", "price")]})}
        header = json.dumps(header).encode()
        header += b" " * (-len(header) % 8)
        with open("weights.safetensors", "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header + body)
        predictor = hl.Predictor("weights.safetensors", config())
        dense, keys = features(dense), Frame(keys, "user", "item", "city")
        expected = trainer.predict(dense, keys.values)
        np.testing.assert_allclose(predictor.predict(Frame(dense, "age", "price"), keys), expected, atol=1e-6)
        np.testing.assert_allclose(predictor.predict(Frame(dense, "d0", "d1"), keys), expected, atol=1e-6)
        for array, call in (("dense", lambda: predictor.predict(Frame(dense, "price", "age"), keys)),
                            ("keys", lambda: predictor.predict(dense, Frame(keys.values, "item", "user", "city")))):
            with self.assertRaisesRegex(hl.DataError, f"{array}: expected the columns in the order (age|user), .* found "):
                call()

    def test_several_tasks_have_a_column_each(self):
        trainer = hl.Trainer(several_tasks(), arrays=True)
        _, dense, keys = samples(7, 3)
        trainer.weights["t1.weight"][:] = 0
        trainer.weights["t1.bias"][:] = np.log([3, 1])
        trainer.weights_changed()
        np.testing.assert_allclose(trainer.predict(features(dense[:, :1]), keys), [[0.75, 0.5]] * 7, rtol=1e-6)

    def test_unknown_keys_are_counted_and_warned_of(self):
        clamped = config()
        clamped["layers"][0]["key_policy"] = "clamp"
        trainer = hl.Trainer(clamped, arrays=True)
        label, dense, keys = samples(32, 3)
        dense = features(dense)
        trainer.save("checkpoint")
        predictor = hl.Predictor("checkpoint")
        some, column = keys.copy(), keys.copy()
        some[[3, 5], [0, 2]], column[:, 1] = 10**6, TABLES[1] + keys[:, 1]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            predictor.predict(dense, keys)
            self.assertEqual(predictor.unknown_keys.tolist(), [0, 0, 0])
            predictor.predict(dense, some)
            predictor.predict(dense[:3], column[:3])  # too few to be surprised
            self.assertEqual(predictor.unknown_keys.tolist(), [1, 3, 1])
        for call in (lambda: predictor.predict(dense, column), lambda: trainer.predict(dense, column),
                     lambda: trainer.step(label, dense, column)):
            with self.assertWarnsRegex(UserWarning, "key of slot 1: all 32 are outside of the table.*key_policy") as seen:
                call()
            self.assertEqual(seen.filename, __file__)
        self.assertEqual(predictor.unknown_keys.tolist(), [1, 35, 1])

    def test_integers_in_the_place_of_their_logarithms_are_warned_of(self):
        hl.Trainer(config()).save("checkpoint")
        predictor = hl.Predictor("checkpoint")
        _, dense, keys = samples(5, 3)
        with self.assertWarnsRegex(UserWarning, r"dense: expected log\(x \+ 1\).*np.log1p"):
            predictor.predict(dense, keys)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            predictor.predict(features(dense), keys)
            hl.Trainer(config(), arrays=True).predict(dense, keys)  # its samples are the caller's own

    def test_import_says_what_is_missing(self):
        package = os.path.dirname(hl.__file__)
        os.makedirs("other/hugectr_lite")
        for name in os.listdir(package):
            if name.endswith(".py"):
                os.symlink(os.path.join(package, name), os.path.join("other/hugectr_lite", name))
        with open("other/hugectr_lite/_native.cpython-36m-x86_64-linux-gnu.so", "w", encoding="utf-8"):
            pass

        def failure(code, path):
            return subprocess.run([sys.executable, "-c", code + "; import hugectr_lite"], capture_output=True, text=True,
                                  check=False, env=dict(os.environ, PYTHONPATH=path)).stderr.splitlines()[-1]

        paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p != os.path.dirname(package)]
        self.assertRegex(failure("pass", os.pathsep.join(["other", *paths])),
                         f"expected a module for {sys.implementation.cache_tag}, found _native.cpython-36m")
        self.assertRegex(failure("import sys; sys.modules['numpy'] = None", os.environ.get("PYTHONPATH", "")),
                         "ImportError: hugectr_lite: .* has no NumPy that works .*pip install numpy")

    def test_the_cuda_plug_in_is_found_next_to_the_module(self):
        _, dense, keys = samples(40, 3)
        trainer = hl.Trainer(config())
        trainer.save("checkpoint")
        try:
            hl.Predictor("checkpoint", device="cuda")
        except hl.DeviceError as error:
            self.assertNotIn("the loader's path", str(error))
        emulated = os.environ.get("HLITE_EMULATED_PLUGIN")
        if not emulated:
            self.skipTest("this build has no CUDA")
        package = os.path.dirname(hl.__file__)
        os.makedirs("gpu/hugectr_lite")
        for name in os.listdir(package):
            target = emulated if name == "libhlite_cuda.so" else os.path.join(package, name)
            os.symlink(target, os.path.join("gpu/hugectr_lite", name))
        np.savez("samples.npz", dense=features(dense), keys=keys)
        code = """import numpy as np, hugectr_lite as hl
a = np.load("samples.npz")
np.save("scores.npy", hl.Predictor("checkpoint", device="cuda").predict(a["dense"], a["keys"]))
hl.Trainer("config.json", device="cuda").step()"""
        environment = {k: v for k, v in os.environ.items() if k != "HLITE_CUDA_LIBRARY"}
        environment["PYTHONPATH"] = os.pathsep.join(["gpu", environment["PYTHONPATH"]])
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        np.testing.assert_allclose(np.load("scores.npy"), trainer.predict(features(dense), keys), atol=1e-6)

    def test_python_programs_say_what_they_lack(self):
        tools = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools")
        for tool, module in (("export_onnx.py", "numpy"), ("export_onnx.py", "onnx"), ("hugectr_model.py", "numpy")):
            code = f"import runpy, sys; sys.modules[{module!r}] = None; runpy.run_path({tools!r} + '/{tool}')"
            result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertRegex(result.stderr, f"^{tool}: .* has no {module}: .*pip install.*\n$")

    def test_threads_take_turns(self):
        alone, shared = hl.Trainer("config.json", threads=1), hl.Trainer("config.json", threads=1)
        for _ in range(40):
            alone.step()
        workers = [threading.Thread(target=lambda: [shared.step() for _ in range(10)]) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertEqual(shared.iteration, 40)
        for name, value in alone.weights.items():
            np.testing.assert_array_equal(shared.weights[name], value)

    def test_a_forked_child_is_told(self):
        trainer = hl.Trainer(config(), arrays=True, threads=2)
        _, dense, keys = samples(32, 1)
        child = os.fork()
        if child == 0:
            try:
                trainer.predict(features(dense), keys)
            except hl.Error as error:
                del trainer  # does not wait for threads that are not there
                os._exit(42 if "child" in str(error) else 1)
            os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 42)

    def test_ctrl_c_still_works_after_an_evaluation(self):
        trainer = hl.Trainer(config())
        before = signal.getsignal(signal.SIGINT)
        trainer.evaluate()
        self.assertIs(signal.getsignal(signal.SIGINT), before)
        with self.assertRaises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)

    def test_ctrl_c_ends_a_long_call(self):
        trainer = hl.Trainer(config(max_iter=10**9, display=0, eval_interval=0))

        def interrupt():
            while trainer.iteration == 0:
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)

        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        with self.assertRaises(KeyboardInterrupt):
            for _ in trainer.train():
                pass
        interrupting.join()
        trainer.save("interrupted")


def several_tasks():
    tasks = config()
    tasks["layers"][0].update({"label": {"top": "label", "label_dim": 2}, "dense": {"top": "dense", "dense_dim": 1}})
    tasks["layers"][-2]["fc_param"]["num_output"] = 2
    tasks["layers"][-1] = {"name": "loss", "type": "MultiCrossEntropyLoss", "bottom": ["z", "label"], "top": "loss",
                           "target_weight": [0.5, 0.5]}
    return tasks


def copy_of(tree):
    import copy
    return copy.deepcopy(tree)


if __name__ == "__main__":
    # A shell without job control starts background commands with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(unittest.main())
