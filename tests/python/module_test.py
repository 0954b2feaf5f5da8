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
import urllib.error
import urllib.request

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

    def test_trains_to_the_bits_of_the_program(self):
        run(os.environ["HLITE_TRAIN"], "--config", "config.json", "--export", "program.safetensors", "--threads", "2")
        trainer = hl.Trainer("config.json", threads=2)
        self.assertEqual((trainer.iteration, trainer.last_iteration), (0, 60))
        events = list(trainer.train())
        self.assertEqual([(e["event"], e["iteration"]) for e in events],
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

    def test_heeds_evaluations_as_the_program_does(self):
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
        self.assertEqual([e["event"] for e in events], [e["event"] for e in theirs])
        self.assertEqual(events[-1]["event"], "test")
        np.testing.assert_allclose([e["auc"] for e in events], [e["auc"] for e in theirs], rtol=1e-6)
        self.assertLess(trainer.iteration, 10**6)
        trainer.export("module.safetensors")
        with open("program.safetensors", "rb") as a, open("module.safetensors", "rb") as b:
            self.assertEqual(a.read(), b.read())
        target = hl.Trainer(config(eval_metrics=["AUC:0.01"]))
        self.assertEqual([e["iteration"] for e in target.train() if e["event"] == "eval"], [30])

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

    def test_serves_scores(self):
        trainer = hl.Trainer(config())
        trainer.save("checkpoint")
        _, dense, keys = samples(5, 2)
        server = subprocess.Popen([sys.executable, "-m", "hugectr_lite.serve", "--model", "checkpoint", "--port", "0"],
                                  stdout=subprocess.PIPE, text=True)
        try:
            url = server.stdout.readline().split()[-1]

            def ask(path, content=None):
                body = content if content is None or isinstance(content, bytes) else json.dumps(content).encode()
                try:
                    with urllib.request.urlopen(urllib.request.Request(url + path, body)) as answer:
                        return answer.status, json.load(answer)
                except urllib.error.HTTPError as error:
                    return error.code, json.load(error)

            sample = {"dense": features(dense).tolist(), "keys": keys.tolist()}
            code, answer = ask("/score", sample)
            self.assertEqual(code, 200)
            np.testing.assert_allclose(answer["scores"], trainer.predict(features(dense), keys), atol=1e-6)
            for content, words in ((b"{", "Expecting"), (b"[]", "expected"), ({"dense": [[1, 2]]}, "keys"),
                                   ({"dense": [[1, 2]], "keys": [[1, 2]]}, "found [1, 2]"),
                                   ({"dense": [[1, 2]], "keys": [[1, 99, 2]]}, "key of slot 1"),
                                   ({"dense": [[1, 2]], "keys": [["a", 9, 2]]}, "integers"),
                                   ({"dense": [[1], [1, 2]], "keys": [[1, 2, 2], [1, 2, 2]]}, "")):
                code, answer = ask("/score", content)
                self.assertEqual(code, 400, content)
                self.assertIn(words, answer["error"])
            self.assertEqual(ask("/other", sample)[0], 404)
            self.assertEqual(ask("/health"), (200, {"status": "ok", "model": "checkpoint", "scored": 5}))
        finally:
            server.send_signal(signal.SIGINT)
            self.assertEqual(server.wait(30), 0)
            server.stdout.close()
        failed = subprocess.run([sys.executable, "-m", "hugectr_lite.serve", "--model", "none"], capture_output=True,
                                text=True, check=False)
        self.assertEqual(failed.returncode, 2)
        self.assertIn("none: expected a checkpoint", failed.stderr)

    def test_python_programs_say_what_they_lack(self):
        tools = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools")
        for tool, module in (("export_onnx.py", "numpy"), ("export_onnx.py", "onnx"), ("hugectr_model.py", "numpy")):
            code = f"import runpy, sys; sys.modules[{module!r}] = None; runpy.run_path({tools!r} + '/{tool}')"
            result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertRegex(result.stderr, f"^{tool}: .* has no {module}: .*pip install.*\n$")
        port = subprocess.run([sys.executable, "-m", "hugectr_lite.serve", "--model", "x", "--port", "99999"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(port.returncode, 2)
        self.assertIn("expected a port in [0, 65535], found '99999'", port.stderr)

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
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        begin = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            for _ in trainer.train():
                pass
        self.assertLess(time.monotonic() - begin, 60)
        self.assertGreater(trainer.iteration, 0)
        trainer.save("interrupted")


def copy_of(tree):
    import copy
    return copy.deepcopy(tree)


if __name__ == "__main__":
    sys.exit(unittest.main())
